"""What the replication worker does when it cannot repair a ledger now, and what ends it."""

import asyncio
from dataclasses import replace

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.metadata.store import MetadataUnavailableError
from tests.system.autorecovery.world import SLOW, World, lose, run

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


def test_as_many_copies_come_back_as_there_are_bookies_for() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(5)
        await world.start_autorecovery("a")
        await world.stop_bookie("b1")
        await world.stop_bookie("b2")
        await asyncio.sleep(5)
        assert (await world.ledger(ledger_id)).segments[0].ensemble == ("b4", "b2", "b3")
        assert {name for _, name in await world.missing(ledger_id)} == {"b2"}
        assert await world.manager.ledgers() == [ledger_id]

    run(rule, 4)


def test_bookie_that_lost_copies_gets_them_back_when_there_is_no_other() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(5)
        await world.start_autorecovery("a")
        world.bookies["b3"].lose(ledger_id, 0, 1)
        await lose(world, "b2")
        assert (await world.ledger(ledger_id)).segments[0].ensemble == ("b1", "b4", "b3")
        assert await world.missing(ledger_id) == []

    run(rule, 4)


def test_silent_bookie_in_its_place_does_not_hold_up_what_others_can_take() -> None:
    async def rule(world: World) -> None:
        ledger_id = await world.closed_ledger(5)
        world.bookies["b3"].is_silent = True
        await world.start_autorecovery("a")
        await world.stop_bookie("b2")
        await asyncio.sleep(20)
        assert (await world.ledger(ledger_id)).segments[0].ensemble == ("b1", "b4", "b3")
        world.bookies["b3"].is_silent = False
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
        writer = await world.open_ledger_that_loses_a_bookie()
        await asyncio.sleep(10)
        await world.manager.disable()
        await asyncio.sleep(60)
        assert all(bookie.fenced == {} for bookie in world.bookies.values())
        await world.manager.enable()
        await world.until_replicated()
        assert await world.missing(writer.ledger_id) == []

    run(rule)
