"""Topics on a real cluster: ids, order, rollovers, and who may write."""

import asyncio

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import (
    BKIncorrectParameterException,
)
from labkit.system.model.ledger import LedgerState
from labkit.system.model.message_id import MessageId
from labkit.system.topic.chain.chain import LedgerInfo
from labkit.system.topic.chain.formats import decode_chain
from labkit.system.topic.chain.guarded_node import ManagedLedgerFencedError
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.names import managed_ledger_path
from labkit.system.topic.producing.producer import Batching, java_string_hash
from labkit.system.topic.topic import NoTopicError, Topic, TopicExistsError, partition_count
from tests.system.topic.support import HOUR_MS, Clock, field, numbered, receive_all, send_all

pytestmark = pytest.mark.asyncio(loop_scope="session")


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
    for name in ("a", "b"):
        payloads = [int(each.payload) for each in messages if each.producer_name == name]
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


async def test_chain_is_kept_as_pulsar_keeps_it(
    owner: BookKeeper, clock: Clock, topic: Topic, name: str
) -> None:
    ids = await send_all(topic.producer(), numbered(0, 6))
    path = managed_ledger_path(topic.name)
    data, _ = await owner.store.get(path)
    closed, opened = decode_chain(data)
    length = (await owner.ledger_metadata(closed.ledger_id)).length
    assert closed == LedgerInfo(ids[0].ledger_id, 5, length, clock.now_ms)
    # The open one: field 1 ledgerId, field 4 timestamp 0; neither entries nor size.
    assert data.endswith(field(1, field(1, opened.ledger_id) + field(4, 0)))
    metadata = await owner.ledger_metadata(closed.ledger_id)
    assert metadata.custom_metadata == (
        ("application", b"pulsar"),
        ("component", b"managed-ledger"),
        ("pulsar/managed-ledger", f"public/default/persistent/{name}".encode()),
    )
    assert metadata.password == b""


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


async def test_topic_that_was_left_open_is_recovered_and_goes_on_in_a_new_ledger(
    owner: BookKeeper, topic: Topic, name: str
) -> None:
    ids = await send_all(topic.producer(), numbered(0, 3))
    new = await Topic.create(owner, name, partitions=0)
    metadata = await owner.ledger_metadata(ids[0].ledger_id)
    assert (metadata.state, metadata.last_entry_id) == (LedgerState.CLOSED, 2)
    message_id = await new.producer().send(b"message 3")
    assert message_id.ledger_id > ids[0].ledger_id
    assert [m.payload for m in await receive_all(new.consumer())] == numbered(0, 4)
    await new.close()


async def test_replaced_owner_no_longer_writes(owner: BookKeeper, name: str) -> None:
    old = await Topic.create(owner, name, partitions=0)
    producer = old.producer()
    await producer.send(b"message 0")
    new = await Topic.create(owner, name, partitions=0)
    for _ in range(2):
        with pytest.raises(ManagedLedgerFencedError, match="open the topic again"):
            await producer.send(b"late")
    await new.producer().send(b"message 1")
    assert [m.payload for m in await receive_all(new.consumer())] == numbered(0, 2)
    await new.close()


async def test_owner_that_was_overtaken_cannot_extend_the_chain(
    owner: BookKeeper, name: str
) -> None:
    old = await Topic.create(owner, name, partitions=0)
    new = await Topic.create(owner, name, partitions=0)
    await new.producer().send(b"new")
    for _ in range(2):
        with pytest.raises(ManagedLedgerFencedError, match="open the topic again"):
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
