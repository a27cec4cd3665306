"""The versions of each topic's schema.

All partitions of a topic share its schema. A producer whose schema is already known gets that
schema's version. A new schema must satisfy the namespace's compatibility strategy (`checks`), which
is FULL by default. A consumer's schema must be compatible with the topic's schema, and is stored
only if the topic has no schema and is idle.

The numbers of deleted versions are not reused, because stored messages may still refer to them. If
the topic itself is deleted, numbering restarts at 0.

In Pulsar: `broker/service/schema/SchemaRegistryServiceImpl.java`, `PersistentTopic.java` (its
`addSchemaIfIdleOrCheckCompatible`).
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from weakref import WeakValueDictionary

from labkit.system.broker.errors import BrokerError, NotAllowedError, TopicNotFoundError
from labkit.system.broker.policies import NamespacePolicies, read_namespace_policies
from labkit.system.broker.schemas.checks import (
    IncompatibleSchemaError,
    Strategy,
    check_definition,
    compatibility_strategy,
    incompatibility,
    is_same_definition,
)
from labkit.system.broker.schemas.storage import (
    LocatedVersions,
    SchemasChangedError,
    SchemaStorage,
    SchemaVersion,
    StoredSchema,
    definition_hash,
)
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.proto.pulsar_pb2 import Schema
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.names import encode_name, full_name, namespace_of, without_partition

_NO_SCHEMA = (Schema.Schemaless, Schema.AutoConsume)
"""Schema types of clients that send or receive bytes, whatever the topic's schema is."""
NO_VERSION = b""
"""The version of messages without a schema. It is sent because Java clients require the field."""
NO_NUMBER = -1
"""The version number that means "no version"."""

MAX_SCHEMA_BYTES = 512 * 1024
"""Limits the memory for a version, which is read as a whole."""
MAX_VERSIONS = 1000
"""With this many versions, the locator znode reaches 64 KiB."""
_MAX_LIST_BYTES = 16 * 1024 * 1024
"""The maximum size of the response to a request for all versions."""
_VERSION_SIZES = (8, 64)
"""Clients older than Pulsar 2.4 send 64 bytes, of which only the first 8 are used."""


def encode_version(number: int) -> bytes:
    return number.to_bytes(8, "big")


@dataclass(frozen=True, slots=True)
class NumberedSchema:
    number: int
    schema: Schema
    timestamp_ms: int


class Schemas:
    """The schemas of all topics, keyed by the full name of a topic or partition.

    Every method raises `BrokerError` to reject a request, and may raise errors of `SchemaStorage`.
    """

    def __init__(self, client: BookKeeper, config: ManagedLedgerConfig) -> None:
        self._client = client
        self._storage = SchemaStorage(client, config)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def register(self, topic: str, schema: Schema) -> bytes:
        """Return the version, a new one if necessary, or `NO_VERSION` for plain bytes."""
        if schema.type in _NO_SCHEMA:
            await self._check_may_omit_schema(topic)
            return NO_VERSION
        if schema.ByteSize() > MAX_SCHEMA_BYTES:
            raise NotAllowedError(
                f"the schema has {schema.ByteSize()} bytes; the maximum is {MAX_SCHEMA_BYTES}"
            )
        check_definition(schema)
        # Without a lock, producers that register a schema at the same time would each store it.
        async with self._locks.setdefault(_schema_id(topic), asyncio.Lock()):
            while True:
                try:
                    return encode_version(await self._register(topic, schema))
                except SchemasChangedError:
                    continue  # Another broker added a version concurrently.

    async def check_consumer(self, topic: str, schema: Schema, *, is_idle: bool) -> None:
        """Check that a consumer's schema is compatible with the topic's schema. If the topic has no
        schema and is idle (no clients, no stored messages), register the consumer's schema.
        """
        if schema.type in _NO_SCHEMA:
            return
        strategy = (await self._strategy(topic)).for_consumers
        located = await self._storage.locate(_schema_id(topic))
        if located.current:
            await self._check_compatibility(topic, located, schema, strategy)
        elif is_idle:
            await self.register(topic, schema)
        elif strategy is not Strategy.ALWAYS_COMPATIBLE:
            raise IncompatibleSchemaError(
                f"{topic} is in use and has no schema: its messages are plain bytes"
            )

    async def get(self, topic: str, version: bytes | None = None) -> NumberedSchema:
        if version is not None and len(version) not in _VERSION_SIZES:
            raise _not_found_error(topic, f"schema version of {len(version)} bytes")
        number = None if version is None else int.from_bytes(version[:8], "big")
        return await self.find(topic, number)

    async def find(self, topic: str, number: int | None = None) -> NumberedSchema:
        """Return the version with this number, or the latest version if no number is given."""
        current = (await self._storage.locate(_schema_id(topic))).current
        wanted = [each for each in current if number in (None, each.number)]
        found = await self._read(topic, wanted[-1]) if wanted else None
        if found is None:
            what = "schema" if number is None else f"schema version {number}"
            raise _not_found_error(topic, what)
        return found

    async def find_all(self, topic: str) -> list[NumberedSchema]:
        found, size = [], 0
        current = (await self._storage.locate(_schema_id(topic))).current
        async for each in self._read_all(topic, current):
            found.append(each)
            size += each.schema.ByteSize()
            if size > _MAX_LIST_BYTES:
                raise NotAllowedError(
                    f"the schemas of {topic} have more than {_MAX_LIST_BYTES} bytes in total;"
                    " request the versions one by one"
                )
        return found

    async def stored_versions(self, topic: str) -> tuple[SchemaVersion, ...]:
        """Return all versions and deletions, oldest first, and where they are stored."""
        located = await self._storage.locate(_schema_id(topic))
        if not located.versions:
            raise _not_found_error(topic, "schema")
        return located.versions

    async def number_of(self, topic: str, schema: Schema) -> int:
        located = await self._storage.locate(_schema_id(topic))
        found = await self._find_identical(topic, located, schema)
        return NO_NUMBER if found is None else found

    async def check_compatible(self, topic: str, schema: Schema) -> Strategy:
        """Check whether the topic would accept the schema. Return the namespace's strategy."""
        check_definition(schema)
        strategy = await self._strategy(topic)
        located = await self._storage.locate(_schema_id(topic))
        await self._check_compatibility(topic, located, schema, strategy)
        return strategy

    async def delete_versions(self, topic: str) -> int:
        """Return the version number of the deletion, or `NO_NUMBER` if there was no schema."""
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
        await self._storage.delete(_schema_id(topic))

    async def _register(self, topic: str, schema: Schema) -> int:
        located = await self._storage.locate(_schema_id(topic))
        number = await self._find_identical(topic, located, schema)
        if number is not None:
            return number
        async for found in self._read_all(topic, located.current):
            if is_same_definition(found.schema, schema):
                return found.number
        await self._check_may_add(topic, located, schema)
        stored = StoredSchema(schema, self._client.wall_clock_ms())
        return await self._storage.append(_schema_id(topic), located, stored)

    async def _check_may_add(self, topic: str, located: LocatedVersions, schema: Schema) -> None:
        policies = await self._policies(topic)
        if policies.allow_auto_update_schema is False:
            raise IncompatibleSchemaError(
                f"{topic} does not have the schema {schema.name!r}, and its namespace does not"
                " allow clients to add schemas (is_allow_auto_update_schema)"
            )
        strategy = compatibility_strategy(_namespace(topic), policies)
        await self._check_compatibility(topic, located, schema, strategy)
        if (count := len(located.versions)) >= MAX_VERSIONS:
            raise IncompatibleSchemaError(
                f"{topic} has had {count} schema versions, which is the maximum; delete its schema"
                " with ?force=true"
            )

    async def _check_may_omit_schema(self, topic: str) -> None:
        policies = await self._policies(topic)
        if (
            policies.schema_validation_enforced
            and (await self._storage.locate(_schema_id(topic))).current
        ):
            raise IncompatibleSchemaError(
                f"{topic} has a schema, and its namespace requires producers to have one"
                " (schema_validation_enforced)"
            )

    async def _policies(self, topic: str) -> NamespacePolicies:
        return await read_namespace_policies(self._client.store, _namespace(topic))

    async def _strategy(self, topic: str) -> Strategy:
        return compatibility_strategy(_namespace(topic), await self._policies(topic))

    async def _find_identical(
        self, topic: str, located: LocatedVersions, schema: Schema
    ) -> int | None:
        """Return the number of the version that has the same type and bytes as the schema."""
        wanted = definition_hash(schema)
        # Different types may have the same definition: every primitive type has an empty one.
        alike = [each for each in located.current if each.hash == wanted]
        async for found in self._read_all(topic, alike):
            if found.schema.type == schema.type:
                return found.number
        return None

    async def _check_compatibility(
        self, topic: str, located: LocatedVersions, schema: Schema, strategy: Strategy
    ) -> None:
        wanted = located.current if strategy.is_transitive else located.current[-1:]
        async for old in self._read_all(topic, wanted):
            if problem := incompatibility(old.schema, schema, strategy):
                raise IncompatibleSchemaError(
                    f"schema {schema.name!r} is incompatible with schema version {old.number} of"
                    f" {topic} ({strategy.value}): {problem}"
                )

    async def _read_all(
        self, topic: str, versions: Sequence[SchemaVersion]
    ) -> AsyncIterator[NumberedSchema]:
        """Read the versions one at a time, because together they might not fit into memory."""
        for version in versions:
            if (found := await self._read(topic, version)) is not None:
                yield found

    async def _read(self, topic: str, version: SchemaVersion) -> NumberedSchema | None:
        stored = await self._storage.read(_schema_id(topic), version)
        if stored is None or stored.is_deletion:
            return None
        return NumberedSchema(version.number, stored.schema, stored.timestamp_ms)


def _not_found_error(topic: str, what: str) -> BrokerError:
    return TopicNotFoundError(f"{topic} has no {what}")


def _namespace(topic: str) -> str:
    return namespace_of(full_name(topic))


def _schema_id(topic: str) -> str:
    name = full_name(topic)
    local = without_partition(name).rsplit("/", 1)[1]
    return f"{namespace_of(name)}/{encode_name(local)}"
