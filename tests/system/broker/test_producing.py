"""Producing with Pulsar's own client: what it sends is what lies in the ledgers, and comes back."""

import random
from dataclasses import astuple

import pulsar
import pytest

from labkit.system.topic.chain.chain_store import read_chain
from labkit.system.topic.messages import decode_messages
from labkit.system.topic.names import full_name, managed_ledger_path
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.client import make_partitions, receive_all, send_all

PAYLOADS = [f"message {number}".encode() for number in range(1000)]


def test_messages_come_back_with_the_ids_of_their_receipts(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    sent = [(producer.send(payload), payload) for payload in PAYLOADS[:50]]
    assert receive_all(client, topic, 50) == sent


def test_batched_messages_come_back_with_the_ids_of_their_receipts(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=100,
        batching_max_publish_delay_ms=10_000,
    )
    sent = send_all(producer, PAYLOADS)
    assert [message_id.batch_index() for message_id, _ in sent] == list(range(100)) * 10
    assert receive_all(client, topic, 1000) == sent


@pytest.mark.asyncio(loop_scope="session")
async def test_an_entry_holds_what_the_client_sent(
    brokers: LocalCluster, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(
        topic,
        "the-producer",
        batching_enabled=True,
        batching_max_messages=100,
        batching_max_publish_delay_ms=10_000,
    )
    sent = send_all(producer, PAYLOADS, properties={"colour": "blue"}, partition_key="key")
    bookkeeper = await brokers.connect()
    chain, _ = await read_chain(bookkeeper, managed_ledger_path(full_name(topic)))
    reader = await bookkeeper.open_ledger_no_recovery(chain[0].ledger_id)
    while reader.last_add_confirmed < 9:  # A broker tells its newest entry after a while.
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


@pytest.mark.parametrize("compression", ["LZ4", "ZLib", "ZSTD", "SNAPPY"])
@pytest.mark.parametrize("batching_enabled", [True, False])
def test_compressed_messages_come_back(
    client: pulsar.Client, topic: str, compression: str, batching_enabled: bool
) -> None:
    producer = client.create_producer(
        topic,
        compression_type=pulsar.CompressionType.__members__[compression],
        batching_enabled=batching_enabled,
    )
    sent = send_all(producer, [payload * 50 for payload in PAYLOADS[:100]])
    assert receive_all(client, topic, 100) == sent


def test_a_message_larger_than_an_entry_comes_back_from_its_chunks(
    client: pulsar.Client, topic: str
) -> None:
    payload = random.Random(1).randbytes(12 * 1024 * 1024)
    producer = client.create_producer(topic, chunking_enabled=True)
    message_id = producer.send(payload)
    [(received_id, received)] = receive_all(client, topic, 1)
    assert received == payload
    assert str(received_id) == str(message_id)
    assert message_id.entry_id() == 2


def test_a_message_that_is_too_large_is_refused(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(bytes(5 * 1024 * 1024))
    largest = bytes(5 * 1024 * 1024 - 12 * 1024)
    message_id = producer.send(largest)
    assert receive_all(client, topic, 1) == [(message_id, largest)]


def test_a_message_for_other_clusters_fails_and_all_others_are_stored_once(
    client: pulsar.Client, topic: str
) -> None:
    producer, other = client.create_producer(topic), client.create_producer(f"{topic}-other")
    results: list[pulsar.Result] = []
    for number, payload in enumerate(PAYLOADS[:20]):
        clusters = ["far"] if number == 10 else None
        producer.send_async(
            payload, lambda result, _: results.append(result), replication_clusters=clusters
        )
    producer.flush()
    failed = pulsar.Result.ChecksumError  # The only one that is not followed by another attempt.
    assert results == [failed if number == 10 else pulsar.Result.Ok for number in range(20)]
    other.send(b"x")
    stored = [payload for _, payload in receive_all(client, topic, 19)]
    assert stored == PAYLOADS[:10] + PAYLOADS[11:20]


def test_a_key_stays_in_its_partition_and_order(
    brokers: LocalCluster, client: pulsar.Client, topic: str
) -> None:
    make_partitions(brokers, topic, 3)
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=10)
    sent = {
        key: send_all(
            producer, [f"{key} {number}".encode() for number in range(50)], partition_key=key
        )
        for key in ("red", "green", "blue", "yellow")
    }
    received = receive_all(client, topic, 200)
    for key, of_key in sent.items():
        assert [each for each in received if each[1].startswith(key.encode())] == of_key
        assert len({message_id.partition() for message_id, _ in of_key}) == 1


def test_messages_without_a_key_go_to_all_partitions(
    brokers: LocalCluster, client: pulsar.Client, topic: str
) -> None:
    make_partitions(brokers, topic, 3)
    producer = client.create_producer(topic)
    sent = [(producer.send(payload), payload) for payload in PAYLOADS[:30]]
    assert sorted({message_id.partition() for message_id, _ in sent}) == [0, 1, 2]
    assert sorted(map(str, receive_all(client, topic, 30))) == sorted(map(str, sent))


def test_the_name_of_a_producer_is_its_own_while_it_is_connected(
    client: pulsar.Client, topic: str
) -> None:
    first = client.create_producer(topic, "mine")
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(topic, "mine")
    first.close()
    client.create_producer(topic, "mine").send(b"again")


def test_producers_without_a_name_get_a_unique_one(client: pulsar.Client, topic: str) -> None:
    names = {client.create_producer(topic).producer_name() for _ in range(3)}
    assert len(names) == 3


@pytest.mark.parametrize("name", ["a/b", "persistent://only/two", "non-persistent://a/b/c"])
def test_an_invalid_name_is_refused(client: pulsar.Client, name: str) -> None:
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(name)


def test_messages_before_a_producer_was_closed_have_their_receipts(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    results: list[pulsar.Result] = []
    for payload in PAYLOADS:
        producer.send_async(payload, lambda result, _: results.append(result))
    producer.flush()
    producer.close()
    assert results == [pulsar.Result.Ok] * 1000
