"""Tests for publishing: the order of receipts, and that everything stops at the first failure."""

import asyncio
from collections.abc import Sequence

import pytest

from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import BKLedgerFencedException, LabkitError
from labkit.system.topic.append_queue import PendingEntry
from labkit.system.topic.chain.ledger_chain import NOWHERE, Position
from labkit.system.topic.producing.deduplication import Deduplication
from labkit.system.topic.producing.publishing import (
    AttachedProducer,
    ProducerBusyError,
    ProducerNames,
    Send,
    TopicPublisher,
)
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from tests.system.topic.ledgers import NAME, PlayedLedger
from tests.system.topic.producing.test_deduplication import chunk, message
from tests.worlds.sim.metadata_world import MetadataWorld, in_metadata_world

FENCED = BKLedgerFencedException("fenced")


class Sender:
    """A producer's client that records the responses it receives."""

    def __init__(self, publisher: TopicPublisher, name: str = "p") -> None:
        self.name = name
        self.turns: list[list[Send]] = []
        self.drop_count = 0
        self.producer: AttachedProducer = publisher.attach(
            name, lambda stored: self.turns.append(list(stored)), self._on_dropped
        )

    def _on_dropped(self) -> None:
        self.drop_count += 1

    def send(self, *sequence_ids: int) -> None:
        for sequence_id in sequence_ids:
            self.producer.send(sequence_id, 0, message(sequence_id, self.name))

    @property
    def told(self) -> list[tuple[int, Position]]:
        return [(send.sequence_id, send.position) for turn in self.turns for send in turn]


class Topic:
    """A publisher on a scripted ledger."""

    def __init__(self, ledger: PlayedLedger, deduplication: Deduplication | None) -> None:
        self.ledger = ledger
        self.rows: list[Event] = []
        recorder = Recorder("broker", lambda: 0)
        recorder.listen(self.rows.extend)
        self.failures: list[LabkitError] = []
        self.publisher = TopicPublisher(ledger.real, deduplication, recorder, self.failures.append)


def plain() -> Topic:
    return Topic(PlayedLedger(), None)


async def deduplicated(ledger: PlayedLedger | None = None) -> Topic:
    ledger = ledger or PlayedLedger()
    marks = await Deduplication.open(ledger.real, Recorder("broker", lambda: 0))
    return Topic(ledger, marks)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_is_sent_in_a_turn_is_pushed_together_and_answered_together() -> None:
    topic = plain()
    p, q = Sender(topic.publisher, "p"), Sender(topic.publisher, "q")
    p.send(0, 1)
    q.send(0)
    p.send(2)
    await turns()
    assert topic.ledger.batches == [4]
    topic.ledger.store()
    await turns()
    assert [len(turn) for turn in p.turns] == [3]
    assert p.told == [(0, (7, 0)), (1, (7, 1)), (2, (7, 3))]
    assert q.told == [(0, (7, 2))]


async def test_receipt_names_first_and_last_message_and_the_bytes() -> None:
    topic = plain()
    p = Sender(topic.publisher)
    p.producer.send(10, 19, b"batch", message_count=10)
    p.producer.send(20, 0, b"one")
    await turns()
    topic.ledger.store()
    await turns()
    [receipts] = p.turns
    assert [
        (each.sequence_id, each.highest_sequence_id, each.position, len(each.data))
        for each in receipts
    ] == [(10, 19, (7, 0), 5), (20, 20, (7, 1), 3)]
    assert [(r.kind, r.ledger, r.entry, r.size, r.topic) for r in topic.rows] == [
        ("batch.stored", 7, 0, 10, NAME),
        ("batch.stored", 7, 1, 1, NAME),
    ]


async def test_two_producers_of_one_name_are_one_too_many() -> None:
    topic = plain()
    p = Sender(topic.publisher)
    with pytest.raises(ProducerBusyError, match="producer p is already connected"):
        Sender(topic.publisher)
    p.producer.detach()
    Sender(topic.publisher)


# Deduplication


async def test_duplicate_gets_a_receipt_without_a_place_and_no_entry() -> None:
    topic = await deduplicated()
    p = Sender(topic.publisher)
    p.send(0, 1)
    await turns()
    topic.ledger.store()
    await turns()
    p.producer.detach()
    again = Sender(topic.publisher)
    assert again.producer.last_sequence_id == 1
    again.send(0, 1, 2)
    await turns()
    topic.ledger.store()
    await turns()
    assert again.told == [(0, (-1, -1)), (1, (-1, -1)), (2, (7, 2))]
    assert len(topic.ledger.entries) == 3


async def test_receipt_of_a_duplicate_does_not_overtake() -> None:
    topic = await deduplicated()
    p = Sender(topic.publisher)
    p.send(0)
    await turns()
    topic.ledger.store()
    await turns()
    p.send(1, 0)
    await turns()
    assert p.told == [(0, (7, 0))]
    topic.ledger.store()
    await turns()
    assert p.told == [(0, (7, 0)), (1, (7, 1)), (0, NOWHERE)]


async def test_message_under_way_from_an_earlier_connection_drops_the_producer_alone() -> None:
    """If a later message were accepted, the doubtful one would become a duplicate of it."""
    topic = await deduplicated()
    first, q = Sender(topic.publisher), Sender(topic.publisher, "q")
    first.send(0)
    await turns()
    first.producer.detach()
    again = Sender(topic.publisher)
    again.send(0, 1)
    q.send(0)
    await turns()
    assert again.drop_count == 1
    assert topic.ledger.batches == [1, 1]
    topic.ledger.store()
    await turns()
    assert (first.told, again.told, q.told) == ([], [], [(0, (7, 1))])
    once_more = Sender(topic.publisher)
    once_more.send(0, 1)
    await turns()
    assert once_more.told == [(0, NOWHERE)]
    assert topic.failures == []


# Failures


@pytest.mark.promise("After the first failure, no later message is stored")
async def test_first_failure_drops_all_producers_and_nothing_later_is_stored() -> None:
    topic = await deduplicated()
    p, q = Sender(topic.publisher), Sender(topic.publisher, "q")
    p.send(0, 1)
    q.send(0)
    await turns()
    topic.ledger.store(1)
    topic.ledger.abandon(FENCED)
    p.send(2)
    await turns()
    p.send(3)
    await turns()
    assert p.told == [(0, (7, 0))]
    assert (p.drop_count, q.drop_count, topic.failures) == (1, 1, [FENCED])
    assert topic.ledger.batches == [3]
    assert len(topic.ledger.entries) == 1


async def test_next_owner_takes_what_failed_here_for_new() -> None:
    topic = await deduplicated()
    p = Sender(topic.publisher)
    p.send(0, 1, 2)
    await turns()
    topic.ledger.store(1)
    topic.ledger.abandon(FENCED)
    await turns()
    topic.ledger.error = None
    after = await deduplicated(topic.ledger)
    p = Sender(after.publisher)
    assert p.producer.last_sequence_id == 0
    p.send(1, 2)
    await turns()
    after.ledger.store()
    await turns()
    assert p.told == [(1, (7, 1)), (2, (7, 2))]


async def test_lost_session_ends_it_too_and_what_is_stored_is_reported_before() -> None:
    topic = plain()
    p = Sender(topic.publisher)
    p.send(0, 1)
    await turns()
    topic.ledger.store(1)
    await asyncio.sleep(0)
    lost = MetadataUnavailableError("lost")
    topic.publisher.fail(lost)
    topic.ledger.store()
    await turns()
    assert p.told == [(0, (7, 0))]
    assert (p.drop_count, topic.failures) == (1, [lost])


async def test_producer_that_has_left_gets_no_receipts_and_its_messages_are_stored() -> None:
    topic = await deduplicated()
    p = Sender(topic.publisher)
    p.send(0, 1)
    p.producer.detach()
    p.send(2)
    await turns()
    topic.ledger.store()
    await turns()
    assert (p.turns, p.drop_count) == ([], 0)
    assert len(topic.ledger.entries) == 2
    assert Sender(topic.publisher).producer.last_sequence_id == 1


async def test_a_failed_publisher_reports_nothing_more_as_stored() -> None:
    """By then, the next owner may have reported later entries."""
    topic = plain()
    p = Sender(topic.publisher)
    p.send(0)
    await turns()
    topic.publisher.fail(FENCED)
    topic.ledger.store()
    await turns()
    assert (topic.rows, p.told) == ([], [])


@pytest.mark.parametrize("drops", [False, True])
async def test_deduplication_learns_when_a_producer_comes_and_goes(
    monkeypatch: pytest.MonkeyPatch, drops: bool
) -> None:
    topic = await deduplicated()
    marks, told = topic.publisher.deduplication, []
    monkeypatch.setattr(marks, "producer_attached", lambda name: told.append(f"{name} came"))
    monkeypatch.setattr(marks, "producer_detached", lambda name: told.append(f"{name} went"))
    sender = Sender(topic.publisher)
    if drops:
        topic.publisher.fail(FENCED)
    else:
        topic.publisher.remove(sender.producer)
    assert told == ["p came", "p went"]


# Producers that connect and disconnect, and a ledger that makes them wait


class SlowLedger(PlayedLedger):
    """A ledger that accepts entries only when `room` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.room = asyncio.Event()

    async def append_entries(self, entries: Sequence[PendingEntry]) -> None:
        await self.room.wait()
        await super().append_entries(entries)


async def is_settled(topic: Topic) -> bool:
    settling = asyncio.ensure_future(topic.publisher.wait_until_settled())
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
    assert (topic.failures, p.drop_count, q.drop_count) == ([FENCED], 1, 1)
    assert ledger.batches == []
    assert await is_settled(topic)


async def test_topic_fails_with_its_first_reason_alone() -> None:
    topic = plain()
    p = Sender(topic.publisher)
    first, second = LabkitError("first"), LabkitError("second")
    topic.publisher.fail(first)
    topic.publisher.fail(second)
    assert (topic.failures, p.drop_count) == ([first], 1)
    assert not topic.publisher.accepts_sends


# Names


async def test_producer_that_left_before_does_not_take_the_name_from_the_next_one() -> None:
    topic = plain()
    first = Sender(topic.publisher)
    first.producer.detach()
    second = Sender(topic.publisher)
    first.producer.detach()
    first.producer.drop()
    with pytest.raises(ProducerBusyError):
        Sender(topic.publisher)
    topic.publisher.fail(FENCED)
    assert (first.drop_count, second.drop_count) == (0, 1)


async def test_dropped_producer_hears_it_once_frees_its_name_and_sends_nothing_more() -> None:
    topic = plain()
    p = Sender(topic.publisher)
    p.producer.drop()
    p.producer.drop()
    assert p.drop_count == 1
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
    # If the producer sends the message again, it is stored again.
    p.send(0)
    await turns()
    topic.ledger.store()
    await turns()
    assert p.told == [(0, (7, 0)), (1, (7, 1)), (0, (7, 2))]


async def test_message_of_many_chunks_is_a_mark_when_its_last_chunk_is_stored() -> None:
    topic = await deduplicated()
    p = Sender(topic.publisher)
    for number in range(3):
        p.producer.send(5, 0, chunk(5, number, of=3), completes=number == 2)
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
    assert p.told == [(5, (7, number)) for number in range(3)]


# Names for producers without one


@in_metadata_world()
async def test_names_for_producers_without_one_never_come_again(world: MetadataWorld) -> None:
    names: list[str] = []
    for node in ("a", "b"):
        maker = ProducerNames(await world.session(node))
        names += [await maker.new(), await maker.new()]
    world.crash("a")
    names.append(await ProducerNames(await world.session("a")).new())
    assert names == [f"labkit-{name}" for name in ("0-0", "0-1", "1-0", "1-1", "2-0")]


@in_metadata_world()
async def test_the_node_of_a_brokers_names_goes_with_its_session(world: MetadataWorld) -> None:
    b = await world.session("b")
    assert (await ProducerNames(await world.session("a")).new()).endswith("-0")
    folder = "/counters/producer-name"
    assert len(await b.children(folder)) == 1
    world.crash("a")
    await asyncio.sleep(world.session_timeout_s + 1)
    assert await b.children(folder) == []
