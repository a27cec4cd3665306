"""Topics, producers and consumers in the simulated world, in virtual time."""

import asyncio

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKLedgerClosedException,
    LabkitError,
)
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.consumer import PartitionConsumer
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import NoTopicError, Topic, TopicExistsError, partition_count
from tests.system.topic.simulated import SMALL, tell
from tests.system.topic.support import HOUR_MS, numbered, receive_all, send_all

SLOW = Batching(max_delay_ms=HOUR_MS)


async def created(
    client: BookKeeper, partitions: int = 0, config: ManagedLedgerConfig = SMALL
) -> Topic:
    return await Topic.create(client, "t", partitions=partitions, config=config)


def test_messages_come_back_in_order_with_the_ids_that_the_producer_got() -> None:
    async def story(client: BookKeeper) -> None:
        topic = await created(client)
        ids = await send_all(topic.producer(), numbered(0, 12))
        assert [(i.entry_id, i.partition, i.batch_index) for i in ids] == [
            (n % 5, -1, -1) for n in range(12)
        ]
        received = await receive_all(topic.consumer(), 5)
        assert [message.payload for message in received] == numbered(0, 12)
        assert [message.message_id for message in received] == ids
        assert [message.sequence_id for message in received] == list(range(12))
        await topic.close()

    tell(story)


def test_consumer_begins_behind_a_message_and_never_gives_one_twice() -> None:
    async def story(client: BookKeeper) -> None:
        topic = await created(client)
        producer = topic.producer(batching=Batching(max_messages=3, max_delay_ms=HOUR_MS))
        ids = await send_all(producer, numbered(0, 9))
        single = await topic.producer("single").send(b"single")
        for at, after in enumerate(ids):
            consumer = topic.consumer(after=after)
            got = [m.payload for m in await receive_all(consumer, 2)]
            assert got == [*numbered(at + 1, 9), b"single"]
        behind = topic.consumer(after=single)
        assert await behind.receive() == []
        await topic.producer("late").send(b"late")
        assert [m.payload for m in await behind.receive()] == [b"late"]
        assert await behind.receive() == []
        await topic.close()

    tell(story)


def test_consumer_gets_what_its_owner_has_just_confirmed_and_no_more_than_it_wants() -> None:
    async def story(client: BookKeeper) -> None:
        topic = await created(client)
        producer, consumer = topic.producer(), topic.consumer()
        assert await consumer.receive() == []
        for number in range(7):
            await producer.send(b"%d" % number)
            assert [m.payload for m in await consumer.receive()] == [b"%d" % number]
        batches = topic.producer("batches", batching=SLOW)
        await send_all(batches, numbered(0, 4))
        assert [m.payload for m in await consumer.receive(3)] == numbered(0, 3)
        assert [m.payload for m in await consumer.receive(3)] == numbered(3, 4)
        with pytest.raises(BKIncorrectParameterException, match="at least 1"):
            await consumer.receive(0)
        await topic.close()

    tell(story)


def test_consumer_of_another_client_sees_an_open_ledger_as_its_bookies_report_it() -> None:
    async def story(client: BookKeeper) -> None:
        topic = await created(client)
        producer = topic.producer()
        for payload in numbered(0, 3):
            await producer.send(payload)
        [ours] = topic.partitions
        stranger = PartitionConsumer(ours.path, -1, client, None, None)
        assert [m.payload for m in await stranger.receive(9)] == numbered(0, 2)
        await topic.close()
        assert [m.payload for m in await stranger.receive(9)] == numbered(2, 3)

    tell(story)


def test_batch_is_stored_at_its_number_of_messages_of_bytes_or_its_time() -> None:
    async def story(client: BookKeeper) -> None:
        topic = await created(client, config=ManagedLedgerConfig())
        producer = topic.producer(batching=Batching(max_messages=3, max_delay_ms=HOUR_MS))
        sent = [producer.send(b"x") for _ in range(4)]
        ids = await asyncio.gather(*sent[:3])
        assert [(i.entry_id, i.batch_index) for i in ids] == [(0, 0), (0, 1), (0, 2)]
        assert not sent[3].done()
        await producer.close()
        assert (await sent[3]).entry_id == 1
        by_size = topic.producer("size", batching=Batching(max_bytes=1000, max_delay_ms=HOUR_MS))
        ids = await send_all(by_size, [bytes(n) for n in (400, 400, 400, 2000, 1)])
        assert [(i.entry_id, i.batch_index) for i in ids] == [
            (2, 0),
            (2, 1),
            (3, 0),
            (4, 0),
            (5, 0),
        ]
        by_time = topic.producer("time", batching=Batching(max_delay_ms=2000))
        loop = asyncio.get_running_loop()
        began = loop.time()
        first = by_time.send(b"0")
        await asyncio.sleep(1.5)
        second = by_time.send(b"1")
        assert (await first).entry_id == (await second).entry_id == 6
        assert 2.0 <= loop.time() - began < 3.0
        # The first batch's time is over: the next has its own.
        began = loop.time()
        await by_time.send(b"2")
        assert 2.0 <= loop.time() - began < 3.0
        await topic.close()

    tell(story)


def test_batch_that_is_full_before_its_time_leaves_no_time_behind_for_the_next() -> None:
    async def story(client: BookKeeper) -> None:
        topic = await created(client)
        producer = topic.producer(batching=Batching(max_messages=2, max_delay_ms=4000))
        await send_all(producer, numbered(0, 1))
        await asyncio.gather(producer.send(b"a"), producer.send(b"b"))
        await asyncio.sleep(3)
        third = producer.send(b"c")
        await asyncio.sleep(3)
        assert not third.done()
        await third
        await topic.close()

    tell(story)


def test_keys_choose_the_partition_and_other_messages_take_turns() -> None:
    async def story(client: BookKeeper) -> None:
        topic = await created(client, 2)
        producer = topic.producer()
        turns = [await producer.send(b"x") for _ in range(4)]
        assert [i.partition for i in turns] == [0, 1, 0, 1]
        keyed = [await producer.send(b"x", key=key) for key in ("a", "b", "a", "b")]
        assert [i.partition for i in keyed] == [1, 0, 1, 0]
        batched = topic.producer("b", batching=Batching(max_messages=2, max_delay_ms=HOUR_MS))
        ids = await send_all(batched, numbered(0, 6))
        assert [i.partition for i in ids] == [0, 0, 1, 1, 0, 0]
        received = await receive_all(topic.consumer())
        assert len(received) == 14
        for partition in (0, 1):
            got = [m.message_id for m in received if m.message_id.partition == partition]
            assert got == sorted(got)
        await topic.close()

    tell(story)


def test_message_keeps_its_key_time_and_properties() -> None:
    async def story(client: BookKeeper) -> None:
        topic = await created(client)
        for batching in (None, SLOW):
            producer = topic.producer("named", batching=batching)
            sent = producer.send(b"x", key="k", event_time_ms=7, properties={"a": "b"})
            await producer.flush()
            await sent
        for message in await receive_all(topic.consumer()):
            told = message.payload, message.key, message.event_time_ms
            assert told == (b"x", "k", 7)
            assert dict(message.properties) == {"a": "b"}
            assert message.producer_name == "named"
        await topic.close()

    tell(story)


def test_closed_producer_takes_no_message() -> None:
    async def story(client: BookKeeper) -> None:
        topic = await created(client)
        producer = topic.producer(batching=SLOW)
        last = producer.send(b"x")
        await producer.close()
        assert last.done()
        with pytest.raises(BKLedgerClosedException, match="is closed"):
            producer.send(b"y")
        await topic.close()

    tell(story)


def test_messages_of_an_entry_that_fails_fail_with_its_reason() -> None:
    async def story(client: BookKeeper) -> None:
        topic = await created(client)
        producer = topic.producer(batching=SLOW)
        await topic.close()
        sent = [producer.send(b"x") for _ in range(2)]
        await producer.flush()
        for each in sent:
            assert isinstance(each.exception(), BKLedgerClosedException)

    tell(story)


def test_topic_has_the_partitions_that_it_was_created_with() -> None:
    async def story(client: BookKeeper) -> None:
        with pytest.raises(NoTopicError):
            await partition_count(client, "t")
        await (await created(client, 2)).close()
        with pytest.raises(TopicExistsError):
            await created(client, 3)
        assert await partition_count(client, "t") == 2
        topic = await created(client, 2)
        assert [partition.index for partition in topic.partitions] == [0, 1]
        with pytest.raises(BKIncorrectParameterException, match="has no partition 5; it has 0, 1"):
            await topic.ledgers(5)
        assert len(await topic.ledgers(1)) == 1
        await topic.close()

    tell(story)


def test_entries_of_a_writer_that_failed_go_on_without_another_append() -> None:
    async def story(client: BookKeeper) -> None:
        topic = await created(client, config=ManagedLedgerConfig())
        [partition] = topic.partitions
        futures = await partition.ledger.append_all([b"0", b"1", b"2"])
        writer = partition.ledger.writer
        assert writer is not None
        writer.end(LabkitError("the ledger has failed"))
        positions = [await future for future in futures]
        assert [entry_id for _, entry_id in positions] == [0, 1, 2]
        assert {ledger_id for ledger_id, _ in positions} != {writer.ledger_id}
        await topic.close()

    tell(story)


def test_next_ledger_begins_when_one_is_full_and_not_at_the_next_message() -> None:
    async def story(client: BookKeeper) -> None:
        topic = await created(client)
        await send_all(topic.producer(), numbered(0, 5))
        await asyncio.sleep(5)
        assert [link.entry_count for link in await topic.ledgers()] == [5, 0]
        await topic.close()

    tell(story)
