"""What the replication worker does to a marked ledger, and what it leaves alone."""

import asyncio
from dataclasses import replace

import pytest

from labkit.autorecovery.config import AutoRecoveryConfig
from labkit.autorecovery.copies import Ledger
from labkit.autorecovery.daemon import Rules
from labkit.autorecovery.fragments import Underreplicated
from labkit.autorecovery.replicator import LedgerFragmentReplicator
from labkit.autorecovery.underreplication import lock_path
from labkit.metadata.store import MetadataUnavailableError
from labkit.model.entry import ENTRY_HEADER
from labkit.model.errors import BKLedgerFencedException
from labkit.model.ledger import LedgerState
from tests.autorecovery.world import World, payload, run

SHAPES = ((3, 3, 2), (3, 2, 2), (5, 3, 2), (1, 1, 1), (4, 4, 4), (4, 2, 1))

SLOW = AutoRecoveryConfig(replication_rate_by_bytes=100, rereplication_entry_batch_size=5)


async def lose(world: World, name: str) -> None:
    await world.stop_bookie(name)
    await world.until_replicated()


def test_ledgers_of_a_lost_bookie_get_all_their_copies_back() -> None:
    async def rule(world: World) -> None:
        ledgers = [await world.closed_ledger(13, sizes) for sizes in SHAPES]
        await world.start_autorecovery("a", "b")
        await lose(world, "b2")
        for ledger_id in ledgers:
            assert await world.missing(ledger_id) == []
        assert len(world.events("replication.done")) == 5

    run(rule, 7)


def test_each_copy_goes_only_where_the_stripes_put_it() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(12, (3, 2, 2))
        had = world.bookies["b2"].stored(ledger_id)
        await world.start_autorecovery("a")
        await lose(world, "b2")
        [target] = [b for b in ("b4", "b5") if world.bookies[b].stored(ledger_id)]
        assert world.bookies[target].stored(ledger_id) == had
        assert len(had) == 8

    run(rule)


def test_metadata_names_a_new_bookie_only_after_it_has_every_copy() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(20)
        await world.start_autorecovery("a")
        await lose(world, "b2")
        kinds = world.kinds(ledger_id, ("entry.copied", "ensemble.set", "fragment.replicated"))
        assert kinds == [
            "ensemble.set",  # the writer's
            *["entry.copied"] * 20,
            "ensemble.set",
            "fragment.replicated",
        ]

    run(rule)


class MetadataFirst(LedgerFragmentReplicator):
    """The planted mistake: the new bookie is named before it has its copies."""

    async def replicate(self, ledger: Ledger, short: Underreplicated) -> None:
        targets = await self._choose_targets(short)
        await self._publish(ledger.ledger_id, short, targets)
        await self._copy(ledger, short, targets)


@pytest.mark.parametrize(
    ("replicator", "promises_kept"), [(LedgerFragmentReplicator, True), (MetadataFirst, False)]
)
def test_worker_that_dies_while_copying_leaves_the_promises_true(
    replicator: type[LedgerFragmentReplicator], promises_kept: bool
) -> None:
    async def rule(world: World) -> None:
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

    run(rule)


def test_another_worker_finishes_what_one_that_died_began() -> None:
    async def rule(world: World) -> None:
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

    run(rule)


def test_no_two_workers_repair_a_ledger_at_once() -> None:
    async def rule(world: World) -> None:
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

    run(rule)


def test_copies_are_packed_anew_with_the_same_payload_and_length() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(3)
        before = ENTRY_HEADER.struct.unpack_from(world.bookies["b1"].entries[ledger_id, 1])
        await world.start_autorecovery("a")
        await lose(world, "b2")
        [target] = [b for b in ("b4", "b5") if world.bookies[b].stored(ledger_id)]
        after = ENTRY_HEADER.struct.unpack_from(world.bookies[target].entries[ledger_id, 1])
        assert before == (ledger_id, 1, 0, len(payload(0) + payload(1)))
        assert after == (ledger_id, 1, 2, len(payload(0) + payload(1)))

    run(rule)


def test_fenced_bookie_takes_copies() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(5)
        for bookie in world.bookies.values():
            bookie.fenced[ledger_id] = None
        await world.start_autorecovery("a")
        await lose(world, "b2")
        assert await world.missing(ledger_id) == []

    run(rule)


# Empty, open and deleted ledgers


def test_empty_closed_ledger_forgets_the_lost_bookie() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(0)
        await world.start_autorecovery("a")
        await lose(world, "b2")
        assert "b2" not in (await world.ledger(ledger_id)).segments[0].ensemble
        assert world.events("entry.copied") == []

    run(rule)


def test_open_ledger_is_recovered_after_the_grace_period_and_then_repaired() -> None:
    async def rule(world: World) -> None:
        writer = await world.client.create_ledger(3, 3, 2)
        for number in range(5):
            await writer.add(payload(number))
        await world.start_autorecovery("a")
        await world.stop_bookie("b2")
        await asyncio.sleep(25)
        assert (await world.ledger(writer.ledger_id)).state is LedgerState.OPEN
        assert world.bookies["b1"].fenced == {}
        assert await world.store.exists(lock_path(writer.ledger_id))
        await asyncio.sleep(15)
        metadata = await world.ledger(writer.ledger_id)
        assert (metadata.state, metadata.last_entry_id) == (LedgerState.CLOSED, 4)
        await world.until_replicated()
        assert await world.missing(writer.ledger_id) == []
        with pytest.raises(BKLedgerFencedException):
            await writer.add(b"too late")

    run(rule)


def test_writer_that_replaced_the_bookie_in_time_is_not_fenced() -> None:
    async def rule(world: World) -> None:
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

    run(rule)


def test_earlier_fragment_of_an_idle_open_ledger_is_repaired_without_fencing() -> None:
    async def rule(world: World) -> None:
        writer = await world.client.create_ledger(3, 3, 2)
        await writer.add(payload(0))
        world.bookies["b2"].is_up = False
        await writer.add(payload(1))  # the ensemble changes here
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

    run(rule)


def test_read_only_bookie_in_the_last_ensemble_gets_nobody_fenced() -> None:
    async def rule(world: World) -> None:
        writer = await world.client.create_ledger(3, 3, 2)
        await writer.add(payload(0))
        await world.start_bookie("b2", read_only=True)
        await world.manager.mark(writer.ledger_id, ["b2"])
        await world.start_autorecovery("a")
        await asyncio.sleep(60)
        assert await world.manager.ledgers() == []
        assert all(bookie.fenced == {} for bookie in world.bookies.values())

    run(rule)


def test_open_ledger_without_any_entry_is_closed_and_repaired() -> None:
    async def rule(world: World) -> None:
        writer = await world.client.create_ledger(3, 3, 2)
        await world.start_autorecovery("a")
        await lose(world, "b2")
        metadata = await world.ledger(writer.ledger_id)
        assert (metadata.state, metadata.last_entry_id) == (LedgerState.CLOSED, -1)

    run(rule)


def test_mark_of_a_deleted_ledger_goes() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(5)
        await world.client.delete_ledger(ledger_id)
        await world.manager.mark(ledger_id, ["b2"])
        await world.start_autorecovery("a")
        await world.until_replicated()
        assert world.events("entry.copied") == []

    run(rule)


def test_ledger_that_is_deleted_while_it_is_repaired_comes_to_no_harm() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(50)
        world.config = SLOW
        await world.start_autorecovery("a")
        await world.stop_bookie("b2")
        await asyncio.sleep(3)
        await world.client.delete_ledger(ledger_id)
        await world.until_replicated()
        assert await world.client.list_ledgers() == []
        assert not world.instances["a"].done()

    run(rule)


# What cannot be repaired now


def test_without_enough_bookies_the_ledger_waits_for_more() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(5)
        await world.stop_bookie("b4")
        await world.start_autorecovery("a")
        await world.stop_bookie("b2")
        await asyncio.sleep(100)
        assert await world.manager.ledgers() == [ledger_id]
        waits = [row.note for row in world.events("replication.deferred")]
        assert ["again in 9.375 s" in waits[0], "again in 18.75 s" in waits[1]] == [True, True]
        assert "need as many other bookies" in waits[0]
        assert len(waits) == 4
        await world.start_bookie("b4")
        await world.until_replicated()
        assert await world.missing(ledger_id) == []

    run(rule, 4)


def test_without_any_copy_of_an_entry_the_metadata_stays_until_one_comes_back() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(9, (3, 2, 2))
        before = await world.ledger(ledger_id)
        await world.start_autorecovery("a")
        await world.stop_bookie("b2")
        await world.stop_bookie("b3")
        await asyncio.sleep(100)
        assert await world.ledger(ledger_id) == before
        assert await world.manager.ledgers() == [ledger_id]
        reads = len(world.events("read.sent"))
        await asyncio.sleep(60)
        assert len(world.events("read.sent")) < reads + 20
        await world.start_bookie("b3")
        await world.until_replicated()
        assert await world.missing(ledger_id) == []

    run(rule)


def test_target_that_fails_gets_no_promise() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(5)
        world.bookies["b4"].refuses_adds = True
        await world.start_autorecovery("a")
        await world.stop_bookie("b2")
        await asyncio.sleep(5)
        assert (await world.ledger(ledger_id)).segments[0].ensemble == ("b1", "b2", "b3")
        world.bookies["b4"].refuses_adds = False
        await world.until_replicated()
        assert await world.missing(ledger_id) == []

    run(rule, 4)


def test_silent_bookie_is_passed_over_for_the_next_copy() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(5)
        world.bookies["b1"].is_silent = True
        await world.start_autorecovery("a")
        await lose(world, "b2")
        world.bookies["b1"].is_silent = False
        assert await world.missing(ledger_id) == []

    run(rule, 6)


def test_damaged_copy_is_found_and_is_not_copied() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(5)
        stored = world.bookies["b1"].entries
        stored[ledger_id, 4] = stored[ledger_id, 4][:-1] + b"?"
        await world.manager.mark(ledger_id, ["b1"])
        await world.start_autorecovery("a")
        await world.until_replicated()
        assert "b1" not in (await world.ledger(ledger_id)).segments[0].ensemble
        assert await world.missing(ledger_id) == []

    run(rule)


def test_ledger_that_misses_nothing_is_only_unmarked() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(5)
        before = await world.ledger(ledger_id)
        await world.manager.mark(ledger_id, ["b2"])
        await world.start_autorecovery("a")
        await world.until_replicated()
        assert await world.ledger(ledger_id) == before
        assert world.events("entry.copied") == []

    run(rule)


def test_target_that_is_lost_during_the_repair_is_replaced_too() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(50)
        world.config = SLOW
        await world.start_autorecovery("a")
        await world.stop_bookie("b2")
        await asyncio.sleep(3)
        await world.stop_bookie(world.events("entry.copied")[0].peer)
        await world.until_replicated()
        assert await world.missing(ledger_id) == []

    run(rule, 6)


# Limits


def test_copying_keeps_to_its_rate() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(50)
        size = sum(map(len, world.bookies["b2"].entries.values()))
        world.config = AutoRecoveryConfig(
            replication_rate_by_bytes=size // 20, rereplication_entry_batch_size=2
        )
        await world.start_autorecovery("a")
        await lose(world, "b2")
        copied = [row.time_us for row in world.events("entry.copied")]
        assert 18 <= (copied[-1] - copied[0]) / 1e6 <= 22
        assert await world.missing(ledger_id) == []

    run(rule)


def test_no_more_entries_are_under_way_than_the_batch_size() -> None:
    async def rule(world: World) -> None:
        await world.closed_ledger(40)
        world.config = AutoRecoveryConfig(rereplication_entry_batch_size=4)
        await world.start_autorecovery("a")
        await lose(world, "b2")
        first_read = next(
            n for n, row in enumerate(world.rows) if row.kind == "fragment.replicated"
        )
        under_way = most = 0
        seen: dict[int, None] = {}
        for row in world.rows[:first_read]:
            if row.node == "a" and row.kind == "add.sent":
                under_way += 1
                seen[row.entry] = None
            elif row.kind == "entry.copied":
                under_way -= 1
            most = max(most, under_way)
        assert most == 4
        assert len(seen) == 40

    run(rule)


# Life and death


def test_lost_session_ends_the_instance() -> None:
    async def rule(world: World) -> None:
        await world.start_autorecovery("a")
        world.metadata.zookeeper.expire("a")
        with pytest.raises(MetadataUnavailableError):
            await world.instances["a"]

    run(rule)


def test_part_that_dies_takes_the_others_with_it() -> None:
    async def rule(world: World) -> None:
        def broken(missing: object, delay_s: float, now_s: float) -> float:
            raise ZeroDivisionError("a mistake in a rule")

        ledger_id = await world.closed_ledger(5)
        world.rules = replace(world.rules, when_to_audit=broken)
        await world.start_autorecovery("a")
        with pytest.raises(ZeroDivisionError, match="a mistake in a rule"):
            await world.instances["a"]
        await world.manager.mark(ledger_id, ["b2"])
        await asyncio.sleep(60)
        assert world.events("replication.started") == []

    run(rule)


def test_what_is_under_repair_when_disabled_is_finished_and_nothing_else() -> None:
    async def rule(world: World) -> None:
        ledgers = [await world.closed_ledger(20) for _ in range(3)]
        world.config = SLOW
        await world.start_autorecovery("a")
        await world.stop_bookie("b2")
        await asyncio.sleep(2)
        await world.manager.disable()
        await asyncio.sleep(100)
        assert len(world.events("replication.done")) == 1
        assert len(await world.manager.ledgers()) == 2
        await world.manager.enable()
        await world.until_replicated()
        for ledger_id in ledgers:
            assert await world.missing(ledger_id) == []

    run(rule)


def test_open_ledger_is_not_fenced_while_disabled() -> None:
    async def rule(world: World) -> None:
        writer = await world.client.create_ledger(3, 3, 2)
        await writer.add(payload(0))
        await world.start_autorecovery("a")
        await world.stop_bookie("b2")
        await asyncio.sleep(10)
        await world.manager.disable()
        await asyncio.sleep(60)
        assert all(bookie.fenced == {} for bookie in world.bookies.values())
        await world.manager.enable()
        await world.until_replicated()
        assert await world.missing(writer.ledger_id) == []

    run(rule)
