"""Tests for producing with Pulsar's own client: messages are stored as sent and can be
read again.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

import pulsar
import pytest
from pulsar import ProducerAccessMode

from labkit.system.broker.access import EPOCH_PROPERTY
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.topic.chain.chain_store import read_chain
from labkit.system.topic.chain.formats import decode_properties
from labkit.system.topic.messages import decode_messages
from labkit.system.topic.names import full_name, managed_ledger_path
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import unload
from tests.system.broker.client import connect, receive_all, send_all
from tests.system.broker.owner import owner_of

PAYLOADS = [f"message {number}".encode() for number in range(1000)]
BATCHES: dict[str, Any] = {
    "batching_enabled": True,
    "batching_max_messages": 100,
    "batching_max_publish_delay_ms": 10_000,
}


@pytest.mark.core
@pytest.mark.promise(
    "Messages are delivered with the ids of their receipts: single, batched, compressed, "
    "chunked, keyed, partitioned"
)
@pytest.mark.parametrize(
    "options", [{}, BATCHES, {**BATCHES, "compression_type": pulsar.CompressionType.LZ4}]
)
def test_messages_come_back_with_the_ids_of_their_receipts(
    client: pulsar.Client, topic: str, options: dict[str, Any]
) -> None:
    sent = send_all(client.create_producer(topic, **options), PAYLOADS)
    if options:
        assert [message_id.batch_index() for message_id, _ in sent] == list(range(100)) * 10
    assert receive_all(client, topic, 1000) == sent


@pytest.mark.promise("An entry contains exactly what the client sent after its command")
@pytest.mark.asyncio(loop_scope="session")
async def test_an_entry_holds_what_the_client_sent(
    brokers: LocalCluster, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, "the-producer", **BATCHES)
    sent = send_all(producer, PAYLOADS, properties={"colour": "blue"}, partition_key="key")
    bookkeeper = await brokers.connect()
    chain, _ = await read_chain(bookkeeper, managed_ledger_path(full_name(topic)))
    reader = await bookkeeper.open_ledger_no_recovery(chain[0].ledger_id)
    # The broker publishes the last confirmed entry with a delay.
    while reader.last_add_confirmed < 9:
        await reader.read_explicit_last_add_confirmed()
    entries = await reader.read_entries(0, 9)
    messages = [
        message
        for entry in entries
        for message in decode_messages(entry.payload, entry.ledger_id, entry.entry_id, -1)
    ]
    assert [message.payload for message in messages] == PAYLOADS
    assert {message.producer_name for message in messages} == {"the-producer"}
    assert [message.sequence_id for message in messages] == list(range(1000))
    assert {(message.key, *message.properties.items()) for message in messages} == {
        ("key", ("colour", "blue"))
    }
    ids = [(at.ledger_id(), at.entry_id(), at.partition(), at.batch_index()) for at, _ in sent]
    assert [astuple(message.message_id)[:4] for message in messages] == ids


def test_a_message_that_is_too_large_is_rejected(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(bytes(5 * 1024 * 1024))
    largest = bytes(5 * 1024 * 1024 - 12 * 1024)
    message_id = producer.send(largest)
    assert receive_all(client, topic, 1) == [(message_id, largest)]


def test_only_a_message_for_other_clusters_fails(client: pulsar.Client, topic: str) -> None:
    producer, other = client.create_producer(topic), client.create_producer(f"{topic}-other")
    results: list[pulsar.Result] = []
    for number, payload in enumerate(PAYLOADS[:20]):
        clusters = ["far"] if number == 10 else None
        producer.send_async(
            payload, lambda result, _: results.append(result), replication_clusters=clusters
        )
    producer.flush()
    # This is the only error after which the client does not retry.
    failed = pulsar.Result.ChecksumError
    assert results == [failed if number == 10 else pulsar.Result.Ok for number in range(20)]
    other.send(b"x")
    stored = [payload for _, payload in receive_all(client, topic, 19)]
    assert stored == PAYLOADS[:10] + PAYLOADS[11:20]


# Exclusive producers

EXCLUSIVE = ProducerAccessMode.Exclusive
FENCING = ProducerAccessMode.ExclusiveWithFencing


@pytest.fixture
def other(brokers: LocalCluster) -> Iterator[pulsar.Client]:
    """Connect a second client with its own connection."""
    client = connect(brokers.service_url)
    yield client
    client.close()


async def epoch_of(bookkeeper: BookKeeper, topic: str) -> int:
    """Return the topic epoch from the metadata store."""
    data, _ = await bookkeeper.store.get(managed_ledger_path(full_name(topic)))
    return int(decode_properties(data)[EPOCH_PROPERTY])


@pytest.mark.promise("A producer can have a topic to itself, wait for it, or take it from others")
def test_an_exclusive_producer_has_the_topic_for_itself_until_it_leaves(
    client: pulsar.Client, other: pulsar.Client, topic: str
) -> None:
    first = client.create_producer(topic, access_mode=EXCLUSIVE)
    with pytest.raises(pulsar.ProducerFenced):
        other.create_producer(topic, access_mode=EXCLUSIVE)
    with pytest.raises(pulsar.ProducerBusy):
        other.create_producer(topic)
    sent = [(first.send(b"first"), b"first")]
    first.close()
    sent.append((other.create_producer(topic, access_mode=EXCLUSIVE).send(b"second"), b"second"))
    assert receive_all(client, topic, 2) == sent


@pytest.mark.promise(
    "Exclusive access survives a move of the topic until another producer takes over"
)
@pytest.mark.asyncio(loop_scope="session")
async def test_exclusive_access_survives_a_move_and_only_others_raise_the_epoch(
    brokers: LocalCluster, client: pulsar.Client, other: pulsar.Client, topic: str
) -> None:
    bookkeeper = await brokers.connect()
    first = await asyncio.to_thread(client.create_producer, topic, access_mode=EXCLUSIVE)
    for move in ("unload", "kill"):
        if move == "unload":
            await asyncio.to_thread(unload, brokers, topic)
        else:
            owner = await owner_of(brokers, bookkeeper, topic)
            await brokers.kill(owner)
            await brokers.restart(owner)
        await asyncio.to_thread(first.send, b"still alone")
        assert await epoch_of(bookkeeper, topic) == 0
    last = await asyncio.to_thread(other.create_producer, topic, access_mode=FENCING)
    await asyncio.to_thread(last.send, b"now I am")
    assert await epoch_of(bookkeeper, topic) == 1
    await asyncio.to_thread(unload, brokers, topic)
    await asyncio.to_thread(last.send, b"and stay so")
    with pytest.raises((pulsar.ProducerFenced, pulsar.AlreadyClosed)):
        await asyncio.to_thread(first.send, b"too late")
    payloads = [payload for _, payload in await asyncio.to_thread(receive_all, other, topic, 4)]
    assert payloads == [b"still alone"] * 2 + [b"now I am", b"and stay so"]
