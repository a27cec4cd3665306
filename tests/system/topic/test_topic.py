"""Tests for topics on a real cluster: message ids, order, rollover, and who may write."""

import asyncio

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.topic.chain.formats import decode_chain
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.system.topic.names import managed_ledger_path
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from tests.system.topic.support import Clock, field, numbered, receive_all, send_all

pytestmark = pytest.mark.asyncio(loop_scope="session")


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


async def test_concurrent_calls_of_receive_return_different_messages(
    owner: BookKeeper, topic: Topic
) -> None:
    ids = await send_all(topic.producer(), numbered(0, 6))
    consumer = topic.consumer()
    received = await asyncio.gather(*(consumer.receive(2) for _ in range(3)))
    assert [message.message_id for messages in received for message in messages] == ids


async def test_chain_is_kept_as_pulsar_keeps_it(
    owner: BookKeeper, clock: Clock, topic: Topic, name: str
) -> None:
    ids = await send_all(topic.producer(), numbered(0, 6))
    path = managed_ledger_path(topic.name)
    data, _ = await owner.store.get(path)
    closed, opened = decode_chain(data)
    length = (await owner.ledger_metadata(closed.ledger_id)).length
    assert closed == LedgerInfo(ids[0].ledger_id, 5, length, clock.now_ms)
    # The open ledger has only field 1, ledgerId, and field 4, timestamp 0; entries and size are
    # missing.
    assert data.endswith(field(1, field(1, opened.ledger_id) + field(4, 0)))
    metadata = await owner.ledger_metadata(closed.ledger_id)
    assert metadata.custom_metadata == (
        ("application", b"pulsar"),
        ("component", b"managed-ledger"),
        ("pulsar/managed-ledger", f"public/default/persistent/{name}".encode()),
    )
    assert metadata.password == b""
