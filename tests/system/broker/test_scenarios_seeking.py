"""Where reading begins and moves to, with the official client: seeks, readers, the last message."""

import time

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition, MessageId

from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import done, topic_path, unload
from tests.system.broker.client import (
    connect,
    receive,
    received_payloads,
    rest,
    send_all,
    send_batch,
)

PAYLOADS = [f"message {number}".encode() for number in range(20)]


def subscribe(client: pulsar.Client, topic: str, **options: object) -> pulsar.Consumer:
    return client.subscribe(topic, "sub", initial_position=InitialPosition.Earliest, **options)


def read_all(reader: pulsar.Reader) -> list[bytes]:
    """All that it says is there."""
    payloads = []
    while reader.has_message_available():
        payloads.append(reader.read_next(20_000).data())
    return payloads


# With a queue of 1 the client hangs: it drops the message that it sought to, unless that was in a
# batch, and gives its permit back to nobody.
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
    messages = receive(consumer, 20)
    consumer.seek(messages[12].message_id())
    assert received_payloads(consumer, 7) == PAYLOADS[13:]


def test_a_seek_to_either_end(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    send_all(producer, PAYLOADS)
    consumer = subscribe(client, topic)
    consumer.acknowledge_cumulative(receive(consumer, 20)[-1])
    consumer.seek(MessageId.earliest)
    assert received_payloads(consumer, 20) == PAYLOADS
    consumer.seek(MessageId.latest)
    assert rest(consumer) == []
    producer.send(b"new")
    assert consumer.receive(20_000).data() == b"new"


def test_a_seek_moves_all_consumers_that_share(client: pulsar.Client, topic: str) -> None:
    consumers = [subscribe(client, topic, consumer_type=ConsumerType.Shared) for _ in range(2)]
    send_all(client.create_producer(topic), PAYLOADS)
    for consumer in consumers:
        for message in receive(consumer, 10):
            consumer.acknowledge(message)
    consumers[0].seek(MessageId.earliest)
    got = [payload for consumer in consumers for payload in rest(consumer, 500)]
    assert sorted(got) == sorted(PAYLOADS)


def test_what_a_seek_brings_back_is_not_acknowledged(client: pulsar.Client, topic: str) -> None:
    sent = send_all(client.create_producer(topic), PAYLOADS)
    consumer = subscribe(client, topic)
    consumer.acknowledge_cumulative(receive(consumer, 20)[-1])
    consumer.seek(sent[9][0])
    consumer.close()
    assert received_payloads(subscribe(client, topic), 11)[-10:] == PAYLOADS[10:]


def send_in_two_goes(client: pulsar.Client, topic: str) -> int:
    """Ten messages, and ten more later; a time in between, in ms."""
    producer = client.create_producer(topic)
    send_all(producer, PAYLOADS[:10])
    before = time.time_ns() // 1_000_000
    while (now := time.time_ns() // 1_000_000) < before + 2:
        pass
    while time.time_ns() // 1_000_000 < now + 2:
        pass
    send_all(producer, PAYLOADS[10:])
    return now


def test_a_seek_to_a_time_goes_to_what_was_published_then_or_later(
    client: pulsar.Client, topic: str
) -> None:
    between = send_in_two_goes(client, topic)
    consumer = subscribe(client, topic)
    receive(consumer, 20)
    consumer.seek(between)
    assert received_payloads(consumer, 10) == PAYLOADS[10:]
    consumer.seek(1)
    assert received_payloads(consumer, 20) == PAYLOADS
    consumer.seek(between + 3_600_000)
    assert rest(consumer) == []


def test_a_seek_to_a_time_finds_its_way_over_many_ledgers(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    subscribe(client, topic).close()  # What it has not acknowledged is not trimmed.
    times = []
    for number in range(4):
        producer = client.create_producer(topic)
        times.append(time.time_ns() // 1_000_000)
        send_all(producer, [f"{number}:{i}".encode() for i in range(5)])
        producer.close()
        unload(brokers, topic)
    consumer = subscribe(client, topic)
    assert len({m.message_id().ledger_id() for m in receive(consumer, 20)}) == 4
    for number in (2, 0, 3, 1):
        consumer.seek(times[number])
        assert consumer.receive(20_000).data() == f"{number}:0".encode()


def test_a_reader_reads_all_from_the_first_message(client: pulsar.Client, topic: str) -> None:
    send_all(client.create_producer(topic), PAYLOADS)
    reader = client.create_reader(topic, MessageId.earliest)
    assert read_all(reader) == PAYLOADS
    assert not reader.has_message_available()


@pytest.mark.parametrize("inclusive", [False, True])
def test_a_reader_begins_behind_a_message_or_with_it(
    client: pulsar.Client, topic: str, inclusive: bool
) -> None:
    sent = send_all(client.create_producer(topic), PAYLOADS)
    reader = client.create_reader(topic, sent[11][0], start_message_id_inclusive=inclusive)
    assert read_all(reader) == PAYLOADS[11 + (not inclusive) :]


@pytest.mark.parametrize("inclusive", [False, True])
def test_a_reader_may_begin_within_a_batch(
    client: pulsar.Client, topic: str, inclusive: bool
) -> None:
    send_batch(client, topic, PAYLOADS)
    ids = [m.message_id() for m in receive(subscribe(client, topic), 20)]
    reader = client.create_reader(topic, ids[11], start_message_id_inclusive=inclusive)
    assert read_all(reader) == PAYLOADS[11 + (not inclusive) :]


def test_a_reader_from_the_end_reads_what_comes(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    send_all(producer, PAYLOADS)
    reader = client.create_reader(topic, MessageId.latest)
    assert not reader.has_message_available()
    producer.send(b"new")
    assert reader.has_message_available()
    assert reader.read_next(20_000).data() == b"new"


@pytest.mark.parametrize("batched", [False, True])
def test_a_reader_from_the_end_inclusive_reads_the_last_message(
    client: pulsar.Client, topic: str, batched: bool
) -> None:
    if batched:
        send_batch(client, topic, PAYLOADS)
    else:
        send_all(client.create_producer(topic), PAYLOADS)
    reader = client.create_reader(topic, MessageId.latest, start_message_id_inclusive=True)
    assert read_all(reader) == PAYLOADS[-1:]


def test_a_reader_of_an_empty_topic_has_nothing(client: pulsar.Client, topic: str) -> None:
    reader = client.create_reader(topic, MessageId.earliest)
    assert not reader.has_message_available()
    client.create_producer(topic).send(b"first")
    assert read_all(reader) == [b"first"]


def test_a_reader_survives_its_seeks(client: pulsar.Client, topic: str) -> None:
    between = send_in_two_goes(client, topic)
    reader = client.create_reader(topic, MessageId.earliest)
    assert read_all(reader) == PAYLOADS
    reader.seek(between)
    assert read_all(reader) == PAYLOADS[10:]
    reader.seek(MessageId.earliest)
    assert read_all(reader) == PAYLOADS
    reader.seek(between + 3_600_000)
    assert not reader.has_message_available()


def test_a_readers_subscription_goes_with_it(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    send_all(client.create_producer(topic), PAYLOADS)
    leaving = connect(brokers.service_url)
    reader = client.create_reader(topic, MessageId.earliest, subscription_role_prefix="mine")
    sought = leaving.create_reader(topic, MessageId.earliest)
    sought.seek(MessageId.earliest)
    assert len(done(brokers, "GET", topic_path(topic, "/subscriptions"))) == 2
    reader.close()
    leaving.shutdown()
    deadline = time.monotonic() + 20
    while done(brokers, "GET", topic_path(topic, "/subscriptions")):
        assert time.monotonic() < deadline


@pytest.mark.parametrize("count", [1, 7])
def test_the_last_message_id_is_that_of_the_last_message(
    client: pulsar.Client, topic: str, count: int
) -> None:
    consumer = subscribe(client, topic)
    empty = consumer.get_last_message_id()
    assert (empty.ledger_id(), empty.entry_id()) == (-1, -1)
    producer = client.create_producer(topic)
    assert consumer_last(consumer, producer.send(b"single")) == -1
    send_batch(client, topic, PAYLOADS[:count])
    last = receive(consumer, 1 + count)[-1].message_id()
    assert consumer_last(consumer, last) == count - 1


def consumer_last(consumer: pulsar.Consumer, expected: MessageId) -> int:
    """The batch index of the last message, whose entry is as expected."""
    last = consumer.get_last_message_id()
    assert (last.ledger_id(), last.entry_id()) == (expected.ledger_id(), expected.entry_id())
    return int(last.batch_index())
