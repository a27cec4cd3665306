import asyncio
from dataclasses import replace

import pytest

from labkit.system.metadata.cluster import NoClusterError, init_cluster
from labkit.system.metadata.ledger_layout import FLAT, HIERARCHICAL
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.model.errors import (
    BKLedgerExistException,
    BKMetadataVersionException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.conftest import NewStore
from tests.system.client.memory_store import MemoryStore
from tests.until import DEADLINE_S

pytestmark = pytest.mark.asyncio(loop_scope="session")

METADATA = LedgerMetadata(3, 2, 2, (Segment(0, ("b1", "b2", "b3")),), c_token=42)


async def test_layout_is_learned_when_there_is_one(empty_store: ZooKeeperStore) -> None:
    manager = LedgerManager(empty_store)
    assert await manager.layout() is HIERARCHICAL
    await empty_store.create("/ledgers/LAYOUT", FLAT.encode())
    assert await manager.layout() is FLAT


async def test_creation_that_is_asked_for_again_finds_its_own_ledger(
    store: ZooKeeperStore,
) -> None:
    manager = LedgerManager(store)
    await manager.create(600, METADATA)
    assert await manager.create(600, METADATA) == 0
    with pytest.raises(BKLedgerExistException):
        await manager.create(600, replace(METADATA, c_token=43))
    await manager.write(600, METADATA.closed(4, 50), 0)
    with pytest.raises(BKLedgerExistException):
        await manager.create(600, METADATA)


async def test_change_and_end_of_a_ledger_are_reported(store: ZooKeeperStore) -> None:
    manager = LedgerManager(store)
    await manager.create(601, METADATA)
    for change in (
        lambda: manager.write(601, METADATA.closed(4, 50), 0),
        lambda: manager.delete(601),
    ):
        changed = asyncio.Event()
        await manager.read(601, changed.set)
        await change()
        async with asyncio.timeout(DEADLINE_S):
            await changed.wait()


async def test_ids_of_all_ledgers_come_ascending(store: ZooKeeperStore) -> None:
    manager = LedgerManager(store)
    before = await manager.ids()
    for ledger_id in (4294967301, 12345, 2147483647, 7):
        await manager.create(ledger_id, METADATA)
    assert await manager.ids() == sorted([*before, 7, 12345, 2147483647, 4294967301])
    for ledger_id in (4294967301, 12345, 2147483647, 7):
        await manager.delete(ledger_id)


async def test_without_its_root_the_list_of_ledgers_is_not_empty_but_unknown() -> None:
    store = MemoryStore()
    manager = LedgerManager(store)
    with pytest.raises(NoClusterError, match="/ledgers is missing"):
        await manager.ids()
    await store.create("/ledgers/LAYOUT", HIERARCHICAL.encode())
    assert await manager.ids() == []


async def test_a_list_of_ledgers_counts_only_in_the_cluster_that_was_meant() -> None:
    store = MemoryStore()
    manager = LedgerManager(store)
    await init_cluster(store, "before")
    await manager.create(7, METADATA)
    assert await manager.ids_in("before") == [7]
    await store.delete("/ledgers/INSTANCEID")
    with pytest.raises(NoClusterError, match="INSTANCEID is missing"):
        await manager.ids_in("before")
    await init_cluster(store, "after")
    with pytest.raises(NoClusterError, match="is after, and was before"):
        await manager.ids_in("before")


async def test_two_clients_at_once_never_get_the_same_ledger_id(new_store: NewStore) -> None:
    managers = [LedgerManager(await new_store()) for _ in range(2)]
    ids = await asyncio.gather(*(managers[n % 2].new_ledger_id() for n in range(60)))
    assert len(set(ids)) == 60
    assert min(ids) >= 0


async def test_ids_grow_although_their_nodes_are_gone(store: ZooKeeperStore) -> None:
    manager = LedgerManager(store)
    ids = [await manager.new_ledger_id() for _ in range(3)]
    assert ids == sorted(set(ids))
    assert await store.children("/ledgers/idgen") == []


async def test_ledger_id_that_is_taken_is_refused(store: ZooKeeperStore) -> None:
    manager = LedgerManager(store)
    await manager.create(500, replace(METADATA, c_token=0))
    for token in (0, 43):
        with pytest.raises(BKLedgerExistException, match="500"):
            await manager.create(500, replace(METADATA, c_token=token))


async def test_of_two_clients_that_change_metadata_at_once_one_fails(new_store: NewStore) -> None:
    one, other = LedgerManager(await new_store()), LedgerManager(await new_store())
    await one.create(501, METADATA)
    results = await asyncio.gather(
        one.write(501, METADATA.closed(4, 50), 0),
        other.write(501, METADATA.closed(9, 90), 0),
        return_exceptions=True,
    )
    lost = [result for result in results if result != 1]
    assert [type(result) for result in lost] == [BKMetadataVersionException]
    metadata, version = await one.read(501)
    assert version == 1
    assert metadata.last_entry_id == (4 if results[0] == 1 else 9)


async def test_closing_drops_the_creation_token(store: ZooKeeperStore) -> None:
    manager = LedgerManager(store)
    await manager.create(502, METADATA)
    await manager.write(502, METADATA.closed(2, 15), 0)
    metadata, _ = await manager.read(502)
    assert (metadata.state, metadata.last_entry_id, metadata.length) == (LedgerState.CLOSED, 2, 15)
    assert metadata.c_token == 0


async def test_ledger_that_is_not_there_is_named(store: ZooKeeperStore) -> None:
    manager = LedgerManager(store)
    for call in (manager.read(999), manager.write(999, METADATA, 0), manager.delete(999)):
        with pytest.raises(BKNoSuchLedgerExistsOnMetadataServerException, match="no ledger 999"):
            await call
