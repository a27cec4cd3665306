"""A cache of nodes in the metadata store, invalidated by watches.

In BookKeeper: `util/SubTreeCache.java`, `discover/ZKRegistrationClient.java`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from labkit.system.metadata.store import MetadataStore, NoNodeError, OnChange

T = TypeVar("T")


class WatchedNodes:
    """Caches the result of each request until the watch set by the request fires.

    To wait for a change and miss none, get `change_count` before you read, and pass it to
    `changed`. Several tasks may read and wait.
    """

    def __init__(self, store: MetadataStore) -> None:
        self.location = store.location
        self.change_count = 0
        """How often a watch has fired."""
        self._store = store
        self._changed = asyncio.Event()
        self._reading = asyncio.Lock()
        self._children: dict[str, list[str]] = {}
        self._data: dict[str, tuple[bytes, int]] = {}
        self._exists: dict[str, bool] = {}

    async def changed(self, seen: int) -> None:
        """Wait until `change_count` is greater than `seen`."""
        while self.change_count == seen:
            await self._changed.wait()

    async def children(self, path: str) -> list[str] | None:
        """Return the sorted names of the children, or None if the node does not exist."""
        while self._exists.get(path, True):
            try:
                return await self._read(self._children, path, partial(self._store.children, path))
            except NoNodeError:
                await self.exists(path)  # Watch for the node's creation.
        return None

    async def data(self, path: str) -> tuple[bytes, int]:
        """Return the node's data and version. Raises `NoNodeError`, without setting a watch."""
        return await self._read(self._data, path, partial(self._store.get, path))

    async def exists(self, path: str) -> bool:
        return await self._read(self._exists, path, partial(self._store.exists, path))

    async def _read(
        self, cache: dict[str, T], path: str, read: Callable[[OnChange], Awaitable[T]]
    ) -> T:
        # If several tasks wait for the same node, only one of them sends a request.
        async with self._reading:
            if path in cache:
                return cache[path]
            has_changed = False

            def on_change() -> None:
                nonlocal has_changed
                has_changed = True
                cache.pop(path, None)
                self.change_count += 1
                self._changed.set()
                self._changed.clear()

            value = await read(on_change)
            # The watch may fire before this coroutine gets the result.
            if not has_changed:
                cache[path] = value
            return value
