"""Topics on a real cluster: ids, order, rollovers, batches, consumers."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import pytest
import pytest_asyncio

from labkit.client.bookkeeper import BookKeeper
from labkit.client.writer import MAX_PAYLOAD_SIZE
from labkit.live.cluster import LocalCluster
from labkit.metadata.store import BadVersionError
from labkit.model.errors import (
    BKDigestMatchException,
    BKIncorrectParameterException,
    BKLedgerClosedException,
    BKNotEnoughBookiesException,
)
from labkit.model.message_id import MessageId
from labkit.topic.consumer import Consumer
from labkit.topic.managed_ledger import (
    LedgerInfo,
    LedgerLeftOpenError,
    ManagedLedgerConfig,
    decode_chain,
    rollover_reason,
)
from labkit.topic.messages import Message
from labkit.topic.names import managed_ledger_path
from labkit.topic.producer import Batching, Producer, java_string_hash
from labkit.topic.topic import NoTopicError, Topic, TopicExistsError, partition_count

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = (f"topic-{number}" for number in count())
HOUR_MS = 3_600_000


class Clock:
    """A wall clock that the test moves."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture(loop_scope="module")
async def owner(client: BookKeeper, clock: Clock) -> BookKeeper:
    """The client, with a clock that the test moves."""
    client.wall_clock_ms = clock
    return client


@pytest.fixture
def name() -> str:
    """A topic that no other test uses."""
    return next(NAMES)


@pytest_asyncio.fixture(loop_scope="module")
async def topic(owner: BookKeeper, name: str) -> AsyncIterator[Topic]:
    """A topic without partitions, of five entries to a ledger."""
    topic = await Topic.create(
        owner, name, partitions=0, config=ManagedLedgerConfig(max_entries_per_ledger=5)
    )
    yield topic
    await topic.close()


async def send_all(producer: Producer, payloads: list[bytes]) -> list[MessageId]:
    futures = [producer.send(payload) for payload in payloads]
    await producer.flush()
    return [future.result() for future in futures]


async def receive_all(consumer: Consumer, at_once: int = 1000) -> list[Message]:
    messages: list[Message] = []
    while received := await consumer.receive(at_once):
        messages += received
    return messages


def numbered(first: int, last: int) -> list[bytes]:
    return [b"message %d" % number for number in range(first, last)]


async def test_message_alone_on_a_topic_without_partitions_has_two_minus_ones(
    topic: Topic,
) -> None:
    message_id = await topic.producer().send(b"x")
    assert (message_id.entry_id, message_id.partition, message_id.batch_index) == (0, -1, -1)
    (message,) = await topic.consumer().receive()
    assert (message.message_id, message.payload) == (message_id, b"x")


async def test_batch_of_one_has_batch_index_0(topic: Topic) -> None:
    message_id = await topic.producer(batching=Batching(max_delay_ms=1)).send(b"x")
    assert message_id.batch_index == 0
    (message,) = await topic.consumer().receive()
    assert message.message_id == message_id


async def test_producer_and_consumer_name_each_message_alike(owner: BookKeeper, name: str) -> None:
    topic = await Topic.create(owner, name, partitions=3)
    producer = topic.producer("me", batching=Batching(max_messages=4))
    sent = [producer.send(b"%d" % n, key=f"k{n}", properties={"n": str(n)}) for n in range(50)]
    await producer.close()
    by_id = {future.result(): n for n, future in enumerate(sent)}
    assert len(by_id) == 50
    messages = await receive_all(topic.consumer())
    assert {message.message_id: int(message.payload) for message in messages} == by_id
    assert all(message.properties == {"n": message.payload.decode()} for message in messages)
    assert {message.producer_name for message in messages} == {"me"}
    await topic.close()


async def test_key_names_the_partition_by_its_java_hash(owner: BookKeeper, name: str) -> None:
    topic = await Topic.create(owner, name, partitions=4)
    producer = topic.producer()
    for key in ("JFK", "LGA", "EWR", "polygenelubricants"):
        message_id = await producer.send(b"x", key=key)
        assert message_id.partition == java_string_hash(key) % 4
    await topic.close()


async def test_messages_without_a_key_take_turns_batch_by_batch(
    owner: BookKeeper, name: str
) -> None:
    topic = await Topic.create(owner, name, partitions=2)
    ids = await send_all(topic.producer(), numbered(0, 4))
    assert [message_id.partition for message_id in ids] == [0, 1, 0, 1]
    ids = await send_all(topic.producer(batching=Batching(max_messages=3)), numbered(0, 8))
    assert [message_id.partition for message_id in ids] == [0, 0, 0, 1, 1, 1, 0, 0]
    await topic.close()


async def test_entries_of_a_partition_are_stored_in_the_order_of_sending(
    owner: BookKeeper, name: str
) -> None:
    topic = await Topic.create(
        owner, name, partitions=2, config=ManagedLedgerConfig(max_entries_per_ledger=7)
    )
    producers = [topic.producer("a"), topic.producer("b", batching=Batching(max_messages=2))]
    sent = [producer.send(b"%d" % n, key="one") for n in range(40) for producer in producers]
    await asyncio.gather(*(producer.flush() for producer in producers))
    ids = [future.result() for future in sent]
    for which in (0, 1):
        own = ids[which::2]
        assert own == sorted(own)
    messages = await receive_all(topic.consumer())
    for which in ("a", "b"):
        payloads = [int(each.payload) for each in messages if each.producer_name == which]
        assert payloads == list(range(40))
    found = [message.message_id for message in messages]
    assert found == sorted(found)
    await topic.close()


async def test_full_ledger_is_closed_and_the_next_has_a_greater_id(topic: Topic) -> None:
    ids = await send_all(topic.producer(), numbered(0, 12))
    ledgers = sorted({message_id.ledger_id for message_id in ids})
    assert [(ledgers.index(i.ledger_id), i.entry_id) for i in ids] == [
        (number // 5, number % 5) for number in range(12)
    ]
    chain = await topic.ledgers()
    assert [(link.ledger_id, link.entry_count) for link in chain] == [
        (ledgers[0], 5),
        (ledgers[1], 5),
        (ledgers[2], 0),
    ]
    messages = await receive_all(topic.consumer())
    assert [message.payload for message in messages] == numbered(0, 12)
    assert [message.message_id for message in messages] == ids


async def test_old_ledger_is_closed_at_the_next_message(
    owner: BookKeeper, clock: Clock, name: str
) -> None:
    config = ManagedLedgerConfig(max_ledger_age_ms=HOUR_MS)
    topic = await Topic.create(owner, name, partitions=0, config=config)
    producer = topic.producer()
    first = await producer.send(b"0")
    clock.now_ms += HOUR_MS - 1
    second = await producer.send(b"1")
    clock.now_ms += 1
    third = await producer.send(b"2")
    assert first.ledger_id == second.ledger_id < third.ledger_id
    assert (await topic.ledgers())[0] == LedgerInfo(
        first.ledger_id, 2, (await owner.ledger_metadata(first.ledger_id)).length, clock.now_ms
    )
    await topic.close()


@pytest.mark.parametrize(
    ("entry_count", "age_ms", "reason"),
    [
        (10, 99, ""),
        (9, 100, ""),
        (10, 100, "10 entries"),
        (9, 1000, "1000 ms old"),
        (0, 1000, ""),
    ],
)
async def test_ledger_is_full_by_entries_or_age_but_never_before_its_minimum_age(
    entry_count: int, age_ms: int, reason: str
) -> None:
    config = ManagedLedgerConfig(
        max_entries_per_ledger=10, max_ledger_age_ms=1000, min_ledger_age_ms=100
    )
    assert rollover_reason(entry_count, age_ms, config) == reason


async def test_chain_is_kept_as_pulsar_keeps_it(
    owner: BookKeeper, clock: Clock, topic: Topic
) -> None:
    ids = await send_all(topic.producer(), numbered(0, 6))
    path = managed_ledger_path(topic.name)
    data, _ = await owner.store.get(path)
    closed, opened = decode_chain(data)
    length = (await owner.ledger_metadata(closed.ledger_id)).length
    assert closed == LedgerInfo(ids[0].ledger_id, 5, length, clock.now_ms)
    # The open one: field 1 ledgerId, field 4 timestamp 0; neither entries nor size.
    tail = bytes([0x0A, 4, 0x08, opened.ledger_id, 0x20, 0])
    assert opened.ledger_id < 128
    assert data.endswith(tail)
    metadata = await owner.ledger_metadata(closed.ledger_id)
    assert metadata.custom_metadata == (
        ("application", b"pulsar"),
        ("component", b"managed-ledger"),
        ("pulsar/managed-ledger", topic.name.encode()),
    )
    assert metadata.password == b""


async def test_batch_is_stored_when_it_has_so_many_messages(topic: Topic) -> None:
    producer = topic.producer(batching=Batching(max_messages=3, max_delay_ms=HOUR_MS))
    sent = [producer.send(b"x") for _ in range(4)]
    ids = [await future for future in sent[:3]]
    assert [(i.entry_id, i.batch_index) for i in ids] == [(0, 0), (0, 1), (0, 2)]
    assert not sent[3].done()
    await producer.flush()
    assert (sent[3].result().entry_id, sent[3].result().batch_index) == (1, 0)


async def test_batch_is_stored_when_it_has_so_many_bytes(topic: Topic) -> None:
    producer = topic.producer(batching=Batching(max_bytes=1000, max_delay_ms=HOUR_MS))
    ids = await send_all(producer, [bytes(size) for size in (400, 400, 400, 2000, 1)])
    assert [(i.entry_id, i.batch_index) for i in ids] == [(0, 0), (0, 1), (1, 0), (2, 0), (3, 0)]


async def test_keys_and_properties_count_to_the_bytes_of_a_batch(topic: Topic) -> None:
    producer = topic.producer(batching=Batching(max_delay_ms=HOUR_MS))
    long = {"why": "x" * 60_000}
    sent = [producer.send(b"", properties=long) for _ in range(100)]
    await producer.flush()
    assert [future.result().batch_index for future in sent] == [0, 1] * 50


async def test_batch_is_stored_when_its_time_is_up(topic: Topic) -> None:
    producer = topic.producer(batching=Batching(max_delay_ms=1))
    ids = await asyncio.gather(producer.send(b"0"), producer.send(b"1"))
    assert [(i.entry_id, i.batch_index) for i in ids] == [(0, 0), (0, 1)]


async def test_message_that_cannot_be_encoded_fails_alone(topic: Topic) -> None:
    producer = topic.producer(batching=Batching(max_delay_ms=HOUR_MS))
    first = producer.send(b"0")
    with pytest.raises(ValueError, match="-1"):
        producer.send(b"x", event_time_ms=-1)
    second = producer.send(b"1")
    await producer.flush()
    assert (first.result().batch_index, second.result().batch_index) == (0, 1)
    messages = await topic.consumer().receive()
    assert [message.sequence_id for message in messages] == [0, 1]


@pytest.mark.parametrize("batching", [None, Batching(max_delay_ms=HOUR_MS)])
async def test_message_that_fits_into_no_entry_is_refused_at_once(
    topic: Topic, batching: Batching | None
) -> None:
    producer = topic.producer(batching=batching)
    with pytest.raises(BKIncorrectParameterException, match="fit into an entry"):
        producer.send(bytes(MAX_PAYLOAD_SIZE))
    with pytest.raises(BKIncorrectParameterException, match="fit into an entry"):
        producer.send(b"", properties={"x": "y" * MAX_PAYLOAD_SIZE})
    largest = producer.send(bytes(MAX_PAYLOAD_SIZE - 1100))
    await producer.flush()
    assert largest.result().entry_id == 0


@pytest.mark.parametrize(
    "given",
    [{"max_messages": 0}, {"max_bytes": -1}, {"max_delay_ms": 0}, {"max_bytes": MAX_PAYLOAD_SIZE}],
)
async def test_batching_out_of_range_is_refused_with_the_limit(given: dict[str, int]) -> None:
    with pytest.raises(BKIncorrectParameterException, match=r"at least 1|at most \d+ fit"):
        Batching(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"max_entries_per_ledger": 0},
        {"max_ledger_age_ms": -1},
        {"min_ledger_age_ms": -1},
        {"ensemble_size": 2},
        {"ack_quorum": 0},
    ],
)
async def test_ledger_settings_out_of_range_are_refused(given: dict[str, int]) -> None:
    with pytest.raises(BKIncorrectParameterException):
        ManagedLedgerConfig(**given)


async def test_closed_producer_takes_no_more_and_has_stored_all(topic: Topic) -> None:
    producer = topic.producer(batching=Batching(max_delay_ms=HOUR_MS))
    sent = producer.send(b"x")
    await producer.close()
    assert sent.done()
    with pytest.raises(BKLedgerClosedException, match="is closed"):
        producer.send(b"late")


async def test_batch_that_comes_due_after_the_topic_was_closed_opens_no_ledger(
    owner: BookKeeper, name: str
) -> None:
    topic = await Topic.create(owner, name, partitions=0)
    await topic.producer().send(b"stored")
    late = topic.producer(batching=Batching(max_delay_ms=1)).send(b"late")
    await topic.close()
    with pytest.raises(BKLedgerClosedException, match="open the topic again"):
        await late
    again = await Topic.create(owner, name, partitions=0)
    assert [message.payload for message in await receive_all(again.consumer())] == [b"stored"]


async def test_topic_opened_again_goes_on_in_a_new_ledger_with_a_greater_id(
    owner: BookKeeper, name: str
) -> None:
    ids = []
    for number in range(3):
        topic = await Topic.create(owner, name, partitions=1)
        ids.append(await topic.producer().send(b"%d" % number))
        await topic.close()
    assert ids == sorted(ids)
    assert len({message_id.ledger_id for message_id in ids}) == 3
    assert {message_id.entry_id for message_id in ids} == {0}
    topic = await Topic.create(owner, name, partitions=1)
    assert [int(message.payload) for message in await receive_all(topic.consumer())] == [0, 1, 2]


async def test_topic_that_was_left_open_is_not_written_by_another(
    owner: BookKeeper, topic: Topic, name: str
) -> None:
    message_id = await topic.producer().send(b"x")
    with pytest.raises(
        LedgerLeftOpenError, match=f"its last ledger {message_id.ledger_id} is OPEN"
    ):
        await Topic.create(owner, name, partitions=0)


async def test_owner_that_was_overtaken_cannot_extend_the_chain(
    owner: BookKeeper, name: str
) -> None:
    old = await Topic.create(owner, name, partitions=0)
    new = await Topic.create(owner, name, partitions=0)
    await new.producer().send(b"new")
    for _ in range(2):
        with pytest.raises((BadVersionError, Exception), match="managed-ledgers"):
            await old.producer().send(b"old")
    await old.close()
    assert len(await new.ledgers()) == 1
    assert [message.payload for message in await receive_all(new.consumer())] == [b"new"]
    await new.close()


async def test_topic_exists_with_one_number_of_partitions(owner: BookKeeper, name: str) -> None:
    await Topic.create(owner, name, partitions=2)
    assert await partition_count(owner, name) == 2
    with pytest.raises(TopicExistsError, match="exists with 2 partitions, not 3"):
        await Topic.create(owner, name, partitions=3)
    with pytest.raises(NoTopicError, match="no partitioned topic"):
        await partition_count(owner, "nowhere")
    with pytest.raises(BKIncorrectParameterException, match="-1 partitions"):
        await Topic.create(owner, name, partitions=-1)


async def test_partition_that_is_not_there_is_named_with_those_that_are(
    owner: BookKeeper, name: str
) -> None:
    topic = await Topic.create(owner, name, partitions=2)
    with pytest.raises(BKIncorrectParameterException, match=r"no partition 2; it has 0, 1"):
        await topic.ledgers(2)
    with pytest.raises(BKIncorrectParameterException, match=r"no partition -1; it has 0, 1"):
        topic.consumer(after=MessageId(1, 1))
    with pytest.raises(BKIncorrectParameterException, match="max_messages is 0"):
        await topic.consumer().receive(0)


async def test_consumer_gets_what_the_writer_has_just_confirmed(topic: Topic) -> None:
    producer, consumer = topic.producer(), topic.consumer()
    assert await consumer.receive() == []
    for number in range(12):
        await producer.send(b"%d" % number)
        received = await consumer.receive()
        assert [message.payload for message in received] == [b"%d" % number]
    assert await consumer.receive() == []


async def test_consumer_reads_everything_while_it_is_being_written(topic: Topic) -> None:
    producer = topic.producer(batching=Batching(max_messages=3, max_delay_ms=1))
    consumer = topic.consumer()

    async def publish() -> None:
        for number in range(60):
            await asyncio.sleep(0)
            await producer.send(b"%d" % number) if number % 7 == 0 else producer.send(
                b"%d" % number
            )
        await producer.close()

    publishing = asyncio.create_task(publish())
    payloads: list[int] = []
    while len(payloads) < 60:
        payloads += [int(message.payload) for message in await consumer.receive(10)]
    await publishing
    assert payloads == list(range(60))


@pytest.mark.parametrize("at_once", [1, 2, 7, 100])
@pytest.mark.parametrize("batching", [None, Batching(max_messages=3)])
async def test_consumer_resumes_behind_any_message(
    topic: Topic, batching: Batching | None, at_once: int
) -> None:
    ids = await send_all(topic.producer(batching=batching), numbered(0, 20))
    for number, message_id in enumerate(ids):
        rest = await receive_all(topic.consumer(after=message_id), at_once)
        assert [message.payload for message in rest] == numbered(number + 1, 20)


async def test_other_partitions_are_read_from_their_start(owner: BookKeeper, name: str) -> None:
    topic = await Topic.create(owner, name, partitions=2)
    ids = await send_all(topic.producer(), numbered(0, 6))
    messages = await receive_all(topic.consumer(after=ids[2]))
    assert sorted(message.payload for message in messages) == [
        b"message 1",
        b"message 3",
        b"message 4",
        b"message 5",
    ]
    await topic.close()


async def test_damaged_entry_is_reported_and_what_lies_before_it_is_not_lost(
    topic: Topic,
) -> None:
    producer = topic.producer()
    before = await send_all(producer, numbered(0, 2))
    ledger = topic._partitions[0].ledger
    _, stored = await ledger.append(b"\x0e\x01 no message of a producer")
    await stored
    after = await producer.send(b"after")
    consumer = topic.consumer()
    for _ in range(2):
        received = await consumer.receive()
        assert [message.message_id for message in received] == before
        for _ in range(2):
            with pytest.raises(BKDigestMatchException, match="entry 2 of ledger"):
                await consumer.receive()
        consumer = topic.consumer()
    behind = MessageId(before[0].ledger_id, 2)
    received = await topic.consumer(after=behind).receive()
    assert [message.message_id for message in received] == [after]


async def test_cancelled_receive_loses_no_message(topic: Topic) -> None:
    await send_all(topic.producer(), numbered(0, 12))
    consumer = topic.consumer()
    for turns in range(40):
        receiving = asyncio.create_task(consumer.receive())
        for _ in range(turns):
            await asyncio.sleep(0)
        if receiving.done():
            break
        receiving.cancel()
        await asyncio.wait((receiving,))
    received = receiving.result() if not receiving.cancelled() else await consumer.receive()
    assert [message.payload for message in received] == numbered(0, 12)


async def test_message_fails_when_no_ledger_can_be_made_and_later_ones_go_on(
    cluster: LocalCluster, owner: BookKeeper, name: str
) -> None:
    config = ManagedLedgerConfig(ensemble_size=5, write_quorum=2, ack_quorum=1)
    topic = await Topic.create(owner, name, partitions=0, config=config)
    session = owner.store
    await cluster.kill("bookie-5")
    await session.delete("/ledgers/available/bookie-5")
    producer = topic.producer(batching=Batching(max_messages=2))
    futures = [producer.send(b"lost") for _ in range(2)]
    await producer.flush()
    for future in futures:
        with pytest.raises(BKNotEnoughBookiesException, match="5 bookies is wanted, 4 take writes"):
            future.result()
    await cluster.restart("bookie-5")
    ids = await send_all(producer, [b"a", b"b"])
    assert [(i.entry_id, i.batch_index) for i in ids] == [(0, 0), (0, 1)]
    await topic.close()
