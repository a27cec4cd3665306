"""Test which nodes are read again after a change, and which values stay cached."""

import asyncio
from collections import Counter
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from labkit.system.metadata.store import (
    ANY_VERSION,
    MetadataUnavailableError,
    NoNodeError,
    OnChange,
)
from labkit.system.metadata.watched_nodes import WatchedNodes
from tests.system.client.memory_store import MemoryStore

T = TypeVar("T")


class Store(MemoryStore):
    """Counts reads, and can change node /a while a response is in flight."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.change_before_answer = False

    async def children(self, path: str, on_change: OnChange | None = None) -> list[str]:
        return await self._answer("children", super().children(path, on_change))

    async def get(self, path: str, on_change: OnChange | None = None) -> tuple[bytes, int]:
        return await self._answer("get", super().get(path, on_change))

    async def exists(self, path: str, on_change: OnChange | None = None) -> bool:
        return await self._answer("exists", super().exists(path, on_change))

    async def _answer(self, call: str, answer: Awaitable[T]) -> T:
        self.asked[call] += 1
        found = await answer
        if self.change_before_answer:
            self.change_before_answer = False
            self.tree.set("/a", b"changed", ANY_VERSION)
            await turn()
        return found


@pytest.fixture
def store() -> Store:
    store = Store()
    store.tree.create("/a", b"1", 0, False)
    return store


async def turn() -> None:
    """Let pending watches fire, which takes a few iterations of the event loop."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_node_is_read_once_until_it_changes(store: Store) -> None:
    nodes = WatchedNodes(store)
    for _ in range(3):
        assert await nodes.children("/a") == []
        assert await nodes.data("/a") == (b"1", 0)
        assert await nodes.exists("/a")
        assert not await nodes.exists("/b")
    assert store.asked == {"children": 1, "get": 1, "exists": 2}
    assert nodes.change_count == 0


@pytest.mark.parametrize("question", ["children", "data", "exists"])
async def test_a_change_is_reported_and_the_node_is_read_again(store: Store, question: str) -> None:
    nodes = WatchedNodes(store)
    ask = getattr(nodes, question)
    path = "/b" if question == "exists" else "/a"
    for number in range(3):
        before = await ask(path)
        seen = nodes.change_count
        waiting = [asyncio.ensure_future(nodes.changed(seen)) for _ in range(2)]
        await turn()
        assert not any(each.done() for each in waiting)
        if question == "children":
            store.tree.create(f"/a/{number}", b"", 0, False)
        elif question == "data":
            store.tree.set("/a", b"%d" % number, ANY_VERSION)
        elif number % 2:
            store.tree.delete("/b", ANY_VERSION)
        else:
            store.tree.create("/b", b"", 0, False)
        await turn()
        assert nodes.change_count == seen + 1
        await asyncio.gather(*waiting)
        assert await ask(path) != before
    assert sum(store.asked.values()) == 4


async def test_a_change_of_one_value_leaves_the_others_cached(store: Store) -> None:
    nodes = WatchedNodes(store)
    await nodes.children("/a")
    await nodes.data("/a")
    store.tree.set("/a", b"2", ANY_VERSION)
    await turn()
    await nodes.children("/a")
    assert await nodes.data("/a") == (b"2", 1)
    assert store.asked == {"children": 1, "get": 2}


async def test_a_value_that_changed_during_the_read_is_not_cached(store: Store) -> None:
    nodes = WatchedNodes(store)
    store.change_before_answer = True
    assert await nodes.data("/a") == (b"1", 0)
    await nodes.changed(0)  # returns immediately, although another task may have read since
    assert await nodes.data("/a") == (b"changed", 1)


async def test_a_missing_node_has_no_data(store: Store) -> None:
    nodes = WatchedNodes(store)
    for _ in range(2):
        with pytest.raises(NoNodeError):
            await nodes.data("/b")
    assert store.asked == {"get": 2}


async def test_the_creation_of_a_missing_parent_is_reported(store: Store) -> None:
    nodes = WatchedNodes(store)
    for _ in range(3):
        assert await nodes.children("/b") is None
    assert store.asked == {"children": 1, "exists": 1}
    store.tree.create("/b/1", b"", 0, False)
    await nodes.changed(0)
    assert await nodes.children("/b") == ["1"]


async def test_tasks_that_read_the_same_node_at_once_share_a_request(store: Store) -> None:
    nodes = WatchedNodes(store)
    assert await asyncio.gather(*(nodes.data("/a") for _ in range(5))) == [(b"1", 0)] * 5
    assert store.asked == {"get": 1}


async def test_a_failed_read_is_not_cached(store: Store) -> None:
    nodes, ask = WatchedNodes(store), store.children

    async def fails(*_: object) -> list[str]:
        raise MetadataUnavailableError("the metadata store is not responding")

    store.children = fails  # type: ignore[assignment, method-assign]
    with pytest.raises(MetadataUnavailableError):
        await nodes.children("/a")
    store.children = ask  # type: ignore[method-assign]
    assert await nodes.children("/a") == []
