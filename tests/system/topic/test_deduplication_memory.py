"""What deduplication keeps, for how long, and when it lets its cursor keep it."""

import asyncio
import gc
import weakref
from collections.abc import Mapping

import pytest

from labkit.system.topic.chain.chain import Position
from labkit.system.topic.chain.chain_reader import StoredEntry
from labkit.system.topic.producing.deduplication import LARGEST_SEQUENCE_ID, Deduplication
from tests.system.topic.ledgers import PlayedCursor, PlayedLedger
from tests.system.topic.producing.test_deduplication import HOUR_S, message, opened, run


class Name(str):
    """A producer's name, which shows whether somebody still holds it."""

    __slots__ = ("__weakref__",)


class TimedCursor(PlayedCursor):
    """Notes when it gets marks."""

    def __init__(self) -> None:
        super().__init__((7, -1), {})
        self.times: list[float] = []

    def acknowledge_up_to(self, position: Position, properties: Mapping[str, int]) -> None:
        super().acknowledge_up_to(position, properties)
        self.times.append(round(asyncio.get_running_loop().time(), 3))


class Marks:
    """Deduplication with a cursor whose marks are timed."""

    def __init__(self, marks: Deduplication, cursor: TimedCursor) -> None:
        self.marks = marks
        self.cursor = cursor
        self.count = 0

    @classmethod
    async def begun(cls) -> "Marks":
        cursor = TimedCursor()
        return cls(await opened(PlayedLedger(cursor)), cursor)

    def store(self, count: int = 1) -> None:
        for _ in range(count):
            self.marks.judge("p", self.count, self.count)
            self.marks.stored("p", self.count, (7, self.count))
            self.count += 1


async def until_s(time_s: float) -> None:
    await asyncio.sleep(time_s - asyncio.get_running_loop().time())


# What is forgotten


@pytest.mark.parametrize("has_sent", [True, False])
def test_nothing_is_left_of_a_producer_that_is_forgotten(has_sent: bool) -> None:
    async def rule() -> None:
        marks = await opened(PlayedLedger())
        name = Name("gone")
        held = weakref.ref(name)
        marks.attached(name)
        if has_sent:
            marks.judge(name, 0, 0)
            marks.stored(name, 0, (7, 0))
            marks.snapshot()
        marks.detached(name)
        del name
        gc.collect()
        assert held() is not None
        await asyncio.sleep(7 * HOUR_S)
        marks.snapshot()
        gc.collect()
        assert held() is None

    run(rule)


def test_producer_is_remembered_for_six_hours_from_when_it_was_there_last() -> None:
    async def rule() -> None:
        marks = await opened(PlayedLedger())
        marks.judge("p", 0, 0)
        marks.stored("p", 0, (7, 0))
        marks.detached("p")
        await until_s(5 * HOUR_S)
        marks.attached("p")
        marks.detached("p")
        for time_s, known in ((11 * HOUR_S - 1, 0), (11 * HOUR_S, -1)):
            await until_s(time_s)
            marks.snapshot()
            assert marks.last_sequence_id("p") == known

    run(rule)


def test_producers_of_the_owner_before_are_remembered_for_six_hours_too() -> None:
    async def rule() -> None:
        ledger = PlayedLedger(PlayedCursor((7, -1), {"p": 3}))
        ledger.keep(message(4, "q"))
        marks = await opened(ledger)
        for time_s, known in ((6 * HOUR_S - 1, (3, 4)), (6 * HOUR_S, (-1, -1))):
            await until_s(time_s)
            marks.snapshot()
            assert (marks.last_sequence_id("p"), marks.last_sequence_id("q")) == known

    run(rule)


def test_a_later_one_is_forgotten_though_one_with_a_message_under_way_is_kept() -> None:
    async def rule() -> None:
        marks = await opened(PlayedLedger())
        marks.judge("waits", 0, 0)
        marks.detached("waits")
        marks.judge("done", 0, 0)
        marks.stored("done", 0, (7, 0))
        marks.detached("done")
        await until_s(7 * HOUR_S)
        marks.snapshot()
        assert (marks.last_sequence_id("waits"), marks.last_sequence_id("done")) == (0, -1)

    run(rule)


def test_ten_thousand_producers_are_remembered_and_not_one_more() -> None:
    async def rule() -> None:
        for count in (10_000, 10_001):
            names = [f"p{number}" for number in range(count)]
            marks = await opened(PlayedLedger(PlayedCursor((7, -1), dict.fromkeys(names, 3))))
            marks.snapshot()
            known = [name for name in names if marks.last_sequence_id(name) == 3]
            assert known == names[-10_000:]

    run(rule)


# When marks are kept


def test_marks_are_kept_two_minutes_after_the_first_message_that_is_not_in_them() -> None:
    async def rule() -> None:
        begun = await Marks.begun()
        for time_s in (0, 60, 119, 130, 600):
            await until_s(time_s)
            begun.store()
        await until_s(2000)
        assert begun.cursor.times == [120, 250, 720]

    run(rule)


def test_marks_are_kept_at_once_after_a_thousand_messages() -> None:
    async def rule() -> None:
        begun = await Marks.begun()
        await until_s(1)
        begun.store(999)
        assert begun.cursor.times == []
        begun.store()
        assert begun.cursor.times == [1]
        # From there on everything counts from 0: the thousand, and the two minutes.
        await until_s(100)
        begun.store(999)
        await until_s(500)
        assert begun.cursor.times == [1, 220]
        begun.store(1000)
        assert begun.cursor.times == [1, 220, 500]

    run(rule)


def test_owner_that_has_stored_nothing_leaves_the_marks_as_they_are() -> None:
    async def rule() -> None:
        cursor = TimedCursor()
        cursor.mark_delete, cursor.properties = (7, 3), {"p": 3}
        marks = await opened(PlayedLedger(cursor))
        marks.judge("p", 4, 4)
        marks.snapshot()
        assert (cursor.times, cursor.mark_delete, cursor.properties) == ([], (7, 3), {"p": 3})

    run(rule)


# What is read again


def test_entries_are_read_again_some_at_a_time_and_each_once() -> None:
    async def rule() -> None:
        asked: list[tuple[Position, int, int]] = []

        class Ledger(PlayedLedger):
            async def read(
                self, start: Position, max_entries: int, max_bytes: int
            ) -> list[StoredEntry]:
                asked.append((start, max_entries, max_bytes))
                return await super().read(start, max_entries, max_bytes)

        ledger = Ledger(PlayedCursor((7, 9), {}))
        ledger.keep(*(message(number) for number in range(2500)))
        marks = await opened(ledger)
        assert marks.last_sequence_id("p") == 2499
        starts = [start for start, _, _ in asked]
        assert starts == [(7, 10), (7, 1010), (7, 2010), (7, 2500)]
        assert {(entries, size) for _, entries, size in asked} == {(1000, 4 * 1024**2)}

    run(rule)


def test_largest_sequence_id_of_java_leaves_a_mark_and_a_larger_one_does_not() -> None:
    async def rule() -> None:
        ledger = PlayedLedger()
        ledger.keep(message(LARGEST_SEQUENCE_ID, "p"), message(LARGEST_SEQUENCE_ID + 1, "q"))
        marks = await opened(ledger)
        assert marks.last_sequence_id("p") == LARGEST_SEQUENCE_ID == 2**63 - 1
        assert marks.last_sequence_id("q") == -1

    run(rule)
