"""Where the versions of a topic's schema are stored, as Pulsar stores them.

    /schemas/TENANT/NAMESPACE/TOPIC     SchemaLocator: the ledger and entry of every version
    a ledger for each version           one entry, a SchemaEntry: the version, and those before it

A ledger is closed before the locator names it, and the locator is written by compare-and-set: of
two brokers that add a version at one moment, Pulsar's or labkit's, the later one deletes its ledger
and looks again.  A crash in between leaves a ledger that no locator names, never the opposite.

A deletion is a version too: an entry marked as deleted, whose hash is empty.  So a later version
never gets the number of a deleted one, with which messages of the old schema may still be stored.

An earlier labkit kept a `Schema` per version in nodes below the topic's, which was empty.  These
move to ledgers when the topic's schemas are first looked at.

In Pulsar: `broker/service/schema/BookkeeperSchemaStorage.java`.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import (
    BadVersionError,
    MetadataUnavailableError,
    NodeExistsError,
    NodeTooLargeError,
    NoNodeError,
    NotEmptyError,
)
from labkit.system.model.errors import (
    BKException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    LabkitError,
)
from labkit.system.model.proto.pulsar_pb2 import Schema
from labkit.system.model.proto.schemas_pb2 import IndexEntry, SchemaEntry, SchemaInfo, SchemaLocator
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.config import ManagedLedgerConfig

NO_NODE = -1
_NOWHERE: Position = (-1, -1)
"""The index in the entry of a topic's first version names that version with this position."""

_Stored = TypeVar("_Stored", bound=Message)


class DamagedSchemaError(LabkitError):
    """A locator or the entry of a version cannot be decoded."""


class SchemasChangedError(LabkitError):
    """Another client has changed the topic's schemas at this moment: look again."""


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """A schema, or a deletion of the schemas before it."""

    schema: Schema
    timestamp_ms: int
    is_deletion: bool = False


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version's number, the entry that holds it, and the hash of its definition."""

    number: int
    position: Position
    hash: bytes

    @property
    def is_deletion(self) -> bool:
        """Whether it deletes the versions before it."""
        return not self.hash


@dataclass(frozen=True, slots=True)
class Located:
    """A topic's versions in their order, and the version of the node that names them."""

    versions: tuple[SchemaVersion, ...] = ()
    node_version: int = NO_NODE

    @property
    def next_number(self) -> int:
        """The number of the version to come."""
        return self.versions[-1].number + 1 if self.versions else 0

    @property
    def current(self) -> tuple[SchemaVersion, ...]:
        """The versions after the last deletion."""
        deletions = (at for at, version in enumerate(self.versions) if version.is_deletion)
        return self.versions[max(deletions, default=-1) + 1 :]


def definition_hash(schema: Schema) -> bytes:
    """The hash of a schema's definition, which locators carry."""
    return sha256(schema.schema_data).digest()


class SchemaStorage:
    """The schemas of all topics, each named by an id, `tenant/namespace/topic`.

    Every call may raise `MetadataUnavailableError`, and what the client of bookies raises.
    """

    def __init__(self, client: BookKeeper, config: ManagedLedgerConfig) -> None:
        self._client = client
        self._store = client.store
        self._config = config

    async def locate(self, schema_id: str) -> Located:
        """The topic's versions; none, if it has no schema.  Raises `DamagedSchemaError`."""
        try:
            data, node_version = await self._store.get(_path(schema_id))
        except NoNodeError:
            return Located()
        if not data:
            return await self._move_old_form(schema_id, node_version)
        locator = _decode(SchemaLocator, data, f"the node {_path(schema_id)}")
        return Located(tuple(map(_version, locator.index)), node_version)

    async def read(self, schema_id: str, version: SchemaVersion) -> StoredSchema | None:
        """A version; None if its ledger was deleted.  Raises `DamagedSchemaError`."""
        ledger_id, entry_id = version.position
        try:
            ledger = await self._client.open_ledger(ledger_id)
        except BKNoSuchLedgerExistsOnMetadataServerException:
            return None
        what = f"entry {entry_id} of ledger {ledger_id}, a schema of {schema_id},"
        entry = _decode(SchemaEntry, (await ledger.read_entry(entry_id)).payload, what)
        return _stored_schema(_decode(SchemaInfo, entry.schema_data, what))

    async def append(self, schema_id: str, located: Located, stored: StoredSchema) -> int:
        """Add a version behind those located, and return its number.

        Raises `SchemasChangedError`.
        """
        number = located.next_number
        longer = await self._with_version(schema_id, located, number, stored)
        await self._write_locator(schema_id, longer, longer.versions[-1:])
        return number

    async def delete(self, schema_id: str) -> None:
        """Forget all versions, and their numbers: the topic is deleted, too."""
        path = _path(schema_id)
        while True:
            try:
                data, node_version = await self._store.get(path)
                for child in await self._store.children(path):
                    await self._delete_node(f"{path}/{child}")
                # Before its ledgers: a crash in between leaves no locator of missing ledgers.
                await self._store.delete(path, node_version)
            except (BadVersionError, NotEmptyError):
                continue  # A version was added at this moment.
            except NoNodeError:
                return  # There is none, or another client deletes it, too.
            break
        with suppress(DamagedSchemaError):  # Nobody knows its ledgers.
            index = _decode(SchemaLocator, data, path).index
            await self._delete_ledgers(entry.position.ledgerId for entry in index)

    async def _with_version(
        self, schema_id: str, located: Located, number: int, stored: StoredSchema
    ) -> Located:
        """What is located, with one more version, in a ledger that no locator names yet."""
        config = self._config
        writer = await self._client.create_ledger(
            config.ensemble_size,
            config.write_quorum,
            config.ack_quorum,
            custom_metadata=(
                ("application", b"pulsar"),
                ("component", b"schema"),
                ("pulsar/schemaId", schema_id.encode()),
            ),
        )
        hash_ = b"" if stored.is_deletion else definition_hash(stored.schema)
        before = located.versions or [SchemaVersion(0, _NOWHERE, hash_)]
        entry = SchemaEntry(schema_data=_encode(schema_id, stored), index=map(_index_entry, before))
        try:
            entry_id = await writer.add(entry.SerializeToString(deterministic=True))
            await writer.close()
        except BKException:
            await self._delete_ledgers([writer.ledger_id])
            raise
        version = SchemaVersion(number, (writer.ledger_id, entry_id), hash_)
        return Located((*located.versions, version), located.node_version)

    async def _write_locator(
        self, schema_id: str, located: Located, added: Sequence[SchemaVersion]
    ) -> None:
        """Name all versions in the node, or delete the ledgers of those that were added."""
        index = [_index_entry(version) for version in located.versions]
        data = SchemaLocator(info=index[-1], index=index).SerializeToString(deterministic=True)
        try:
            if located.node_version == NO_NODE:
                await self._store.create(_path(schema_id), data)
            else:
                await self._store.set(_path(schema_id), data, located.node_version)
        except (BadVersionError, NodeExistsError, NoNodeError):
            await self._delete_ledgers(version.position[0] for version in added)
            raise SchemasChangedError(
                f"the schemas of {schema_id} were changed at this moment; look again"
            ) from None
        except NodeTooLargeError:
            await self._delete_ledgers(version.position[0] for version in added)
            raise

    async def _delete_ledgers(self, ledger_ids: Iterable[int]) -> None:
        """Delete ledgers that no locator names; one that is left only wastes space."""
        for ledger_id in ledger_ids:
            with suppress(BKNoSuchLedgerExistsOnMetadataServerException, MetadataUnavailableError):
                await self._client.delete_ledger(ledger_id)

    async def _move_old_form(self, schema_id: str, node_version: int) -> Located:
        """Move what an earlier labkit kept in nodes to ledgers."""
        path = _path(schema_id)
        numbers = sorted(int(each) for each in await self._store.children(path) if each.isdecimal())
        located = Located((), node_version)
        if not numbers:
            return located
        try:
            for number in numbers:
                data, _ = await self._store.get(f"{path}/{number}")
                schema = _decode(Schema, data, f"the node {path}/{number}")
                stored = StoredSchema(schema, self._client.wall_clock_ms())
                located = await self._with_version(schema_id, located, number, stored)
        except (NoNodeError, BKException, DamagedSchemaError) as error:
            await self._delete_ledgers(version.position[0] for version in located.versions)
            if isinstance(error, NoNodeError):
                return await self.locate(schema_id)  # Another broker has moved them.
            raise
        with suppress(SchemasChangedError):
            await self._write_locator(schema_id, located, located.versions)
            for number in numbers:
                await self._delete_node(f"{path}/{number}")
        return await self.locate(schema_id)

    async def _delete_node(self, path: str) -> None:
        with suppress(NoNodeError):
            await self._store.delete(path)


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


def _decode(kind: type[_Stored], data: bytes, what: str) -> _Stored:
    try:
        stored = kind.FromString(data)
    except DecodeError as error:
        raise DamagedSchemaError(f"{what} cannot be read: {error}") from None
    if not stored.IsInitialized():
        raise DamagedSchemaError(f"{what} cannot be read: a field that must be there is missing")
    return stored
