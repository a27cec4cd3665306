import asyncio

import pytest

from labkit.system.metadata.cluster import (
    ClusterInUseError,
    format_cluster,
    init_cluster,
    init_new_cluster,
    read_instance_id,
    read_layout,
)
from labkit.system.metadata.ledger_layout import (
    FLAT,
    HIERARCHICAL,
    LONG_HIERARCHICAL,
    ForeignLayoutError,
    LedgerLayout,
)
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint, register_bookie
from labkit.system.metadata.store import NoNodeError
from labkit.system.model.ledger import LedgerMetadata, Segment
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.conftest import NewStore

pytestmark = pytest.mark.asyncio(loop_scope="session")

ID = "3c8c0f0e-0000-4000-8000-1234567890ab"
OTHER_ID = "5f2e0d6e-0000-4000-8000-000000000000"
METADATA = LedgerMetadata(1, 1, 1, (Segment(0, ("b-1",)),))


async def test_there_is_no_instance_id_before_there_is_a_cluster(
    empty_store: ZooKeeperStore,
) -> None:
    with pytest.raises(NoNodeError, match="start a bookie first"):
        await read_instance_id(empty_store)


async def test_bookies_that_start_at_once_agree_on_one_instance_id(new_store: NewStore) -> None:
    one, other = await new_store(), await new_store()
    found = await asyncio.gather(init_cluster(one, ID), init_cluster(other, OTHER_ID))
    assert found[0] == found[1] == await read_instance_id(one)


async def test_cluster_that_exists_keeps_its_instance_id(store: ZooKeeperStore) -> None:
    holds = await init_cluster(store, ID)
    assert await init_cluster(store, OTHER_ID) == holds


async def test_nodes_of_a_new_cluster_hold_what_bookkeeper_writes(store: ZooKeeperStore) -> None:
    holds = await init_cluster(store, ID)
    assert (await store.get("/ledgers/LAYOUT"))[0] == (
        b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
    )
    assert (await store.get("/ledgers/INSTANCEID"))[0] == holds.encode()
    assert (await store.get("/ledgers/available"))[0] == b""
    assert await store.children("/ledgers/available") == ["readonly"]


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        (FLAT.encode(), HIERARCHICAL),
        (b"2\norg.apache.bookkeeper.meta.MSLedgerManagerFactory:1", None),
    ],
)
async def test_cluster_with_another_ledger_layout_is_refused(
    store: ZooKeeperStore, found: bytes, asked: LedgerLayout | None
) -> None:
    await init_cluster(store, ID)
    layout, version = await store.get("/ledgers/LAYOUT")
    version = await store.set("/ledgers/LAYOUT", found, version)
    try:
        with pytest.raises(ForeignLayoutError):
            await init_cluster(store, ID, asked)
    finally:
        await store.set("/ledgers/LAYOUT", layout, version)


async def test_cluster_that_exists_keeps_its_layout(store: ZooKeeperStore) -> None:
    await format_cluster(store, ID, FLAT)
    await init_cluster(store, ID)
    await init_cluster(store, ID, FLAT)
    assert await read_layout(store) is FLAT
    await format_cluster(store, ID)
    assert await read_layout(store) is HIERARCHICAL


async def test_new_cluster_is_not_made_where_there_is_one(store: ZooKeeperStore) -> None:
    await init_cluster(store, ID)
    with pytest.raises(ClusterInUseError, match="/ledgers exists"):
        await init_new_cluster(store, OTHER_ID)
    assert await read_instance_id(store) != OTHER_ID


async def test_formatted_cluster_has_nothing_of_the_old_one(store: ZooKeeperStore) -> None:
    await init_cluster(store, ID)
    await LedgerManager(store).create(7, METADATA)
    for path in ("cookies/b-1", "idgen-long/HOB-0000000001", "underreplication/locks/urL7"):
        await store.create(f"/ledgers/{path}", b"old")
    await format_cluster(store, OTHER_ID, LONG_HIERARCHICAL)
    assert await read_instance_id(store) == OTHER_ID
    assert await store.children("/ledgers") == ["INSTANCEID", "LAYOUT", "available"]
    assert await LedgerManager(store).ids() == []
    await format_cluster(store, ID)


@pytest.mark.parametrize("read_only", [False, True])
async def test_cluster_that_bookies_serve_is_not_formatted(
    store: ZooKeeperStore, read_only: bool
) -> None:
    await init_cluster(store, ID)
    await LedgerManager(store).create(8 + read_only, METADATA)
    await register_bookie(store, "b-1", [Endpoint(BOOKIE_RPC, "192.0.2.1", 1)], read_only=read_only)
    with pytest.raises(ClusterInUseError, match="stop them all first"):
        await format_cluster(store, OTHER_ID)
    assert 8 + read_only in await LedgerManager(store).ids()


async def test_format_creates_a_cluster_where_none_exists(new_store: NewStore) -> None:
    store = await new_store()
    await format_cluster(store, ID)
    assert await read_instance_id(store) == ID
