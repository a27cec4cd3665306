"""Tests for the nodes of ledgers: create, change, delete and list them, in every layout."""

import asyncio
from dataclasses import replace

import pytest

from labkit.system.metadata.cluster import NoClusterError, init_cluster
from labkit.system.metadata.ledger_layout import FLAT, HIERARCHICAL, LAYOUTS, LedgerLayout
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.location import DEFAULT_LEDGERS_ROOT as ROOT
from labkit.system.model.errors import (
    BKLedgerExistException,
    BKMetadataVersionException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from tests.system.client.memory_store import MemoryStore
from tests.system.metadata.lossy_store import LossyStore
from tests.until import DEADLINE_S
from tests.worlds.sim.metadata_world import MetadataWorld, in_metadata_world

IDS = (0, 7, 12345, 2147483646, 2147483647, 4294967301)
METADATA = LedgerMetadata(3, 2, 2, (Segment(0, ("b1", "b2", "b3")),), c_token=42)


def manager_of_an_empty_cluster(store: MemoryStore | None = None) -> LedgerManager:
    store = store or MemoryStore()
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


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_one_lost_request_or_response_fails_no_creation(lost: str) -> None:
    store = LossyStore()
    manager = manager_of_an_empty_cluster(store)
    store.lose = [lost, "", lost]  # The id's node is created twice, and deleted.
    first = await manager.new_ledger_id()
    assert await manager.new_ledger_id() > first
    store.lose = [lost]
    assert await manager.create(7, METADATA) == 0
    assert await manager.read(7) == (METADATA, 0)


@pytest.mark.promise(
    "A repeated creation request finds the ledger of the first; of two concurrent changes, "
    "one is rejected"
)
async def test_creation_that_is_asked_for_again_finds_its_own_ledger() -> None:
    manager = manager_of_an_empty_cluster()
    assert [await manager.create(7, METADATA) for _ in range(2)] == [0, 0]
    await manager.write(7, METADATA.closed(4, 50), 0)
    with pytest.raises(BKLedgerExistException, match="ledger 7 already exists"):
        await manager.create(7, METADATA)


async def test_change_and_end_of_a_ledger_are_reported() -> None:
    manager = manager_of_an_empty_cluster()
    await manager.create(7, METADATA)
    for change in (lambda: manager.write(7, METADATA.closed(4, 50), 0), lambda: manager.delete(7)):
        changed = asyncio.Event()
        await manager.read(7, changed.set)
        await change()
        await asyncio.wait_for(changed.wait(), DEADLINE_S)


async def test_without_its_root_the_list_of_ledgers_is_not_empty_but_unknown() -> None:
    store = MemoryStore()
    manager = LedgerManager(store)
    with pytest.raises(NoClusterError, match="/ledgers is missing"):
        await manager.ids()
    await store.create("/ledgers/LAYOUT", HIERARCHICAL.encode())
    assert await manager.ids() == []


async def test_a_ledger_that_is_not_there_is_missed_by_each_request_for_it() -> None:
    manager = manager_of_an_empty_cluster()
    for asked in (
        lambda: manager.read(7),
        lambda: manager.write(7, METADATA, 0),
        lambda: manager.delete(7),
    ):
        with pytest.raises(
            BKNoSuchLedgerExistsOnMetadataServerException, match="ledger 7 does not"
        ):
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
    with pytest.raises(NoClusterError, match="was replaced"):
        await manager.ids_in("yours")


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


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@in_metadata_world()
async def test_ledgers_of_every_layout_are_made_found_listed_and_forgotten(
    world: MetadataWorld, layout: LedgerLayout
) -> None:
    store = await world.session("a")
    await init_cluster(store, "5f2e0d6e-0000-4000-8000-000000000000", layout)
    names = await store.children("/ledgers")
    manager = LedgerManager(store)
    for ledger_id in reversed(IDS):
        assert await manager.create(ledger_id, METADATA) == 0
        assert await store.exists(f"/ledgers/{layout.path_of(ledger_id)}")
        assert await manager.read(ledger_id) == (METADATA, 0)
    assert await manager.ids() == list(IDS)
    assert [each async for ids in manager.ranges() for each in ids] == list(IDS)
    for ledger_id in IDS:
        await manager.delete(ledger_id)
    assert await manager.ids() == []
    # The directories between the root and the ledgers have been deleted too.
    assert await store.children("/ledgers") == names


@in_metadata_world()
async def test_other_nodes_are_not_taken_for_ledgers(world: MetadataWorld) -> None:
    store = await world.session("a")
    for path in (
        "LAYOUT",
        "available/readonly/12",
        "cookies/00/0000/L0001",
        "idgen/ID-0000000001",
        "idgen-long/HOB-0000000001/ID-0000000001",
        "underreplication/ledgers/0000/0000/0000/0007/urL0000000007",
        "ID-0000000001",
        "L0000000001",
        "00/0000/L00012",
        "00/000/L0001",
        "00/0000/x",
        "000/0000/0000/L0001",
    ):
        await store.create(f"/ledgers/{path}", HIERARCHICAL.encode())
    assert await LedgerManager(store).ids() == []


@in_metadata_world()
async def test_ledger_survives_that_its_neighbours_come_and_go(world: MetadataWorld) -> None:
    one = LedgerManager(await world.session("a"))
    other = LedgerManager(await world.session("b"))

    async def come_and_go(manager: LedgerManager, ledger_id: int) -> None:
        for _ in range(20):
            await manager.create(ledger_id, METADATA)
            assert ledger_id in await manager.ids()
            await manager.delete(ledger_id)

    await asyncio.gather(come_and_go(one, 1), come_and_go(other, 2))
    assert await one.ids() == []
