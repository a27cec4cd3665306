import asyncio

import pytest

from labkit.live.zookeeper_store import ZooKeeperStore
from labkit.metadata.cluster import ForeignLayoutError, init_cluster, read_instance_id
from labkit.metadata.store import NoNodeError
from tests.conftest import NewStore

pytestmark = pytest.mark.asyncio(loop_scope="module")

ID = "3c8c0f0e-0000-4000-8000-1234567890ab"
OTHER_ID = "5f2e0d6e-0000-4000-8000-000000000000"


async def test_there_is_no_instance_id_before_there_is_a_cluster(store: ZooKeeperStore) -> None:
    with pytest.raises(NoNodeError, match="start a bookie first"):
        await read_instance_id(store)


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


async def test_cluster_with_another_ledger_layout_is_refused(store: ZooKeeperStore) -> None:
    await init_cluster(store, ID)
    layout, version = await store.get("/ledgers/LAYOUT")
    flat = b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1"
    version = await store.set("/ledgers/LAYOUT", flat, version)
    try:
        with pytest.raises(ForeignLayoutError, match="FlatLedgerManagerFactory"):
            await init_cluster(store, ID)
    finally:
        await store.set("/ledgers/LAYOUT", layout, version)
