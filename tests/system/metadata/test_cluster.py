"""Tests for a cluster's znodes: how they are created, and how a cluster is formatted."""

import asyncio

import pytest

from labkit.system.metadata.cluster import (
    ClusterInUseError,
    NoClusterError,
    check_instance_id,
    format_cluster,
    init_cluster,
    init_new_cluster,
    read_instance_id,
    read_layout,
)
from labkit.system.metadata.ledger_layout import FLAT, HIERARCHICAL, ForeignLayoutError
from labkit.system.metadata.registration import (
    BOOKIE_RPC,
    Endpoint,
    all_bookies,
    register_bookie,
)
from labkit.system.metadata.store import NoNodeError
from tests.system.client.memory_store import MemoryStore

ID, OTHER_ID = "3c8c0f0e-0000-4000-8000-1234567890ab", "5f2e0d6e-0000-4000-8000-000000000000"
ENDPOINTS = [Endpoint("other", "h", 1), Endpoint(BOOKIE_RPC, "h", 3181)]


async def test_nodes_of_a_new_cluster_hold_what_bookkeeper_writes() -> None:
    store = MemoryStore()
    with pytest.raises(NoNodeError, match="start a bookie first"):
        await read_instance_id(store)
    # If two bookies start at the same time, one of them determines the id.
    found = await asyncio.gather(init_cluster(store, ID), init_cluster(store, OTHER_ID))
    assert found[0] == found[1] == await read_instance_id(store)
    assert (await store.get("/ledgers/LAYOUT"))[0] == (
        b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
    )
    assert (await store.get("/ledgers/INSTANCEID"))[0] == found[0].encode()
    assert (await store.get("/ledgers/available"))[0] == b""
    assert await store.children("/ledgers/available") == ["readonly"]


async def test_a_cluster_keeps_its_instance_id_and_its_layout() -> None:
    store = MemoryStore()
    assert await read_layout(store) is None
    assert await init_cluster(store, ID, FLAT) == ID
    assert await init_cluster(store, OTHER_ID) == ID
    assert await read_layout(store) == FLAT
    with pytest.raises(ForeignLayoutError, match="cannot be changed"):
        await init_cluster(store, ID, HIERARCHICAL)
    await check_instance_id(store, ID)
    with pytest.raises(NoClusterError, match="was replaced"):
        await check_instance_id(store, OTHER_ID)


async def test_a_cluster_whose_instance_id_is_malformed_is_another_cluster() -> None:
    store = MemoryStore()
    await store.create("/ledgers/INSTANCEID", b"\xff")
    with pytest.raises(NoClusterError, match="was replaced"):
        await check_instance_id(store, ID)


async def test_a_new_cluster_is_created_only_where_none_exists() -> None:
    store = MemoryStore()
    await init_new_cluster(store, ID)
    with pytest.raises(ClusterInUseError, match="already exists at /ledgers"):
        await init_new_cluster(store, OTHER_ID)
    await check_instance_id(store, ID)


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_cluster_that_bookies_serve_is_not_formatted(read_only: bool) -> None:
    store = MemoryStore()
    await init_cluster(store, ID)
    await register_bookie(store, "b", ENDPOINTS, read_only=read_only)
    with pytest.raises(ClusterInUseError, match="stop all bookies first"):
        await format_cluster(store, OTHER_ID)
    await check_instance_id(store, ID)


async def test_a_formatted_cluster_has_nothing_of_the_old_one() -> None:
    store = MemoryStore()
    await format_cluster(store, ID)
    empty = sorted(await store.children("/ledgers"))
    for path in ("/ledgers/00/0000/L0001", "/ledgers/cookies/b", "/ledgers/underreplication/x"):
        await store.create(path, b"")
    await format_cluster(store, OTHER_ID, FLAT)
    assert sorted(await store.children("/ledgers")) == empty
    assert await read_layout(store) == FLAT
    await check_instance_id(store, OTHER_ID)


async def test_cookies_go_first_so_that_no_old_bookie_starts_after_half_a_format() -> None:
    deleted: list[str] = []

    class Watched(MemoryStore):
        async def delete(self, path: str, version: int = -1) -> None:
            deleted.append(path)
            await super().delete(path, version)

    store = Watched()
    await init_cluster(store, ID)
    await store.create("/ledgers/00/0000/L0001", b"")
    await store.create("/ledgers/cookies/b", b"")
    await format_cluster(store, OTHER_ID)
    assert deleted[:2] == ["/ledgers/cookies/b", "/ledgers/cookies"]


async def test_nodes_that_come_while_a_cluster_is_formatted_go_too() -> None:
    late = ["/ledgers/cookies/c"]

    class Busy(MemoryStore):
        async def delete(self, path: str, version: int = -1) -> None:
            if path == "/ledgers/cookies" and late:
                await self.create(late.pop(), b"")
            await super().delete(path, version)

    store = Busy()
    await init_cluster(store, ID)
    await store.create("/ledgers/cookies/b", b"")
    await format_cluster(store, OTHER_ID)
    assert await all_bookies(store) == []
    await check_instance_id(store, OTHER_ID)
