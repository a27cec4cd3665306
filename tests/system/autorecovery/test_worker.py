"""Test how the replication worker repairs marked ledgers, and which ones it leaves alone."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import Rules
from labkit.system.autorecovery.replicator import LedgerFragmentReplicator
from labkit.system.model.errors import BKLedgerFencedException, BKWriteException
from labkit.system.model.ledger import LedgerState
from labkit.worlds.sim.variants.cluster_variants import MetadataBeforeCopy
from tests.system.autorecovery.world import PATHS, SLOW, World, lose, payload, run, simulated
from tests.virtual_time import in_world

SHAPES = ((3, 3, 2), (3, 2, 2), (5, 3, 2), (1, 1, 1), (4, 4, 4), (4, 2, 1))


@in_world(partial(run, bookie_count=7))
async def test_ledgers_of_a_lost_bookie_get_all_their_copies_back(world: World) -> None:
    ledgers = [await world.closed_ledger(13, sizes) for sizes in SHAPES]
    await world.start_autorecovery("a", "b")
    await lose(world, "b2")
    for ledger_id in ledgers:
        assert await world.missing(ledger_id) == []
    assert len(world.events("replication.done")) == 5


@pytest.mark.promise("The metadata names a bookie only after the bookie has every copy")
@simulated
async def test_metadata_names_a_new_bookie_only_after_it_has_every_copy(world: World) -> None:
    ledger_id = await world.closed_ledger(20)
    await world.start_autorecovery("a")
    await lose(world, "b2")
    kinds = world.kinds(ledger_id, ("entry.copied", "ensemble.set", "fragment.replicated"))
    assert kinds == [
        "ensemble.set",  # written by the client's ensemble change
        *["entry.copied"] * 20,
        "ensemble.set",
        "fragment.replicated",
    ]


@pytest.mark.parametrize(
    ("replicator", "promises_kept"), [(LedgerFragmentReplicator, True), (MetadataBeforeCopy, False)]
)
@simulated
async def test_worker_that_dies_while_copying_leaves_the_promises_true(
    world: World, replicator: type[LedgerFragmentReplicator], promises_kept: bool
) -> None:
    ledger_id = await world.closed_ledger(50)
    world.rules = Rules(replicator=replicator)
    world.config = SLOW
    await world.start_autorecovery("a")
    await world.stop_bookie("b2")
    await asyncio.sleep(5)
    world.metadata.crash("a")
    assert world.events("entry.copied")
    named = [name for _, name in await world.missing(ledger_id)]
    assert all(name == "b2" for name in named) is promises_kept


@simulated
async def test_another_worker_finishes_what_one_that_died_began(world: World) -> None:
    ledger_id = await world.closed_ledger(50)
    world.config = SLOW
    await world.start_autorecovery("a")
    await world.stop_bookie("b2")
    await asyncio.sleep(5)
    world.metadata.crash("a")
    world.config = AutoRecoveryConfig()
    await world.start_autorecovery("b")
    await world.until_replicated()
    assert await world.missing(ledger_id) == []
    assert [row.node for row in world.events("replication.started")] == ["a", "b"]
    assert [row.node for row in world.events("replication.done")] == ["b"]


@pytest.mark.promise("No two workers repair the same ledger")
@simulated
async def test_no_two_workers_repair_a_ledger_at_once(world: World) -> None:
    for _ in range(30):
        await world.closed_ledger(5)
    await world.manager.disable()
    await world.start_autorecovery("a", "b", "c")
    await world.stop_bookie("b2")
    await world.manager.enable()
    await world.until_replicated()
    repairing: dict[int, str] = {}
    for row in world.events("replication.started", "replication.done", "replication.deferred"):
        if row.kind == "replication.started":
            assert row.ledger not in repairing
            repairing[row.ledger] = row.node
        else:
            assert repairing.pop(row.ledger) == row.node
    assert len({row.node for row in world.events("replication.done")}) == 3
    copied = [(row.ledger, row.entry) for row in world.events("entry.copied")]
    assert len(copied) == len(set(copied)) == 150


@simulated
async def test_fenced_bookie_takes_copies(world: World) -> None:
    ledger_id = await world.closed_ledger(5)
    for bookie in world.bookies.values():
        bookie.fenced[ledger_id] = None
    await world.start_autorecovery("a")
    await lose(world, "b2")
    assert await world.missing(ledger_id) == []


# Empty, open and deleted ledgers


@simulated
async def test_empty_closed_ledger_forgets_the_lost_bookie(world: World) -> None:
    ledger_id = await world.closed_ledger(0)
    await world.start_autorecovery("a")
    await lose(world, "b2")
    assert "b2" not in (await world.ledger(ledger_id)).segments[0].ensemble
    assert world.events("entry.copied") == []


@pytest.mark.promise(
    "An open ledger is recovered after the grace period, unless its writer was faster"
)
@simulated
async def test_open_ledger_is_recovered_after_the_grace_period_and_then_repaired(
    world: World,
) -> None:
    writer = await world.client.create_ledger(3, 3, 2)
    for number in range(5):
        await writer.add(payload(number))
    await world.start_autorecovery("a")
    await world.stop_bookie("b2")
    await asyncio.sleep(25)
    assert (await world.ledger(writer.ledger_id)).state is LedgerState.OPEN
    assert world.bookies["b1"].fenced == {}
    assert await world.store.exists(PATHS.lock(writer.ledger_id))
    await asyncio.sleep(15)
    metadata = await world.ledger(writer.ledger_id)
    assert (metadata.state, metadata.last_entry_id) == (LedgerState.CLOSED, 4)
    await world.until_replicated()
    assert await world.missing(writer.ledger_id) == []
    with pytest.raises(BKLedgerFencedException):
        await writer.add(b"too late")


@simulated
async def test_writer_that_replaced_the_bookie_in_time_is_not_fenced(world: World) -> None:
    writer = await world.client.create_ledger(3, 3, 2)
    for number in range(5):
        await writer.add(payload(number))
    await world.start_autorecovery("a")
    await world.stop_bookie("b2")
    await asyncio.sleep(10)
    for number in range(5, 8):
        await writer.add(payload(number))
    await world.until_replicated()
    await asyncio.sleep(60)
    assert all(bookie.fenced == {} for bookie in world.bookies.values())
    for number in range(8, 10):
        await writer.add(payload(number))
    await asyncio.sleep(1)
    await writer.close()
    assert await world.missing(writer.ledger_id) == []
    assert (await world.ledger(writer.ledger_id)).last_entry_id == 9


@simulated
async def test_earlier_fragment_of_an_idle_open_ledger_is_repaired_without_fencing(
    world: World,
) -> None:
    writer = await world.client.create_ledger(3, 3, 2)
    await writer.add(payload(0))
    world.bookies["b2"].is_up = False
    await writer.add(payload(1))  # changes the ensemble
    await asyncio.sleep(1)
    await world.start_autorecovery("a")
    await lose(world, "b2")
    await asyncio.sleep(60)
    metadata = await world.ledger(writer.ledger_id)
    assert metadata.state is LedgerState.OPEN
    assert len(metadata.segments) == 2
    assert all(bookie.fenced == {} for bookie in world.bookies.values())
    await writer.add(payload(2))
    await writer.close()
    assert await world.missing(writer.ledger_id) == []


@simulated
async def test_read_only_bookie_in_the_last_ensemble_fences_no_writer(world: World) -> None:
    writer = await world.client.create_ledger(3, 3, 2)
    await writer.add(payload(0))
    await world.start_bookie("b2", read_only=True)
    await world.manager.mark(writer.ledger_id, ["b2"])
    await world.start_autorecovery("a")
    await asyncio.sleep(60)
    assert await world.manager.ledgers() == []
    assert all(bookie.fenced == {} for bookie in world.bookies.values())


@simulated
async def test_open_ledger_without_any_entry_is_closed_and_repaired(world: World) -> None:
    writer = await world.client.create_ledger(3, 3, 2)
    await world.start_autorecovery("a")
    await lose(world, "b2")
    metadata = await world.ledger(writer.ledger_id)
    assert (metadata.state, metadata.last_entry_id) == (LedgerState.CLOSED, -1)


@simulated
async def test_mark_of_a_deleted_ledger_goes(world: World) -> None:
    ledger_id = await world.closed_ledger(5)
    await world.client.delete_ledger(ledger_id)
    await world.manager.mark(ledger_id, ["b2"])
    await world.start_autorecovery("a")
    await world.until_replicated()
    assert world.events("entry.copied") == []


@simulated
async def test_ledger_that_is_deleted_while_it_is_repaired_comes_to_no_harm(world: World) -> None:
    ledger_id = await world.closed_ledger(50)
    world.config = SLOW
    await world.start_autorecovery("a")
    await world.stop_bookie("b2")
    await asyncio.sleep(3)
    await world.client.delete_ledger(ledger_id)
    await world.until_replicated()
    assert await world.client.list_ledgers() == []
    assert not world.instances["a"].done()


class FailsOnce(LedgerFragmentReplicator):
    """Reports an error once, after all copies that a check reads were stored."""

    failed = False

    async def publish(self, *args: Any) -> None:
        await super().publish(*args)
        if not FailsOnce.failed:
            FailsOnce.failed = True
            raise BKWriteException("the target failed to store an entry")


@simulated
async def test_a_failed_repair_is_repeated_even_if_a_check_finds_no_copy_missing(
    world: World,
) -> None:
    FailsOnce.failed = False
    ledger_id = await world.closed_ledger(5)
    world.rules = replace(world.rules, replicator=FailsOnce)
    await world.start_autorecovery("a")
    await lose(world, "b2")
    assert world.kinds(ledger_id, ["replication.deferred", "replication.done"]) == [
        "replication.deferred",
        "replication.done",
    ]


@simulated
async def test_ledger_that_cannot_be_looked_at_is_left_to_others_for_a_pause(world: World) -> None:
    world.config = AutoRecoveryConfig(rw_rereplicate_backoff_ms=1_000_000)
    ledger_id = await world.closed_ledger(3)
    path = f"/ledgers/00/0000/L{ledger_id:04}"
    sound, _ = await world.store.get(path)
    await world.store.set(path, b"not metadata", -1)
    await world.manager.mark(ledger_id, ["b2"])
    await world.start_autorecovery("a")
    await asyncio.sleep(10)
    assert world.kinds(ledger_id, ["replication.started", "replication.deferred"]) == [
        "replication.started",
        "replication.deferred",
    ]
    # The lock is free while the worker waits.
    assert await world.manager.lock_any() == ledger_id
    await world.store.set(path, sound, -1)
    await world.manager.release(ledger_id)
    await asyncio.sleep(2000)
    first, again = world.events("replication.started", ledger_id=ledger_id)
    assert 1000.0 <= (again.time_us - first.time_us) / 1e6 < 1000.5
    assert world.kinds(ledger_id, ["replication.done"]) == ["replication.done"]
