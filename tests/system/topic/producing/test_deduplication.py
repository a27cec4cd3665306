"""Tests for deduplication: which sequence ids are known, and how a new owner learns them."""

import asyncio
import gc
import struct
import weakref
from collections.abc import Mapping

import pytest

from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata
from labkit.system.topic.chain.chain_reader import StoredEntry
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.cursors.acknowledged import CursorState
from labkit.system.topic.cursors.formats import encode_position
from labkit.system.topic.messages import (
    OutgoingMessage,
    encode_batch,
    encode_in_batch,
    encode_message,
)
from labkit.system.topic.producing.deduplication import (
    MAX_SEQUENCE_ID,
    Deduplication,
    MessageDupStatus,
)
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from tests.system.topic.ledgers import NAME, PlayedCursor, PlayedLedger
from tests.virtual_time import in_virtual_time

P, Q = "p", "q"
HOUR_S = 3600


def message(sequence_id: int, producer: str = P) -> bytes:
    return encode_message(OutgoingMessage(b"x", "", 0, (), sequence_id), producer, 1)


def batch(first: int, last: int) -> bytes:
    messages = [OutgoingMessage(b"x", "", 0, (), number) for number in range(first, last + 1)]
    return encode_batch(messages[0], [encode_in_batch(m) for m in messages], P, 1, last)


def chunk(sequence_id: int, number: int, of: int) -> bytes:
    metadata = MessageMetadata(
        producer_name=P,
        sequence_id=sequence_id,
        publish_time=1,
        chunk_id=number,
        num_chunks_from_msg=of,
    ).SerializeToString()
    return struct.pack(">HII", 0x0E01, 0, len(metadata)) + metadata + b"part"


async def opened(ledger: PlayedLedger) -> Deduplication:
    return await Deduplication.open(ledger.real, Recorder("broker", lambda: 0))


@pytest.mark.promise(
    "A message that is sent again is stored once, and a message in doubt is neither stored "
    "nor acknowledged"
)
@in_virtual_time
async def test_message_is_new_once_then_in_doubt_then_a_duplicate() -> None:
    marks = await opened(PlayedLedger())
    assert marks.last_sequence_id(P) == -1
    assert marks.check_send(P, 0, 0) is MessageDupStatus.NEW
    assert marks.check_send(P, 0, 0) is MessageDupStatus.UNSURE
    marks.record_stored(P, 0, (7, 0))
    assert marks.check_send(P, 0, 0) is MessageDupStatus.DUPLICATE
    assert marks.check_send(P, 1, 1) is MessageDupStatus.NEW
    assert marks.last_sequence_id(P) == 1


@in_virtual_time
async def test_batch_raises_the_marks_to_its_last_message() -> None:
    marks = await opened(PlayedLedger())
    assert marks.check_send(P, 0, 9) is MessageDupStatus.NEW
    assert marks.check_send(P, 5, 5) is MessageDupStatus.UNSURE
    marks.record_stored(P, 9, (7, 0))
    assert marks.check_send(P, 9, 9) is MessageDupStatus.DUPLICATE
    assert marks.check_send(P, 10, 12) is MessageDupStatus.NEW


@in_virtual_time
async def test_chunks_of_a_message_have_one_sequence_id_that_counts_with_the_last() -> None:
    marks = await opened(PlayedLedger())
    assert marks.check_send(P, 0, 0, completes=False) is MessageDupStatus.NEW
    assert marks.check_send(P, 0, 0, completes=False) is MessageDupStatus.NEW
    assert marks.check_send(P, 0, 0) is MessageDupStatus.NEW
    assert marks.check_send(P, 0, 0, completes=False) is MessageDupStatus.UNSURE


# The next owner


@pytest.mark.promise(
    "The next owner learns what is stored from the cursor and the entries after it"
)
@in_virtual_time
async def test_next_owner_knows_what_the_entries_say() -> None:
    ledger = PlayedLedger()
    ledger.keep(message(0), batch(1, 5), message(3, Q), b"no message", message(6))
    rows: list[Event] = []
    recorder = Recorder("broker", lambda: 0)
    recorder.listen(rows.extend)
    marks = await Deduplication.open(ledger.real, recorder)
    assert (marks.last_sequence_id(P), marks.last_sequence_id(Q)) == (6, 3)
    assert marks.check_send(P, 6, 6) is MessageDupStatus.DUPLICATE
    assert [(row.kind, row.size, row.topic) for row in rows] == [("deduplication.rebuilt", 5, NAME)]


@in_virtual_time
async def test_message_of_which_a_chunk_is_missing_comes_again() -> None:
    ledger = PlayedLedger()
    ledger.keep(message(0), chunk(1, 0, of=3), chunk(1, 1, of=3))
    assert (await opened(ledger)).last_sequence_id(P) == 0
    ledger.keep(chunk(1, 2, of=3))
    assert (await opened(ledger)).last_sequence_id(P) == 1


@in_virtual_time
async def test_only_entries_behind_the_cursor_are_read_again() -> None:
    ledger = PlayedLedger(PlayedCursor((7, 1), {P: 50, Q: 60}))
    ledger.keep(message(0), message(1), message(51))
    marks = await opened(ledger)
    assert (marks.last_sequence_id(P), marks.last_sequence_id(Q)) == (51, 60)


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 2500])
@in_virtual_time
async def test_owner_after_owner_comes_to_the_same_marks(count: int) -> None:
    ledger = PlayedLedger()
    marks = await opened(ledger)
    for number in range(count):
        marks.check_send(P, number, number)
        ledger.keep(message(number))
        marks.record_stored(P, number, ledger.entries[-1].position)
    assert ledger.cursor.mark_delete == (7, count // 1000 * 1000 - 1)
    assert (await opened(ledger)).last_sequence_id(P) == count - 1
    marks.snapshot()
    assert (await opened(ledger)).last_sequence_id(P) == count - 1
    if count:
        assert (ledger.cursor.mark_delete, ledger.cursor.properties) == (
            (7, count - 1),
            {P: count - 1},
        )


@in_virtual_time
async def test_snapshot_keeps_what_is_stored_and_not_what_is_under_way() -> None:
    """Otherwise a message that its owner never stored would be a duplicate for the next owner."""
    ledger = PlayedLedger()
    marks = await opened(ledger)
    for number in range(3):
        marks.check_send(P, number, number)
    marks.check_send(Q, 0, 0)
    ledger.keep(message(0))
    marks.record_stored(P, 0, (7, 0))
    marks.snapshot()
    assert (ledger.cursor.mark_delete, ledger.cursor.properties) == ((7, 0), {P: 0})
    following = await opened(ledger)
    assert following.check_send(P, 1, 1) is MessageDupStatus.NEW
    assert following.check_send(Q, 0, 0) is MessageDupStatus.NEW


@in_virtual_time
async def test_messages_that_no_client_writes_leave_no_marks() -> None:
    ledger = PlayedLedger()
    ledger.keep(message(5, "pp").replace(b"pp", b"\xff\xff"), message(MAX_SEQUENCE_ID + 1))
    ledger.keep(message(MAX_SEQUENCE_ID, Q))
    marks = await opened(ledger)
    marks.snapshot()
    assert ledger.cursor.properties == {Q: MAX_SEQUENCE_ID} == {Q: 2**63 - 1}


@in_virtual_time
async def test_producer_with_a_message_under_way_is_not_forgotten() -> None:
    marks = await opened(PlayedLedger())
    marks.check_send(P, 0, 0)
    marks.producer_detached(P)
    await asyncio.sleep(7 * HOUR_S)
    marks.snapshot()
    assert marks.check_send(P, 0, 0) is MessageDupStatus.UNSURE


@in_virtual_time
async def test_marks_of_producers_with_long_names_fit_into_an_entry() -> None:
    names = [f"{number}{'x' * 2000}" for number in range(5000)]
    ledger = PlayedLedger(PlayedCursor((7, -1), dict.fromkeys(names, 3)))
    ledger.keep(message(5, P))
    marks = await opened(ledger)
    marks.producer_attached(names[0])
    marks.snapshot()
    properties = ledger.cursor.properties
    state = CursorState((7, 0), properties=tuple(properties.items()))
    assert 4_000_000 < sum(map(len, encode_position(state))) < MAX_PAYLOAD_SIZE
    assert {P, names[0], names[-1]} <= properties.keys()
    assert names[1] not in properties


@in_virtual_time
async def test_producer_whose_mark_would_not_fit_is_rejected_while_the_others_are_there() -> None:
    marks = await opened(PlayedLedger())
    names = [f"{number}{'x' * 2000}" for number in range(3000)]
    count = 0
    while marks.has_room_for(names[count]):
        marks.producer_attached(names[count])
        count += 1
    assert 2000 < count < 2100
    assert marks.has_room_for(P)
    marks.producer_detached(names[0])
    assert marks.has_room_for(names[0])


@in_virtual_time
async def test_of_more_than_ten_thousand_producers_those_longest_away_are_forgotten() -> None:
    names = [f"p{number}" for number in range(10_002)]
    marks = await opened(PlayedLedger(PlayedCursor((7, -1), dict.fromkeys(names, 3))))
    marks.producer_attached(names[0])
    marks.snapshot()
    known = [name for name in names if marks.last_sequence_id(name) == 3]
    assert known == [names[0], *names[3:]]


# Which producers are remembered, and when


class Name(str):
    """A producer name that supports weak references, so that a test can see whether it is still in
    use.
    """

    __slots__ = ("__weakref__",)


class TimedCursor(PlayedCursor):
    """Records when marks are stored."""

    def __init__(self) -> None:
        super().__init__((7, -1), {})
        self.times: list[float] = []

    def acknowledge_up_to(self, position: Position, properties: Mapping[str, int]) -> None:
        super().acknowledge_up_to(position, properties)
        self.times.append(round(asyncio.get_running_loop().time(), 3))


class Marks:
    """Deduplication with a cursor that records when marks are stored."""

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
            self.marks.check_send("p", self.count, self.count)
            self.marks.record_stored("p", self.count, (7, self.count))
            self.count += 1


async def until_s(time_s: float) -> None:
    await asyncio.sleep(time_s - asyncio.get_running_loop().time())


# Forgotten producers


@pytest.mark.parametrize("has_sent", [True, False])
@in_virtual_time
async def test_nothing_is_left_of_a_producer_that_is_forgotten(has_sent: bool) -> None:
    marks = await opened(PlayedLedger())
    name = Name("gone")
    held = weakref.ref(name)
    marks.producer_attached(name)
    if has_sent:
        marks.check_send(name, 0, 0)
        marks.record_stored(name, 0, (7, 0))
        marks.snapshot()
    marks.producer_detached(name)
    del name
    gc.collect()
    assert held() is not None
    await asyncio.sleep(7 * HOUR_S)
    marks.snapshot()
    gc.collect()
    assert held() is None


@in_virtual_time
async def test_producer_is_remembered_for_six_hours_from_when_it_was_there_last() -> None:
    marks = await opened(PlayedLedger())
    marks.check_send("p", 0, 0)
    marks.record_stored("p", 0, (7, 0))
    marks.producer_detached("p")
    await until_s(5 * HOUR_S)
    marks.producer_attached("p")
    marks.producer_detached("p")
    for time_s, known in ((11 * HOUR_S - 1, 0), (11 * HOUR_S, -1)):
        await until_s(time_s)
        marks.snapshot()
        assert marks.last_sequence_id("p") == known


@in_virtual_time
async def test_producers_of_the_owner_before_are_remembered_for_six_hours_too() -> None:
    ledger = PlayedLedger(PlayedCursor((7, -1), {"p": 3}))
    ledger.keep(message(4, "q"))
    marks = await opened(ledger)
    for time_s, known in ((6 * HOUR_S - 1, (3, 4)), (6 * HOUR_S, (-1, -1))):
        await until_s(time_s)
        marks.snapshot()
        assert (marks.last_sequence_id("p"), marks.last_sequence_id("q")) == known


# When marks are stored


@in_virtual_time
async def test_marks_are_kept_two_minutes_after_the_first_message_that_is_not_in_them() -> None:
    begun = await Marks.begun()
    for time_s in (0, 60, 119, 130, 600):
        await until_s(time_s)
        begun.store()
    await until_s(2000)
    assert begun.cursor.times == [120, 250, 720]


@in_virtual_time
async def test_marks_are_kept_at_once_after_a_thousand_messages() -> None:
    begun = await Marks.begun()
    await until_s(1)
    begun.store(999)
    assert begun.cursor.times == []
    begun.store()
    assert begun.cursor.times == [1]
    # From here on, both the thousand messages and the two minutes are counted from zero.
    await until_s(100)
    begun.store(999)
    await until_s(500)
    assert begun.cursor.times == [1, 220]
    begun.store(1000)
    assert begun.cursor.times == [1, 220, 500]


@in_virtual_time
async def test_owner_that_has_stored_nothing_leaves_the_marks_as_they_are() -> None:
    cursor = TimedCursor()
    cursor.mark_delete, cursor.properties = (7, 3), {"p": 3}
    marks = await opened(PlayedLedger(cursor))
    marks.check_send("p", 4, 4)
    marks.snapshot()
    assert (cursor.times, cursor.mark_delete, cursor.properties) == ([], (7, 3), {"p": 3})


# Reading entries again


@in_virtual_time
async def test_entries_are_read_again_some_at_a_time_and_each_once() -> None:
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
