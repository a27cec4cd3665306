"""Tests for the broker's HTTP server: Pulsar's admin paths, and the lookup for HTTP clients."""

import asyncio
from http import HTTPStatus
from typing import Any

import pulsar
import pytest

from labkit.system.model.proto.pulsar_pb2 import BaseCommand, CommandSubscribe, ServerError
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import NOTHING, ask, done, topic_path
from tests.system.broker.client import receive_all, send_all
from tests.system.broker.raw import raw_client

PAYLOADS = [f"message {number}".encode() for number in range(20)]
PARTITIONS = "/partitions"


@pytest.mark.promise("Partitioned topics are created, grown and deleted over HTTP")
def test_a_partitioned_topic_is_made_grown_and_deleted(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    path = topic_path(topic, PARTITIONS)
    assert ask(brokers, "GET", path)[0] == HTTPStatus.NOT_FOUND
    done(brokers, "PUT", path, 2)
    assert client.get_topic_partitions(topic) == [
        f"persistent://public/default/{topic}-partition-{number}" for number in range(2)
    ]
    done(brokers, "POST", path, 4)
    assert done(brokers, "GET", path) == {"partitions": 4}
    listed = done(brokers, "GET", "/admin/v2/persistent/public/default/partitioned")
    assert f"persistent://public/default/{topic}" in listed
    producer = client.create_producer(topic)
    send_all(producer, PAYLOADS)
    producer.close()
    done(brokers, "DELETE", path)
    assert ask(brokers, "GET", path)[0] == HTTPStatus.NOT_FOUND
    topics = done(brokers, "GET", "/admin/v2/persistent/public/default")
    assert [name for name in topics if f"/{topic}-" in name] == []


def test_a_partitioned_topic_does_not_grow_over_a_separate_topic(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    client.create_producer(f"{topic}-partition-2").send(b"mine")
    done(brokers, "PUT", topic_path(topic, PARTITIONS), 1)
    status, response = ask(brokers, "POST", topic_path(topic, PARTITIONS), 3)
    assert status == HTTPStatus.PRECONDITION_FAILED
    assert f"{topic}-partition-2 exists" in response["reason"]
    done(brokers, "POST", topic_path(topic, PARTITIONS), 2)
    assert done(brokers, "GET", topic_path(topic, PARTITIONS)) == {"partitions": 2}
    done(brokers, "DELETE", topic_path(topic, PARTITIONS))
    assert [data for _, data in receive_all(client, f"{topic}-partition-2", 1)] == [b"mine"]


@pytest.mark.asyncio(loop_scope="session")
async def test_partitions_of_a_deleted_topic_do_not_come_back_with_their_clients(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    partition = f"{topic}-partition-1"
    await asyncio.to_thread(done, brokers, "PUT", topic_path(topic, PARTITIONS), 4)
    await asyncio.to_thread(client.subscribe, topic, "sub")
    deletion = topic_path(topic, f"{PARTITIONS}?force=true")
    await asyncio.to_thread(done, brokers, "DELETE", deletion)
    async with raw_client(brokers, partition) as returning:
        # A client that has lost its consumer subscribes again without asking for partitions first.
        name = f"persistent://public/default/{partition}"
        kind = CommandSubscribe.Shared
        returning.ask(
            BaseCommand.SUBSCRIBE, topic=name, subscription="sub", subType=kind, consumer_id=1
        )
        assert (await returning.expect(BaseCommand.ERROR)).error == ServerError.TopicNotFound
    listed = await asyncio.to_thread(done, brokers, "GET", "/admin/v2/persistent/public/default")
    assert [name for name in listed if f"/{topic}-" in name] == []


@pytest.mark.asyncio(loop_scope="session")
async def test_a_plain_topic_is_not_made_over_partitions_and_never_takes_their_schema(
    brokers: LocalCluster, topic: str
) -> None:
    schema = f"/admin/v2/schemas/public/default/{topic}/schema"
    body = {"type": "STRING", "schema": "", "properties": {}}

    async def do(method: str, path: str, body: Any = NOTHING) -> Any:
        return await asyncio.to_thread(ask, brokers, method, path, body)

    await do("PUT", topic_path(topic, PARTITIONS), 2)
    await do("POST", schema, body)
    assert (await do("PUT", topic_path(topic)))[0] == HTTPStatus.CONFLICT
    # A client that does not ask for partitions can still open a topic with that name.
    async with raw_client(brokers, topic) as client:
        await client.subscribe(topic)
    assert (await do("DELETE", topic_path(topic) + "?force=true"))[0] == HTTPStatus.NO_CONTENT
    assert (await do("GET", schema))[1]["type"] == "STRING"
    assert (await do("DELETE", topic_path(topic, PARTITIONS)))[0] == HTTPStatus.NO_CONTENT
    assert (await do("GET", schema))[0] == HTTPStatus.NOT_FOUND


@pytest.mark.promise("Impossible requests are rejected with a reason")
@pytest.mark.parametrize(
    ("method", "body", "status", "reason"),
    [
        ("PUT", 2, HTTPStatus.CONFLICT, "exists"),
        ("POST", 2, HTTPStatus.CONFLICT, "only be increased"),
        ("POST", 1, HTTPStatus.CONFLICT, "only be increased"),
        ("PUT", 0, HTTPStatus.NOT_ACCEPTABLE, "between 1 and"),
        ("PUT", 1_000_000_000, HTTPStatus.NOT_ACCEPTABLE, "between 1 and 10000"),
        ("POST", 1_000_000_000, HTTPStatus.NOT_ACCEPTABLE, "between 1 and 10000"),
        ("PUT", "two", HTTPStatus.BAD_REQUEST, "number of partitions"),
        ("PUT", NOTHING, HTTPStatus.BAD_REQUEST, "number of partitions"),
    ],
)
def test_what_cannot_be_is_rejected_with_a_reason(
    brokers: LocalCluster, topic: str, method: str, body: Any, status: HTTPStatus, reason: str
) -> None:
    path = topic_path(topic, PARTITIONS)
    done(brokers, "PUT", path, 2)
    rejected = ask(brokers, method, path, body)
    assert (rejected[0], reason in rejected[1]["reason"]) == (status, True), rejected


@pytest.mark.promise("The ledgers of a deleted topic are deleted")
@pytest.mark.asyncio(loop_scope="session")
async def test_a_deleted_topics_ledgers_are_gone(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    producer = client.create_producer(topic)
    send_all(producer, PAYLOADS)
    consumer = client.subscribe(topic, "sub", initial_position=pulsar.InitialPosition.Earliest)
    consumer.acknowledge(consumer.receive(20_000))
    consumer.close()
    producer.close()
    bookkeeper = await brokers.connect()
    before = await bookkeeper.list_ledgers()
    stats = done(brokers, "GET", topic_path(topic, "/internalStats"))
    mine = [each["ledgerId"] for each in stats["ledgers"]]
    assert mine
    assert set(mine) <= set(before)
    done(brokers, "DELETE", topic_path(topic))
    assert not set(mine) & set(await bookkeeper.list_ledgers())


@pytest.mark.promise(
    "Every broker answers or redirects a request, and clients can look up topics over HTTP"
)
def test_any_broker_responds_for_a_topic_by_sending_to_its_owner(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    client.create_producer(topic)
    responses = [
        ask(brokers, "GET", topic_path(topic, "/internalStats"), broker=broker)[0]
        for broker in brokers.broker_names
    ]
    assert responses == [HTTPStatus.OK, HTTPStatus.OK]
