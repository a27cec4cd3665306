"""A cache of nodes in the metadata store, invalidated by watches.

In BookKeeper: `util/SubTreeCache.java`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from labkit.system.metadata.store import MetadataStore, NoNodeError, OnChange

T = TypeVar("T")


class WatchedNodes:
    """Caches the result of each request until the watch set by the request fires.

    `changed` is set whenever a cached result becomes invalid. To wait for a change, clear
    `changed`, read, and wait for `changed`. Each task that waits needs its own `WatchedNodes`.
    """

    def __init__(self, store: MetadataStore) -> None:
        self.changed = asyncio.Event()
        self._store = store
        self._children: dict[str, list[str]] = {}
        self._data: dict[str, tuple[bytes, int]] = {}
        self._exists: dict[str, bool] = {}

    async def children(self, path: str) -> list[str]:
        """Return the sorted names of the children, or [] if the node does not exist.

        Sets no watch if the node does not exist.
        """
        try:
            return await self._read(self._children, path, partial(self._store.children, path))
        except NoNodeError:
            return []

    async def data(self, path: str) -> tuple[bytes, int]:
        """Return the node's data and version. Raises `NoNodeError`, without setting a watch."""
        return await self._read(self._data, path, partial(self._store.get, path))

    async def exists(self, path: str) -> bool:
        return await self._read(self._exists, path, partial(self._store.exists, path))

    async def _read(
        self, cache: dict[str, T], path: str, read: Callable[[OnChange], Awaitable[T]]
    ) -> T:
        if path in cache:
            return cache[path]
        has_changed = False

        def on_change() -> None:
            nonlocal has_changed
            has_changed = True
            cache.pop(path, None)
            self.changed.set()

        value = await read(on_change)
        # The watch may fire before this coroutine gets the result.
        if not has_changed:
            cache[path] = value
        return value
