"""Pulsar's broker and labkit's broker take turns using a cluster and read each other's schemas."""

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.error import HTTPError

import pulsar
import pytest
import pytest_asyncio
from pulsar.schema import Integer, JsonSchema, Record

from labkit.worlds.live.processes.cluster import LocalCluster
from tests.interop.java_broker import java_broker
from tests.system.broker.client import connect

pytestmark = [
    pytest.mark.interop,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
]


class Number(Record):
    a = Integer()


class Numbers(Record):
    a = Integer()
    b = Integer(default=7, required_default=True)


@pytest_asyncio.fixture(loop_scope="session")
async def cluster() -> AsyncIterator[LocalCluster]:
    async with LocalCluster(2, brokers=1, traced=False) as cluster:
        yield cluster


def ask(web_url: str, method: str, path: str, body: object = None) -> tuple[int, object]:
    url = f"{web_url}/admin/v2/schemas/public/default/{path}"
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    try:
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        with error:
            return error.code, None


def tell(web_url: str, topic: str) -> list[tuple[int, object]]:
    """Return all of a broker's responses about the schemas of a topic."""
    versions = [f"schema/{number}" for number in range(5)]
    paths = ("schema", "schemas", "metadata", *versions)
    return [ask(web_url, "GET", f"{topic}/{path}") for path in paths]


def produce(service_url: str, topic: str) -> list[str]:
    """Send messages with two schemas and return the schema versions that the messages carry."""
    client = connect(service_url)
    try:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        for record in (Number(a=42), Numbers(a=43, b=1)):
            client.create_producer(topic, schema=JsonSchema(type(record))).send(record)
        return [reader.read_next(20_000).schema_version() for _ in range(2)]
    finally:
        client.close()


def consume(service_url: str, topic: str, count: int) -> list[tuple[int, int]]:
    """Return the values that a consumer with the newest schema receives."""
    client = connect(service_url)
    try:
        reader = client.create_reader(topic, pulsar.MessageId.earliest, schema=JsonSchema(Numbers))
        values = [reader.read_next(20_000).value() for _ in range(count)]
        return [(value.a, value.b) for value in values]
    finally:
        client.close()


@pytest.mark.promise("Pulsar's broker reads labkit's schemas, and labkit reads Pulsar's")
async def test_schemas_are_the_same_whichever_broker_is_asked(
    cluster: LocalCluster, pulsar_jars: Path
) -> None:
    """Use labkit's broker first, then Pulsar's, then labkit's again."""
    plain = {"type": "STRING", "schema": "", "properties": {"by": "whom"}}
    versions = ["\0" * 8, "\0" * 7 + "\1"]
    ours = cluster.web_url_of("broker-1")
    assert await asyncio.to_thread(produce, cluster.service_url, "ours") == versions
    for method, body in (("POST", plain), ("DELETE", None), ("POST", plain)):
        assert (await asyncio.to_thread(ask, ours, method, "deleted/schema", body))[0] == 200
    said = {name: await asyncio.to_thread(tell, ours, name) for name in ("ours", "deleted")}
    await cluster.shut_down("broker-1")

    async with java_broker(cluster, pulsar_jars) as java:
        for name in ("ours", "deleted"):
            assert await asyncio.to_thread(tell, java.web_url, name) == said[name]
        assert await asyncio.to_thread(consume, java.service_url, "ours", 2) == [(42, 7), (43, 1)]
        again = await asyncio.to_thread(ask, java.web_url, "POST", "deleted/schema", plain)
        assert again == (200, {"version": {"version": 2}})
        assert (await asyncio.to_thread(ask, java.web_url, "DELETE", "deleted/schema"))[0] == 200
        assert await asyncio.to_thread(produce, java.service_url, "theirs") == versions
        # The topic already exists, and its newest schema is the one that labkit registered.
        assert await asyncio.to_thread(produce, java.service_url, "ours") == versions
        names = ("ours", "deleted", "theirs")
        said = {name: await asyncio.to_thread(tell, java.web_url, name) for name in names}

    await cluster.restart("broker-1")
    ours = cluster.web_url_of("broker-1")
    for name in names:
        assert await asyncio.to_thread(tell, ours, name) == said[name]
    found = await asyncio.to_thread(consume, cluster.service_url, "theirs", 2)
    assert found == [(42, 7), (43, 1)]
    posted = await asyncio.to_thread(ask, ours, "POST", "deleted/schema", plain)
    assert posted == (200, {"version": {"version": 4}})
