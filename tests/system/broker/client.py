"""Helpers for tests that use Pulsar's official client."""

from collections.abc import Sequence
from typing import Any

import pulsar

from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import done, topic_path

Sent = tuple[pulsar.MessageId, bytes]


def connect(service_url: str, **options: Any) -> pulsar.Client:
    """Connect a client that logs only errors."""
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    return pulsar.Client(service_url, logger=quiet, **options)


def send_all(producer: pulsar.Producer, payloads: Sequence[bytes], **options: Any) -> list[Sent]:
    """Send all payloads without waiting, and return the ids and payloads in the order of the
    receipts.

    Raises `AssertionError` if a message is not stored.
    """
    acknowledged: list[tuple[pulsar.Result, pulsar.MessageId, bytes]] = []
    for payload in payloads:
        producer.send_async(
            payload,
            lambda result, message_id, payload=payload: acknowledged.append(
                (result, message_id, payload)
            ),
            **options,
        )
    producer.flush()
    assert [result for result, _, _ in acknowledged] == [pulsar.Result.Ok] * len(payloads)
    return [(message_id, payload) for _, message_id, payload in acknowledged]


def send_batch(client: pulsar.Client, topic: str, payloads: Sequence[bytes]) -> None:
    """Send all payloads as a single batch entry."""
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=max(2, len(payloads)),
        batching_max_publish_delay_ms=10_000,
    )
    sent = send_all(producer, payloads)
    assert len({(at.ledger_id(), at.entry_id()) for at, _ in sent}) == 1
    producer.close()


def receive_all(client: pulsar.Client, topic: str, count: int) -> list[Sent]:
    """Return the first `count` messages of the topic in the order in which they are received."""
    consumer = client.subscribe(
        topic, "all-of-it", initial_position=pulsar.InitialPosition.Earliest
    )
    received = []
    for _ in range(count):
        message = consumer.receive(20_000)
        received.append((message.message_id(), message.data()))
        consumer.acknowledge(message)
    consumer.unsubscribe()
    return received


def receive(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    """Receive and return `count` messages. Raises `pulsar.Timeout`."""
    return [consumer.receive(20_000) for _ in range(count)]


def received_payloads(consumer: pulsar.Consumer, count: int) -> list[bytes]:
    """Receive `count` messages and return their payloads."""
    return [message.data() for message in receive(consumer, count)]


def rest(consumer: pulsar.Consumer, wait_ms: int = 300) -> list[bytes]:
    """Return the payloads received until no message has arrived for `wait_ms`."""
    payloads = []
    while True:
        try:
            payloads.append(consumer.receive(wait_ms).data())
        except pulsar.Timeout:
            return payloads


def make_partitions(cluster: LocalCluster, topic: str, count: int) -> None:
    """Create a partitioned topic in `public/default` through Pulsar's admin API."""
    done(cluster, "PUT", topic_path(topic, "/partitions"), count)
