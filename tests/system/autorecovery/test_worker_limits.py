"""Test what the replication worker does when it cannot repair a ledger yet, and what stops it."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from tests.system.autorecovery.world import SLOW, World, lose, run, simulated
from tests.virtual_time import in_world

# Repairs that have to wait


@in_world(partial(run, bookie_count=4))
async def test_without_enough_bookies_the_ledger_waits_for_more(world: World) -> None:
    ledger_id = await world.closed_ledger(5)
    await world.stop_bookie("b4")
    await world.start_autorecovery("a")
    await world.stop_bookie("b2")
    await asyncio.sleep(100)
    assert await world.manager.ledgers() == [ledger_id]
    waits = [row.explanation for row in world.events("replication.deferred")]
    assert ["retry in 9.375 s" in waits[0], "retry in 18.75 s" in waits[1]] == [True, True]
    assert "not enough writable bookies to replace the copies of" in waits[0]
    assert len(waits) == 4
    await world.start_bookie("b4")
    await world.until_replicated()
    assert await world.missing(ledger_id) == []


@simulated
async def test_without_any_copy_of_an_entry_the_metadata_stays_until_one_comes_back(
    world: World,
) -> None:
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


@simulated
async def test_damaged_copy_is_found_and_is_not_copied(world: World) -> None:
    ledger_id = await world.closed_ledger(5)
    stored = world.bookies["b1"].entries
    stored[ledger_id, 4] = stored[ledger_id, 4][:-1] + b"?"
    await world.manager.mark(ledger_id, ["b1"])
    await world.start_autorecovery("a")
    await world.until_replicated()
    assert "b1" not in (await world.ledger(ledger_id)).segments[0].ensemble
    assert await world.missing(ledger_id) == []


@in_world(partial(run, bookie_count=6))
async def test_target_that_is_lost_during_the_repair_is_replaced_too(world: World) -> None:
    ledger_id = await world.closed_ledger(50)
    world.config = SLOW
    await world.start_autorecovery("a")
    await world.stop_bookie("b2")
    await asyncio.sleep(3)
    await world.stop_bookie(world.events("entry.copied")[0].peer)
    await world.until_replicated()
    assert await world.missing(ledger_id) == []


# Limits


@simulated
async def test_copying_keeps_to_its_rate(world: World) -> None:
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


@simulated
async def test_the_rate_limits_all_fragments_together(world: World) -> None:
    for _ in range(5):
        await world.closed_ledger(10)
    size = sum(map(len, world.bookies["b2"].entries.values()))
    world.config = AutoRecoveryConfig(replication_rate_by_bytes=size // 20)
    await world.start_autorecovery("a")
    await lose(world, "b2")
    copied = [row.time_us for row in world.events("entry.copied")]
    # Without a limit, or with one per fragment, this takes milliseconds. The last fragment's
    # entries are stored at once.
    assert 15 <= (copied[-1] - copied[0]) / 1e6 <= 21


# When a worker exits or is disabled


@pytest.mark.promise(
    "If a component of autorecovery fails, its instance ends, and so does the bookie"
)
@simulated
async def test_part_that_dies_takes_the_others_with_it(world: World) -> None:
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


@simulated
async def test_what_is_under_repair_when_disabled_is_finished_and_nothing_else(
    world: World,
) -> None:
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


@simulated
async def test_open_ledger_is_not_fenced_while_disabled(world: World) -> None:
    writer = await world.open_ledger_that_loses_a_bookie()
    await asyncio.sleep(10)
    await world.manager.disable()
    await asyncio.sleep(60)
    assert all(bookie.fenced == {} for bookie in world.bookies.values())
    await world.manager.enable()
    await world.until_replicated()
    assert await world.missing(writer.ledger_id) == []
