"""Schemas with the official client: stored by version, refused when they do not fit."""

import json
from http import HTTPStatus

import pulsar
import pytest
from pulsar.schema import Integer, JsonSchema, Record, String, StringSchema

from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import ask, done


class Person(Record):
    name = String()
    age = Integer()


class PersonWithTown(Record):
    name = String()
    age = Integer()
    town = String(default="nowhere", required_default=True)


class PersonWithRequiredTown(Record):
    name = String()
    age = Integer()
    town = String(required=True)


class PersonOfText(Record):
    name = String()
    age = String()


def schema_path(topic: str, what: str = "") -> str:
    return f"/admin/v2/schemas/public/default/{topic}/schema{what}"


def test_records_come_back_and_their_schema_is_stored(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    consumer = client.subscribe(topic, "sub", schema=JsonSchema(Person))
    client.create_producer(topic, schema=JsonSchema(Person)).send(Person(name="Ada", age=36))
    message = consumer.receive(20_000)
    assert (message.value().name, message.value().age) == ("Ada", 36)
    stored = done(brokers, "GET", schema_path(topic))
    assert (stored["version"], stored["type"]) == (0, "JSON")
    assert [field["name"] for field in json.loads(stored["data"])["fields"]] == ["name", "age"]


def test_a_schema_that_both_sides_can_read_gets_the_next_version(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    consumer = client.subscribe(topic, "sub", schema=JsonSchema(Person))
    client.create_producer(topic, schema=JsonSchema(PersonWithTown)).send(
        PersonWithTown(name="Ada", age=36, town="London")
    )
    client.create_producer(topic, schema=JsonSchema(Person)).send(Person(name="Bob", age=1))
    versions = [consumer.receive(20_000) for _ in range(2)]
    assert [message.value().name for message in versions] == ["Ada", "Bob"]
    assert [m.schema_version() for m in versions] == ["\0" * 7 + "\1", "\0" * 8]
    assert done(brokers, "GET", schema_path(topic))["version"] == 1
    first = json.loads(done(brokers, "GET", schema_path(topic, "/0"))["data"])
    assert [field["name"] for field in first["fields"]] == ["name", "age"]


@pytest.mark.parametrize(
    "schema", [StringSchema(), JsonSchema(PersonWithRequiredTown), JsonSchema(PersonOfText)]
)
def test_a_schema_that_does_not_fit_is_refused_to_both_sides(
    client: pulsar.Client, brokers: LocalCluster, topic: str, schema: pulsar.schema.Schema
) -> None:
    client.create_producer(topic, schema=JsonSchema(Person))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=schema)
    with pytest.raises(pulsar.IncompatibleSchema):
        client.subscribe(topic, "sub", schema=schema)
    assert done(brokers, "GET", schema_path(topic))["version"] == 0


def test_partitions_share_their_topics_schema(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    done(brokers, "PUT", f"/admin/v2/persistent/public/default/{topic}/partitions", 2)
    client.create_producer(topic, schema=JsonSchema(Person))
    assert done(brokers, "GET", schema_path(topic))["version"] == 0
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(f"{topic}-partition-1", schema=StringSchema())


def test_a_topic_without_a_schema_has_none(brokers: LocalCluster, topic: str) -> None:
    status, answer = ask(brokers, "GET", schema_path(topic))
    assert status == HTTPStatus.NOT_FOUND
    assert "has no schema" in answer["reason"]


def test_a_schema_can_be_posted_and_deleted(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    body = {"type": "STRING", "schema": "", "properties": {"origin": "a test"}}
    assert done(brokers, "POST", schema_path(topic), body) == {"version": {"version": 0}}
    stored = done(brokers, "GET", schema_path(topic))
    assert (stored["type"], stored["properties"]) == ("STRING", {"origin": "a test"})
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=JsonSchema(Person))
    done(brokers, "DELETE", schema_path(topic))
    client.create_producer(topic, schema=JsonSchema(Person))
    assert done(brokers, "GET", schema_path(topic))["type"] == "JSON"
