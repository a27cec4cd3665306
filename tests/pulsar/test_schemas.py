"""Schemas in the metadata store: one version for each, whoever brings them."""

import asyncio

import pytest

from labkit.model.proto.pulsar_pb2 import Schema, ServerError
from labkit.pulsar.errors import BrokerError
from labkit.pulsar.schemas import Schemas, encode_version
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
