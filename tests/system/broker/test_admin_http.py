"""The broker's HTTP side: Pulsar's admin paths and the lookup of clients that speak HTTP."""

import asyncio
from http import HTTPStatus
from typing import Any
from urllib.request import urlopen

import pulsar
import pytest
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.authentication import Identity
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, CommandSubscribe, ServerError
from labkit.system.topic.ownership import bundle_of
from labkit.worlds.live.admin.http import admin_application
from labkit.worlds.live.net import LOOPBACK
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import NOTHING, ask, done, make_namespace, topic_path
from tests.system.broker.client import connect, receive_all, received_payloads, send_all
from tests.system.broker.raw import raw_client
from tests.system.broker.serving import serving

PAYLOADS = [f"message {number}".encode() for number in range(20)]
PARTITIONS = "/partitions"


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


def test_a_subscription_gets_what_is_sent_to_a_new_partition_before_its_consumer_finds_it(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    done(brokers, "PUT", topic_path(topic, PARTITIONS), 1)
    consumer = client.subscribe(topic, "sub", properties={"a": "b"})
    done(brokers, "POST", topic_path(topic, PARTITIONS), 3)
    late = connect(brokers.service_url)
    for number in (1, 2):
        send_all(late.create_producer(f"{topic}-partition-{number}"), PAYLOADS)
        stats = done(brokers, "GET", topic_path(f"{topic}-partition-{number}", "/internalStats"))
        assert stats["cursors"]["sub"]["numberOfEntriesSinceFirstNotAckedMessage"] == 20
    consumer.close()
    consumer = late.subscribe(topic, "sub")
    assert sorted(received_payloads(consumer, 40)) == sorted(PAYLOADS * 2)
    late.close()


def test_a_partitioned_topic_does_not_grow_over_a_separate_topic(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    client.create_producer(f"{topic}-partition-2").send(b"mine")
    done(brokers, "PUT", topic_path(topic, PARTITIONS), 1)
    status, answer = ask(brokers, "POST", topic_path(topic, PARTITIONS), 3)
    assert status == HTTPStatus.PRECONDITION_FAILED
    assert f"{topic}-partition-2 exists" in answer["reason"]
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
        # As a client does that has lost its consumer: it does not ask for partitions again.
        name = f"persistent://public/default/{partition}"
        kind = CommandSubscribe.Shared
        returning.ask(
            BaseCommand.SUBSCRIBE, topic=name, subscription="sub", subType=kind, consumer_id=1
        )
        assert (await returning.expect(BaseCommand.ERROR)).error == ServerError.TopicNotFound
    listed = await asyncio.to_thread(done, brokers, "GET", "/admin/v2/persistent/public/default")
    assert [name for name in listed if f"/{topic}-" in name] == []


@pytest.mark.asyncio(loop_scope="session")
async def test_a_partitioned_topic_with_one_partition_in_use_is_not_deleted_at_all(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    await asyncio.to_thread(done, brokers, "PUT", topic_path(topic, PARTITIONS), 4)
    for number in range(4):
        producer = await asyncio.to_thread(client.create_producer, f"{topic}-partition-{number}")
        await asyncio.to_thread(send_all, producer, PAYLOADS)
        if number != 2:
            producer.close()
    status, answer = await asyncio.to_thread(ask, brokers, "DELETE", topic_path(topic, PARTITIONS))
    assert (status, "in use" in answer["reason"]) == (HTTPStatus.PRECONDITION_FAILED, True)
    received = await asyncio.to_thread(receive_all, client, topic, 80)
    assert sorted(data for _, data in received) == sorted(PAYLOADS * 4)


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
    # A client that asks for no partitions can still open a topic of that name.
    async with raw_client(brokers, topic) as client:
        await client.subscribe(topic)
    assert (await do("DELETE", topic_path(topic) + "?force=true"))[0] == HTTPStatus.NO_CONTENT
    assert (await do("GET", schema))[1]["type"] == "STRING"
    assert (await do("DELETE", topic_path(topic, PARTITIONS)))[0] == HTTPStatus.NO_CONTENT
    assert (await do("GET", schema))[0] == HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    ("method", "body", "status", "reason"),
    [
        ("PUT", 2, HTTPStatus.CONFLICT, "exists"),
        ("POST", 2, HTTPStatus.CONFLICT, "only get more"),
        ("POST", 1, HTTPStatus.CONFLICT, "only get more"),
        ("PUT", 0, HTTPStatus.NOT_ACCEPTABLE, "1 or more"),
        ("PUT", 1_000_000_000, HTTPStatus.NOT_ACCEPTABLE, "at most 10000"),
        ("POST", 1_000_000_000, HTTPStatus.NOT_ACCEPTABLE, "at most 10000"),
        ("PUT", "two", HTTPStatus.BAD_REQUEST, "number of partitions"),
        ("PUT", NOTHING, HTTPStatus.BAD_REQUEST, "number of partitions"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(
    brokers: LocalCluster, topic: str, method: str, body: Any, status: HTTPStatus, reason: str
) -> None:
    path = topic_path(topic, PARTITIONS)
    done(brokers, "PUT", path, 2)
    refused = ask(brokers, method, path, body)
    assert (refused[0], reason in refused[1]["reason"]) == (status, True), refused


def test_a_topic_is_made_listed_and_deleted(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    name = f"persistent://public/default/{topic}"
    done(brokers, "PUT", topic_path(topic))
    assert ask(brokers, "PUT", topic_path(topic))[0] == HTTPStatus.CONFLICT
    assert name in done(brokers, "GET", "/admin/v2/namespaces/public/default/topics")
    producer = client.create_producer(topic)
    send_all(producer, PAYLOADS)
    status, answer = ask(brokers, "DELETE", topic_path(topic))
    assert (status, "in use" in answer["reason"]) == (HTTPStatus.PRECONDITION_FAILED, True)
    producer.close()
    client.subscribe(topic, "sub").close()
    done(brokers, "DELETE", topic_path(topic))
    assert name not in done(brokers, "GET", "/admin/v2/namespaces/public/default/topics")
    assert ask(brokers, "DELETE", topic_path(topic))[0] == HTTPStatus.NOT_FOUND
    again = client.create_producer(topic)
    again.send(b"again")
    assert [payload for _, payload in receive_all(client, topic, 1)] == [b"again"]


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


def test_any_broker_answers_for_a_topic_by_sending_to_its_owner(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    client.create_producer(topic)
    answers = [
        ask(brokers, "GET", topic_path(topic, "/internalStats"), broker=broker)[0]
        for broker in brokers.broker_names
    ]
    assert answers == [HTTPStatus.OK, HTTPStatus.OK]


def test_a_client_may_look_topics_up_over_http(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    done(brokers, "PUT", topic_path(topic, PARTITIONS), 2)
    over_http = connect(brokers.web_url_of("broker-1"))
    consumer = over_http.subscribe(topic, "sub", initial_position=pulsar.InitialPosition.Earliest)
    send_all(over_http.create_producer(topic), PAYLOADS)
    assert sorted(received_payloads(consumer, 20)) == sorted(PAYLOADS)
    over_http.close()


def test_a_bundle_is_unloaded_and_its_topics_go_on(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    producer = client.create_producer(topic)
    before = producer.send(b"before")
    bundle = bundle_of(f"persistent://public/default/{topic}").path.rsplit("/", 1)[1]
    path = f"/admin/v2/namespaces/public/default/{bundle}/unload"
    statuses = sorted(ask(brokers, "PUT", path, broker=name)[0] for name in brokers.broker_names)
    assert statuses[0] == HTTPStatus.NO_CONTENT
    after = producer.send(b"after")
    assert after.ledger_id() > before.ledger_id()


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("retention", {"retentionTimeInMinutes": 5, "retentionSizeInMB": -1}),
        ("deduplication", True),
    ],
)
def test_a_namespaces_policies_are_kept_and_removed(
    brokers: LocalCluster, topic: str, what: str, body: Any
) -> None:
    make_namespace(brokers, f"public/{topic}")
    path = f"/admin/v2/namespaces/public/{topic}/{what}"
    assert ask(brokers, "GET", path) == (HTTPStatus.NO_CONTENT, None)
    done(brokers, "POST", path, body)
    assert done(brokers, "GET", path) == body
    assert ask(brokers, "POST", path, {"no": "such"})[0] == HTTPStatus.BAD_REQUEST
    done(brokers, "DELETE", path)
    assert ask(brokers, "GET", path) == (HTTPStatus.NO_CONTENT, None)


def test_deduplication_of_a_namespace_counts_for_its_topics(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    make_namespace(brokers, f"public/{topic}")
    done(brokers, "POST", f"/admin/v2/namespaces/public/{topic}/deduplication", True)
    name = f"persistent://public/{topic}/t"
    for _ in range(2):
        producer = client.create_producer(name, "the-producer", initial_sequence_id=-1)
        producer.send(b"once", sequence_id=7)
        producer.close()
    assert [payload for _, payload in receive_all(client, name, 1)] == [b"once"]
    path = f"/admin/v2/persistent/public/{topic}/t/internalStats"
    assert done(brokers, "GET", path)["numberOfEntries"] == 1


def test_brokers_are_listed_and_well(brokers: LocalCluster) -> None:
    assert len(done(brokers, "GET", "/admin/v2/brokers/standalone")) == 2
    url = f"{brokers.web_url_of('broker-1')}/admin/v2/brokers/health"
    with urlopen(url, timeout=20) as answer:
        assert answer.read() == b"ok"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/admin/v2/nowhere", HTTPStatus.NOT_IMPLEMENTED),
        ("POST", "/admin/v2/brokers/health", HTTPStatus.NOT_IMPLEMENTED),
        ("GET", topic_path("not-there", "/internalStats"), HTTPStatus.NOT_FOUND),
        ("PUT", topic_path("x-partition-1", PARTITIONS), HTTPStatus.BAD_REQUEST),
    ],
)
def test_what_is_not_there_is_refused_in_json(
    brokers: LocalCluster, method: str, path: str, status: HTTPStatus
) -> None:
    answer = ask(brokers, method, path)
    assert answer[0] == status
    assert answer[1]["reason"]


def test_a_body_that_is_not_json_is_refused(brokers: LocalCluster, topic: str) -> None:
    answer = ask(brokers, "PUT", topic_path(topic, PARTITIONS), data=b"{")
    assert (answer[0], answer[1]["reason"]) == (HTTPStatus.BAD_REQUEST, "the body is not JSON")


@pytest.mark.asyncio(loop_scope="session")
async def test_requests_without_the_right_token_are_refused(brokers: LocalCluster) -> None:
    def check(method: str, data: bytes) -> Identity:
        if (method, data) != ("token", b"right"):
            raise BrokerError(ServerError.AuthenticationError, "say the right token")
        return Identity("somebody")

    async with serving(brokers, BrokerConfig(), check) as broker:
        server = HTTPServer(admin_application(broker, lambda line: None))
        [socket] = bind_sockets(0, LOOPBACK)
        server.add_sockets([socket])
        url = f"http://{LOOPBACK}:{socket.getsockname()[1]}/admin/v2/brokers/health"
        client = AsyncHTTPClient()
        statuses = [
            (await client.fetch(url, raise_error=False, headers=headers)).code
            for headers in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": "right"},
                {"Authorization": "Bearer right"},
            )
        ]
        server.stop()
    assert statuses == [401, 401, 401, 200]
