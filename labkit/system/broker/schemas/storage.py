"""Stores a topic's schema versions in the same format as Pulsar.

    /schemas/TENANT/NAMESPACE/TOPIC     SchemaLocator: the ledger and entry of every version
    a ledger for each version           one entry, a SchemaEntry: the version and an index of the
                                        versions before it

A ledger is closed before the locator refers to it, and the locator is updated by compare-and-set.
If two brokers (Pulsar's or labkit's) add a version concurrently, the slower broker deletes its
ledger and retries. A crash may leave a ledger that no locator refers to, but never a locator that
refers to a missing ledger.

A deletion is also a version: an entry that is marked as deleted and has an empty hash. This way,
the numbers of deleted versions, to which stored messages may still refer, are never reused.

In Pulsar: `broker/service/schema/BookkeeperSchemaStorage.java`.
"""

from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import (
    BadVersionError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException, LabkitError
from labkit.system.model.proto.pulsar_pb2 import Schema
from labkit.system.model.proto.schemas_pb2 import IndexEntry, SchemaEntry, SchemaInfo, SchemaLocator
from labkit.system.topic.chain.formats import DamagedNodeError, parse_stored
from labkit.system.topic.chain.ledger_chain import NOWHERE, Position
from labkit.system.topic.chain.ledgers import create_ledger, run_to_completion, try_to_delete_ledger
from labkit.system.topic.config import ManagedLedgerConfig

NO_NODE = -1


class SchemasChangedError(LabkitError):
    """Another client has changed the topic's schemas concurrently, so retry."""


@dataclass(frozen=True, slots=True)
class StoredSchema:
    schema: Schema
    timestamp_ms: int
    is_deletion: bool = False


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    number: int
    position: Position
    hash: bytes

    @property
    def is_deletion(self) -> bool:
        """Whether this version marks the deletion of all earlier ones (its hash is empty)."""
        return not self.hash


@dataclass(frozen=True, slots=True)
class LocatedVersions:
    """A topic's versions, oldest first, and the version of the locator node."""

    versions: tuple[SchemaVersion, ...] = ()
    node_version: int = NO_NODE

    @property
    def next_number(self) -> int:
        return self.versions[-1].number + 1 if self.versions else 0

    @property
    def current(self) -> tuple[SchemaVersion, ...]:
        """The versions after the last deletion."""
        deletions = (at for at, version in enumerate(self.versions) if version.is_deletion)
        return self.versions[max(deletions, default=-1) + 1 :]


def definition_hash(schema: Schema) -> bytes:
    return sha256(schema.schema_data).digest()


class SchemaStorage:
    """The schemas of all topics, keyed by schema id (`tenant/namespace/topic`).

    Every method may raise `MetadataUnavailableError`, and `BKException` if too few bookies respond.
    """

    def __init__(self, client: BookKeeper, config: ManagedLedgerConfig) -> None:
        self._client = client
        self._store = client.store
        self._config = config

    async def locate(self, schema_id: str) -> LocatedVersions:
        """Return the topic's versions. Raises `DamagedNodeError` if they cannot be decoded."""
        try:
            data, node_version = await self._store.get(_path(schema_id))
        except NoNodeError:
            return LocatedVersions()
        locator = parse_stored(SchemaLocator, data, f"the znode {_path(schema_id)}")
        return LocatedVersions(tuple(map(_version, locator.index)), node_version)

    async def read(self, schema_id: str, version: SchemaVersion) -> StoredSchema | None:
        """Return None if the ledger was deleted. Raise `DamagedNodeError` if it is damaged."""
        ledger_id, entry_id = version.position
        try:
            ledger = await self._client.open_ledger(ledger_id)
        except BKNoSuchLedgerExistsOnMetadataServerException:
            return None
        description = f"entry {entry_id} of ledger {ledger_id}, a schema of {schema_id}"
        entry = parse_stored(SchemaEntry, (await ledger.read_entry(entry_id)).payload, description)
        return _stored_schema(parse_stored(SchemaInfo, entry.schema_data, description))

    async def append(self, schema_id: str, located: LocatedVersions, stored: StoredSchema) -> int:
        """Add a version after those in `located`, and return its number. If the caller is cancelled
        then, the version may still be added. Raises `SchemasChangedError`.
        """
        return await run_to_completion(self._append(schema_id, located, stored))

    async def delete(self, schema_id: str) -> None:
        """Delete all versions, because the topic is being deleted. Numbering restarts at 0."""
        path = _path(schema_id)
        while True:
            try:
                data, node_version = await self._store.get(path)
                # A crash between these steps must not leave a locator without its ledgers.
                await self._store.delete(path, node_version)
            except BadVersionError:
                continue  # A version was added concurrently.
            except NoNodeError:
                return  # The topic has no schema, or another client is deleting it.
            break
        with suppress(DamagedNodeError):  # If the locator is damaged, its ledgers are unknown.
            for entry in parse_stored(SchemaLocator, data, path).index:
                # If this fails, the ledger only wastes space.
                await try_to_delete_ledger(self._client, entry.position.ledgerId)

    async def _append(self, schema_id: str, located: LocatedVersions, stored: StoredSchema) -> int:
        number, hash_ = located.next_number, b""
        if not stored.is_deletion:
            hash_ = definition_hash(stored.schema)
        # The first version refers to itself, although its position is not known yet.
        before = located.versions or [SchemaVersion(0, NOWHERE, hash_)]
        entry = SchemaEntry(schema_data=_encode(schema_id, stored), index=map(_index_entry, before))
        writer = await create_ledger(self._client, self._config, "schema", schemaId=schema_id)
        try:
            entry_id = await writer.add(entry.SerializeToString(deterministic=True))
            await writer.close()
            version = SchemaVersion(number, (writer.ledger_id, entry_id), hash_)
            await self._write_locator(schema_id, located, version)
        except MetadataUnavailableError:
            raise  # The locator may refer to the new ledger.
        except LabkitError:
            await try_to_delete_ledger(self._client, writer.ledger_id)
            raise
        return number

    async def _write_locator(
        self, schema_id: str, located: LocatedVersions, added: SchemaVersion
    ) -> None:
        index = [_index_entry(version) for version in (*located.versions, added)]
        data = SchemaLocator(info=index[-1], index=index).SerializeToString(deterministic=True)
        try:
            if located.node_version == NO_NODE:
                await self._store.create(_path(schema_id), data)
            else:
                await self._store.set(_path(schema_id), data, located.node_version)
        except (BadVersionError, NodeExistsError, NoNodeError):
            raise SchemasChangedError(
                f"the schemas of {schema_id} were changed concurrently; repeat the request"
            ) from None


def _path(schema_id: str) -> str:
    return f"/schemas/{schema_id}"


def _version(entry: IndexEntry) -> SchemaVersion:
    return SchemaVersion(
        entry.version, (entry.position.ledgerId, entry.position.entryId), entry.hash
    )


def _index_entry(version: SchemaVersion) -> IndexEntry:
    entry = IndexEntry(version=version.number, hash=version.hash)
    entry.position.ledgerId, entry.position.entryId = version.position
    return entry


def _encode(schema_id: str, stored: StoredSchema) -> bytes:
    schema = stored.schema
    pairs: Any = schema.properties
    kind = SchemaInfo.EXTERNAL if schema.type == Schema.External else schema.type + 1
    info = SchemaInfo(
        schema_id=schema_id,
        user="",
        type=SchemaInfo.SchemaType.Name(kind),
        schema=schema.schema_data,
        timestamp=stored.timestamp_ms,
        deleted=stored.is_deletion,
        props=[SchemaInfo.KeyValuePair(key=p.key, value=p.value) for p in pairs],
    )
    return info.SerializeToString(deterministic=True)


def _stored_schema(info: SchemaInfo) -> StoredSchema:
    kind = Schema.External if info.type == SchemaInfo.EXTERNAL else info.type - 1
    schema = Schema(name=info.schema_id, type=Schema.Type.Name(kind), schema_data=info.schema)
    for pair in info.props:
        schema.properties.add(key=pair.key, value=pair.value)
    return StoredSchema(schema, info.timestamp, info.deleted)
