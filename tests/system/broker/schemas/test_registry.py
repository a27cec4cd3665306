"""Tests for a topic's schema versions and for the acceptance of new schemas."""

import asyncio
import json

import pytest

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.policies import policies_path
from labkit.system.broker.schemas.checks import Strategy
from labkit.system.broker.schemas.registry import (
    MAX_SCHEMA_BYTES,
    NO_VERSION,
    Schemas,
    encode_version,
)
from labkit.system.model.proto.pulsar_pb2 import Schema, ServerError
from labkit.system.topic.config import ManagedLedgerConfig
from tests.system.topic.clients import PlayedClient

TOPIC = "persistent://public/default/people"
POLICIES = policies_path("public/default")
NODE = "/schemas/public/default/people"
STRING = Schema(name="s", type=Schema.String, schema_data=b"")


def record(*fields: str, optional: str = "", kind: "Schema.Type" = Schema.Json) -> Schema:
    """Return a record schema of numbers; each letter of `optional` is a field with a default."""
    all_fields: list[dict[str, object]] = [{"name": name, "type": "int"} for name in fields]
    all_fields += [{"name": name, "type": "int", "default": 0} for name in optional]
    definition = json.dumps({"type": "record", "name": "R", "fields": all_fields})
    return Schema(name="R", type=kind, schema_data=definition.encode())


@pytest.fixture
def client() -> PlayedClient:
    return PlayedClient()


@pytest.fixture
def schemas(client: PlayedClient) -> Schemas:
    return Schemas(client.real, ManagedLedgerConfig())


async def set_policies(client: PlayedClient, **policies: object) -> None:
    await client.store.create(POLICIES, json.dumps(policies).encode())


async def test_a_known_schema_keeps_its_version(schemas: Schemas) -> None:
    wanted = [record("a"), record("a", optional="b"), record("a")]
    versions = [await schemas.register(TOPIC, schema) for schema in wanted]
    assert versions == [encode_version(0), encode_version(1), encode_version(0)]
    assert encode_version(1) == b"\0\0\0\0\0\0\0\1"


async def test_a_schema_in_other_words_keeps_its_version(schemas: Schemas) -> None:
    await schemas.register(TOPIC, record("a"))
    await schemas.register(TOPIC, record("a", optional="b"))
    document = {**json.loads(record("a").schema_data), "doc": "about", "aliases": ["S"]}
    other = Schema(name="R", type=Schema.Json, schema_data=json.dumps(document, indent=1).encode())
    assert await schemas.register(TOPIC, other) == encode_version(0)


async def test_concurrent_schemas_get_two_versions(client: PlayedClient, schemas: Schemas) -> None:
    wanted = (record("a"), record("a", optional="b"), record("a"))
    versions = await asyncio.gather(*(schemas.register(TOPIC, each) for each in wanted))
    assert sorted({*versions}) == [encode_version(0), encode_version(1)]
    assert versions[0] == versions[2]
    # The requests are serialized, so no ledger is written and then deleted.
    assert [call for call in client.calls if call.startswith("delete")] == []


async def test_a_version_added_meanwhile_counts(client: PlayedClient, schemas: Schemas) -> None:
    other = Schemas(client.real, ManagedLedgerConfig())
    await schemas.register(TOPIC, record("a"))

    async def meanwhile() -> None:
        assert await other.register(TOPIC, record("a", optional="b")) == encode_version(1)

    client.store.before_next_set = meanwhile
    assert await schemas.register(TOPIC, record("a", optional="b")) == encode_version(1)
    assert len(client.ledgers) == 2


async def test_garbage_is_not_registered(client: PlayedClient, schemas: Schemas) -> None:
    garbage = Schema(name="s", type=Schema.Json, schema_data=b"[")
    with pytest.raises(BrokerError, match="invalid definition of a schema of type"):
        await schemas.register(TOPIC, garbage)
    assert client.ledgers == {}


async def test_another_type_is_rejected(schemas: Schemas) -> None:
    await schemas.register(TOPIC, record("a"))
    for other in (STRING, record("a", kind=Schema.Avro)):
        with pytest.raises(BrokerError, match="expected type JSON") as rejected:
            await schemas.register(TOPIC, other)
        assert rejected.value.code == ServerError.IncompatibleSchema


async def test_partitions_and_short_names_mean_the_topic(schemas: Schemas) -> None:
    await schemas.register(f"{TOPIC}-partition-2", STRING)
    assert (await schemas.get(TOPIC)).schema.type == Schema.String
    assert (await schemas.get("people-partition-0")).schema.type == Schema.String


# Deletion


@pytest.mark.promise("The version of a deleted schema is not reused")
async def test_a_deleted_schema_is_gone_and_its_version_is_not_reused(schemas: Schemas) -> None:
    await schemas.register(TOPIC, record("a"))
    assert await schemas.delete_versions(TOPIC) == 1
    assert await schemas.delete_versions(TOPIC) == 1
    for version in (None, encode_version(0), encode_version(1)):
        with pytest.raises(BrokerError, match="has no"):
            await schemas.get(TOPIC, version)
    assert await schemas.find_all(TOPIC) == []
    assert await schemas.register(TOPIC, STRING) == encode_version(2)
    assert await schemas.number_of(TOPIC, record("a")) == -1
    await schemas.delete_versions(TOPIC)
    assert await schemas.register(TOPIC, record("a")) == encode_version(4)


async def test_nothing_is_deleted_where_nothing_is(client: PlayedClient, schemas: Schemas) -> None:
    assert await schemas.delete_versions(TOPIC) == -1
    assert client.ledgers == {}
    assert not await client.store.exists(NODE)


async def test_versions_are_deleted_with_the_topic(client: PlayedClient, schemas: Schemas) -> None:
    await schemas.register(TOPIC, record("a"))
    await schemas.delete_versions(TOPIC)
    await schemas.delete(TOPIC)
    assert client.ledgers == {}
    assert await schemas.register(TOPIC, STRING) == encode_version(0)


# Bounds


async def test_a_schema_that_is_too_large_is_rejected(schemas: Schemas) -> None:
    large = Schema(name="s", type=Schema.External, schema_data=bytes(MAX_SCHEMA_BYTES))
    with pytest.raises(BrokerError, match="the maximum is 524288") as rejected:
        await schemas.register(TOPIC, large)
    assert rejected.value.code == ServerError.NotAllowedError
    large.schema_data = bytes(MAX_SCHEMA_BYTES // 2)
    await schemas.register(TOPIC, large)


async def test_a_topic_has_a_bounded_number_of_versions(
    schemas: Schemas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.system.broker.schemas.registry.MAX_VERSIONS", 3)
    for optional in ("", "b", "bc"):
        await schemas.register(TOPIC, record("a", optional=optional))
    with pytest.raises(BrokerError, match="which is the maximum"):
        await schemas.register(TOPIC, record("a", optional="bcd"))
    assert await schemas.register(TOPIC, record("a", optional="b")) == encode_version(1)
    assert await schemas.delete_versions(TOPIC) == 3


async def test_a_list_of_all_versions_is_bounded(
    schemas: Schemas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.system.broker.schemas.registry._MAX_LIST_BYTES", 200)
    for optional in ("", "b", "bc"):
        await schemas.register(TOPIC, record("a", optional=optional))
    with pytest.raises(BrokerError, match="more than 200 bytes in total"):
        await schemas.find_all(TOPIC)


@pytest.mark.parametrize("version", [b"", bytes(7) + b"\1", b"\xff" * 8, bytes(9), b"\1" * 100_000])
async def test_a_missing_version_is_rejected_in_few_words(schemas: Schemas, version: bytes) -> None:
    await schemas.register(TOPIC, STRING)
    with pytest.raises(BrokerError, match="has no schema version") as rejected:
        await schemas.get(TOPIC, version)
    assert len(str(rejected.value)) < 200


async def test_a_version_of_an_old_client_has_64_bytes(schemas: Schemas) -> None:
    await schemas.register(TOPIC, STRING)
    assert (await schemas.get(TOPIC, bytes(64))).number == 0


# Consumers


async def test_a_consumer_registers_a_schema_only_on_an_idle_topic(schemas: Schemas) -> None:
    with pytest.raises(BrokerError, match="in use and has no schema") as rejected:
        await schemas.check_consumer(TOPIC, record("a"), is_idle=False)
    assert rejected.value.code == ServerError.IncompatibleSchema
    await schemas.check_consumer(TOPIC, record("a"), is_idle=True)
    await schemas.check_consumer(TOPIC, record("a", optional="b"), is_idle=True)
    assert (await schemas.get(TOPIC)).number == 0


@pytest.mark.promise("A consumer's schema is only compared, never stored")
async def test_a_consumer_only_has_to_read_what_the_newest_schema_writes(schemas: Schemas) -> None:
    await schemas.register(TOPIC, record("a", "b"))
    # Producers with these schemas would be rejected, because consumers with the old schema could
    # not read their messages.
    for fits in (record("a"), record(), record("a", "b", optional="c")):
        await schemas.check_consumer(TOPIC, fits, is_idle=False)
    with pytest.raises(BrokerError, match=r"\(BACKWARD\): reader_field_missing_default_value, c"):
        await schemas.check_consumer(TOPIC, record("a", "c"), is_idle=False)
    with pytest.raises(BrokerError, match="expected type JSON, got STRING"):
        await schemas.check_consumer(TOPIC, STRING, is_idle=False)
    assert (await schemas.get(TOPIC)).number == 0


async def test_a_consumer_comes_in_after_the_schema_was_deleted(schemas: Schemas) -> None:
    await schemas.register(TOPIC, STRING)
    await schemas.delete_versions(TOPIC)
    await schemas.check_consumer(TOPIC, record("a"), is_idle=True)
    assert (await schemas.get(TOPIC)).number == 2


# Compatibility strategies of namespaces


@pytest.mark.parametrize(
    ("strategy", "more", "fewer"),
    [
        ("BACKWARD", False, True),
        ("FORWARD", True, False),
        ("FULL", False, False),
        ("ALWAYS_COMPATIBLE", True, True),
        ("ALWAYS_INCOMPATIBLE", False, False),
        ("UNDEFINED", False, False),
    ],
)
async def test_the_namespaces_strategy_decides_what_a_new_schema_may_change(
    client: PlayedClient, schemas: Schemas, strategy: str, more: bool, fewer: bool
) -> None:
    await set_policies(client, schema_compatibility_strategy=strategy)
    await schemas.register(TOPIC, record("a", "b"))
    for schema, fits in ((record("a", "b", "c"), more), (record("a"), fewer)):
        if fits:
            expected = Strategy.FULL if strategy == "UNDEFINED" else Strategy(strategy)
            assert await schemas.check_compatible(TOPIC, schema) is expected
        else:
            with pytest.raises(BrokerError, match="is incompatible with schema version 0"):
                await schemas.register(TOPIC, schema)


async def test_transitive_strategies_see_everything(client: PlayedClient, schemas: Schemas) -> None:
    await schemas.register(TOPIC, record("a"))
    await schemas.register(TOPIC, record("a", optional="b"))
    # The new schema requires b to be a number, but data of the first version may contain any b.
    await schemas.check_compatible(TOPIC, record("a", "b"))
    await set_policies(client, schema_compatibility_strategy="FULL_TRANSITIVE")
    with pytest.raises(BrokerError, match="is incompatible with schema version 0"):
        await schemas.check_compatible(TOPIC, record("a", "b"))
    with pytest.raises(BrokerError, match="is incompatible with schema version 0"):
        await schemas.check_consumer(TOPIC, record("a", "b"), is_idle=False)


async def test_the_older_names_of_strategies_count_unless_there_is_a_newer_one(
    client: PlayedClient, schemas: Schemas
) -> None:
    await set_policies(client, schema_auto_update_compatibility_strategy="Backward")
    await schemas.register(TOPIC, record("a", "b"))
    assert await schemas.check_compatible(TOPIC, record("a")) is Strategy.BACKWARD
    await client.store.delete(POLICIES)
    await set_policies(client, schema_compatibility_strategy="SIDEWAYS")
    with pytest.raises(BrokerError, match="strategy 'SIDEWAYS'"):
        await schemas.check_compatible(TOPIC, record("a"))


async def test_a_namespace_may_take_no_new_schemas(client: PlayedClient, schemas: Schemas) -> None:
    await schemas.register(TOPIC, record("a"))
    await set_policies(client, is_allow_auto_update_schema=False)
    assert await schemas.register(TOPIC, record("a")) == encode_version(0)
    with pytest.raises(BrokerError, match="is_allow_auto_update_schema"):
        await schemas.register(TOPIC, record("a", optional="b"))


async def test_namespaces_may_require_a_schema(client: PlayedClient, schemas: Schemas) -> None:
    bytes_ = Schema(type=Schema.Schemaless)
    await schemas.register(TOPIC, record("a"))
    assert await schemas.register(TOPIC, bytes_) == NO_VERSION
    await set_policies(client, schema_validation_enforced=True)
    assert await schemas.register("no schema", bytes_) == NO_VERSION
    with pytest.raises(BrokerError, match="schema_validation_enforced"):
        await schemas.register(TOPIC, bytes_)
