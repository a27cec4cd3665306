"""Producers on a real cluster: when a batch is complete, and what fits into one."""

import asyncio

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKLedgerClosedException,
    BKNotEnoughBookiesException,
)
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.topic.support import HOUR_MS, receive_all, send_all

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_batch_is_stored_when_it_has_max_messages(topic: Topic) -> None:
    producer = topic.producer(batching=Batching(max_messages=3, max_delay_ms=HOUR_MS))
    sent = [producer.send(b"x") for _ in range(4)]
    ids = [await future for future in sent[:3]]
    assert [(i.entry_id, i.batch_index) for i in ids] == [(0, 0), (0, 1), (0, 2)]
    assert not sent[3].done()
    await producer.flush()
    assert (sent[3].result().entry_id, sent[3].result().batch_index) == (1, 0)


async def test_batch_is_stored_when_it_has_max_bytes(topic: Topic) -> None:
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


async def test_closed_producer_has_stored_all_and_takes_no_message(topic: Topic) -> None:
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


async def test_every_message_of_a_batch_fails_when_no_ledger_takes_it(
    cluster: LocalCluster, name: str
) -> None:
    client = await cluster.connect(config=ClientConfig(request_timeout_s=0.2))
    topic = await Topic.create(client, name, partitions=0, config=ManagedLedgerConfig(5, 5, 5))
    await cluster.kill("bookie-5")
    producer = topic.producer(batching=Batching(max_messages=2))
    futures = [producer.send(b"lost") for _ in range(2)]
    await producer.flush()
    for future in futures:
        with pytest.raises(BKNotEnoughBookiesException):
            future.result()
    await topic.close()
    client.close()
