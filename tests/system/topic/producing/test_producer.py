"""Test when a partition's producer turns messages into an entry, with a scripted ledger."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKLedgerClosedException,
    BKLedgerFencedException,
)
from labkit.system.model.message_id import MessageId
from labkit.system.topic.append_queue import AwaitedEntry
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.messages import (
    OutgoingMessage,
    decode_messages,
    encode_in_batch,
    encode_message,
)
from labkit.system.topic.producing.producer import (
    Batching,
    PartitionProducer,
    Producer,
    SendTimeoutError,
)
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from tests.system.topic.ledgers import NAME, PlayedLedger
from tests.virtual_time import in_virtual_time

LARGEST = MAX_PAYLOAD_SIZE - 1024
FENCED = BKLedgerFencedException("fenced")
NOW_MS = 1_700_000_000_000


class Ledger(PlayedLedger):
    """Records the time, size and messages of each entry; confirms entries when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []
        self.contents: list[list[bytes]] = []
        self.sizes: list[int] = []

    async def append(self, data: bytes) -> asyncio.Future[Position]:
        awaited = AwaitedEntry(data)
        await self.append_entries([awaited])
        self.times.append(round(asyncio.get_running_loop().time(), 6))
        self.sizes.append(len(data))
        self.contents.append([each.payload for each in decode_messages(data, 7, 0, -1)])
        return awaited.stored


class Sending:
    """A producer named `me` with one partition per ledger."""

    def __init__(self, batching: Batching | None = None, partitions: int = 1) -> None:
        self.ledgers = [Ledger() for _ in range(partitions)]
        self.rows: list[Event] = []
        recorder = Recorder("p", lambda: 0)
        recorder.listen(self.rows.extend)
        client = SimpleNamespace(recorder=recorder, wall_clock_ms=lambda: NOW_MS)
        parts = [
            PartitionProducer(
                "me",
                number if partitions > 1 else -1,
                cast(ManagedLedger, ledger),
                batching,
                cast(BookKeeper, client),
            )
            for number, ledger in enumerate(self.ledgers)
        ]
        self.producer = Producer("me", parts, batching)

    @property
    def ledger(self) -> Ledger:
        return self.ledgers[0]

    def send(self, *payloads: bytes) -> list[asyncio.Future[MessageId]]:
        return [self.producer.send(payload) for payload in payloads]


def framed(payload: bytes) -> int:
    """Return the number of bytes that a message without a key takes up in a batch."""
    return len(encode_in_batch(OutgoingMessage(payload, "", 0, (), 0)))


def ids(futures: Sequence[asyncio.Future[MessageId]]) -> list[tuple[int, int, int]]:
    results = [future.result() for future in futures]
    return [(each.entry_id, each.partition, each.batch_index) for each in results]


async def turn() -> None:
    await asyncio.sleep(0.001)


# When a batch is complete

HOUR_MS = 3_600_000
TWO = 2 * framed(b"12345")
"""The size of a batch of two messages with five bytes each."""


@pytest.mark.parametrize(
    ("batching", "sent", "entries"),
    [
        pytest.param(
            Batching(max_bytes=TWO, max_delay_ms=HOUR_MS),
            # The second message fills the batch to the last byte. The fourth one does not fit.
            {0: "12345", 1: "abcde", 2: "1234 1234567", 3: "123"},
            [(1, "12345 abcde"), (2, "1234"), (3, "1234567 123")],
            id="with the last message that fits into its bytes",
        ),
        pytest.param(
            Batching(max_messages=3, max_delay_ms=HOUR_MS),
            {0: "0 1", 1: "2 3 4 5 6"},
            [(1, "0 1 2"), (1, "3 4 5")],
            id="with its last message",
        ),
        pytest.param(
            Batching(max_delay_ms=5000),
            {0: "0", 2: "1", 4: "2", 6: "3"},
            [(5, "0 1 2"), (11, "3")],
            id="after its delay",
        ),
        pytest.param(
            Batching(max_messages=2, max_delay_ms=5000),
            {0: "0", 3: "1", 4: "2"},
            [(3, "0 1"), (9, "2")],
            id="after its own delay, not that of the one before",
        ),
        pytest.param(None, {0: "0 1"}, [(0, "0"), (0, "1")], id="at once without batching"),
    ],
)
@in_virtual_time
async def test_a_batch_is_complete(
    batching: Batching | None, sent: dict[int, str], entries: list[tuple[float, str]]
) -> None:
    sending, loop = Sending(batching), asyncio.get_running_loop()
    for at_s, payloads in sent.items():
        await asyncio.sleep(at_s - loop.time())
        sending.send(*payloads.encode().split())
    await asyncio.sleep(20)
    contents = [b" ".join(payloads).decode() for payloads in sending.ledger.contents]
    assert list(zip(sending.ledger.times, contents, strict=True)) == entries


@in_virtual_time
async def test_keys_and_properties_count_to_the_bytes_of_a_batch() -> None:
    sending = Sending(Batching(max_delay_ms=10**6))
    for _ in range(6):
        sending.producer.send(b"", properties={"why": "x" * 60_000})
    await turn()
    assert sending.ledger.contents == [[b"", b""]] * 2


@in_virtual_time
async def test_message_that_cannot_be_encoded_fails_alone() -> None:
    sending = Sending(Batching(max_messages=2, max_delay_ms=10**6))
    sending.send(b"0")
    with pytest.raises(ValueError, match="-1"):
        sending.producer.send(b"x", event_time_ms=-1)
    sending.send(b"1")
    await turn()
    assert sending.ledger.contents == [[b"0", b"1"]]


# Results of sends


@in_virtual_time
async def test_each_message_gets_its_id_when_its_entry_is_confirmed_and_that_is_recorded() -> None:
    sending = Sending(Batching(max_messages=2, max_delay_ms=10**6))
    sent = sending.send(b"0", b"1", b"2", b"3")
    await turn()
    sending.ledger.store(1)
    await turn()
    assert [future.done() for future in sent] == [True, True, False, False]
    sending.ledger.store()
    await turn()
    assert ids(sent) == [(0, -1, 0), (0, -1, 1), (1, -1, 0), (1, -1, 1)]
    assert [(r.kind, r.ledger, r.entry, r.size, r.topic) for r in sending.rows] == [
        ("batch.stored", 7, 0, 2, NAME),
        ("batch.stored", 7, 1, 2, NAME),
    ]


@in_virtual_time
async def test_each_message_of_an_entry_that_fails_gets_the_reason() -> None:
    sending = Sending(Batching(max_messages=2, max_delay_ms=10**6))
    sent = sending.send(b"0", b"1")
    await turn()
    sending.ledger.abandon(FENCED)
    await turn()
    sent += sending.send(b"2", b"3")
    await sending.producer.flush()
    assert [future.exception() for future in sent] == [FENCED] * 4


@pytest.mark.parametrize("fails", [False, True])
@in_virtual_time
async def test_message_whose_sender_waits_no_longer_harms_no_other(fails: bool) -> None:
    sending = Sending(Batching(max_messages=3, max_delay_ms=10**6))
    sent = sending.send(b"0", b"1", b"2")
    await turn()
    sent[1].cancel()
    if fails:
        sending.ledger.abandon(FENCED)
    else:
        sending.ledger.store()
    await turn()
    others = [sent[0], sent[2]]
    if fails:
        assert [future.exception() for future in others] == [FENCED, FENCED]
    else:
        assert ids(others) == [(0, -1, 0), (0, -1, 2)]


@in_virtual_time
async def test_flush_waits_for_all_that_was_sent_and_also_for_what_was_sent_meanwhile() -> None:
    sending = Sending(Batching(max_delay_ms=10**6), partitions=2)
    await sending.producer.flush()
    sent = sending.send(b"0")
    flushing = asyncio.ensure_future(sending.producer.flush())
    await turn()
    assert sending.ledger.contents == [[b"0"]]
    assert not flushing.done()
    sending.ledger.store()
    await flushing
    assert ids(sent) == [(0, 0, 0)]


@in_virtual_time
async def test_closed_producer_takes_nothing_from_the_moment_it_is_being_closed() -> None:
    sending = Sending(Batching(max_delay_ms=10**6))
    sent = sending.send(b"0")
    closing = asyncio.ensure_future(sending.producer.close())
    await turn()
    with pytest.raises(BKLedgerClosedException, match="producer me is closed"):
        sending.send(b"1")
    assert not closing.done()
    sending.ledger.store()
    await closing
    assert ids(sent) == [(0, -1, 0)]


# Rejected messages


def payload_of(size: int, batching: Batching | None) -> bytes:
    """Return a payload whose encoded message has exactly this size."""

    def measured(length: int) -> int:
        message = OutgoingMessage(bytes(length), "", 0, (), 0)
        if batching is None:
            return len(encode_message(message, "me", NOW_MS))
        return len(encode_in_batch(message))

    return bytes(next(n for n in range(size - 100, size) if measured(n) == size))


@pytest.mark.parametrize("batching", [None, Batching(max_delay_ms=1)])
@in_virtual_time
async def test_message_may_have_the_largest_size_but_no_more(batching: Batching | None) -> None:
    sending = Sending(batching)
    with pytest.raises(BKIncorrectParameterException, match=f"at most {LARGEST}"):
        sending.send(payload_of(LARGEST + 1, batching))
    sending.send(payload_of(LARGEST, batching))
    await asyncio.sleep(1)
    assert len(sending.ledger.sizes) == 1
    # The entry also has room for the name, the time and the sequence id.
    assert LARGEST <= sending.ledger.sizes[0] <= MAX_PAYLOAD_SIZE


@in_virtual_time
async def test_message_that_was_rejected_has_no_number() -> None:
    sending = Sending()
    sent = sending.send(b"0")
    with pytest.raises(BKIncorrectParameterException):
        sending.send(bytes(MAX_PAYLOAD_SIZE))
    sent += sending.send(b"1")
    await turn()
    sending.ledger.store()
    await turn()
    assert ids(sent) == [(0, -1, -1), (1, -1, -1)]
    entries = [decode_messages(entry.data, 7, 0, -1)[0] for entry in sending.ledger.entries]
    assert [entry.sequence_id for entry in entries] == [0, 1]
    assert {(entry.publish_time_ms, entry.producer_name) for entry in entries} == {(NOW_MS, "me")}


@pytest.mark.parametrize("name", ["max_messages", "max_bytes", "max_delay_ms"])
def test_batch_of_one_message_one_byte_or_one_millisecond_is_the_smallest(name: str) -> None:
    assert getattr(Batching(**{name: 1}), name) == 1
    with pytest.raises(BKIncorrectParameterException, match=f"{name} is 0; it must be at least 1"):
        Batching(**{name: 0})


def test_batch_may_be_as_large_as_an_entry_and_not_larger() -> None:
    assert Batching(max_bytes=LARGEST).max_bytes == LARGEST
    with pytest.raises(BKIncorrectParameterException, match=f"at most {LARGEST}"):
        Batching(max_bytes=LARGEST + 1)


def test_batches_are_as_pulsars_unless_they_are_asked_for_otherwise() -> None:
    batching = Batching()
    assert (batching.max_messages, batching.max_bytes, batching.max_delay_ms) == (1000, 131_072, 10)


# Partitions


@in_virtual_time
async def test_messages_without_a_key_take_turns_by_as_many_as_fill_a_batch() -> None:
    for batching, turns in ((None, 1), (Batching(max_messages=3, max_delay_ms=1), 3)):
        sending = Sending(batching, partitions=2)
        sending.send(*(b"%d" % number for number in range(4 * turns)))
        await asyncio.sleep(1)
        got = [[p for some in ledger.contents for p in some] for ledger in sending.ledgers]
        for partition in (0, 1):
            expected = [n for n in range(4 * turns) if n // turns % 2 == partition]
            assert got[partition] == [b"%d" % number for number in expected]


@in_virtual_time
async def test_messages_with_a_key_take_no_turn_of_the_others() -> None:
    sending = Sending(partitions=2)
    sending.send(b"0")
    sending.producer.send(b"keyed", key="b")
    sending.producer.send(b"keyed", key="b")
    sending.send(b"1", b"2")
    await turn()
    assert sending.ledgers[0].contents == [[b"0"], [b"keyed"], [b"keyed"], [b"2"]]
    assert sending.ledgers[1].contents == [[b"1"]]


@in_virtual_time
async def test_send_fails_if_its_entry_is_not_confirmed_in_time() -> None:
    sending = Sending()
    [first] = sending.send(b"0")
    await asyncio.sleep(20)
    [second] = sending.send(b"1")
    await asyncio.sleep(9)
    assert not first.done()
    await asyncio.sleep(2)
    with pytest.raises(SendTimeoutError, match=r"within 30 s.*enough bookies"):
        first.result()
    assert not second.done()
    await sending.producer.flush()
    assert isinstance(second.exception(), SendTimeoutError)
