"""Subscriptions with the official client: who may join, where they begin, what they span."""

import queue
import re

import pulsar
import pulsar.asyncio
import pytest
from pulsar import ConsumerType, InitialPosition

from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import done, topic_path, unload, wait_until_acknowledged
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
    topic: str | list[str],
    kind: ConsumerType = ConsumerType.Exclusive,
    **options: object,
) -> pulsar.Consumer:
    return client.subscribe(
        topic, "sub", kind, initial_position=InitialPosition.Earliest, **options
    )


def test_a_second_exclusive_consumer_is_refused(client: pulsar.Client, topic: str) -> None:
    first = subscribe(client, topic)
    with pytest.raises(pulsar.ConsumerBusy):
        subscribe(client, topic)
    first.close()
    subscribe(client, topic)


def test_consumers_of_another_type_are_refused_while_there_are_some(
    client: pulsar.Client, topic: str
) -> None:
    shared = subscribe(client, topic, ConsumerType.Shared)
    for kind in (ConsumerType.Exclusive, ConsumerType.Failover, ConsumerType.KeyShared):
        with pytest.raises(pulsar.ConsumerBusy):
            subscribe(client, topic, kind)
    shared.close()
    subscribe(client, topic, ConsumerType.Failover)


def test_a_new_subscription_begins_at_the_end_unless_it_asks_for_the_beginning(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    send_all(producer, PAYLOADS[:10])
    latest = client.subscribe(topic, "latest")
    earliest = client.subscribe(topic, "earliest", initial_position=InitialPosition.Earliest)
    send_all(producer, PAYLOADS[10:])
    assert received_payloads(latest, 10) == PAYLOADS[10:]
    assert received_payloads(earliest, 20) == PAYLOADS


def test_subscriptions_do_not_disturb_each_other(client: pulsar.Client, topic: str) -> None:
    consumers = [
        client.subscribe(topic, f"sub/{n} ü", initial_position=InitialPosition.Earliest)
        for n in range(3)
    ]
    send_all(client.create_producer(topic), PAYLOADS)
    consumers[0].acknowledge_cumulative(receive(consumers[0], 20)[-1])
    consumers[0].close()
    for consumer in consumers[1:]:
        assert received_payloads(consumer, 20) == PAYLOADS


def test_the_first_failover_consumer_by_name_is_active_and_the_next_takes_over(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    clients = {name: connect(brokers.service_url) for name in ("b", "a", "c")}
    consumers = {
        name: subscribe(each, topic, ConsumerType.Failover, consumer_name=name)
        for name, each in clients.items()
    }
    send_all(client.create_producer(topic), PAYLOADS)
    messages = receive(consumers["a"], 20)
    assert rest(consumers["b"], 100) == rest(consumers["c"], 1) == []
    for message in messages[:5]:
        consumers["a"].acknowledge(message)
    consumers["a"].close()
    assert received_payloads(consumers["b"], 15) == PAYLOADS[5:]
    assert rest(consumers["c"], 100) == []
    clients["b"].shutdown()
    assert received_payloads(consumers["c"], 15) == PAYLOADS[5:]


def test_partitions_are_spread_over_failover_consumers(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    done(brokers, "PUT", topic_path(topic, "/partitions"), 4)
    consumers = {
        name: subscribe(client, topic, ConsumerType.Failover, consumer_name=name) for name in "ab"
    }
    for partition in range(4):
        producer = client.create_producer(f"{topic}-partition-{partition}")
        send_all(producer, PAYLOADS[:5])
    seen = {
        name: {message.message_id().partition() for message in receive(consumer, 10)}
        for name, consumer in consumers.items()
    }
    assert seen == {"a": {0, 2}, "b": {1, 3}}


def test_to_unsubscribe_forgets_what_was_acknowledged(client: pulsar.Client, topic: str) -> None:
    send_all(client.create_producer(topic), PAYLOADS)
    consumer = subscribe(client, topic)
    consumer.acknowledge_cumulative(receive(consumer, 20)[-1])
    consumer.unsubscribe()
    assert received_payloads(subscribe(client, topic), 20) == PAYLOADS


def test_to_unsubscribe_is_refused_while_others_are_connected(
    client: pulsar.Client, topic: str
) -> None:
    first, second = (subscribe(client, topic, ConsumerType.Shared) for _ in range(2))
    with pytest.raises(pulsar.BrokerMetadataError):
        first.unsubscribe()
    second.close()
    first.unsubscribe()


def test_delivered_ids_name_the_partition(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    done(brokers, "PUT", topic_path(topic, "/partitions"), 3)
    producer = client.create_producer(
        topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution
    )
    sent = {payload: at for at, payload in send_all(producer, PAYLOADS)}
    received = receive(subscribe(client, topic), 20)
    assert {m.data(): str(m.message_id()) for m in received} == {
        payload: str(at) for payload, at in sent.items()
    }
    assert {m.message_id().partition() for m in received} == {0, 1, 2}


def test_one_consumer_reads_several_topics(client: pulsar.Client, topic: str) -> None:
    topics = [f"{topic}-{number}" for number in range(3)]
    consumer = subscribe(client, topics)
    for each in topics:
        send_all(client.create_producer(each), [f"{each}:{n}".encode() for n in range(5)])
    messages = receive(consumer, 15)
    for each in topics:
        mine = [m.data() for m in messages if m.topic_name().endswith(f"/{each}")]
        assert mine == [f"{each}:{n}".encode() for n in range(5)]
    for message in messages:
        consumer.acknowledge(message)
    consumer.close()
    assert rest(subscribe(client, topics)) == []


def test_a_pattern_finds_topics_and_partitions(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    done(brokers, "PUT", topic_path(f"{topic}-many", "/partitions"), 2)
    names = [f"{topic}-many", f"{topic}-one", f"{topic}-none"]
    for name in names:
        send_all(client.create_producer(name), [name.encode()])
    pattern = re.compile(f"persistent://public/default/{topic}-(many|one)")
    consumer = client.subscribe(pattern, "sub", initial_position=InitialPosition.Earliest)
    assert sorted(received_payloads(consumer, 2)) == sorted(name.encode() for name in names[:2])
    assert rest(consumer) == []


def test_chunks_come_back_as_one_message(client: pulsar.Client, topic: str) -> None:
    consumer = subscribe(client, topic)
    payload = bytes(range(256)) * 4096 * 12
    producer = client.create_producer(topic, chunking_enabled=True)
    sent = producer.send(payload)
    message = consumer.receive(20_000)
    assert message.data() == payload
    assert str(message.message_id()) == str(sent)
    consumer.acknowledge(message)
    consumer.close()
    assert rest(subscribe(client, topic)) == []


def test_a_queue_of_nothing_gets_one_message_at_a_time(client: pulsar.Client, topic: str) -> None:
    send_all(client.create_producer(topic), PAYLOADS[:5])
    consumer = subscribe(client, topic, ConsumerType.Shared, receiver_queue_size=0)
    for expected in PAYLOADS[:3]:
        message = consumer.receive()
        assert message.data() == expected
        consumer.acknowledge(message)
    consumer.close()
    assert received_payloads(subscribe(client, topic, ConsumerType.Shared), 2) == PAYLOADS[3:5]


def test_batches_larger_than_the_queue_still_arrive(client: pulsar.Client, topic: str) -> None:
    payloads = [f"message {number}".encode() for number in range(100)]
    for at in range(0, 100, 50):
        send_batch(client, topic, payloads[at : at + 50])
    consumer = subscribe(client, topic, receiver_queue_size=4)
    assert received_payloads(consumer, 100) == payloads


def test_a_listener_is_called_with_each_message(client: pulsar.Client, topic: str) -> None:
    heard: queue.Queue[bytes] = queue.Queue()

    def listen(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        consumer.acknowledge(message)
        heard.put(message.data())

    consumer = subscribe(client, topic, message_listener=listen)
    send_all(client.create_producer(topic), PAYLOADS)
    assert [heard.get(timeout=20) for _ in PAYLOADS] == PAYLOADS
    consumer.close()
    assert rest(subscribe(client, topic)) == []


def test_messages_come_in_batches_of_the_receivers_choice(
    client: pulsar.Client, topic: str
) -> None:
    send_all(client.create_producer(topic), PAYLOADS)
    policy = pulsar.ConsumerBatchReceivePolicy(7, -1, 2000)
    consumer = subscribe(client, topic, batch_receive_policy=policy)
    batches = [[message.data() for message in consumer.batch_receive()] for _ in range(3)]
    assert [len(each) for each in batches] == [7, 7, 6]
    assert [payload for each in batches for payload in each] == PAYLOADS


@pytest.mark.asyncio(loop_scope="session")
async def test_the_asyncio_client_produces_and_consumes(brokers: LocalCluster, topic: str) -> None:
    client = pulsar.asyncio.Client(brokers.service_url)
    consumer = await client.subscribe(topic, "sub", initial_position=InitialPosition.Earliest)
    producer = await client.create_producer(topic)
    sent = [str(await producer.send(payload)) for payload in PAYLOADS]
    messages = [await consumer.receive() for _ in PAYLOADS]
    assert [message.data() for message in messages] == PAYLOADS
    assert [str(message.message_id()) for message in messages] == sent
    await consumer.acknowledge_cumulative(messages[-1])
    await client.close()


def test_a_table_view_holds_the_last_value_of_each_key(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    for number in range(10):
        producer.send(f"{number}".encode(), partition_key=f"key-{number % 3}")
    view = client.create_table_view(topic)
    assert {key: view.get(key) for key in ("key-0", "key-1", "key-2")} == {
        "key-0": b"9",
        "key-1": b"7",
        "key-2": b"8",
    }


def test_a_consumer_follows_its_topic_through_an_unload(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    producer, consumer = client.create_producer(topic), subscribe(client, topic)
    send_all(producer, PAYLOADS[:10])
    messages = receive(consumer, 10)
    for message in messages:
        consumer.acknowledge(message)
    wait_until_acknowledged(brokers, topic, messages[-1].message_id())
    unload(brokers, topic)
    send_all(producer, PAYLOADS[10:])
    later = receive(consumer, 10)
    assert [message.data() for message in later] == PAYLOADS[10:]
    assert later[0].message_id().ledger_id() > messages[-1].message_id().ledger_id()
