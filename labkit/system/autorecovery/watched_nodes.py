"""Nodes that are read again only when they have changed.

In BookKeeper: `util/SubTreeCache.java`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from labkit.system.metadata.store import MetadataStore, NoNodeError, OnChange

T = TypeVar("T")


class WatchedNodes:
    """Remembers what the store said until the watch set with that question goes off.

    There is at most one watch for each question, so looking often costs the store nothing.
    `changed` is set whenever something that was asked for has changed: clear it, look, then wait.
    """

    def __init__(self, store: MetadataStore) -> None:
        self.changed = asyncio.Event()
        self._store = store
        self._children: dict[str, list[str]] = {}
        self._data: dict[str, tuple[bytes, int]] = {}
        self._exists: dict[str, bool] = {}

    async def children(self, path: str) -> list[str]:
        """Names of the children, sorted.  None if there is no such node: its coming is not watched,
        only that of a child to a node that is there.
        """
        try:
            return await self._ask(self._children, path, partial(self._store.children, path))
        except NoNodeError:
            return []

    async def data(self, path: str) -> tuple[bytes, int]:
        """Data and version.  Raises `NoNodeError`, and then watches nothing."""
        return await self._ask(self._data, path, partial(self._store.get, path))

    async def exists(self, path: str) -> bool:
        """Whether there is such a node."""
        return await self._ask(self._exists, path, partial(self._store.exists, path))

    async def _ask(
        self, memory: dict[str, T], path: str, ask: Callable[[OnChange], Awaitable[T]]
    ) -> T:
        if path in memory:
            return memory[path]
        has_changed = False

        def on_change() -> None:
            nonlocal has_changed
            has_changed = True
            memory.pop(path, None)
            self.changed.set()

        value = await ask(on_change)
        # The watch may go off before this coroutine gets the answer.
        if not has_changed:
            memory[path] = value
        return value
