"""Test which chain nodes and ledgers are written and deleted, with a scripted client."""

from dataclasses import replace
from typing import cast

import pytest

from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.store import ANY_VERSION, MetadataUnavailableError, NodeTooLargeError
from labkit.system.model.errors import (
    BKMetadataVersionException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.system.topic.chain import chain_store
from labkit.system.topic.chain.chain_store import ChainStore, read_chain
from labkit.system.topic.chain.formats import DamagedNodeError, encode_chain
from labkit.system.topic.chain.guarded_node import ManagedLedgerFencedError
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.names import managed_ledger_path
from tests.system.topic.clients import NOW_MS, PlayedClient, PlayedWriter

NAME = "persistent://public/default/t"
PATH = managed_ledger_path(NAME)
CONFIG = ManagedLedgerConfig(4, 3, 2, retention_time_ms=0, retention_size_bytes=0)
DOWN = MetadataUnavailableError("it does not answer")
OVERTAKEN = f"another owner has changed the chain of {NAME}"


class Owned:
    """The chain as one owner sees it."""

    def __init__(self, client: PlayedClient | None = None) -> None:
        self.client = client or PlayedClient()
        self.store = ChainStore(NAME, PATH, self.client.real, CONFIG)

    async def begin(self, entry_count: int = 0) -> PlayedWriter:
        """Open the next ledger and add `entry_count` entries to it."""
        writer = await self.store.begin_ledger()
        played = self.client.ledgers[writer.ledger_id]
        played.entries += [b"entry"] * entry_count
        self.store.chain.open_entry_count = entry_count
        return played

    async def end(self, writer: PlayedWriter) -> None:
        metadata = await self.store.close_last_ledger(cast(LedgerWriter, writer))
        self.store.record_closed(writer.ledger_id, metadata)

    async def stored(self) -> list[LedgerInfo]:
        return (await read_chain(self.client.real, PATH))[0]

    def somebody_writes(self, *links: LedgerInfo) -> None:
        """Overwrite the chain's node, as another owner would."""
        self.client.store.tree.set(PATH, encode_chain(links), ANY_VERSION)


def link(ledger_id: int, entry_count: int) -> LedgerInfo:
    return LedgerInfo(ledger_id, entry_count, 5 * entry_count, NOW_MS)


# Taking over


async def test_chain_that_is_not_there_is_empty_and_is_not_made_before_its_first_ledger() -> None:
    owned = Owned()
    await owned.store.take_over()
    assert (owned.client.calls, owned.store.chain.stored_ledgers) == ([], ())
    assert await read_chain(owned.client.real, PATH) == ([], -1)
    writer = await owned.begin()
    assert await read_chain(owned.client.real, PATH) == ([LedgerInfo(writer.ledger_id)], 0)


async def test_last_ledger_is_recovered_and_the_chain_stored_again_at_a_takeover() -> None:
    former = Owned()
    first = await former.begin(3)
    await former.end(first)
    second = await former.begin(2)
    former.client.failing.calls.clear()
    owned = Owned(former.client)
    owned.client.now_ms += 77
    await owned.store.take_over()
    assert owned.client.calls == [f"open {second.ledger_id}", "node set"]
    closed = replace(link(second.ledger_id, 2), closed_at_ms=NOW_MS + 77)
    assert await owned.stored() == [link(first.ledger_id, 3), closed]
    assert owned.store.chain.stored_ledgers == tuple(await owned.stored())
    with pytest.raises(ManagedLedgerFencedError, match=OVERTAKEN):
        await former.store.store_closed()


async def test_ledger_that_was_closed_before_keeps_its_time() -> None:
    former = Owned()
    await former.end(await former.begin(3))
    await former.store.store_closed()
    former.client.now_ms += 77
    owned = Owned(former.client)
    await owned.store.take_over()
    assert await owned.stored() == [link(1, 3)]


async def test_last_ledger_that_was_deleted_leaves_the_chain() -> None:
    former = Owned()
    await former.end(await former.begin(3))
    second = await former.begin(2)
    del former.client.ledgers[second.ledger_id]
    owned = Owned(former.client)
    await owned.store.take_over()
    assert await owned.stored() == [link(1, 3)]


async def test_damaged_chain_is_reported_and_no_ledger_is_touched() -> None:
    owned = Owned()
    owned.client.store.tree.create(PATH, b"\xff", 0, False)
    with pytest.raises(DamagedNodeError):
        await owned.store.take_over()
    with pytest.raises(DamagedNodeError):
        await read_chain(owned.client.real, PATH)
    assert owned.client.calls == []


# The next ledger


async def test_chain_leaves_room_for_its_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_store, "MAX_NODE_BYTES", 10_060)
    owned = Owned()
    for _ in range(4):
        await owned.end(await owned.begin(3))
    with pytest.raises(NodeTooLargeError, match="would have 5 ledgers, too many for a node"):
        await owned.begin()
    assert list(owned.client.ledgers) == [1, 2, 3, 4]
    await owned.store.set_property("name", "value")
    assert owned.store.properties == {"name": "value"}


async def test_new_ledger_for_which_the_chain_has_no_room_is_deleted_at_once() -> None:
    owned = Owned()
    await owned.end(await owned.begin(3))
    owned.client.failing.fail("node set", NodeTooLargeError("too many bytes"))
    with pytest.raises(NodeTooLargeError):
        await owned.begin()
    assert list(owned.client.ledgers) == [1]


async def test_ledger_is_made_as_it_is_configured_and_names_its_chain() -> None:
    owned = Owned()
    metadata = (await owned.begin()).metadata
    assert owned.client.calls == ["create 1", "node create"]
    assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (4, 3, 2)
    assert metadata.custom_metadata == (
        ("application", b"pulsar"),
        ("component", b"managed-ledger"),
        ("pulsar/managed-ledger", b"public/default/persistent/t"),
    )


async def test_ledger_without_entries_leaves_the_chain_with_the_next_and_is_deleted() -> None:
    owned = Owned()
    for count in (3, 0, 2):
        await owned.end(await owned.begin(count))
    await owned.begin()
    assert await owned.stored() == [link(1, 3), link(3, 2), LedgerInfo(4)]
    assert list(owned.client.ledgers) == [1, 2, 3, 4]
    await owned.store.delete_removed_ledgers()
    assert list(owned.client.ledgers) == [1, 3, 4]


@pytest.mark.parametrize("deletes", [True, False])
async def test_overtaken_owner_takes_its_new_ledger_away_if_it_can(deletes: bool) -> None:
    owned = Owned()
    await owned.end(await owned.begin(3))
    owned.somebody_writes(link(1, 3), LedgerInfo(50))
    if not deletes:
        owned.client.failing.fail("delete", DOWN)
    with pytest.raises(ManagedLedgerFencedError, match=OVERTAKEN):
        await owned.store.begin_ledger()
    assert list(owned.client.ledgers) == ([1] if deletes else [1, 2])
    assert await owned.stored() == [link(1, 3), LedgerInfo(50)]


async def test_ledger_that_the_chain_may_name_after_a_lost_response_stays() -> None:
    owned = Owned()
    owned.client.failing.fail("node create", DOWN, times=2)
    with pytest.raises(MetadataUnavailableError):
        await owned.store.begin_ledger()
    assert list(owned.client.ledgers) == [1]


# Closing a ledger


async def test_ledger_that_another_client_closed_ends_where_that_client_says() -> None:
    owned = Owned()
    writer = await owned.begin(3)
    owned.client.failing.fail("close", BKMetadataVersionException("closed by another"))
    writer.metadata = writer.metadata.closed(1, 10)
    await owned.end(writer)
    assert owned.store.chain.stored_ledgers == (link(1, 2),)


async def test_owner_whose_last_ledger_was_deleted_is_overtaken() -> None:
    owned = Owned()
    writer = await owned.begin(3)
    gone = BKNoSuchLedgerExistsOnMetadataServerException("it is gone")
    owned.client.failing.fail("close", gone)
    with pytest.raises(ManagedLedgerFencedError, match=f"{OVERTAKEN}, and deleted its last ledger"):
        await owned.store.close_last_ledger(cast(LedgerWriter, writer))


# Trimming


async def test_trimmed_ledgers_leave_the_chain_before_they_are_deleted() -> None:
    owned = Owned()
    for _ in range(3):
        await owned.end(await owned.begin(2))
    await owned.begin()
    owned.client.failing.calls.clear()
    owned.client.now_ms += 1
    assert await owned.store.trim((2, 1)) == [1, 2]
    assert owned.client.calls == ["node set"]
    assert await owned.stored() == [link(3, 2), LedgerInfo(4)]
    await owned.store.delete_removed_ledgers()
    await owned.store.delete_removed_ledgers()
    assert owned.client.calls == ["delete 1", "delete 2"]
    assert await owned.store.trim((2, 1)) == []
    assert owned.client.calls == []


async def test_ledger_that_cannot_be_deleted_keeps_no_other_and_is_tried_again() -> None:
    owned = Owned()
    for _ in range(3):
        await owned.end(await owned.begin(2))
    await owned.begin()
    await owned.store.trim(None)
    owned.client.failing.fail("delete", DOWN)
    await owned.store.delete_removed_ledgers()
    assert list(owned.client.ledgers) == [1, 4]
    await owned.store.delete_removed_ledgers()
    assert list(owned.client.ledgers) == [4]


async def test_ledger_that_another_client_has_deleted_is_forgotten() -> None:
    owned = Owned()
    for _ in range(2):
        await owned.end(await owned.begin(2))
    await owned.begin()
    await owned.store.trim(None)
    del owned.client.ledgers[1]
    await owned.store.delete_removed_ledgers()
    owned.client.failing.calls.clear()
    await owned.store.delete_removed_ledgers()
    assert owned.client.calls == []


async def test_overtaken_owner_trims_and_deletes_nothing() -> None:
    owned = Owned()
    for _ in range(2):
        await owned.end(await owned.begin(2))
    await owned.begin()
    owned.somebody_writes(link(1, 2), link(2, 2), LedgerInfo(50))
    with pytest.raises(ManagedLedgerFencedError, match=OVERTAKEN):
        await owned.store.trim(None)
    await owned.store.delete_removed_ledgers()
    assert list(owned.client.ledgers) == [1, 2, 3]


# Properties


async def test_property_is_changed_and_others_and_the_ledgers_stay() -> None:
    owned = Owned()
    await owned.begin()
    assert owned.store.properties == {}
    for name, value in (("a", "1"), ("b", "2"), ("a", "3")):
        await owned.store.set_property(name, value)
    assert owned.store.properties == {"a": "3", "b": "2"}
    assert await owned.stored() == [LedgerInfo(1)]
    following = Owned(owned.client)
    await following.store.take_over()
    assert following.store.properties == {"a": "3", "b": "2"}
