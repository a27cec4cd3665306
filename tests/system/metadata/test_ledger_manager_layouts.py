"""The ledger manager in clusters of every layout, each with a simulated metadata store."""

import asyncio

import pytest

from labkit.system.metadata.cluster import init_cluster
from labkit.system.metadata.ledger_layout import HIERARCHICAL, LAYOUTS, LedgerLayout
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.model.ledger import LedgerMetadata, Segment
from tests.worlds.sim.metadata_world import MetadataWorld, run_metadata_world

IDS = (0, 7, 12345, 2147483646, 2147483647, 4294967301)
METADATA = LedgerMetadata(3, 2, 2, (Segment(0, ("b1", "b2", "b3")),), c_token=42)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_ledgers_of_every_layout_are_made_found_listed_and_forgotten(layout: LedgerLayout) -> None:
    async def body(world: MetadataWorld) -> None:
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
        # Nothing is left of the folders between the root and a ledger.
        assert await store.children("/ledgers") == names

    run_metadata_world(body)


def test_other_nodes_are_not_taken_for_ledgers() -> None:
    async def body(world: MetadataWorld) -> None:
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

    run_metadata_world(body)


def test_ledger_keeps_the_folders_that_it_needs() -> None:
    async def body(world: MetadataWorld) -> None:
        store = await world.session("a")
        manager = LedgerManager(store)
        for ledger_id in (1, 2, 10001):
            await manager.create(ledger_id, METADATA)
        await manager.delete(1)
        assert await manager.ids() == [2, 10001]
        await manager.delete(2)
        assert await store.children("/ledgers/00") == ["0001"]

    run_metadata_world(body)


def test_ledger_survives_that_its_neighbours_come_and_go() -> None:
    async def body(world: MetadataWorld) -> None:
        one = LedgerManager(await world.session("a"))
        other = LedgerManager(await world.session("b"))

        async def come_and_go(manager: LedgerManager, ledger_id: int) -> None:
            for _ in range(20):
                await manager.create(ledger_id, METADATA)
                assert ledger_id in await manager.ids()
                await manager.delete(ledger_id)

        await asyncio.gather(come_and_go(one, 1), come_and_go(other, 2))
        assert await one.ids() == []

    run_metadata_world(body)
