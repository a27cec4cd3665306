"""Tests for terminated topics: producers are rejected, and consumers are notified when they reach
the end.
"""

import asyncio
import time
from contextlib import suppress

import pulsar
import pytest

from labkit.system.model.proto.pulsar_pb2 import BaseCommand
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import DEADLINE_S, done, topic_path, unload
from tests.system.broker.client import receive_all, send_all
from tests.system.broker.raw import raw_client

PAYLOADS = [f"message {number}".encode() for number in range(20)]
TERMINATE = "/terminate"


@pytest.mark.promise(
    "A terminated topic accepts no messages, whichever broker owns it, and its consumers "
    "learn that they have read everything"
)
def test_terminated_topic_rejects_producers_and_keeps_its_messages(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    sent = send_all(producer, PAYLOADS)
    last = done(brokers, "POST", topic_path(topic, TERMINATE))
    assert (last["ledgerId"], last["entryId"]) == (sent[-1][0].ledger_id(), 19)
    with pytest.raises(pulsar.TopicTerminated):
        producer.send(b"too late")
    for _ in range(2):
        with pytest.raises(pulsar.TopicTerminated):
            client.create_producer(topic)
        assert done(brokers, "POST", topic_path(topic, TERMINATE)) == last
        assert receive_all(client, topic, 20) == sent
        unload(brokers, topic)


def test_sends_under_way_are_stored_and_acknowledged_or_rejected(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    producer = client.create_producer(topic, batching_enabled=False, max_pending_messages=0)
    results: list[tuple[pulsar.Result, bytes]] = []
    for number in range(2000):
        payload = str(number).encode()
        producer.send_async(payload, lambda result, _, p=payload: results.append((result, p)))
    done(brokers, "POST", topic_path(topic, TERMINATE))
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(topic)
    with suppress(pulsar.AlreadyClosed):  # by the client, if a send was rejected
        producer.close()
    deadline = time.monotonic() + DEADLINE_S
    while len(results) < 2000:
        assert time.monotonic() < deadline, len(results)
        time.sleep(0.01)
    acknowledged = [payload for result, payload in results if result == pulsar.Result.Ok]
    rejected = [result for result, _ in results if result != pulsar.Result.Ok]
    assert set(rejected) <= {pulsar.Result.TopicTerminated, pulsar.Result.AlreadyClosed}
    assert acknowledged == [str(number).encode() for number in range(len(acknowledged))]
    stored = done(brokers, "GET", topic_path(topic, "/internalStats"))["numberOfEntries"]
    assert stored == len(acknowledged)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("earlier", [True, False])
async def test_consumer_that_has_acknowledged_everything_learns_that_it_has_reached_the_end(
    client: pulsar.Client, brokers: LocalCluster, topic: str, earlier: bool
) -> None:
    async def terminate() -> None:
        await asyncio.to_thread(done, brokers, "POST", topic_path(topic, TERMINATE))

    producer = await asyncio.to_thread(client.create_producer, topic, batching_enabled=False)
    await asyncio.to_thread(send_all, producer, PAYLOADS[:2])
    if not earlier:
        await terminate()
    async with raw_client(brokers, topic) as raw:
        await raw.subscribe(topic)
        raw.flow()
        messages = await raw.receive(2)
        if earlier:
            await terminate()
        raw.ack(messages[0].message_id)
        assert await raw.is_silent()
        raw.ack(messages[1].message_id)
        assert (await raw.expect(BaseCommand.REACHED_END_OF_TOPIC)).consumer_id == 1
    async with raw_client(brokers, topic) as raw:
        await raw.subscribe(topic)
        assert (await raw.expect(BaseCommand.REACHED_END_OF_TOPIC)).consumer_id == 1


def test_all_partitions_are_terminated_used_or_not(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    done(brokers, "PUT", topic_path(topic, "/partitions"), 3)
    client.create_producer(f"{topic}-partition-1", batching_enabled=False).send(b"only here")
    ends = done(brokers, "POST", topic_path(topic, "/terminate/partitions"))
    assert {at: (each["partitionIndex"], each["entryId"]) for at, each in ends.items()} == {
        "0": (0, -1),
        "1": (1, 0),
        "2": (2, -1),
    }
    for partition in range(3):
        with pytest.raises(pulsar.TopicTerminated):
            client.create_producer(f"{topic}-partition-{partition}")
