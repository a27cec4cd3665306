"""Schemas in the metadata store: one version for each, whichever client brings them."""

import asyncio

import pytest

from labkit.model.proto.pulsar_pb2 import Schema, ServerError
from labkit.pulsar.errors import BrokerError
from labkit.pulsar.schemas import LARGEST_SCHEMA, Schemas, encode_version
from tests.client.memory_store import MemoryStore

TOPIC = "persistent://public/default/people"


def protobuf(data: bytes) -> Schema:
    """Of a kind whose bytes nobody looks into."""
    return Schema(name="s", type=Schema.Protobuf, schema_data=data)


@pytest.fixture
def schemas() -> Schemas:
    return Schemas(MemoryStore())


async def test_a_known_schema_keeps_its_version(schemas: Schemas) -> None:
    versions = [await schemas.register(TOPIC, protobuf(data)) for data in (b"a", b"b", b"a")]
    assert versions == [encode_version(0), encode_version(1), encode_version(0)]


async def test_versions_beyond_nine_keep_their_order(schemas: Schemas) -> None:
    for number in range(12):
        await schemas.register(TOPIC, protobuf(b"%d" % number))
    assert (await schemas.get(TOPIC))[0].schema_data == b"11"
    assert (await schemas.get(TOPIC, encode_version(9)))[0].schema_data == b"9"


async def test_two_that_bring_schemas_at_once_get_two_versions(schemas: Schemas) -> None:
    versions = await asyncio.gather(
        *(schemas.register(TOPIC, protobuf(data)) for data in (b"a", b"b", b"a"))
    )
    assert sorted({*versions}) == [encode_version(0), encode_version(1)]
    assert versions[0] == versions[2]


async def test_another_type_is_refused(schemas: Schemas) -> None:
    await schemas.register(TOPIC, protobuf(b"a"))
    with pytest.raises(BrokerError, match="it is String, not Protobuf") as refused:
        await schemas.register(TOPIC, Schema(name="s", type=Schema.String, schema_data=b""))
    assert refused.value.code == ServerError.IncompatibleSchema


async def test_partitions_and_short_names_mean_the_topic(schemas: Schemas) -> None:
    await schemas.register(f"{TOPIC}-partition-2", protobuf(b"a"))
    assert (await schemas.get(TOPIC))[0].schema_data == b"a"
    assert (await schemas.get("people-partition-0"))[0].schema_data == b"a"


async def test_a_deleted_schema_is_gone_and_another_type_may_come(schemas: Schemas) -> None:
    await schemas.register(TOPIC, protobuf(b"a"))
    await schemas.delete(TOPIC)
    await schemas.delete(TOPIC)
    with pytest.raises(BrokerError, match="no schema"):
        await schemas.get(TOPIC)
    await schemas.register(TOPIC, Schema(name="s", type=Schema.String, schema_data=b""))


async def test_a_schema_that_is_too_large_is_refused(schemas: Schemas) -> None:
    with pytest.raises(BrokerError, match="at most 524288 are allowed") as refused:
        await schemas.register(TOPIC, protobuf(bytes(LARGEST_SCHEMA)))
    assert refused.value.code == ServerError.NotAllowedError
    await schemas.register(TOPIC, protobuf(bytes(LARGEST_SCHEMA // 2)))


async def test_a_topic_has_a_bounded_number_of_versions(
    schemas: Schemas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.pulsar.schemas.MOST_VERSIONS", 3)
    for number in range(3):
        await schemas.register(TOPIC, protobuf(b"%d" % number))
    with pytest.raises(BrokerError, match="may have no more"):
        await schemas.register(TOPIC, protobuf(b"another"))
    assert await schemas.register(TOPIC, protobuf(b"1")) == encode_version(1)


@pytest.mark.parametrize("version", [bytes(7) + b"\1", b"\xff" * 8, bytes(9), b"\1" * 100_000])
async def test_a_version_that_is_not_there_is_refused_in_few_words(
    schemas: Schemas, version: bytes
) -> None:
    await schemas.register(TOPIC, protobuf(b"a"))
    with pytest.raises(BrokerError, match="has no version") as refused:
        await schemas.get(TOPIC, version)
    assert len(str(refused.value)) < 200
