"""The chain of a managed ledger, in the simulated world: appending, reading, rolling, trimming,
and owners that follow each other.
"""

import asyncio
from dataclasses import replace

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKLedgerClosedException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    LabkitError,
)
from labkit.system.topic.chain.chain_store import read_chain
from labkit.system.topic.chain.guarded_node import ManagedLedgerFencedError
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.worlds.sim.scenario.faults import Crash, Pause
from labkit.worlds.sim.settings.triggers import At, On
from tests.system.topic.simulated import (
    PATH,
    SMALL,
    Story,
    opened,
    read_all,
    simulate,
    stored,
    tell,
)
from tests.until import until

KEEP_NOTHING = replace(SMALL, retention_time_ms=0, retention_size_bytes=0)


async def settled(ledger: ManagedLedger, count: int) -> None:
    """Wait until the upkeep has left `count` ledgers."""
    await until(lambda: len(ledger.ledgers) == count)


def test_entries_are_stored_and_read_in_order_over_all_ledgers() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        positions = await stored(ledger, 0, 12)
        first, second, third = sorted({ledger_id for ledger_id, _ in positions})
        assert positions == [(first, n) for n in range(5)] + [(second, n) for n in range(5)] + [
            (third, 0),
            (third, 1),
        ]
        assert ledger.last_confirmed == (third, 1)
        assert [link.entry_count for link in ledger.ledgers] == [5, 5, 2]
        assert await read_all(ledger) == list(range(12))
        assert await read_all(ledger, (second, 3)) == [8, 9, 10, 11]
        assert await read_all(ledger, ledger.next_position((first, 4))) == [5, *range(6, 12)]
        await ledger.close()
        again = await opened(client)
        # Nothing is in memory now: the bookies are asked.
        assert await read_all(again) == list(range(12))
        await again.close()

    tell(story)


def test_new_owner_begins_a_ledger_and_an_empty_one_is_dropped_and_deleted() -> None:
    async def story(client: BookKeeper) -> None:
        ids = []
        for _ in range(3):
            ledger = await opened(client)
            ids += [link.ledger_id for link in ledger.ledgers]
            assert ledger.last_confirmed == (ids[-1], -1)
            assert await ledger.read((-1, -1), 9, 9) == []
        assert ids == sorted(set(ids))
        assert await client.list_ledgers() == ids[-1:]
        await ledger.close()
        assert (await read_chain(client, PATH))[0] == []
        assert await client.list_ledgers() == []

    tell(story)


def test_confirmed_entries_are_reported_once_a_turn() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        told = []
        ledger.when_confirmed(lambda: told.append(ledger.last_confirmed))
        positions = await stored(ledger, 0, 4)
        await asyncio.sleep(0)
        assert told == sorted(set(told))
        assert told[-1] == positions[-1]
        await ledger.close()

    tell(story)


def test_read_gives_at_least_one_entry_and_heeds_its_limits() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        await stored(ledger, 100, 108)
        for _ in ("from memory", "from the bookies"):
            first = ledger.ledgers[0].ledger_id
            some = await ledger.read((-1, -1), 3, 1000)
            assert [entry.data for entry in some] == [b"100", b"101", b"102"]
            assert 1 <= len(await ledger.read((first, 1), 9, 6)) <= 2
            assert [entry.data for entry in await ledger.read((first, 1), 9, 1)] == [b"101"]
            rest = await ledger.read((first, 3), 9, 1000)
            assert [entry.position for entry in rest] == [(first, 3), (first, 4)]
            await ledger.close()
            ledger = await opened(client)
        await ledger.close()

    tell(story)


def test_entries_that_memory_has_no_room_for_are_read_from_the_bookies() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client, replace(SMALL, entry_cache_size_bytes=4))
        await stored(ledger, 10, 23)
        assert await read_all(ledger) == list(range(10, 23))
        await ledger.close()

    trace = tell(story)
    assert any(e.kind == "read.done" for e in trace.events)


def test_tailing_read_asks_no_bookie() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        await stored(ledger, 0, 13)
        assert await read_all(ledger) == list(range(13))
        await asyncio.sleep(0)

    trace = tell(story)
    reads = [e for e in trace.events if e.kind == "read.sent" and e.node == "p"]
    assert reads == []


def test_ledger_is_full_by_size() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client, ManagedLedgerConfig(max_ledger_size_bytes=100))
        for _ in range(3):
            await (await ledger.append(b"x" * 60))
        await settled(ledger, 2)
        assert [link.entry_count for link in ledger.ledgers] == [2, 1]
        assert ledger.ledgers[0].size_bytes == 120
        await ledger.close()

    tell(story)


def test_old_ledger_is_closed_without_another_append_and_an_empty_one_stays() -> None:
    async def story(client: BookKeeper) -> None:
        config = ManagedLedgerConfig(max_ledger_age_ms=1000, check_interval_ms=300)
        ledger = await opened(client, config)
        await asyncio.sleep(2)
        assert len(ledger.ledgers) == 1
        await stored(ledger, 0, 1)
        await settled(ledger, 2)
        await asyncio.sleep(3)
        assert [link.entry_count for link in ledger.ledgers] == [1, 0]
        await ledger.close()

    tell(story)


def test_ledger_below_its_minimum_age_takes_more_than_its_share() -> None:
    async def story(client: BookKeeper) -> None:
        config = replace(SMALL, min_ledger_age_ms=1000)
        ledger = await opened(client, config)
        await stored(ledger, 0, 8)
        assert len(ledger.ledgers) == 1
        await asyncio.sleep(1.1)
        await stored(ledger, 8, 9)
        assert [link.entry_count for link in ledger.ledgers] == [8, 1]
        await ledger.close()

    tell(story)


# Retention


def test_consumed_ledgers_are_deleted_and_the_current_one_never_is() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client, KEEP_NOTHING)
        cursor = await ledger.open_cursor("s", "earliest")
        positions = await stored(ledger, 0, 12)
        await asyncio.sleep(0.1)
        assert len(ledger.ledgers) == 3
        cursor.acknowledge_up_to(positions[4])
        await cursor.flush()
        assert await ledger.trim() == [positions[0][0]]
        assert await read_all(ledger) == list(range(5, 12))
        cursor.acknowledge_up_to(positions[-1])
        await cursor.flush()
        assert await ledger.trim() == [positions[5][0]]
        assert await ledger.trim() == []
        assert [link.entry_count for link in ledger.ledgers] == [2]
        for gone in (positions[0], positions[5]):
            with pytest.raises(BKNoSuchLedgerExistsOnMetadataServerException):
                await client.ledger_metadata(gone[0])
        chain, _ = await read_chain(client, PATH)
        assert [link.ledger_id for link in chain] == [positions[-1][0]]
        await ledger.close()

    tell(story)


def test_closed_ledger_is_trimmed_by_itself_when_nothing_keeps_it() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client, KEEP_NOTHING)
        positions = await stored(ledger, 0, 11)
        await settled(ledger, 1)
        assert ledger.last_confirmed == positions[-1]
        assert await read_all(ledger, positions[0]) == [10]
        await ledger.close()

    tell(story)


def test_retention_time_is_looked_at_again_and_again() -> None:
    async def story(client: BookKeeper) -> None:
        config = replace(SMALL, retention_time_ms=2000, retention_size_bytes=-1)
        ledger = await opened(client, replace(config, check_interval_ms=500))
        await stored(ledger, 0, 6)
        await asyncio.sleep(1)
        assert len(ledger.ledgers) == 2
        await asyncio.sleep(2)
        assert len(ledger.ledgers) == 1
        await ledger.close()

    tell(story)


def test_deleted_cursor_keeps_nothing() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client, KEEP_NOTHING)
        await ledger.open_cursor("slow", "earliest")
        await ledger.open_cursor("reader", "earliest", durable=False)
        await stored(ledger, 0, 6)
        await asyncio.sleep(0.1)
        assert len(ledger.ledgers) == 2
        await ledger.delete_cursor("slow")
        assert list(ledger.cursors) == ["reader"]
        await settled(ledger, 1)
        assert await client.store.children(PATH) == []
        await ledger.close()

    tell(story)


def test_reading_while_ledgers_are_trimmed_skips_what_is_gone() -> None:
    async def story(client: BookKeeper) -> None:
        config = replace(KEEP_NOTHING, entry_cache_size_bytes=0)
        ledger = await opened(client, config)
        cursor = await ledger.open_cursor("s", "earliest")
        positions = await stored(ledger, 0, 23)
        cursor.acknowledge_up_to(positions[18])
        reading = asyncio.create_task(read_all(ledger))
        await ledger.trim()
        numbers = await reading
        assert numbers == sorted(set(numbers))
        assert numbers[-8:] == list(range(15, 23))
        await ledger.close()

    tell(story)


# Owners


def test_overtaken_owner_ends_for_good_and_says_so_once() -> None:
    async def story(client: BookKeeper) -> None:
        old = await opened(client)
        ends: list[LabkitError] = []
        old.when_ended(ends.append)
        await stored(old, 0, 3)
        new = await opened(client)
        futures = await old.append_all([b"late", b"later"])
        for future in futures:
            with pytest.raises(ManagedLedgerFencedError, match="open the topic again"):
                await future
        for _ in range(2):
            with pytest.raises(ManagedLedgerFencedError):
                await old.append(b"no")
        with pytest.raises(ManagedLedgerFencedError):
            await old.open_cursor("s", "latest")
        assert len(ends) == 1
        await old.close()
        assert len(ends) == 1
        await stored(new, 3, 5)
        assert await read_all(new) == [0, 1, 2, 3, 4]
        await new.close()

    tell(story)


def test_replaced_owner_is_fenced_when_it_trims() -> None:
    async def story(client: BookKeeper) -> None:
        old = await opened(client, replace(SMALL, retention_time_ms=3_600_000))
        await stored(old, 0, 6)
        new = await opened(client)
        ends: list[LabkitError] = []
        old.when_ended(ends.append)
        clock = client.wall_clock_ms
        client.wall_clock_ms = lambda: clock() + 7_200_000
        with pytest.raises(ManagedLedgerFencedError):
            await old.trim()
        assert len(ends) == 1
        assert await read_all(new) == list(range(6))
        await new.close()

    tell(story)


def test_closed_one_takes_nothing_and_may_be_closed_again() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        await ledger.close()
        await ledger.close()
        with pytest.raises(BKLedgerClosedException, match="open the topic again"):
            await ledger.append(b"x")

    tell(story)


def test_entry_that_fits_into_no_frame_is_refused_with_all_that_came_with_it() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        with pytest.raises(BKIncorrectParameterException, match="fits into no frame"):
            await ledger.append_all([b"1", b"x" * (MAX_PAYLOAD_SIZE + 1)])
        await stored(ledger, 7, 8)
        assert await read_all(ledger) == [7]
        await ledger.close()

    tell(story)


def test_ledger_id_in_the_chain_without_metadata_is_left_out() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        await stored(ledger, 0, 7)
        lost = ledger.ledgers[-1].ledger_id
        await client.delete_ledger(lost)
        again = await opened(client)
        assert await read_all(again) == [0, 1, 2, 3, 4]
        await again.close()

    tell(story)


@pytest.mark.parametrize("nth", range(1, 30, 4))
def test_owner_that_dies_anywhere_leaves_a_chain_with_all_that_was_acknowledged(nth: int) -> None:
    acknowledged: list[int] = []

    async def old(client: BookKeeper) -> None:
        ledger = await opened(client)
        for first in range(0, 40, 4):
            for number, future in enumerate(
                await ledger.append_all([b"%d" % n for n in range(first, first + 4)]), first
            ):
                await future
                acknowledged.append(number)

    async def new(client: BookKeeper) -> None:
        ledger = await opened(client)
        numbers = await read_all(ledger)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= len(acknowledged)
        await stored(ledger, 100, 103)
        assert (await read_all(ledger))[-3:] == [100, 101, 102]
        await ledger.close()

    crash = Crash("p", "kept", down_ms=60_000, when=On("lac.advanced", nth=nth))
    simulate(Story(old), Story(new, "q", At(500)), faults=(crash,))


@pytest.mark.parametrize("pause_at_ms", [10, 13, 16, 20, 24])
def test_paused_owner_that_comes_back_is_fenced(pause_at_ms: int) -> None:
    acknowledged: list[int] = []
    ends: list[LabkitError] = []

    async def old(client: BookKeeper) -> None:
        ledger = await opened(client)
        ledger.when_ended(ends.append)
        try:
            for number in range(60):
                await (await ledger.append(b"%d" % number))
                acknowledged.append(number)
        except LabkitError:
            pass
        await ledger.close()

    async def new(client: BookKeeper) -> None:
        ledger = await opened(client)
        found = len(acknowledged)
        numbers = await read_all(ledger)
        assert numbers[:found] == list(range(found))
        await asyncio.sleep(3)
        # The old one was paused before a message reached it: what it acknowledges now was read.
        assert len(acknowledged) <= len(numbers)
        await ledger.close()

    pause = Pause("p", 2000, At(pause_at_ms))
    simulate(Story(old), Story(new, "q", At(pause_at_ms + 5)), faults=(pause,))
    assert len(ends) == 1
