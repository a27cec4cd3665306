"""Tests for the admin paths for single messages: peek, examine, by id, by time, and the
last one.
"""

import json
from http import HTTPStatus

import pulsar
import pytest

from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import ask, message_at, topic_path
from tests.system.broker.client import send_all

PAYLOADS = [f"message {number}".encode() for number in range(6)]


@pytest.fixture
def sent(client: pulsar.Client, topic: str) -> list[pulsar.MessageId]:
    """Send six messages, each in its own entry, and return their ids."""
    producer = client.create_producer(topic, batching_enabled=False)
    return [message_id for message_id, _ in send_all(producer, PAYLOADS)]


@pytest.mark.promise(
    "An administrator reads messages without consuming them, and never mistakes an error for "
    "the end of the topic"
)
def test_messages_are_peeked_in_order_without_the_acknowledged_ones_until_404(
    client: pulsar.Client, brokers: LocalCluster, topic: str, sent: list[pulsar.MessageId]
) -> None:
    consumer = client.subscribe(topic, "sub", initial_position=pulsar.InitialPosition.Earliest)
    messages = [consumer.receive(20_000) for _ in PAYLOADS]
    for index in (0, 2, 3):
        consumer.acknowledge(messages[index])
    consumer.close()
    path = topic_path(topic, "/subscription/sub/position")
    peeked = [message_at(brokers, f"{path}/{count}")[1] for count in (1, 2, 3)]
    assert peeked == [PAYLOADS[index] for index in (1, 4, 5)]
    assert ask(brokers, "GET", f"{path}/4")[0] == HTTPStatus.NOT_FOUND
    assert ask(brokers, "GET", f"{path}/0")[0] == HTTPStatus.BAD_REQUEST
    assert ask(brokers, "GET", f"{path}/x")[0] == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize("there", [True, False])
def test_what_cannot_be_peeked_is_never_returned_like_the_end_of_the_backlog(
    client: pulsar.Client, brokers: LocalCluster, topic: str, there: bool
) -> None:
    if there:
        client.create_producer(topic).close()
    status, response = ask(brokers, "GET", topic_path(topic, "/subscription/none/position/1"))
    assert status == HTTPStatus.PRECONDITION_FAILED
    assert response["reason"].startswith("subscription 'none'" if there else "topic ")


def test_metadata_of_a_message_are_headers_under_pulsars_names(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    producer = client.create_producer(topic, "the-producer", batching_enabled=False)
    properties = {"Key": "gr\u00fcn \u65e5\u672c\n"}
    at = producer.send(
        b"payload",
        properties=properties,
        partition_key="k\u65e5",
        event_timestamp=1_700_000_000_123,
    )
    headers, body = message_at(
        brokers, topic_path(topic, f"/ledger/{at.ledger_id()}/entry/{at.entry_id()}")
    )
    assert body == b"payload"
    # Pulsar's library compares this header name case-sensitively.
    assert json.loads(headers["X-Pulsar-PROPERTY"]) == properties
    found = {name: headers[f"X-Pulsar-{name}"] for name in ("Message-ID", "producer-name")}
    assert found == {
        "Message-ID": f"{at.ledger_id()}:{at.entry_id()}",
        "producer-name": "the-producer",
    }
    assert headers["X-Pulsar-event-time"] == "2023-11-14T22:13:20.123Z"
    assert headers["X-Pulsar-publish-time"].endswith("Z")
    assert headers["X-Pulsar-partition-key"] == "k "
    assert headers["X-Pulsar-Is-Encrypted"] == "false"
    assert "X-Pulsar-num-batch-message" not in headers


@pytest.mark.parametrize("codec", list(pulsar.CompressionType.__members__))
def test_batch_is_returned_whole_and_decompressed(
    client: pulsar.Client, brokers: LocalCluster, topic: str, codec: str
) -> None:
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=3,
        batching_max_publish_delay_ms=10_000,
        compression_type=pulsar.CompressionType.__members__[codec],
    )
    send_all(producer, [b"one" * 50, b"two", b"three"])
    headers, body = message_at(brokers, topic_path(topic, "/examinemessage"))
    assert headers["X-Pulsar-num-batch-message"] == "3"
    assert [body.count(word) for word in (b"one", b"two", b"three")] == [50, 1, 1]


def test_messages_are_examined_from_both_ends(
    brokers: LocalCluster, topic: str, sent: list[pulsar.MessageId]
) -> None:
    def examined(start: str, position: int) -> bytes:
        query = f"initialPosition={start}&messagePosition={position}"
        return message_at(brokers, topic_path(topic, f"/examinemessage?{query}"))[1]

    assert [examined("earliest", 1), examined("earliest", 6)] == [PAYLOADS[0], PAYLOADS[5]]
    assert [examined("latest", 1), examined("latest", 6)] == [PAYLOADS[5], PAYLOADS[0]]
    for query, status in (
        ("initialPosition=earliest&messagePosition=7", HTTPStatus.NOT_FOUND),
        ("initialPosition=latest&messagePosition=7", HTTPStatus.NOT_FOUND),
        ("initialPosition=middle", HTTPStatus.BAD_REQUEST),
        ("messagePosition=two", HTTPStatus.BAD_REQUEST),
    ):
        assert ask(brokers, "GET", topic_path(topic, f"/examinemessage?{query}"))[0] == status


def test_message_ids_that_name_no_entry_are_not_found(
    brokers: LocalCluster, topic: str, sent: list[pulsar.MessageId]
) -> None:
    ledger = sent[0].ledger_id()
    for entry in (f"{ledger}/entry/6", f"{ledger}/entry/-1", f"{ledger + 1000}/entry/0"):
        status, _ = ask(brokers, "GET", topic_path(topic, f"/ledger/{entry}"))
        assert status == HTTPStatus.NOT_FOUND, entry
