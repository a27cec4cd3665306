"""Tests for consuming with Pulsar's own client for Python; `tests/interop/test_pulsar_clients.py`
has the scenarios of the clients for Java and Go.
"""

import json
import re
import time
from contextlib import suppress

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition, MessageId
from pulsar.schema import Integer, JsonSchema, Record, String, StringSchema

from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import DEADLINE_S, done, topic_path
from tests.system.broker.client import (
    connect,
    receive,
    received_payloads,
    rest,
    send_all,
    send_batch,
)

PAYLOADS = [f"message {number}".encode() for number in range(20)]


def subscribe(
    client: pulsar.Client,
    topic: str | list[str] | re.Pattern[str],
    kind: ConsumerType = ConsumerType.Exclusive,
    **options: object,
) -> pulsar.Consumer:
    return client.subscribe(
        topic, "sub", kind, initial_position=InitialPosition.Earliest, **options
    )


# Subscriptions


@pytest.mark.promise(
    "A second Exclusive consumer is rejected, and so is a consumer of a different subscription type"
)
def test_a_second_exclusive_consumer_is_rejected(client: pulsar.Client, topic: str) -> None:
    first = subscribe(client, topic)
    for kind in (ConsumerType.Exclusive, ConsumerType.Failover, ConsumerType.KeyShared):
        with pytest.raises(pulsar.ConsumerBusy):
            subscribe(client, topic, kind)
    first.close()
    subscribe(client, topic, ConsumerType.Failover)


@pytest.mark.promise("A new subscription starts at the requested position")
def test_a_new_subscription_starts_where_it_asks_to(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    send_all(producer, PAYLOADS[:10])
    latest, earliest = client.subscribe(topic, "latest"), subscribe(client, topic)
    send_all(producer, PAYLOADS[10:])
    assert received_payloads(latest, 10) == PAYLOADS[10:]
    assert received_payloads(earliest, 20) == PAYLOADS


@pytest.mark.promise(
    "Unsubscribing deletes all acknowledgements and is rejected while other consumers are connected"
)
def test_to_unsubscribe_forgets_what_was_acknowledged_and_needs_a_sole_consumer(
    client: pulsar.Client, topic: str
) -> None:
    send_all(client.create_producer(topic), PAYLOADS)
    first = subscribe(client, topic, ConsumerType.Failover)
    first.acknowledge_cumulative(receive(first, 20)[-1])
    second = subscribe(client, topic, ConsumerType.Failover)
    with pytest.raises(pulsar.BrokerMetadataError):
        first.unsubscribe()
    second.close()
    first.unsubscribe()
    assert received_payloads(subscribe(client, topic), 20) == PAYLOADS


@pytest.mark.promise("A consumer can read several topics or a pattern")
@pytest.mark.promise(
    "The ids of delivered messages include the partition and equal the ids of the receipts"
)
@pytest.mark.parametrize("by_pattern", [False, True])
def test_one_consumer_reads_several_topics_and_their_partitions(
    client: pulsar.Client, brokers: LocalCluster, topic: str, by_pattern: bool
) -> None:
    done(brokers, "PUT", topic_path(f"{topic}-many", "/partitions"), 3)
    names = [f"{topic}-many", f"{topic}-one", f"{topic}-none"]
    routing = pulsar.PartitionsRoutingMode.RoundRobinDistribution
    producers = [client.create_producer(name, message_routing_mode=routing) for name in names]
    many, one, _ = (send_all(producer, PAYLOADS) for producer in producers)
    pattern = re.compile(f"persistent://public/default/{topic}-(many|one)")
    consumer = subscribe(client, pattern if by_pattern else names[:2])
    received = [(str(m.message_id()), m.data()) for m in receive(consumer, 40)]
    assert sorted(received) == sorted((str(at), payload) for at, payload in many + one)
    assert {message_id.partition() for message_id, _ in many} == {0, 1, 2}
    assert rest(consumer) == []


@pytest.mark.promise("Chunks are delivered as one message")
def test_chunks_come_back_as_one_message(client: pulsar.Client, topic: str) -> None:
    consumer = subscribe(client, topic)
    payload = bytes(range(256)) * 4096 * 12
    sent = client.create_producer(topic, chunking_enabled=True).send(payload)
    message = consumer.receive(20_000)
    assert (message.data(), str(message.message_id())) == (payload, str(sent))
    consumer.acknowledge(message)
    consumer.close()
    assert rest(subscribe(client, topic)) == []


# Acknowledgements


@pytest.mark.promise("An individually acknowledged message is not redelivered")
@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared])
def test_what_is_acknowledged_singly_stays_away(
    client: pulsar.Client, topic: str, kind: ConsumerType
) -> None:
    send_all(client.create_producer(topic), PAYLOADS)
    consumer = subscribe(client, topic, kind)
    for number, message in enumerate(receive(consumer, 20)):
        if number % 3:
            consumer.acknowledge(message)
    consumer.close()
    again = subscribe(client, topic, kind)
    assert received_payloads(again, 7) == PAYLOADS[::3]
    assert rest(again) == []


@pytest.mark.promise(
    "A cumulative acknowledgement covers all earlier messages and no part of an incomplete batch"
)
@pytest.mark.parametrize(
    ("batched", "by_index", "first"),
    [(False, False, 14), (True, False, 10), (True, True, 14)],
)
def test_a_cumulative_acknowledgement_covers_all_before(
    client: pulsar.Client, topic: str, batched: bool, by_index: bool, first: int
) -> None:
    for half in (PAYLOADS[:10], PAYLOADS[10:]):
        if batched:
            send_batch(client, topic, half)
        else:
            send_all(client.create_producer(topic), half)
    consumer = subscribe(client, topic, batch_index_ack_enabled=by_index)
    consumer.acknowledge_cumulative(receive(consumer, 20)[13])
    consumer.close()
    again = subscribe(client, topic, batch_index_ack_enabled=by_index)
    assert received_payloads(again, 20 - first) == PAYLOADS[first:]
    assert rest(again) == []


@pytest.mark.promise(
    "A batch is acknowledged when all its messages are; with batch index acknowledgement, "
    "only the other messages are redelivered"
)
@pytest.mark.parametrize("by_index", [False, True])
def test_a_batch_acknowledged_in_part_comes_again_whole_or_by_index(
    client: pulsar.Client, topic: str, by_index: bool
) -> None:
    payloads = [f"message {number}".encode() for number in range(130)]
    send_batch(client, topic, payloads)
    left = payloads
    for kept in (payloads[1::2], payloads[1:126:4], []):
        consumer = subscribe(client, topic, batch_index_ack_enabled=by_index)
        messages = receive(consumer, len(left))
        assert [message.data() for message in messages] == left
        for message in messages:
            if message.data() not in kept:
                consumer.acknowledge(message)
        left = kept if by_index or not kept else payloads
        consumer.close()
    assert rest(subscribe(client, topic)) == []


@pytest.mark.promise("After too many deliveries, a message goes to the dead letter topic")
def test_messages_finally_go_to_the_dead_letter_topic(client: pulsar.Client, topic: str) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(2, f"{topic}-dead", "dead-sub")
    options = {"negative_ack_redelivery_delay_ms": 50, "dead_letter_policy": policy}
    consumer = subscribe(client, topic, ConsumerType.Shared, **options)
    dead = client.subscribe(f"{topic}-dead", "dead-sub", initial_position=InitialPosition.Earliest)
    send_all(client.create_producer(topic), PAYLOADS[:2])
    counts = []
    for _ in range(4):
        message = consumer.receive(20_000)
        if message.data() == PAYLOADS[0]:
            counts.append(message.redelivery_count())
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    assert counts == [0, 1, 2]
    assert dead.receive(20_000).data() == PAYLOADS[0]
    assert rest(consumer) == []


@pytest.mark.promise("Key_Shared: the messages of a key go to one consumer, in order")
def test_a_key_stays_with_one_consumer_in_order(client: pulsar.Client, topic: str) -> None:
    consumers = [subscribe(client, topic, ConsumerType.KeyShared) for _ in range(3)]
    producer = client.create_producer(topic)
    sent = [(f"key-{at % 20}", b"%d" % at) for at in range(200)]
    for key, payload in sent:
        producer.send_async(payload, lambda *_: None, partition_key=key)
    producer.flush()
    shares: list[list[tuple[str, bytes]]] = [[] for _ in consumers]
    deadline = time.monotonic() + DEADLINE_S
    while sum(map(len, shares)) < len(sent):
        assert time.monotonic() < deadline, shares
        for consumer, share in zip(consumers, shares, strict=True):
            with suppress(pulsar.Timeout):
                while message := consumer.receive(20):
                    share.append((message.partition_key(), message.data()))
                    consumer.acknowledge(message)
    of_keys = [{key for key, _ in share} for share in shares]
    assert shares == [[each for each in sent if each[0] in keys] for keys in of_keys]
    assert sum(map(len, of_keys)) == 20
    assert sum(map(bool, of_keys)) > 1


# Seeks and readers


# With a receiver queue of 1, the client hangs: it drops the message that it has sought to, unless
# the message was in a batch, and does not return the permit.
@pytest.mark.promise("A seek goes to a message or to the position after it, even inside a batch")
@pytest.mark.parametrize("queue", [2, 50, 1000])
@pytest.mark.parametrize("inclusive", [False, True])
def test_a_seek_goes_behind_the_message_or_to_it(
    client: pulsar.Client, topic: str, queue: int, inclusive: bool
) -> None:
    sent = send_all(client.create_producer(topic), PAYLOADS)
    consumer = subscribe(
        client, topic, receiver_queue_size=queue, start_message_id_inclusive=inclusive
    )
    for message in receive(consumer, 20):
        consumer.acknowledge(message)
    for target in (13, 2, 7):
        consumer.seek(sent[target][0])
        first = target + (not inclusive)
        assert received_payloads(consumer, 20 - first) == PAYLOADS[first:]


def test_a_seek_may_go_into_a_batch(client: pulsar.Client, topic: str) -> None:
    send_batch(client, topic, PAYLOADS)
    consumer = subscribe(client, topic)
    consumer.seek(receive(consumer, 20)[12].message_id())
    assert received_payloads(consumer, 7) == PAYLOADS[13:]


def read_all(reader: pulsar.Reader) -> list[bytes]:
    """Read until the reader reports that no message is available."""
    payloads = []
    while reader.has_message_available():
        payloads.append(reader.read_next(20_000).data())
    return payloads


@pytest.mark.promise(
    "A reader starts at a message or after it, even inside a batch and at either end of the topic"
)
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("inclusive", [False, True])
def test_a_reader_begins_behind_a_message_or_with_it(
    client: pulsar.Client, topic: str, batched: bool, inclusive: bool
) -> None:
    producer = client.create_producer(topic)
    if batched:
        send_batch(client, topic, PAYLOADS)
    else:
        send_all(producer, PAYLOADS)
    ids = [message.message_id() for message in receive(subscribe(client, topic), 20)]
    for start, first in ((MessageId.earliest, 0), (ids[11], 12), (MessageId.latest, 20)):
        reader = client.create_reader(topic, start, start_message_id_inclusive=inclusive)
        assert read_all(reader) == PAYLOADS[max(0, first - inclusive) :]
    producer.send(b"new")
    assert read_all(reader) == [b"new"]


@pytest.mark.promise("A reader survives its seeks, and its subscription is deleted with it")
def test_a_reader_survives_its_seeks_and_its_subscription_goes_with_it(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    send_all(client.create_producer(topic), PAYLOADS)
    leaving = connect(brokers.service_url)
    reader = client.create_reader(topic, MessageId.earliest, subscription_role_prefix="mine")
    sought = leaving.create_reader(topic, MessageId.earliest)
    for _ in range(2):
        assert read_all(sought) == PAYLOADS
        sought.seek(MessageId.earliest)
    assert len(done(brokers, "GET", topic_path(topic, "/subscriptions"))) == 2
    reader.close()
    leaving.shutdown()
    deadline = time.monotonic() + 20
    while done(brokers, "GET", topic_path(topic, "/subscriptions")):
        assert time.monotonic() < deadline


# Schemas


class Person(Record):
    name = String()
    age = Integer()


class PersonWithTown(Record):
    name = String()
    age = Integer()
    town = String(default="nowhere", required_default=True)


class PersonWithRequiredTown(Record):
    name = String()
    age = Integer()
    town = String(required=True)


@pytest.mark.promise("Each schema is stored once, under its version")
def test_a_schema_that_both_sides_can_read_gets_the_next_version(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    consumer = client.subscribe(topic, "sub", schema=JsonSchema(Person))
    client.create_producer(topic, schema=JsonSchema(PersonWithTown)).send(
        PersonWithTown(name="Ada", age=36, town="London")
    )
    client.create_producer(topic, schema=JsonSchema(Person)).send(Person(name="Bob", age=1))
    versions = [consumer.receive(20_000) for _ in range(2)]
    assert [message.value().name for message in versions] == ["Ada", "Bob"]
    assert [m.schema_version() for m in versions] == ["\0" * 7 + "\1", "\0" * 8]
    path = f"/admin/v2/schemas/public/default/{topic}/schema"
    assert done(brokers, "GET", path)["version"] == 1
    first = json.loads(done(brokers, "GET", f"{path}/0")["data"])
    assert [field["name"] for field in first["fields"]] == ["name", "age"]


@pytest.mark.promise(
    "Incompatible schemas are rejected from producers and consumers, and invalid schemas from "
    "everyone"
)
@pytest.mark.parametrize("schema", [StringSchema(), JsonSchema(PersonWithRequiredTown)])
def test_a_schema_that_does_not_fit_is_rejected_to_both_sides(
    client: pulsar.Client, topic: str, schema: pulsar.schema.Schema
) -> None:
    client.create_producer(topic, schema=JsonSchema(Person))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=schema)
    with pytest.raises(pulsar.IncompatibleSchema):
        client.subscribe(topic, "sub", schema=schema)
