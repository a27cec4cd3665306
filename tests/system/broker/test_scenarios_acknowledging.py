"""Acknowledging with the official client: what is acknowledged stays away, the rest comes again."""

import pulsar
import pytest
from pulsar import ConsumerType, InitialPosition

from tests.system.broker.client import receive, received_payloads, rest, send_all, send_batch

PAYLOADS = [f"message {number}".encode() for number in range(20)]


def subscribe(client: pulsar.Client, topic: str, **options: object) -> pulsar.Consumer:
    return client.subscribe(topic, "sub", initial_position=InitialPosition.Earliest, **options)


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared])
def test_what_is_acknowledged_singly_stays_away(
    client: pulsar.Client, topic: str, kind: ConsumerType
) -> None:
    send_all(client.create_producer(topic), PAYLOADS)
    consumer = subscribe(client, topic, consumer_type=kind)
    for message in receive(consumer, 20):
        if int(message.data().split()[1]) % 3:
            consumer.acknowledge(message)
    consumer.close()
    again = subscribe(client, topic, consumer_type=kind)
    assert received_payloads(again, 7) == PAYLOADS[::3]
    assert rest(again) == []


def test_a_cumulative_acknowledgement_covers_all_before(client: pulsar.Client, topic: str) -> None:
    send_all(client.create_producer(topic), PAYLOADS)
    consumer = subscribe(client, topic)
    messages = receive(consumer, 20)
    consumer.acknowledge_cumulative(messages[12])
    consumer.close()
    again = subscribe(client, topic)
    assert received_payloads(again, 7) == PAYLOADS[13:]
    assert rest(again) == []


def test_a_cumulative_acknowledgement_within_the_first_batch_acknowledges_nothing(
    client: pulsar.Client, topic: str
) -> None:
    send_batch(client, topic, PAYLOADS)
    consumer = subscribe(client, topic)
    messages = receive(consumer, 20)
    assert messages[0].message_id().entry_id() == 0  # So the client sends (L, -1).
    consumer.acknowledge_cumulative(messages[9])
    consumer.close()
    again = subscribe(client, topic)
    assert received_payloads(again, 20) == PAYLOADS


def test_a_batch_acknowledged_in_part_comes_again_whole(client: pulsar.Client, topic: str) -> None:
    send_batch(client, topic, PAYLOADS)
    consumer = subscribe(client, topic, consumer_type=ConsumerType.Shared)
    for message in receive(consumer, 20)[:19]:
        consumer.acknowledge(message)
    consumer.close()
    again = subscribe(client, topic, consumer_type=ConsumerType.Shared)
    assert received_payloads(again, 20) == PAYLOADS


def test_a_batch_acknowledged_in_full_stays_away(client: pulsar.Client, topic: str) -> None:
    send_batch(client, topic, PAYLOADS)
    consumer = subscribe(client, topic)
    for message in receive(consumer, 20):
        consumer.acknowledge(message)
    consumer.close()
    assert rest(subscribe(client, topic)) == []


def test_with_batch_indexes_only_what_is_left_of_a_batch_comes_again(
    client: pulsar.Client, topic: str
) -> None:
    payloads = [f"message {number}".encode() for number in range(130)]
    send_batch(client, topic, payloads)
    left = payloads
    for keep in (lambda number: number % 2, lambda number: number % 3 and number != 129):
        consumer = subscribe(client, topic, batch_index_ack_enabled=True)
        messages = receive(consumer, len(left))
        assert [message.data() for message in messages] == left
        for message in messages:
            if not keep(message.message_id().batch_index()):
                consumer.acknowledge(message)
        left = [m.data() for m in messages if keep(m.message_id().batch_index())]
        consumer.close()
    consumer = subscribe(client, topic, batch_index_ack_enabled=True)
    for message in receive(consumer, len(left)):
        consumer.acknowledge(message)
    consumer.close()
    assert rest(subscribe(client, topic)) == []


def test_with_batch_indexes_a_cumulative_acknowledgement_may_end_within_a_batch(
    client: pulsar.Client, topic: str
) -> None:
    send_batch(client, topic, PAYLOADS[:10])
    send_batch(client, topic, PAYLOADS[10:])
    consumer = subscribe(client, topic, batch_index_ack_enabled=True)
    consumer.acknowledge_cumulative(receive(consumer, 20)[13])
    consumer.close()
    again = subscribe(client, topic, batch_index_ack_enabled=True)
    assert received_payloads(again, 6) == PAYLOADS[14:]
    assert rest(again) == []


def test_where_consumers_share_nothing_is_acknowledged_up_to_a_message(
    client: pulsar.Client, topic: str
) -> None:
    send_all(client.create_producer(topic), PAYLOADS[:2])
    consumer = subscribe(client, topic, consumer_type=ConsumerType.Shared)
    with pytest.raises(pulsar.CumulativeAcknowledgementNotAllowedError):
        consumer.acknowledge_cumulative(receive(consumer, 2)[1])


def test_asking_again_brings_what_is_not_acknowledged(client: pulsar.Client, topic: str) -> None:
    send_all(client.create_producer(topic), PAYLOADS)
    consumer = subscribe(client, topic)
    for message in receive(consumer, 20)[:5]:
        consumer.acknowledge(message)
    consumer.redeliver_unacknowledged_messages()
    assert received_payloads(consumer, 15) == PAYLOADS[5:]
