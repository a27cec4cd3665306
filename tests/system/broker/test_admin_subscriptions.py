"""Tests for the admin paths that create, skip, reset, expire and delete subscriptions."""

import time
from http import HTTPStatus
from typing import Any

import pulsar
import pytest

from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import NOTHING, ask, backlog_of, done, message_at, topic_path, unload
from tests.system.broker.client import received_payloads, rest, send_all, send_batch

PAYLOADS = [f"message {number}".encode() for number in range(10)]
SUB = "/subscription/sub"
EARLIEST = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1}


@pytest.fixture
def sent(client: pulsar.Client, brokers: LocalCluster, topic: str) -> list[pulsar.MessageId]:
    """Send ten messages, each in its own entry, and create `sub`, which acknowledges none
    of them.
    """
    producer = client.create_producer(topic, batching_enabled=False)
    ids = [message_id for message_id, _ in send_all(producer, PAYLOADS)]
    producer.close()
    done(brokers, "PUT", topic_path(topic, SUB), EARLIEST)
    return ids


def id_json(message_id: pulsar.MessageId, **more: Any) -> dict[str, Any]:
    return {
        "ledgerId": message_id.ledger_id(),
        "entryId": message_id.entry_id(),
        "partitionIndex": -1,
        **more,
    }


def first_of(brokers: LocalCluster, topic: str, subscription: str = "sub") -> bytes:
    """Return the first message that the subscription has not acknowledged."""
    return message_at(brokers, topic_path(topic, f"/subscription/{subscription}/position/1"))[1]


@pytest.mark.parametrize(
    ("body", "backlog"),
    [
        (NOTHING, 0),
        (None, 0),
        ("latest", 0),
        ("earliest", 10),
        (EARLIEST, 10),
        ({"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}, 0),
    ],
)
def test_subscription_is_created_at_a_position(
    brokers: LocalCluster, topic: str, sent: list[pulsar.MessageId], body: Any, backlog: int
) -> None:
    path = topic_path(topic, "/subscription/another")
    done(brokers, "PUT", path, body)
    assert backlog_of(brokers, topic, "another") == backlog
    assert ask(brokers, "PUT", path, body)[0] == HTTPStatus.CONFLICT
    unload(brokers, topic)
    assert backlog_of(brokers, topic, "another") == backlog


@pytest.mark.parametrize(
    ("written", "name"),
    [("a%2Bb", "a b"), ("a+b", "a b"), ("a%20b", "a b"), ("a%252Bb%252Fc", "a+b/c")],
)
def test_names_are_decoded_as_java_encodes_them(
    client: pulsar.Client, brokers: LocalCluster, topic: str, written: str, name: str
) -> None:
    path = f"{topic}+%2B"
    done(brokers, "PUT", topic_path(path, f"/subscription/{written}"), "earliest")
    assert done(brokers, "GET", topic_path(path, "/subscriptions")) == [name]
    client.subscribe(f"{topic} +", name).unsubscribe()
    assert done(brokers, "GET", topic_path(path, "/subscriptions")) == []


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [
        ("", "middle", HTTPStatus.BAD_REQUEST),
        ("", {"ledgerId": 1}, HTTPStatus.BAD_REQUEST),
        ("", {"ledgerId": 1, "entryId": 2**64}, HTTPStatus.BAD_REQUEST),
        ("", {**EARLIEST, "properties": {"a": 1}}, HTTPStatus.BAD_REQUEST),
        ("?replicated=true", EARLIEST, HTTPStatus.NOT_IMPLEMENTED),
    ],
)
def test_subscription_that_cannot_be_is_rejected(
    brokers: LocalCluster, topic: str, query: str, body: Any, status: HTTPStatus
) -> None:
    assert ask(brokers, "PUT", topic_path(topic, f"{SUB}{query}"), body)[0] == status
    assert ask(brokers, "GET", topic_path(topic, "/subscriptions"))[0] == HTTPStatus.NOT_FOUND


@pytest.mark.promise(
    "Skipped and expired messages stay acknowledged; a reset cursor starts at the given "
    "message, even inside a batch"
)
def test_skipped_messages_count_as_acknowledged_and_stay_so(
    client: pulsar.Client, brokers: LocalCluster, topic: str, sent: list[pulsar.MessageId]
) -> None:
    consumer = client.subscribe(topic, "sub")
    messages = [consumer.receive(20_000) for _ in sent]
    consumer.acknowledge(messages[1])
    consumer.close()
    done(brokers, "POST", topic_path(topic, f"{SUB}/skip/3"))
    # The message that is already acknowledged is not counted as skipped.
    assert (first_of(brokers, topic), backlog_of(brokers, topic)) == (PAYLOADS[4], 6)
    done(brokers, "POST", topic_path(topic, f"{SUB}/skip/0"))
    unload(brokers, topic)
    assert (first_of(brokers, topic), backlog_of(brokers, topic)) == (PAYLOADS[4], 6)
    done(brokers, "POST", topic_path(topic, f"{SUB}/skip/100"))
    assert backlog_of(brokers, topic) == 0


@pytest.mark.parametrize("kind", list(pulsar.ConsumerType.__members__))
def test_consumer_gets_nothing_of_the_skipped_messages_and_everything_after_them(
    client: pulsar.Client, brokers: LocalCluster, topic: str, kind: str
) -> None:
    consumer = client.subscribe(
        topic, "sub", pulsar.ConsumerType.__members__[kind], receiver_queue_size=1
    )
    producer = client.create_producer(topic, batching_enabled=False)
    send_all(producer, PAYLOADS)
    received = received_payloads(consumer, 1)
    done(brokers, "POST", topic_path(topic, f"{SUB}/skip_all"))
    received += rest(consumer)
    # The client had already requested the message after the one that it received.
    assert received == PAYLOADS[: len(received)]
    assert len(received) <= 3
    assert backlog_of(brokers, topic) == 0
    producer.send(b"after")
    assert received_payloads(consumer, 1) == [b"after"]


def test_cursor_is_reset_to_a_message_or_after_it(
    brokers: LocalCluster, topic: str, sent: list[pulsar.MessageId]
) -> None:
    path = topic_path(topic, f"{SUB}/resetcursor")
    done(brokers, "POST", path, id_json(sent[5]))
    assert first_of(brokers, topic) == PAYLOADS[5]
    done(brokers, "POST", path, id_json(sent[5], excluded=True))
    assert first_of(brokers, topic) == PAYLOADS[6]
    done(brokers, "POST", path, "latest")
    assert backlog_of(brokers, topic) == 0
    done(brokers, "POST", path, "earliest")
    assert backlog_of(brokers, topic) == 10
    assert ask(brokers, "POST", path, {"entryId": 1})[0] == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    ("index", "excluded", "expected"),
    [(0, False, 0), (0, True, 1), (3, False, 3), (3, True, 4), (9, False, 9), (9, True, 10)],
)
def test_cursor_is_reset_to_a_message_within_a_batch(
    client: pulsar.Client,
    brokers: LocalCluster,
    topic: str,
    index: int,
    excluded: bool,
    expected: int,
) -> None:
    send_batch(client, topic, PAYLOADS)
    client.create_producer(topic, batching_enabled=False).send(b"after")
    done(brokers, "PUT", topic_path(topic, SUB), "earliest")
    last = done(brokers, "GET", topic_path(topic, "/lastMessageId"))
    batch = {"ledgerId": last["ledgerId"], "entryId": 0, "batchIndex": index, "excluded": excluded}
    done(brokers, "POST", topic_path(topic, f"{SUB}/resetcursor"), batch)
    consumer = client.subscribe(topic, "sub", batch_index_ack_enabled=True)
    wanted = [*PAYLOADS[expected:], b"after"]
    assert received_payloads(consumer, len(wanted)) == wanted


def test_messages_of_an_age_expire_for_one_subscription_or_for_all(
    brokers: LocalCluster, topic: str, sent: list[pulsar.MessageId]
) -> None:
    done(brokers, "PUT", topic_path(topic, "/subscription/another"), "earliest")
    done(brokers, "POST", topic_path(topic, f"{SUB}/expireMessages/3600"))
    assert backlog_of(brokers, topic) == 10
    deadline = time.monotonic() + 30
    while backlog_of(brokers, topic):
        assert time.monotonic() < deadline
        status, response = ask(brokers, "POST", topic_path(topic, f"{SUB}/expireMessages/1"))
        assert status == HTTPStatus.NO_CONTENT, response
    assert backlog_of(brokers, topic, "another") == 10
    status, response = ask(brokers, "POST", topic_path(topic, f"{SUB}/expireMessages/1"))
    assert (status, "no messages left" in response["reason"]) == (HTTPStatus.CONFLICT, True)
    done(brokers, "POST", topic_path(topic, "/all_subscription/expireMessages/1"))
    assert backlog_of(brokers, topic, "another") == 0
    status, _ = ask(brokers, "POST", topic_path(topic, f"{SUB}/expireMessages/-1"))
    assert status == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(("excluded", "first"), [(False, 4), (True, 3)])
def test_messages_expire_up_to_a_position(
    brokers: LocalCluster,
    topic: str,
    sent: list[pulsar.MessageId],
    excluded: bool,
    first: int,
) -> None:
    path = topic_path(topic, f"{SUB}/expireMessages")
    done(brokers, "POST", path, id_json(sent[3], excluded=excluded))
    assert first_of(brokers, topic) == PAYLOADS[first]
    done(brokers, "POST", path, id_json(sent[1]))
    assert first_of(brokers, topic) == PAYLOADS[first]
    after = {"ledgerId": sent[0].ledger_id(), "entryId": 10}
    assert ask(brokers, "POST", path, after)[0] == HTTPStatus.CONFLICT


@pytest.mark.parametrize(
    "what", ["/skip/1", "/skip_all", "/resetcursor/1", "/expireMessages/1", "/properties"]
)
def test_missing_subscription_and_missing_topic_are_not_found(
    brokers: LocalCluster, topic: str, what: str
) -> None:
    method = "GET" if what == "/properties" else "POST"
    path = topic_path(topic, f"/subscription/none{what}")
    status, response = ask(brokers, method, path)
    assert status == HTTPStatus.NOT_FOUND
    assert response["reason"].startswith("topic ")
    done(brokers, "PUT", topic_path(topic))
    status, response = ask(brokers, method, path)
    assert status == HTTPStatus.NOT_FOUND
    assert response["reason"].startswith("subscription 'none'")
