"""Test that admin requests for a partitioned topic are applied to each of its partitions."""

from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pulsar
import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.authentication import Identity
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.worlds.live.admin.http import admin_application
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import JSON, NOTHING, ask, done, topic_path
from tests.system.broker.client import send_all
from tests.system.broker.serving import serving

PAYLOADS = [f"message {number}".encode() for number in range(12)]
SUB = "/subscription/sub"
COUNT = 4


@pytest.fixture
def partitioned(client: pulsar.Client, brokers: LocalCluster, topic: str) -> str:
    """Create a topic whose partitions are spread over both brokers, with three messages in each."""
    done(brokers, "PUT", topic_path(topic, "/partitions"), COUNT)
    done(brokers, "PUT", topic_path(topic, SUB), "earliest")
    for partition in range(COUNT):
        producer = client.create_producer(f"{topic}-partition-{partition}", batching_enabled=False)
        send_all(producer, PAYLOADS[partition::COUNT])
        producer.close()
    return topic


def stats_of(brokers: LocalCluster, topic: str) -> Any:
    return done(brokers, "GET", topic_path(topic, "/partitioned-stats"))


def backlogs(brokers: LocalCluster, topic: str) -> list[int]:
    """Return the backlog of `sub` in each partition."""
    parts = stats_of(brokers, topic)["partitions"]
    return [parts[name]["subscriptions"]["sub"]["msgBacklog"] for name in sorted(parts)]


def test_statistics_are_those_of_all_partitions(brokers: LocalCluster, partitioned: str) -> None:
    stats = stats_of(brokers, partitioned)
    name = f"persistent://public/default/{partitioned}"
    assert stats["metadata"] == {"partitions": COUNT, "deleted": False}
    assert sorted(stats["partitions"]) == [f"{name}-partition-{each}" for each in range(COUNT)]
    assert stats["msgInCounter"] == stats["subscriptions"]["sub"]["msgBacklog"] == 12
    path = topic_path(partitioned, "/partitioned-stats?perPartition=false")
    assert done(brokers, "GET", path) == {**stats, "partitions": {}}
    internal = done(brokers, "GET", topic_path(partitioned, "/partitioned-internalStats"))
    assert [each["numberOfEntries"] for each in internal["partitions"].values()] == [3] * COUNT
    assert ask(brokers, "GET", topic_path(partitioned, "/stats"))[0] == HTTPStatus.NOT_FOUND


@pytest.mark.promise(
    "A request about a partitioned topic reaches every partition, whichever broker owns it"
)
def test_subscriptions_exist_on_all_partitions(brokers: LocalCluster, partitioned: str) -> None:
    path = topic_path(partitioned, SUB)
    assert ask(brokers, "PUT", path, "earliest")[0] == HTTPStatus.CONFLICT
    one = topic_path(f"{partitioned}-partition-1", "/subscription/one")
    done(brokers, "PUT", one, {"ledgerId": -1, "entryId": -1, "properties": {"a": "b"}})
    names = topic_path(partitioned, "/subscriptions")
    assert done(brokers, "GET", names) == ["one", "sub"]
    properties = topic_path(partitioned, "/subscription/one/properties")
    assert done(brokers, "GET", properties) == {"a": "b"}
    # A partition that already has the subscription does not prevent its creation on the others.
    done(brokers, "PUT", topic_path(partitioned, "/subscription/one"), "earliest")
    done(brokers, "DELETE", one)
    done(brokers, "DELETE", topic_path(partitioned, "/subscription/one"))
    done(brokers, "DELETE", path)
    assert done(brokers, "GET", names) == []
    assert ask(brokers, "DELETE", path)[0] == HTTPStatus.NOT_FOUND


def test_subscription_in_use_on_one_partition_is_deleted_only_with_force(
    client: pulsar.Client, brokers: LocalCluster, partitioned: str
) -> None:
    consumer = client.subscribe(f"{partitioned}-partition-2", "sub")
    path = topic_path(partitioned, SUB)
    assert ask(brokers, "DELETE", path)[0] == HTTPStatus.PRECONDITION_FAILED
    done(brokers, "DELETE", f"{path}?force=true")
    assert "sub" not in done(brokers, "GET", topic_path(partitioned, "/subscriptions"))
    consumer.close()


def test_cursors_of_all_partitions_are_moved(brokers: LocalCluster, partitioned: str) -> None:
    done(brokers, "POST", topic_path(partitioned, f"{SUB}/skip_all"))
    assert backlogs(brokers, partitioned) == [0] * COUNT
    path = topic_path(partitioned, f"{SUB}/expireMessages/1")
    assert ask(brokers, "POST", path)[0] == HTTPStatus.CONFLICT
    done(brokers, "POST", topic_path(partitioned, f"{SUB}/resetcursor/1"))
    assert backlogs(brokers, partitioned) == [3] * COUNT
    # A partition with nothing to expire does not affect the others.
    done(brokers, "POST", topic_path(f"{partitioned}-partition-0", f"{SUB}/skip_all"))
    for what in (f"{SUB}/expireMessages/3600", "/all_subscription/expireMessages/3600"):
        done(brokers, "POST", topic_path(partitioned, what))
    assert backlogs(brokers, partitioned) == [0, 3, 3, 3]
    done(brokers, "POST", topic_path(partitioned, "/all_subscription/expireMessages/0"))
    assert backlogs(brokers, partitioned) == [0] * COUNT


def test_all_partitions_are_unloaded(brokers: LocalCluster, partitioned: str) -> None:
    path = topic_path(partitioned, "/partitioned-internalStats")
    done(brokers, "PUT", topic_path(partitioned, "/unload"))
    parts = done(brokers, "GET", path)["partitions"].values()
    assert [each["entriesAddedCounter"] for each in parts] == [0] * COUNT
    assert backlogs(brokers, partitioned) == [3] * COUNT


@pytest.mark.asyncio(loop_scope="session")
async def test_requests_to_partitions_carry_the_token(bookies: LocalCluster, topic: str) -> None:
    def check(method: str, data: bytes) -> Identity:
        if (method, data) != ("token", b"right"):
            raise BrokerError(ServerError.AuthenticationError, "wrong token")
        return Identity("somebody")

    async with serving(bookies, BrokerConfig(), check) as broker:
        server = HTTPServer(admin_application(broker, lambda line: None))
        [socket] = bind_sockets(0, LOOPBACK)
        server.add_sockets([socket])
        url = f"http://{LOOPBACK}:{socket.getsockname()[1]}"
        broker.address = replace(broker.address, web_url=url)
        headers = {**JSON, "Authorization": "Bearer right"}
        for what, body in (("/partitions", "2"), (SUB, '"earliest"')):
            request = HTTPRequest(url + topic_path(topic, what), "PUT", headers, body)
            assert (await AsyncHTTPClient().fetch(request)).code == HTTPStatus.NO_CONTENT
        server.stop()


@pytest.mark.parametrize(
    ("method", "what"),
    [
        ("GET", f"{SUB}/position/1"),
        ("POST", f"{SUB}/skip/1"),
        ("POST", f"{SUB}/resetcursor"),
        ("POST", f"{SUB}/expireMessages"),
        ("POST", "/terminate"),
        ("GET", "/examinemessage"),
        ("GET", "/ledger/0/entry/0"),
        ("GET", "/messageid/1"),
    ],
)
def test_what_makes_sense_for_one_partition_is_rejected_with_its_name(
    brokers: LocalCluster, topic: str, method: str, what: str
) -> None:
    done(brokers, "PUT", topic_path(topic, "/partitions"), 2)
    body = NOTHING if method == "GET" else "earliest"
    status, response = ask(brokers, method, topic_path(topic, what), body)
    assert (status, f"{topic}-partition-0" in response["reason"]) == (
        HTTPStatus.METHOD_NOT_ALLOWED,
        True,
    )


@pytest.mark.parametrize("what", ["/partitioned-stats", "/partitioned-internalStats"])
def test_plain_topic_is_not_a_partitioned_one(brokers: LocalCluster, topic: str, what: str) -> None:
    done(brokers, "PUT", topic_path(topic))
    assert ask(brokers, "GET", topic_path(topic, what))[0] == HTTPStatus.NOT_FOUND
    path = topic_path(topic, "/terminate/partitions")
    assert ask(brokers, "POST", path)[0] == HTTPStatus.METHOD_NOT_ALLOWED


def test_unused_partitions_are_passed_over(brokers: LocalCluster, topic: str) -> None:
    done(brokers, "PUT", topic_path(topic, "/partitions"), 2)
    assert done(brokers, "GET", topic_path(topic, "/subscriptions")) == []
    assert stats_of(brokers, topic)["subscriptions"] == {}
