"""Consumers on a real cluster: everything, in order, from anywhere, and nothing twice."""

import asyncio
from functools import partial

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import (
    BKDigestMatchException,
)
from labkit.system.model.message_id import MessageId
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from tests.system.topic.support import numbered, receive_all, send_all
from tests.until import until_true

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_consumer_gets_what_the_writer_has_just_confirmed(topic: Topic) -> None:
    producer, consumer = topic.producer(), topic.consumer()
    assert await consumer.receive() == []
    for number in range(12):
        await producer.send(b"%d" % number)
        received = await consumer.receive()
        assert [message.payload for message in received] == [b"%d" % number]
    assert await consumer.receive() == []


async def has_ledgers(topic: Topic, count: int) -> bool:
    return len(await topic.ledgers()) == count


async def test_consumer_that_waits_for_a_new_ledger_does_not_read_the_old_one_again(
    topic: Topic,
) -> None:
    producer, consumer = topic.producer(), topic.consumer()
    await send_all(producer, numbered(0, 5))
    assert len(await consumer.receive()) == 5
    await until_true(partial(has_ledgers, topic, 2))
    assert await consumer.receive() == []
    await send_all(producer, numbered(5, 7))
    assert [message.payload for message in await consumer.receive()] == numbered(5, 7)
    assert await consumer.receive() == []


async def test_consumer_reads_everything_while_it_is_being_written(topic: Topic) -> None:
    producer = topic.producer(batching=Batching(max_messages=3, max_delay_ms=1))
    consumer = topic.consumer()

    async def publish() -> None:
        for number in range(60):
            await asyncio.sleep(0)
            stored = producer.send(b"%d" % number)
            if number % 7 == 0:
                await stored
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
    ledger = topic.partitions[0].ledger
    stored = await ledger.append(b"\x0e\x01 no message of a producer")
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


async def test_consumer_goes_on_behind_ledgers_that_were_trimmed(
    owner: BookKeeper, name: str
) -> None:
    config = ManagedLedgerConfig(
        max_entries_per_ledger=5, retention_time_ms=0, retention_size_bytes=0
    )
    topic = await Topic.create(owner, name, partitions=0, config=config)
    ledger = topic.partitions[0].ledger
    cursor = await ledger.open_cursor("keeps", "earliest")
    ids = await send_all(topic.producer(), numbered(0, 12))
    consumer = topic.consumer()
    assert len(await consumer.receive(2)) == 2
    cursor.acknowledge_up_to((ids[9].ledger_id, ids[9].entry_id))
    await cursor.flush()
    await until_true(partial(has_ledgers, topic, 3))
    assert await ledger.trim() == [ids[0].ledger_id, ids[5].ledger_id]
    rest = await receive_all(consumer)
    # It has the first ledger open, and its bookies may still have the entries.
    assert [message.payload for message in rest][-2:] == numbered(10, 12)
    late = await receive_all(topic.consumer(after=ids[3]))
    assert [message.payload for message in late] == numbered(10, 12)
    await topic.close()
