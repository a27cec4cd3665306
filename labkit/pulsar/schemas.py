"""Schemas of a topic's messages, by version.

    /schemas/TENANT/NAMESPACE/TOPIC/0, 1, 2, ...     a `Schema` each

All partitions of a topic share its schemas.  A client that registers a known schema gets its
version.  A new schema must have the type of the newest, and for Avro and JSON each of the two must
be able to read what the other writes (Pulsar's default, FULL).  A version's znode is created once,
so two clients that register new schemas at the same moment get two versions.

Pulsar keeps the schemas in ledgers, and only their positions in the metadata store.

In Pulsar: `broker/service/schema/SchemaRegistryServiceImpl.java`.
"""

from labkit.metadata.store import MetadataStore, NodeExistsError, NoNodeError
from labkit.model.proto.pulsar_pb2 import Schema, ServerError
from labkit.pulsar.avro_compatibility import incompatibility
from labkit.pulsar.errors import BrokerError, refused_names
from labkit.topic.names import encoded, full_name, namespace_of, partition_name, partition_of

_RECORDS = (Schema.Avro, Schema.Json)
_NO_SCHEMA = (Schema.Schemaless, Schema.AutoConsume)
"""Types of a client that sends or receives bytes, whatever the topic's schema is."""
NO_VERSION = b""
"""The version of messages without a schema.  It is sent to clients, since the Java client needs the
field.
"""


LARGEST_SCHEMA = 512 * 1024
"""In bytes: half of the largest znode."""
MOST_VERSIONS = 1000
_VERSION_SIZE = 8


def encode_version(version: int) -> bytes:
    """The version in the form that messages carry."""
    return version.to_bytes(_VERSION_SIZE, "big")


class Schemas:
    """The schemas of all topics."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def register(self, topic: str, schema: Schema) -> bytes:
        """The schema's version for the topic, or partition, with this full name.

        Schemas that stand for bytes have no version.  Raises `BrokerError` for a schema that does
        not fit the newest.
        """
        if schema.type in _NO_SCHEMA:
            return NO_VERSION
        if schema.ByteSize() > LARGEST_SCHEMA:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"a schema of {schema.ByteSize()} bytes; at most {LARGEST_SCHEMA} are allowed",
            )
        path = _path(topic)
        while True:
            count = await self._count(path)
            newest = None
            for version in reversed(range(count)):
                known = await self._load(path, version)
                if (known.type, known.schema_data) == (schema.type, schema.schema_data):
                    return encode_version(version)
                newest = newest or known
            if newest is not None:
                _check(topic, newest, schema)
            if count >= MOST_VERSIONS:
                raise BrokerError(
                    ServerError.IncompatibleSchema,
                    f"{topic} has {count} versions of its schema, and may have no more; delete it",
                )
            try:
                data = schema.SerializeToString(deterministic=True)
                await self._store.create(f"{path}/{count}", data)
            except NodeExistsError:
                continue  # Another client added one at this moment.
            return encode_version(count)

    async def get(self, topic: str, version: bytes = b"") -> tuple[Schema, bytes]:
        """The given version of the topic's schema, or the newest.  Raises `BrokerError`."""
        path = _path(topic)
        count = await self._count(path)
        number = int.from_bytes(version[-_VERSION_SIZE:], "big") if version else count - 1
        if not 0 <= number < count or len(version) > _VERSION_SIZE:
            wanted = f"version {number} of its schema" if version else "schema"
            raise BrokerError(ServerError.TopicNotFound, f"{topic} has no {wanted}")
        return await self._load(path, number), encode_version(number)

    async def delete(self, topic: str) -> None:
        """Forget all versions."""
        path = _path(topic)
        try:
            for version in await self._store.children(path):
                await self._store.delete(f"{path}/{version}")
            await self._store.delete(path)
        except NoNodeError:
            pass  # There is none, or another client deletes it, too.

    async def _count(self, path: str) -> int:
        try:
            return len(await self._store.children(path))
        except NoNodeError:
            return 0

    async def _load(self, path: str, version: int) -> Schema:
        """One at a time: all of them together might not fit into memory."""
        data, _ = await self._store.get(f"{path}/{version}")
        return Schema.FromString(data)


def _check(topic: str, newest: Schema, schema: Schema) -> None:
    if schema.type != newest.type:
        problem = f"it is {Schema.Type.Name(schema.type)}, not {Schema.Type.Name(newest.type)}"
    elif schema.type in _RECORDS:
        problem = incompatibility(newest.schema_data, schema.schema_data)
    else:
        problem = ""
    if problem:
        raise BrokerError(
            ServerError.IncompatibleSchema,
            f"the schema {schema.name!r} does not fit the newest one of {topic}: {problem}",
        )


def _path(topic: str) -> str:
    with refused_names():
        name = full_name(topic)
    without_partition = name.removesuffix(partition_name("", partition_of(name)))
    local = without_partition.rsplit("/", 1)[1]
    return f"/schemas/{namespace_of(name)}/{encoded(local)}"
