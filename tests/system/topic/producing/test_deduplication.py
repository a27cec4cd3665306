"""Deduplication: what is known of a producer's messages, and how a new owner learns it."""

import asyncio
import struct
from collections.abc import Awaitable, Callable

import pytest

from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata
from labkit.system.topic.chain.acknowledged import CursorState
from labkit.system.topic.chain.formats import encode_position
from labkit.system.topic.messages import (
    OutgoingMessage,
    encode_batch,
    encode_in_batch,
    encode_message,
)
from labkit.system.topic.producing.deduplication import Deduplication, MessageDupStatus
from labkit.system.trace.recorder import Recorder, Row
from labkit.worlds.sim.machine.loop import SimLoop
from tests.system.topic.ledgers import NAME, PlayedCursor, PlayedLedger

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


def run(rule: Callable[[], Awaitable[None]]) -> None:
    """In virtual time."""

    async def main() -> None:
        await rule()

    SimLoop(time_limit_s=24 * HOUR_S).run(main())


def test_message_is_new_once_then_in_doubt_then_a_duplicate() -> None:
    async def rule() -> None:
        marks = await opened(PlayedLedger())
        assert marks.last_sequence_id(P) == -1
        assert marks.judge(P, 0, 0) is MessageDupStatus.NEW
        assert marks.judge(P, 0, 0) is MessageDupStatus.UNSURE
        marks.stored(P, 0, (7, 0))
        assert marks.judge(P, 0, 0) is MessageDupStatus.DUPLICATE
        assert marks.judge(P, 1, 1) is MessageDupStatus.NEW
        assert marks.last_sequence_id(P) == 1

    run(rule)


def test_producers_do_not_share_their_marks() -> None:
    async def rule() -> None:
        marks = await opened(PlayedLedger())
        marks.judge(P, 5, 5)
        assert marks.judge(Q, 5, 5) is MessageDupStatus.NEW

    run(rule)


def test_batch_raises_the_marks_to_its_last_message() -> None:
    async def rule() -> None:
        marks = await opened(PlayedLedger())
        assert marks.judge(P, 0, 9) is MessageDupStatus.NEW
        assert marks.judge(P, 5, 5) is MessageDupStatus.UNSURE
        marks.stored(P, 9, (7, 0))
        assert marks.judge(P, 9, 9) is MessageDupStatus.DUPLICATE
        assert marks.judge(P, 10, 12) is MessageDupStatus.NEW

    run(rule)


def test_chunks_of_a_message_have_one_sequence_id_that_counts_with_the_last() -> None:
    async def rule() -> None:
        marks = await opened(PlayedLedger())
        assert marks.judge(P, 0, 0, completes=False) is MessageDupStatus.NEW
        assert marks.judge(P, 0, 0, completes=False) is MessageDupStatus.NEW
        assert marks.judge(P, 0, 0) is MessageDupStatus.NEW
        assert marks.judge(P, 0, 0, completes=False) is MessageDupStatus.UNSURE

    run(rule)


# The next owner


def test_next_owner_knows_what_the_entries_say() -> None:
    async def rule() -> None:
        ledger = PlayedLedger()
        ledger.keep(message(0), batch(1, 5), message(3, Q), b"no message", message(6))
        rows: list[Row] = []
        recorder = Recorder("broker", lambda: 0)
        recorder.listen(rows.extend)
        marks = await Deduplication.open(ledger.real, recorder)
        assert (marks.last_sequence_id(P), marks.last_sequence_id(Q)) == (6, 3)
        assert marks.judge(P, 6, 6) is MessageDupStatus.DUPLICATE
        assert [(row.kind, row.size, row.note) for row in rows] == [
            ("deduplication.rebuilt", 5, NAME)
        ]

    run(rule)


def test_message_of_which_a_chunk_is_missing_comes_again() -> None:
    async def rule() -> None:
        ledger = PlayedLedger()
        ledger.keep(message(0), chunk(1, 0, of=3), chunk(1, 1, of=3))
        assert (await opened(ledger)).last_sequence_id(P) == 0
        ledger.keep(chunk(1, 2, of=3))
        assert (await opened(ledger)).last_sequence_id(P) == 1

    run(rule)


def test_only_entries_behind_the_cursor_are_read_again() -> None:
    async def rule() -> None:
        ledger = PlayedLedger(PlayedCursor((7, 1), {P: 50, Q: 60}))
        ledger.keep(message(0), message(1), message(51))
        marks = await opened(ledger)
        assert (marks.last_sequence_id(P), marks.last_sequence_id(Q)) == (51, 60)

    run(rule)


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 2500])
def test_owner_after_owner_comes_to_the_same_marks(count: int) -> None:
    async def rule() -> None:
        ledger = PlayedLedger()
        marks = await opened(ledger)
        for number in range(count):
            marks.judge(P, number, number)
            ledger.keep(message(number))
            marks.stored(P, number, ledger.entries[-1].position)
        assert ledger.cursor.mark_delete == (7, count // 1000 * 1000 - 1)
        assert (await opened(ledger)).last_sequence_id(P) == count - 1
        marks.snapshot()
        assert (await opened(ledger)).last_sequence_id(P) == count - 1
        if count:
            assert (ledger.cursor.mark_delete, ledger.cursor.properties) == (
                (7, count - 1),
                {P: count - 1},
            )

    run(rule)


def test_snapshot_keeps_what_is_stored_and_not_what_is_under_way() -> None:
    """Or a message that its owner never stored would be a duplicate for the next owner."""

    async def rule() -> None:
        ledger = PlayedLedger()
        marks = await opened(ledger)
        for number in range(3):
            marks.judge(P, number, number)
        marks.judge(Q, 0, 0)
        ledger.keep(message(0))
        marks.stored(P, 0, (7, 0))
        marks.snapshot()
        assert (ledger.cursor.mark_delete, ledger.cursor.properties) == ((7, 0), {P: 0})
        following = await opened(ledger)
        assert following.judge(P, 1, 1) is MessageDupStatus.NEW
        assert following.judge(Q, 0, 0) is MessageDupStatus.NEW

    run(rule)


def test_marks_are_kept_two_minutes_after_a_message_at_the_latest() -> None:
    async def rule() -> None:
        ledger = PlayedLedger()
        marks = await opened(ledger)
        marks.judge(P, 0, 0)
        marks.stored(P, 0, (7, 0))
        await asyncio.sleep(119)
        assert ledger.cursor.properties == {}
        await asyncio.sleep(2)
        assert (ledger.cursor.mark_delete, ledger.cursor.properties) == ((7, 0), {P: 0})

    run(rule)


def test_messages_that_no_client_writes_leave_no_marks() -> None:
    async def rule() -> None:
        ledger = PlayedLedger()
        ledger.keep(message(5, "pp").replace(b"pp", b"\xff\xff"), message(2**63))
        marks = await opened(ledger)
        marks.snapshot()
        assert ledger.cursor.properties == {}

    run(rule)


def test_producer_that_stays_away_for_six_hours_is_forgotten() -> None:
    async def rule() -> None:
        marks = await opened(PlayedLedger())
        for producer in (P, Q):
            marks.attached(producer)
            marks.judge(producer, 0, 0)
            marks.stored(producer, 0, (7, 0))
        marks.detached(P)
        await asyncio.sleep(5 * HOUR_S)
        marks.snapshot()
        assert marks.last_sequence_id(P) == 0
        await asyncio.sleep(2 * HOUR_S)
        marks.snapshot()
        assert (marks.last_sequence_id(P), marks.last_sequence_id(Q)) == (-1, 0)

    run(rule)


def test_producer_with_a_message_under_way_is_not_forgotten() -> None:
    async def rule() -> None:
        marks = await opened(PlayedLedger())
        marks.judge(P, 0, 0)
        marks.detached(P)
        await asyncio.sleep(7 * HOUR_S)
        marks.snapshot()
        assert marks.judge(P, 0, 0) is MessageDupStatus.UNSURE

    run(rule)


def test_marks_of_producers_with_long_names_fit_into_an_entry() -> None:
    async def rule() -> None:
        names = [f"{number}{'x' * 2000}" for number in range(5000)]
        ledger = PlayedLedger(PlayedCursor((7, -1), dict.fromkeys(names, 3)))
        ledger.keep(message(5, P))
        marks = await opened(ledger)
        marks.attached(names[0])
        marks.snapshot()
        properties = ledger.cursor.properties
        state = CursorState((7, 0), properties=tuple(properties.items()))
        assert 4_000_000 < sum(map(len, encode_position(state))) < MAX_PAYLOAD_SIZE
        assert {P, names[0], names[-1]} <= properties.keys()
        assert names[1] not in properties

    run(rule)


def test_producer_whose_mark_would_not_fit_is_refused_while_the_others_are_there() -> None:
    async def rule() -> None:
        marks = await opened(PlayedLedger())
        names = [f"{number}{'x' * 2000}" for number in range(3000)]
        count = 0
        while marks.has_room_for(names[count]):
            marks.attached(names[count])
            count += 1
        assert 2000 < count < 2100
        assert marks.has_room_for(P)
        marks.detached(names[0])
        assert marks.has_room_for(names[0])

    run(rule)


def test_of_too_many_producers_those_longest_away_are_forgotten() -> None:
    async def rule() -> None:
        names = [f"p{number}" for number in range(10_002)]
        marks = await opened(PlayedLedger(PlayedCursor((7, -1), dict.fromkeys(names, 3))))
        marks.attached(names[0])
        marks.snapshot()
        known = [name for name in names if marks.last_sequence_id(name) == 3]
        assert known == [names[0], *names[3:]]

    run(rule)
