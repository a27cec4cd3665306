"""Schemas of a topic's messages, by version.

All partitions of a topic share its schemas.  A producer that brings a known schema gets its
version; a new one must fit the earlier ones as the namespace's strategy says (`checks`), by
default FULL.  A consumer brings a schema to read with: while the topic has one it is only compared,
never stored.

Deleted schemas are gone, and their numbers are not given out again, as messages with these numbers
may still be stored.  Only if the topic is deleted, too, numbers begin with 0 again.

In Pulsar: `broker/service/schema/SchemaRegistryServiceImpl.java`, `PersistentTopic.java` (its
`addSchemaIfIdleOrCheckCompatible`).
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from labkit.system.broker.errors import BrokerError, refused_names
from labkit.system.broker.schemas.checks import (
    Strategy,
    check_definition,
    incompatibility,
    is_same_definition,
)
from labkit.system.broker.schemas.policy import read_schema_policy
from labkit.system.broker.schemas.storage import (
    Located,
    SchemasChangedError,
    SchemaStorage,
    SchemaVersion,
    StoredSchema,
    definition_hash,
)
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.proto.pulsar_pb2 import Schema, ServerError
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.names import encoded, full_name, namespace_of, partition_name, partition_of

_NO_SCHEMA = (Schema.Schemaless, Schema.AutoConsume)
"""Types of a client that sends or receives bytes, whatever the topic's schema is."""
NO_VERSION = b""
"""The version of messages without a schema.  It is sent to clients, since the Java client needs the
field.
"""
NO_NUMBER = -1
"""Instead of a version's number: there is none."""

LARGEST_SCHEMA = 512 * 1024
"""In bytes.  Each version is read whole."""
MOST_VERSIONS = 1000
"""With a node of 64 KiB for their ledgers."""
_LARGEST_LIST = 16 * 1024 * 1024
"""Bytes of definitions in the answer to a request for all versions."""
_VERSION_SIZES = (8, 64)
"""Clients before Pulsar 2.4 send 64 bytes, of which the first 8 count."""


def encode_version(number: int) -> bytes:
    """The version in the form that messages carry."""
    return number.to_bytes(8, "big")


@dataclass(frozen=True, slots=True)
class NumberedSchema:
    """A version that is not deleted."""

    number: int
    schema: Schema
    timestamp_ms: int


class Schemas:
    """The schemas of all topics, each named by the full name of a topic or of a partition.

    Every call raises `BrokerError` for what a client must not do, and what `SchemaStorage` raises.
    """

    def __init__(self, client: BookKeeper, config: ManagedLedgerConfig) -> None:
        self._client = client
        self._storage = SchemaStorage(client, config)
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def register(self, topic: str, schema: Schema) -> bytes:
        """The schema's version, which is new unless the topic has it; none, if the type is that of
        plain bytes.
        """
        if schema.type in _NO_SCHEMA:
            await self._check_may_do_without(topic)
            return NO_VERSION
        if schema.ByteSize() > LARGEST_SCHEMA:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"a schema of {schema.ByteSize()} bytes; at most {LARGEST_SCHEMA} are allowed",
            )
        check_definition(schema)
        # Of many producers that bring the same new schema, all but one would write it in vain.
        async with self._changing.setdefault(_schema_id(topic), asyncio.Lock()):
            while True:
                try:
                    return encode_version(await self._register(topic, schema))
                except SchemasChangedError:
                    continue  # Another broker added a version at this moment.

    async def check_consumer(self, topic: str, schema: Schema, *, is_idle: bool) -> None:
        """Compare a consumer's schema with those of the topic.

        A topic without any takes it, if it `is_idle`: nobody sends or receives, and no messages are
        stored.
        """
        if schema.type in _NO_SCHEMA:
            return
        policy = await read_schema_policy(self._client.store, _namespace(topic))
        strategy = policy.strategy.for_consumers
        located = await self._storage.locate(_schema_id(topic))
        if located.current:
            await self._check_fits(topic, located, schema, strategy)
        elif is_idle:
            await self.register(topic, schema)
        elif strategy is not Strategy.ALWAYS_COMPATIBLE:
            raise BrokerError(
                ServerError.IncompatibleSchema,
                f"{topic} is in use without a schema: its messages are bytes",
            )

    async def get(self, topic: str, version: bytes | None = None) -> NumberedSchema:
        """The given version of the topic's schema, or the newest."""
        if version is not None and len(version) not in _VERSION_SIZES:
            raise _not_there(topic, f"version of {len(version)} bytes of its schema")
        number = None if version is None else int.from_bytes(version[:8], "big")
        return await self.find(topic, number)

    async def find(self, topic: str, number: int | None = None) -> NumberedSchema:
        """The version with this number, or the newest."""
        current = (await self._storage.locate(_schema_id(topic))).current
        wanted = [each for each in current if number in (None, each.number)]
        found = await self._read(topic, wanted[-1]) if wanted else None
        if found is None:
            what = "schema" if number is None else f"version {number} of its schema"
            raise _not_there(topic, what)
        return found

    async def find_all(self, topic: str) -> list[NumberedSchema]:
        """All versions, oldest first."""
        found, size = [], 0
        current = (await self._storage.locate(_schema_id(topic))).current
        async for each in self._read_all(topic, current):
            found.append(each)
            size += each.schema.ByteSize()
            if size > _LARGEST_LIST:
                raise BrokerError(
                    ServerError.NotAllowedError,
                    f"the schemas of {topic} have more than {_LARGEST_LIST} bytes together; ask for"
                    " one version after the other",
                )
        return found

    async def stored_versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        """Where all versions and deletions are stored, oldest first."""
        located = await self._storage.locate(_schema_id(topic))
        if not located.versions:
            raise _not_there(topic, "schema")
        return located.versions

    async def number_of(self, topic: str, schema: Schema) -> int:
        """The number of the version with this definition, or `NO_NUMBER`."""
        located = await self._storage.locate(_schema_id(topic))
        found = await self._known(topic, located, schema)
        return NO_NUMBER if found is None else found

    async def check_compatible(self, topic: str, schema: Schema) -> Strategy:
        """Check whether the topic would take the schema, and return what its namespace asks."""
        check_definition(schema)
        policy = await read_schema_policy(self._client.store, _namespace(topic))
        located = await self._storage.locate(_schema_id(topic))
        await self._check_fits(topic, located, schema, policy.strategy)
        return policy.strategy

    async def delete_versions(self, topic: str) -> int:
        """Delete all versions; their numbers stay used.  Returns the number that marks this, or
        `NO_NUMBER` if there was never a schema.
        """
        schema_id = _schema_id(topic)
        while True:
            located = await self._storage.locate(schema_id)
            if not located.current:
                return located.next_number - 1
            nothing = Schema(name="", type=Schema.Schemaless, schema_data=b"")
            deletion = StoredSchema(nothing, self._client.wall_clock_ms(), is_deletion=True)
            try:
                return await self._storage.append(schema_id, located, deletion)
            except SchemasChangedError:
                continue

    async def delete(self, topic: str) -> None:
        """Delete all versions and their numbers, with the topic."""
        await self._storage.delete(_schema_id(topic))

    async def _register(self, topic: str, schema: Schema) -> int:
        located = await self._storage.locate(_schema_id(topic))
        known = await self._known(topic, located, schema)
        if known is None:
            known = await self._same(topic, located, schema)
        if known is not None:
            return known
        await self._check_may_add(topic, located, schema)
        stored = StoredSchema(schema, self._client.wall_clock_ms())
        return await self._storage.append(_schema_id(topic), located, stored)

    async def _check_may_add(self, topic: str, located: Located, schema: Schema) -> None:
        policy = await read_schema_policy(self._client.store, _namespace(topic))
        if not policy.allow_auto_update:
            raise BrokerError(
                ServerError.IncompatibleSchema,
                f"{topic} does not have the schema {schema.name!r}, and its namespace lets clients"
                " add none (is_allow_auto_update_schema)",
            )
        await self._check_fits(topic, located, schema, policy.strategy)
        if (count := len(located.versions)) >= MOST_VERSIONS:
            raise BrokerError(
                ServerError.IncompatibleSchema,
                f"{topic} has had {count} versions of its schema, and may have no more; delete it"
                " with ?force=true",
            )

    async def _check_may_do_without(self, topic: str) -> None:
        """A namespace may enforce schemas where a topic has one."""
        policy = await read_schema_policy(self._client.store, _namespace(topic))
        if policy.validation_enforced:
            located = await self._storage.locate(_schema_id(topic))
            if located.current:
                raise BrokerError(
                    ServerError.IncompatibleSchema,
                    f"{topic} has a schema, and its namespace wants producers to have one"
                    " (schema_validation_enforced)",
                )

    async def _known(self, topic: str, located: Located, schema: Schema) -> int | None:
        """The number of the version with these bytes and this type."""
        wanted = definition_hash(schema)
        # Types share definitions: that of all primitive ones is empty.
        alike = [each for each in located.current if each.hash == wanted]
        async for found in self._read_all(topic, alike):
            if found.schema.type == schema.type:
                return found.number
        return None

    async def _same(self, topic: str, located: Located, schema: Schema) -> int | None:
        """The number of the version that says the same in other words."""
        async for found in self._read_all(topic, located.current):
            if is_same_definition(found.schema, schema):
                return found.number
        return None

    async def _check_fits(
        self, topic: str, located: Located, schema: Schema, strategy: Strategy
    ) -> None:
        wanted = located.current if strategy.is_transitive else located.current[-1:]
        async for old in self._read_all(topic, wanted):
            if problem := incompatibility(old.schema, schema, strategy):
                raise BrokerError(
                    ServerError.IncompatibleSchema,
                    f"the schema {schema.name!r} does not fit version {old.number} of that of"
                    f" {topic} ({strategy.value}): {problem}",
                )

    async def _read_all(
        self, topic: str, versions: Sequence[SchemaVersion]
    ) -> AsyncIterator[NumberedSchema]:
        """One at a time: all of them together might not fit into memory."""
        for version in versions:
            if (found := await self._read(topic, version)) is not None:
                yield found

    async def _read(self, topic: str, version: SchemaVersion) -> NumberedSchema | None:
        stored = await self._storage.read(_schema_id(topic), version)
        if stored is None or stored.is_deletion:
            return None
        return NumberedSchema(version.number, stored.schema, stored.timestamp_ms)


def _not_there(topic: str, what: str) -> BrokerError:
    return BrokerError(ServerError.TopicNotFound, f"{topic} has no {what}")


def _namespace(topic: str) -> str:
    with refused_names():
        return namespace_of(full_name(topic))


def _schema_id(topic: str) -> str:
    with refused_names():
        name = full_name(topic)
    without_partition = name.removesuffix(partition_name("", partition_of(name)))
    local = without_partition.rsplit("/", 1)[1]
    return f"{namespace_of(name)}/{encoded(local)}"
