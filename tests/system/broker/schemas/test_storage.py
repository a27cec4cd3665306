"""Test how schemas are stored in znodes and ledgers, and what a crash leaves behind."""

import asyncio
import hashlib

import pytest

from labkit.system.broker.schemas.storage import (
    LocatedVersions,
    SchemasChangedError,
    SchemaStorage,
    StoredSchema,
)
from labkit.system.metadata.store import MetadataUnavailableError, NodeTooLargeError
from labkit.system.model.errors import BKNotEnoughBookiesException, BKWriteException
from labkit.system.model.proto.pulsar_pb2 import Schema
from labkit.system.model.proto.schemas_pb2 import SchemaEntry, SchemaInfo, SchemaLocator
from labkit.system.topic.chain.formats import DamagedNodeError
from labkit.system.topic.config import ManagedLedgerConfig
from tests.system.topic.clients import NOW_MS, PlayedClient

ID = "t/n/x"
NODE = f"/schemas/{ID}"
CONFIG = ManagedLedgerConfig(4, 3, 2)
DOWN = MetadataUnavailableError("it does not answer")


def text(*properties: tuple[str, str]) -> StoredSchema:
    schema = Schema(name="s", type=Schema.String, schema_data=b"")
    for key, value in properties:
        schema.properties.add(key=key, value=value)
    return StoredSchema(schema, NOW_MS)


DELETION = StoredSchema(
    Schema(name="", type=Schema.Schemaless, schema_data=b""), NOW_MS, is_deletion=True
)


class Stored:
    """The schemas of one topic, stored through a scripted client."""

    def __init__(self) -> None:
        self.client = PlayedClient()
        self.storage = SchemaStorage(self.client.real, CONFIG)

    async def append(self, stored: StoredSchema) -> int:
        return await self.storage.append(ID, await self.storage.locate(ID), stored)

    async def numbers(self) -> list[int]:
        return [version.number for version in (await self.storage.locate(ID)).versions]

    async def locator(self) -> SchemaLocator:
        data, _ = await self.client.store.get(NODE)
        return SchemaLocator.FromString(data)


@pytest.fixture
def here() -> Stored:
    return Stored()


async def test_a_version_is_stored_in_the_form_that_pulsar_reads(here: Stored) -> None:
    assert await here.append(text(("a", "b"))) == 0
    entry = SchemaEntry.FromString(here.client.ledgers[1].entries[0])
    hash_ = hashlib.sha256(b"").digest()
    [before] = entry.index
    assert (before.version, before.position.ledgerId, before.hash) == (0, -1, hash_)
    info = SchemaInfo.FromString(entry.schema_data)
    assert (info.schema_id, info.type, info.timestamp) == (ID, SchemaInfo.STRING, NOW_MS)
    assert [(pair.key, pair.value) for pair in info.props] == [("a", "b")]
    locator = await here.locator()
    newest = locator.info
    assert (newest.version, newest.position.ledgerId, newest.hash) == (0, 1, hash_)
    assert list(locator.index) == [newest]


async def test_the_ledger_of_a_version_is_closed_and_says_what_it_is(here: Stored) -> None:
    await here.append(text())
    metadata = here.client.ledgers[1].metadata
    assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (4, 3, 2)
    assert metadata.last_entry_id == 0
    assert dict(metadata.custom_metadata) == {
        "application": b"pulsar",
        "component": b"schema",
        "pulsar/schemaId": ID.encode(),
    }


async def test_each_entry_names_the_versions_before_it_and_the_node_all(here: Stored) -> None:
    for _ in range(3):
        await here.append(text())
    entry = SchemaEntry.FromString(here.client.ledgers[3].entries[0])
    assert [(each.version, each.position.ledgerId) for each in entry.index] == [(0, 1), (1, 2)]
    locator = await here.locator()
    assert [each.position.ledgerId for each in locator.index] == [1, 2, 3]
    assert locator.info == locator.index[2]


@pytest.mark.parametrize("kind", Schema.Type.values())
async def test_types_come_back_from_the_ledger(here: Stored, kind: int) -> None:
    schema = Schema(name="s", type=Schema.Type.Name(kind), schema_data=b"x")
    if kind == Schema.AutoConsume:
        return  # Only clients use this type; it is never stored.
    await here.append(StoredSchema(schema, NOW_MS))
    [version] = (await here.storage.locate(ID)).versions
    found = await here.storage.read(ID, version)
    assert found is not None
    assert (found.schema.type, found.schema.schema_data) == (kind, b"x")
    assert (found.schema.name, found.timestamp_ms) == (ID, NOW_MS)


async def test_a_deletion_is_a_version_without_a_hash_that_hides_others(here: Stored) -> None:
    numbers = [await here.append(each) for each in (text(), text(), DELETION, text())]
    assert numbers == [0, 1, 2, 3]
    located = await here.storage.locate(ID)
    assert [version.number for version in located.current] == [3]
    assert [version.is_deletion for version in located.versions] == [False, False, True, False]
    stored = await here.storage.read(ID, located.versions[2])
    assert stored is not None
    assert stored.is_deletion
    assert (await here.locator()).index[2].hash == b""


async def test_of_two_that_add_a_version_the_later_deletes_its_ledger(here: Stored) -> None:
    await here.append(text())
    located = await here.storage.locate(ID)
    await here.append(text())
    for place in (located, LocatedVersions()):
        with pytest.raises(SchemasChangedError, match="repeat the request"):
            await here.storage.append(ID, place, text())
    assert sorted(here.client.ledgers) == [1, 2]
    assert await here.numbers() == [0, 1]


@pytest.mark.parametrize(
    "error", [BKWriteException("no"), BKNotEnoughBookiesException("too few")], ids=str
)
@pytest.mark.parametrize("call", ["add", "close"])
async def test_a_version_that_cannot_be_written_leaves_no_ledger(
    here: Stored, call: str, error: BKWriteException
) -> None:
    here.client.failing.fail(call, error)
    with pytest.raises(type(error)):
        await here.append(text())
    assert here.client.ledgers == {}
    assert await here.numbers() == []


async def test_a_node_that_is_too_large_leaves_no_ledger(here: Stored) -> None:
    await here.append(text())
    here.client.failing.fail("node set", NodeTooLargeError("too large"))
    with pytest.raises(NodeTooLargeError):
        await here.append(text())
    assert sorted(here.client.ledgers) == [1]


async def test_a_ledger_stays_while_it_is_unknown_if_the_locator_names_it(here: Stored) -> None:
    await here.append(text())
    here.client.failing.fail("node set", DOWN)
    with pytest.raises(MetadataUnavailableError):
        await here.append(text())
    assert sorted(here.client.ledgers) == [1, 2]


async def test_a_version_whose_ledger_was_deleted_is_not_there(here: Stored) -> None:
    await here.append(text())
    [version] = (await here.storage.locate(ID)).versions
    await here.client.delete_ledger(1)
    assert await here.storage.read(ID, version) is None
    assert await here.append(text()) == 1


async def test_deletion_with_the_topic_begins_with_the_node(here: Stored) -> None:
    for _ in range(2):
        await here.append(text())
    here.client.failing.fail("delete", DOWN)
    await here.storage.delete(ID)
    await here.storage.delete(ID)
    assert not await here.client.store.exists(NODE)
    assert sorted(here.client.ledgers) == [1]  # This ledger could not be deleted and wastes space.
    assert await here.append(text()) == 0


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x12\x00", b"\x0a\x02\x08\x05"])
async def test_a_damaged_node_is_an_error_until_it_is_deleted(here: Stored, data: bytes) -> None:
    await here.client.store.create(NODE, data)
    with pytest.raises(DamagedNodeError, match=f"the znode {NODE} cannot be read: "):
        await here.append(text())
    await here.storage.delete(ID)
    assert await here.append(text()) == 0


@pytest.mark.parametrize("data", [b"\xff", b"", SchemaEntry(schema_data=b"").SerializeToString()])
async def test_a_damaged_entry_is_an_error(here: Stored, data: bytes) -> None:
    await here.append(text())
    here.client.ledgers[1].entries = [data]
    [version] = (await here.storage.locate(ID)).versions
    reason = "entry 0 of ledger 1, a schema of t/n/x cannot be read: "
    with pytest.raises(DamagedNodeError, match=reason):
        await here.storage.read(ID, version)


async def test_a_cancelled_caller_leaves_no_ledger_without_a_locator(
    here: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = here.client.store.create
    is_creating, may_create = asyncio.Event(), asyncio.Event()

    async def create_later(path: str, data: bytes) -> str:
        is_creating.set()
        await may_create.wait()
        return await create(path, data)

    monkeypatch.setattr(here.client.store, "create", create_later)
    adding = asyncio.create_task(here.append(text()))
    await is_creating.wait()
    adding.cancel()
    may_create.set()
    with pytest.raises(asyncio.CancelledError):
        await adding
    assert sorted(here.client.ledgers) == [1]
    assert await here.numbers() == [0]
