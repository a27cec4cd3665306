"""Producers of a topic that come, go and are dropped, and what waits for the ledger meanwhile."""

import asyncio
from collections.abc import Sequence

import pytest

from labkit.system.model.errors import BKLedgerFencedException, LabkitError
from labkit.system.topic.append_queue import PendingEntry
from labkit.system.topic.producing.publishing import NO_POSITION, ProducerBusyError, ProducerNames
from tests.system.client.memory_store import MemoryStore
from tests.system.topic.ledgers import PlayedLedger
from tests.system.topic.producing.test_deduplication import chunk
from tests.system.topic.producing.test_publishing import Sender, Topic, deduplicated, plain, turns

FENCED = BKLedgerFencedException("fenced")


class SlowLedger(PlayedLedger):
    """Takes entries when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.room = asyncio.Event()

    async def append_entries(self, entries: Sequence[PendingEntry]) -> None:
        await self.room.wait()
        await super().append_entries(entries)


async def is_settled(topic: Topic) -> bool:
    settling = asyncio.ensure_future(topic.publisher.settled())
    await turns()
    is_done = settling.done()
    settling.cancel()
    return is_done


# Waiting for the ledger


async def test_what_is_sent_while_the_ledger_is_full_goes_together_in_the_next_round() -> None:
    ledger = SlowLedger()
    topic = Topic(ledger, None)
    p, q = Sender(topic.publisher, "p"), Sender(topic.publisher, "q")
    p.send(0)
    await turns()
    p.send(1, 2)
    await turns()
    q.send(0)
    assert ledger.batches == []
    ledger.room.set()
    await turns()
    assert ledger.batches == [1, 3]
    ledger.store()
    await turns()
    assert [sequence_id for sequence_id, _ in p.told] == [0, 1, 2]
    p.send(3)
    await turns()
    assert ledger.batches == [1, 3, 1]


async def test_topic_is_not_settled_while_a_send_waits_is_pushed_or_has_no_receipt() -> None:
    ledger = SlowLedger()
    topic = Topic(ledger, None)
    p = Sender(topic.publisher)
    p.send(0)
    assert not await is_settled(topic)
    ledger.room.set()
    assert not await is_settled(topic)
    ledger.store()
    assert await is_settled(topic)
    p.send(1, 2)
    await turns()
    ledger.store(1)
    assert not await is_settled(topic)
    ledger.store()
    assert await is_settled(topic)


async def test_ledger_that_refuses_what_is_pushed_ends_the_topic_once() -> None:
    ledger = SlowLedger()
    topic = Topic(ledger, None)
    p, q = Sender(topic.publisher, "p"), Sender(topic.publisher, "q")
    p.send(0)
    await turns()
    ledger.error = FENCED
    q.send(0)
    ledger.room.set()
    await turns()
    p.send(1)
    await turns()
    assert (topic.failures, p.dropped, q.dropped) == ([FENCED], [FENCED], [FENCED])
    assert ledger.batches == []
    assert await is_settled(topic)


async def test_topic_fails_with_its_first_reason_alone() -> None:
    topic = plain()
    p = Sender(topic.publisher)
    first, second = LabkitError("first"), LabkitError("second")
    topic.publisher.fail(first)
    topic.publisher.fail(second)
    assert (topic.failures, p.dropped) == ([first], [first])
    assert not topic.publisher.takes_sends


async def test_duplicate_alone_is_answered_though_nothing_is_pushed() -> None:
    topic = await deduplicated()
    p = Sender(topic.publisher)
    p.send(0)
    await turns()
    topic.ledger.store()
    await turns()
    p.send(0)
    await turns()
    assert p.told[1:] == [(0, NO_POSITION)]
    assert topic.ledger.batches == [1]
    assert await is_settled(topic)


def test_place_of_a_duplicate_is_minus_1_and_minus_1() -> None:
    assert NO_POSITION == (-1, -1)


async def test_receipts_of_a_turn_come_together_and_only_to_those_who_have_some() -> None:
    topic = plain()
    p, q = Sender(topic.publisher, "p"), Sender(topic.publisher, "q")
    p.send(0, 1)
    q.send(0)
    await turns()
    topic.ledger.store(1)
    await turns()
    assert ([len(turn) for turn in p.turns], q.turns) == ([1], [])
    topic.ledger.store()
    await turns()
    assert ([len(turn) for turn in p.turns], [len(turn) for turn in q.turns]) == ([1, 1], [1])


# Names


async def test_producer_that_left_before_does_not_take_the_name_from_the_next_one() -> None:
    topic = plain()
    first = Sender(topic.publisher)
    first.producer.detach()
    second = Sender(topic.publisher)
    first.producer.detach()
    first.producer.drop(FENCED)
    with pytest.raises(ProducerBusyError):
        Sender(topic.publisher)
    topic.publisher.fail(FENCED)
    assert (first.dropped, second.dropped) == ([], [FENCED])


async def test_dropped_producer_hears_it_once_frees_its_name_and_sends_nothing_more() -> None:
    topic = plain()
    p = Sender(topic.publisher)
    p.producer.drop(FENCED)
    p.producer.drop(FENCED)
    assert p.dropped == [FENCED]
    assert not p.producer.is_attached
    p.send(0)
    await turns()
    assert topic.ledger.batches == []
    Sender(topic.publisher)


async def test_without_deduplication_a_producer_begins_at_its_beginning() -> None:
    topic = plain()
    p = Sender(topic.publisher)
    p.send(0, 1)
    await turns()
    topic.ledger.store()
    await turns()
    assert p.producer.last_sequence_id == -1
    # And what it sends again is stored again.
    p.send(0)
    await turns()
    topic.ledger.store()
    await turns()
    assert p.told == [(0, (7, 0)), (1, (7, 1)), (0, (7, 2))]


async def test_message_of_many_chunks_is_a_mark_when_its_last_chunk_is_stored() -> None:
    topic = await deduplicated()
    p = Sender(topic.publisher)
    for number in range(3):
        p.producer.send(5, 0, chunk(5, number, of=3), is_chunk=True)
    await turns()
    marks = topic.publisher.deduplication
    assert marks is not None
    topic.ledger.store(2)
    await turns()
    marks.snapshot()
    assert topic.ledger.cursor.properties == {}
    topic.ledger.store()
    await turns()
    marks.snapshot()
    assert topic.ledger.cursor.properties == {"p": 5}


async def test_names_of_a_broker_are_numbered_and_need_one_node() -> None:
    store = MemoryStore()
    for broker in range(2):
        names = ProducerNames(store)
        assert [await names.new() for _ in range(3)] == [
            f"labkit-{broker}-{number}" for number in range(3)
        ]
    assert len(store.tree.children("/counters/producer-name", None)) == 2
