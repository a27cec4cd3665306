"""Consumers that share, with the official client: in turn, again when asked, by key, later."""

import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta

import pulsar
import pytest
from pulsar import BatchingType, ConsumerType, InitialPosition

from labkit.system.broker.dispatch.hashes import hash_of_key
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import DEADLINE_S
from tests.system.broker.client import connect, receive, received_payloads, rest, send_all

PAYLOADS = [f"message {number}".encode() for number in range(40)]
KEYS = [f"key-{number}" for number in range(20)]


def subscribe(
    client: pulsar.Client, topic: str, kind: ConsumerType = ConsumerType.Shared, **options: object
) -> pulsar.Consumer:
    return client.subscribe(
        topic, "sub", kind, initial_position=InitialPosition.Earliest, **options
    )


def send_keyed(client: pulsar.Client, topic: str, rounds: int, first: int = 0) -> None:
    """A numbered message of each key in every round."""
    producer = client.create_producer(topic)
    for number in range(first, first + rounds):
        for key in KEYS:
            producer.send_async(f"{number}".encode(), lambda *_: None, partition_key=key)
    producer.flush()
    producer.close()


def numbers_by_key(messages: list[pulsar.Message]) -> dict[str, list[int]]:
    """In the order in which they came."""
    numbers: dict[str, list[int]] = {}
    for message in messages:
        numbers.setdefault(message.partition_key(), []).append(int(message.data()))
    return numbers


def take(consumers: list[pulsar.Consumer], count: int) -> list[list[pulsar.Message]]:
    """`count` messages, acknowledged: what each of the consumers got of them."""
    shares: list[list[pulsar.Message]] = [[] for _ in consumers]
    deadline = time.monotonic() + DEADLINE_S
    while sum(map(len, shares)) < count:
        assert time.monotonic() < deadline, shares
        for consumer, share in zip(consumers, shares, strict=True):
            with suppress(pulsar.Timeout):
                while True:
                    share.append(consumer.receive(20))
                    consumer.acknowledge(share[-1])
    return shares


def test_messages_go_round_and_each_comes_once(client: pulsar.Client, topic: str) -> None:
    consumers = [subscribe(client, topic) for _ in range(4)]
    send_all(client.create_producer(topic), PAYLOADS)
    shares = [received_payloads(consumer, 10) for consumer in consumers]
    assert shares == [PAYLOADS[at::4] for at in range(4)]


def test_a_slow_consumer_stops_no_other(client: pulsar.Client, topic: str) -> None:
    slow = subscribe(client, topic, receiver_queue_size=1)
    quick = subscribe(client, topic)
    send_all(client.create_producer(topic), PAYLOADS)
    [taken] = take([quick], len(PAYLOADS) - 2)
    [held] = take([slow], len(PAYLOADS) - len(taken))
    assert Counter(m.data() for m in taken + held) == Counter(PAYLOADS)


def test_a_negative_acknowledgement_comes_again_and_is_counted(
    client: pulsar.Client, topic: str
) -> None:
    consumer = subscribe(client, topic, negative_ack_redelivery_delay_ms=50)
    send_all(client.create_producer(topic), PAYLOADS[:3])
    counts: dict[bytes, list[int]] = {}
    for _ in range(5):
        message = consumer.receive(20_000)
        counts.setdefault(message.data(), []).append(message.redelivery_count())
        if message.data() == PAYLOADS[1] and message.redelivery_count() < 2:
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    assert counts == {PAYLOADS[0]: [0], PAYLOADS[1]: [0, 1, 2], PAYLOADS[2]: [0]}
    assert rest(consumer) == []


@pytest.mark.slow
def test_what_is_not_acknowledged_in_time_comes_again(client: pulsar.Client, topic: str) -> None:
    consumer = subscribe(client, topic, unacked_messages_timeout_ms=10_000)
    send_all(client.create_producer(topic), PAYLOADS[:2])
    first, second = receive(consumer, 2)
    consumer.acknowledge(first)
    again = consumer.receive(20_000)
    assert (again.data(), again.redelivery_count()) == (second.data(), 1)


def test_after_too_many_deliveries_a_message_goes_to_the_dead_letter_topic(
    client: pulsar.Client, topic: str
) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(2, f"{topic}-dead", "dead-sub")
    consumer = subscribe(
        client, topic, negative_ack_redelivery_delay_ms=50, dead_letter_policy=policy
    )
    dead = client.subscribe(f"{topic}-dead", "dead-sub", initial_position=InitialPosition.Earliest)
    send_all(client.create_producer(topic), PAYLOADS[:2])
    deliveries = []
    for _ in range(4):
        message = consumer.receive(20_000)
        deliveries.append((message.data(), message.redelivery_count()))
        if message.data() == PAYLOADS[0]:
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    assert [count for data, count in deliveries if data == PAYLOADS[0]] == [0, 1, 2]
    assert dead.receive(20_000).data() == PAYLOADS[0]
    assert rest(consumer) == []


def test_when_a_consumer_disconnects_the_others_get_what_it_had(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    leaving = connect(brokers.service_url)
    gone = subscribe(leaving, topic)
    send_all(client.create_producer(topic), PAYLOADS)
    receive(gone, 40)
    staying = subscribe(client, topic)
    assert rest(staying, 100) == []
    leaving.shutdown()
    assert received_payloads(staying, 40) == PAYLOADS


def test_delayed_messages_come_when_they_are_due_and_stop_no_other(
    client: pulsar.Client, topic: str
) -> None:
    consumer = subscribe(client, topic)
    producer = client.create_producer(topic)
    due = time.time() + 1.5
    producer.send(b"late", deliver_after=timedelta(milliseconds=1500))
    producer.send(b"later", deliver_at=round(due * 1000) + 500)
    producer.send(b"at once")
    assert consumer.receive(20_000).data() == b"at once"
    assert consumer.receive(20_000).data() == b"late"
    assert time.time() >= due
    assert consumer.receive(20_000).data() == b"later"
    assert time.time() >= due + 0.499  # The broker counts whole milliseconds.


def test_a_key_stays_with_one_consumer_in_order(client: pulsar.Client, topic: str) -> None:
    consumers = [subscribe(client, topic, ConsumerType.KeyShared) for _ in range(3)]
    send_keyed(client, topic, rounds=10)
    shares = list(map(numbers_by_key, take(consumers, 10 * len(KEYS))))
    assert sorted(key for share in shares for key in share) == sorted(KEYS)
    assert all(numbers == list(range(10)) for share in shares for numbers in share.values())
    assert sum(1 for share in shares if share) > 1


def test_batches_by_key_stay_with_one_consumer(client: pulsar.Client, topic: str) -> None:
    consumers = [subscribe(client, topic, ConsumerType.KeyShared) for _ in range(2)]
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_type=BatchingType.KeyBased,
        batching_max_publish_delay_ms=20,
    )
    for number in range(10):
        for key in KEYS:
            producer.send_async(f"{number}".encode(), lambda *_: None, partition_key=key)
    producer.flush()
    shares = list(map(numbers_by_key, take(consumers, 10 * len(KEYS))))
    assert sorted(key for share in shares for key in share) == sorted(KEYS)
    assert all(numbers == list(range(10)) for share in shares for numbers in share.values())


def test_the_ordering_key_chooses_before_the_key(client: pulsar.Client, topic: str) -> None:
    consumers = [subscribe(client, topic, ConsumerType.KeyShared) for _ in range(2)]
    producer = client.create_producer(topic)
    for key in KEYS:
        producer.send(b"0", partition_key=key, ordering_key="one for all")
    assert sorted(map(len, take(consumers, len(KEYS)))) == [0, len(KEYS)]


def test_when_a_consumer_joins_keys_keep_their_order(client: pulsar.Client, topic: str) -> None:
    old = subscribe(client, topic, ConsumerType.KeyShared)
    send_keyed(client, topic, rounds=5)
    held = receive(old, 5 * len(KEYS))
    new = subscribe(client, topic, ConsumerType.KeyShared)
    send_keyed(client, topic, rounds=5, first=5)
    moved = {key for key in KEYS if hash_of_key(key.encode()) < 32768}
    assert 0 < len(moved) < len(KEYS)
    # Nothing of a key that moved, as long as its first messages are not acknowledged.
    assert rest(new) == []
    for message in held:
        old.acknowledge(message)
    taken, kept = map(numbers_by_key, take([new, old], 5 * len(KEYS)))
    assert taken == {key: list(range(5, 10)) for key in moved}
    assert kept == {key: list(range(5, 10)) for key in KEYS if key not in moved}


def test_sticky_consumers_get_the_hashes_that_they_name(client: pulsar.Client, topic: str) -> None:
    ranges = [(0, 29_999), (30_000, 65_535)]
    consumers = [
        subscribe(
            client,
            topic,
            ConsumerType.KeyShared,
            key_shared_policy=pulsar.ConsumerKeySharedPolicy(
                pulsar.KeySharedMode.Sticky, sticky_ranges=[each]
            ),
        )
        for each in ranges
    ]
    send_keyed(client, topic, rounds=3)
    shares = map(numbers_by_key, take(consumers, 3 * len(KEYS)))
    for share, (first, last) in zip(shares, ranges, strict=True):
        mine = {key for key in KEYS if first <= hash_of_key(key.encode()) <= last}
        assert share == {key: [0, 1, 2] for key in mine}


def test_sticky_ranges_that_overlap_are_refused(client: pulsar.Client, topic: str) -> None:
    def sticky(first: int, last: int) -> pulsar.Consumer:
        policy = pulsar.ConsumerKeySharedPolicy(
            pulsar.KeySharedMode.Sticky, sticky_ranges=[(first, last)]
        )
        return subscribe(client, topic, ConsumerType.KeyShared, key_shared_policy=policy)

    sticky(0, 100)
    with pytest.raises(pulsar.PulsarException, match="ConsumerAssignError"):
        sticky(100, 200)
    sticky(101, 200)
