import asyncio
from collections.abc import Awaitable, Callable

import pytest

from labkit.system.metadata.cluster import NoClusterError
from labkit.system.metadata.registered_bookies import RegisteredBookies, registered_bookies
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint, register_bookie
from labkit.system.metadata.store import MetadataStore, OnChange
from labkit.system.metadata.watched_nodes import WatchedNodes
from tests.worlds.sim.metadata_world import MetadataWorld, in_metadata_world

RPC = Endpoint(BOOKIE_RPC, "192.0.2.1", 3181)


class Interrupted:
    """A store that runs `meanwhile` once, right after a list has been read."""

    def __init__(self, store: MetadataStore) -> None:
        self.location = store.location
        self._store = store
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def children(self, path: str, on_change: OnChange | None = None) -> list[str]:
        names = await self._store.children(path, on_change)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return names


@in_metadata_world()
async def test_registered_bookies_are_known_by_kind(world: MetadataWorld) -> None:
    store = await world.session("a")
    nodes = WatchedNodes(store)
    await store.create("/ledgers/available", b"")
    assert await registered_bookies(nodes) == RegisteredBookies((), ())
    await register_bookie(store, "b-2", [RPC])
    await register_bookie(store, "b-1", [RPC])
    await register_bookie(store, "b-3", [RPC], read_only=True)
    bookies = await registered_bookies(nodes)
    assert bookies == RegisteredBookies(("b-1", "b-2"), ("b-3",))
    assert bookies.alive == ("b-1", "b-2", "b-3")


@in_metadata_world()
async def test_without_a_list_of_bookies_none_counts_as_lost(world: MetadataWorld) -> None:
    nodes = WatchedNodes(await world.session("a"))
    for _ in range(2):
        with pytest.raises(NoClusterError, match="/ledgers/available is missing"):
            await registered_bookies(nodes)
    seen = nodes.change_count
    await register_bookie(await world.session("b"), "b-1", [RPC])
    await nodes.changed(seen)
    assert (await registered_bookies(nodes)).alive == ("b-1",)


@in_metadata_world()
async def test_change_that_was_read_with_another_one_is_not_reported_again(
    world: MetadataWorld,
) -> None:
    """The second list changes while the first is being read, so the reported change is already
    known.
    """
    other = await world.session("b")
    await register_bookie(other, "b-1", [RPC])
    await register_bookie(other, "b-2", [RPC], read_only=True)
    store = Interrupted(await world.session("a"))
    nodes = WatchedNodes(store)  # type: ignore[arg-type]
    await registered_bookies(nodes)

    async def one_more() -> None:
        await register_bookie(other, "b-4", [RPC], read_only=True)
        await asyncio.sleep(1)  # virtual time, long enough for the change to be reported

    seen = nodes.change_count
    await register_bookie(other, "b-3", [RPC])
    await nodes.changed(seen)
    store.meanwhile = one_more
    assert (await registered_bookies(nodes)).alive == ("b-1", "b-2", "b-3", "b-4")
    waiting = asyncio.ensure_future(nodes.changed(nodes.change_count))
    await asyncio.sleep(60)
    assert not waiting.done()


@pytest.mark.promise(
    "A bookie that registers again, or switches between writable and read-only, is never missing"
)
@in_metadata_world()
async def test_bookie_that_changes_over_is_never_missing(world: MetadataWorld) -> None:
    nodes = WatchedNodes(await world.session("a"))
    bookie = await world.session("b")
    await register_bookie(bookie, "b-1", [RPC])

    async def change_over() -> None:
        for number in range(50):
            await register_bookie(bookie, "b-1", [RPC], read_only=number % 3 == 0)

    changing = asyncio.ensure_future(change_over())
    while not changing.done():
        assert (await registered_bookies(nodes)).alive == ("b-1",)
        waiting = asyncio.ensure_future(nodes.changed(nodes.change_count))
        await asyncio.wait([changing, waiting], timeout=1)
