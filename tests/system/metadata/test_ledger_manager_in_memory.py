"""The rules of a ledger's metadata node that need no ZooKeeper to be seen."""

from dataclasses import replace

import pytest

from labkit.system.metadata.cluster import NoClusterError
from labkit.system.metadata.ledger_layout import FLAT, HIERARCHICAL
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.place import DEFAULT_LEDGERS_ROOT as ROOT
from labkit.system.model.errors import (
    BKLedgerExistException,
    BKMetadataVersionException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from tests.system.client.memory_store import MemoryStore

METADATA = LedgerMetadata(3, 2, 2, (Segment(0, ("b1", "b2", "b3")),), c_token=42)


def manager_of_an_empty_cluster() -> LedgerManager:
    store = MemoryStore()
    store.tree.create(f"{ROOT}/LAYOUT", HIERARCHICAL.encode(), 0, False)
    return LedgerManager(store)


async def test_metadata_that_another_client_changed_are_not_replaced() -> None:
    manager = manager_of_an_empty_cluster()
    await manager.create(7, METADATA)
    await manager.write(7, METADATA.closed(4, 50), 0)
    with pytest.raises(BKMetadataVersionException, match="since version 0"):
        await manager.write(7, METADATA.closed(3, 40), 0)
    metadata, version = await manager.read(7)
    assert (metadata.state, metadata.last_entry_id, version) == (LedgerState.CLOSED, 4, 1)


@pytest.mark.parametrize("stored", [0, 43])
@pytest.mark.parametrize("asked", [0, 42])
async def test_ledger_without_the_token_of_this_very_attempt_is_another_clients(
    stored: int, asked: int
) -> None:
    manager = manager_of_an_empty_cluster()
    await manager.create(7, replace(METADATA, c_token=stored))
    with pytest.raises(BKLedgerExistException):
        await manager.create(7, replace(METADATA, c_token=asked))


async def test_a_ledger_that_is_not_there_is_missed_by_each_request_for_it() -> None:
    manager = manager_of_an_empty_cluster()
    for asked in (
        lambda: manager.read(7),
        lambda: manager.write(7, METADATA, 0),
        lambda: manager.delete(7),
    ):
        with pytest.raises(BKNoSuchLedgerExistsOnMetadataServerException, match="no ledger 7"):
            await asked()


async def test_a_deleted_ledger_takes_the_empty_folders_above_it_along() -> None:
    manager = manager_of_an_empty_cluster()
    for ledger_id in (7, 8, 10_007):
        await manager.create(ledger_id, METADATA)
    assert await manager.ids() == [7, 8, 10_007]
    await manager.delete(7)
    assert await manager.ids() == [8, 10_007]
    await manager.delete(8)
    assert await manager.store.children(f"{ROOT}/00") == ["0001"]
    await manager.delete(10_007)
    assert await manager.store.children(ROOT) == ["LAYOUT"]


async def test_whose_list_of_ledgers_it_is_a_bookie_asks_after_it_has_the_list() -> None:
    manager = manager_of_an_empty_cluster()
    await manager.create(7, METADATA)
    with pytest.raises(NoClusterError, match="INSTANCEID is missing"):
        await manager.ids_in("mine")
    await manager.store.create(f"{ROOT}/INSTANCEID", b"mine")
    assert await manager.ids_in("mine") == [7]
    with pytest.raises(NoClusterError, match="is another one"):
        await manager.ids_in("yours")


async def test_new_ledgers_get_ids_that_nothing_else_has() -> None:
    manager = manager_of_an_empty_cluster()
    assert [await manager.new_ledger_id() for _ in range(3)] == [0, 1, 2]


async def test_ids_are_drawn_where_the_layout_says_once_the_cluster_has_one() -> None:
    created: list[str] = []

    class Watched(MemoryStore):
        async def create(self, path: str, data: bytes, **how: bool) -> str:
            created.append(path)
            return await super().create(path, data, **how)

    manager = LedgerManager(Watched())
    await manager.new_ledger_id()
    await manager.store.create(f"{ROOT}/LAYOUT", FLAT.encode())
    await manager.new_ledger_id()
    assert created == [f"{ROOT}/idgen/ID-", f"{ROOT}/LAYOUT", f"{ROOT}/ID-"]
