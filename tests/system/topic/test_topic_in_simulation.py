"""Tests for topics, producers and consumers in the simulated world."""

import asyncio
from typing import Any
from unittest.mock import patch

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reader import LedgerReader
from labkit.system.model.entry import Entry
from labkit.system.model.errors import (
    BKDigestMatchException,
    BKIncorrectParameterException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.consumer import PartitionConsumer
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import NoTopicError, Topic, TopicExistsError, partition_count
from tests.system.topic.simulated import SMALL, in_simulation
from tests.system.topic.support import HOUR_MS, numbered, receive_all, send_all

KEEP_NOTHING = ManagedLedgerConfig(
    max_entries_per_ledger=5, retention_time_ms=0, retention_size_bytes=0
)


async def payloads(topic: Topic, at_once: int = 1000) -> list[bytes]:
    return [m.payload for m in await receive_all(topic.consumer(), at_once)]


class Asked:
    """Records the ranges of entries that readers are asked for."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.ranges: list[tuple[int, int]] = []
        read_entries = LedgerReader.read_entries

        async def noted(reader: LedgerReader, first: int, last: int) -> list[Entry]:
            self.ranges.append((first, last))
            return await read_entries(reader, first, last)

        patched.setattr(LedgerReader, "read_entries", noted)


@in_simulation
async def test_as_many_entries_are_read_as_the_wanted_messages_need(client: BookKeeper) -> None:
    topic = await created(client, config=ManagedLedgerConfig())
    await send_all(topic.producer(), numbered(0, 6))
    batches = topic.producer("b", batching=Batching(max_messages=3, max_delay_ms=HOUR_MS))
    await send_all(batches, numbered(6, 36))
    consumer = topic.consumer()
    with pytest.MonkeyPatch.context() as patched:
        asked = Asked(patched)
        received = []
        for wanted in (1, 2, 3, 1, 2, 6, 4, 5, 1):
            some = await consumer.receive(wanted)
            assert len(some) == wanted
            received += some
    assert [m.payload for m in received] == numbered(0, 25)
    # From the seventh entry on, each entry contains three messages, as the consumer discovers when
    # it reads the first of them.
    assert asked.ranges == [
        *[(0, 0), (1, 2), (3, 5), (6, 6), (6, 6), (7, 8), (9, 10), (10, 11), (12, 12)]
    ]
    await topic.close()


@in_simulation
async def test_partitions_take_turns_and_an_empty_one_is_passed_over(client: BookKeeper) -> None:
    topic = await created(client, 3)
    producer = topic.producer()
    for _ in range(4):
        await producer.send(b"x", key="a")  # partition 1
        await producer.send(b"x", key="b")  # partition 2
    consumer = topic.consumer()
    turns = [[m.message_id.partition for m in await consumer.receive(2)] for _ in range(5)]
    assert turns == [[1, 1], [2, 2], [1, 1], [2, 2], []]
    await topic.close()


@in_simulation
async def test_entry_without_a_message_is_reported_every_time(client: BookKeeper) -> None:
    topic = await created(client)
    before = await send_all(topic.producer(), numbered(0, 2))
    [partition] = topic.partitions
    await (await partition.ledger.append(b"\x0e\x01 no message of a producer"))
    consumer = topic.consumer()
    assert [m.message_id for m in await consumer.receive()] == before
    for _ in range(2):
        with pytest.raises(BKDigestMatchException, match="entry 2 of ledger"):
            await consumer.receive()
    await topic.close()


@in_simulation
async def test_cancelled_receive_loses_no_message_whenever_it_ends(client: BookKeeper) -> None:
    topic = await created(client)
    await send_all(topic.producer(), numbered(0, 12))
    consumer = topic.consumer()
    cancelled = 0
    for after_ms in range(100):
        receiving = asyncio.create_task(consumer.receive())
        await asyncio.sleep(after_ms / 1000)
        if receiving.done():
            break
        receiving.cancel()
        await asyncio.wait((receiving,))
        cancelled += 1
    assert cancelled > 2
    assert [m.payload for m in await receiving] == numbered(0, 12)
    await topic.close()


@in_simulation
async def test_ledger_that_is_trimmed_before_it_is_read_is_skipped(client: BookKeeper) -> None:
    topic = await created(client, config=KEEP_NOTHING)
    [partition] = topic.partitions
    cursor = await partition.ledger.open_cursor("keeps", "earliest")
    ids = await send_all(topic.producer(), numbered(0, 12))
    consumer = topic.consumer()
    assert len(await consumer.receive(5)) == 5
    cursor.acknowledge_up_to((ids[9].ledger_id, ids[9].entry_id))
    await cursor.flush()
    open_ledger = client.open_ledger_no_recovery

    async def trimmed(ledger_id: int, **options: Any) -> LedgerReader:
        await partition.ledger.trim()
        return await open_ledger(ledger_id, **options)

    with patch.object(client, "open_ledger_no_recovery", trimmed):
        assert await payloads(topic) == numbered(10, 12)
        assert [m.payload for m in await receive_all(consumer)] == numbered(10, 12)
    await topic.close()


@in_simulation
async def test_ledger_that_is_missing_in_the_chain_is_not_skipped(client: BookKeeper) -> None:
    topic = await created(client)
    ids = await send_all(topic.producer(), numbered(0, 12))
    await client.delete_ledger(ids[5].ledger_id)
    consumer = topic.consumer()
    assert [m.payload for m in await consumer.receive()] == numbered(0, 5)
    with pytest.raises(BKNoSuchLedgerExistsOnMetadataServerException):
        await consumer.receive()


@in_simulation
async def test_consumer_that_goes_on_in_a_ledger_opens_it_once(client: BookKeeper) -> None:
    topic = await created(client)
    ids = await send_all(topic.producer(), numbered(0, 12))
    opened: list[int] = []
    open_ledger = client.open_ledger_no_recovery

    async def noted(ledger_id: int, **options: Any) -> LedgerReader:
        opened.append(ledger_id)
        return await open_ledger(ledger_id, **options)

    with patch.object(client, "open_ledger_no_recovery", noted):
        consumer = topic.consumer()
        for payload in numbered(0, 12):
            assert [m.payload for m in await consumer.receive(1)] == [payload]
    # At the end of a ledger, the consumer checks it once more before it moves on to the next.
    first, second, third = (ids[number].ledger_id for number in (0, 5, 10))
    assert opened == [first, first, second, second, third]
    await topic.close()


# The topic


@in_simulation
async def test_number_of_partitions_is_not_negative(client: BookKeeper) -> None:
    with pytest.raises(BKIncorrectParameterException, match="got -1 partitions; expected 0 "):
        await created(client, -1)
    topic = await created(client, 1)
    assert [partition.index for partition in topic.partitions] == [0]
    with pytest.raises(BKIncorrectParameterException, match=r"-1; existing partitions: 0$"):
        await topic.ledgers()
    await topic.close()
    plain = await Topic.create(client, "plain", partitions=0)
    assert [partition.index for partition in plain.partitions] == [-1]
    assert len(await plain.ledgers()) == 1
    await plain.close()
    # An empty ledger leaves the chain when the topic is closed.
    assert await plain.ledgers() == []


# Topics and producers

SLOW = Batching(max_delay_ms=HOUR_MS)


async def created(
    client: BookKeeper, partitions: int = 0, config: ManagedLedgerConfig = SMALL
) -> Topic:
    return await Topic.create(client, "t", partitions=partitions, config=config)


@in_simulation
async def test_consumer_repeats_no_message_whatever_its_limit(client: BookKeeper) -> None:
    topic = await created(client)
    producer = topic.producer(batching=Batching(max_messages=3, max_delay_ms=HOUR_MS))
    await send_all(producer, numbered(0, 9))
    await topic.producer("single").send(b"single")
    for at_once in range(1, 11):
        assert await payloads(topic, at_once) == [*numbered(0, 9), b"single"]
    await topic.close()


@in_simulation
async def test_consumer_gets_what_was_just_confirmed_up_to_its_limit(client: BookKeeper) -> None:
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


@in_simulation
async def test_consumer_of_another_client_sees_what_bookies_report(client: BookKeeper) -> None:
    topic = await created(client)
    producer = topic.producer()
    for payload in numbered(0, 3):
        await producer.send(payload)
    [ours] = topic.partitions
    closed = ManagedLedger("t", ours.path, client, ManagedLedgerConfig())
    stranger = PartitionConsumer(ours.path, -1, client, closed)
    assert [m.payload for m in await stranger.receive(9)] == numbered(0, 2)
    await topic.close()
    assert [m.payload for m in await stranger.receive(9)] == numbered(2, 3)


@in_simulation
async def test_a_message_keeps_its_id_key_time_and_properties(client: BookKeeper) -> None:
    topic = await created(client, 3)
    for number, batching in enumerate((None, SLOW)):
        producer = topic.producer(f"producer {number}", batching=batching)
        sent = [
            producer.send(b"x", key=f"k{n}", event_time_ms=n, properties={"n": f"{n}"})
            for n in range(1, 9)
        ]
        await producer.close()
        expected = {future.result(): n for n, future in enumerate(sent, 1)}
        found = [m for m in await receive_all(topic.consumer()) if m.producer_name == producer.name]
        assert {m.message_id: m.event_time_ms for m in found} == expected
        for message in found:
            n = message.event_time_ms
            assert (message.key, dict(message.properties)) == (f"k{n}", {"n": f"{n}"})
    await topic.close()


@in_simulation
async def test_concurrent_receives_return_different_messages(client: BookKeeper) -> None:
    topic = await created(client)
    ids = await send_all(topic.producer(), numbered(0, 6))
    consumer = topic.consumer()
    received = await asyncio.gather(*(consumer.receive(2) for _ in range(3)))
    assert [message.message_id for messages in received for message in messages] == ids


@in_simulation
async def test_topic_has_the_partitions_that_it_was_created_with(client: BookKeeper) -> None:
    with pytest.raises(NoTopicError):
        await partition_count(client, "t")
    await (await created(client, 2)).close()
    with pytest.raises(TopicExistsError):
        await created(client, 3)
    assert await partition_count(client, "t") == 2
    topic = await created(client, 2)
    assert [partition.index for partition in topic.partitions] == [0, 1]
    with pytest.raises(
        BKIncorrectParameterException, match="partition 5; existing partitions: 0, 1"
    ):
        await topic.ledgers(5)
    assert len(await topic.ledgers(1)) == 1
    await topic.close()
