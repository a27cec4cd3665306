"""A cache of the registered bookies that is refreshed when a watch reports a change.

In BookKeeper: `discover/ZKRegistrationClient.java` (`watchWritableBookies`,
`watchReadOnlyBookies`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from labkit.system.metadata.cluster import NoClusterError
from labkit.system.metadata.registration import READ_ONLY_NAME
from labkit.system.metadata.store import MetadataStore, NoNodeError


@dataclass(frozen=True, slots=True)
class RegisteredBookies:
    """The sorted ids of the registered bookies. A bookie that is switching between writable and
    read-only may be in both lists.
    """

    writable: tuple[str, ...]
    read_only: tuple[str, ...]

    @property
    def alive(self) -> tuple[str, ...]:
        return tuple(sorted({*self.writable, *self.read_only}))


class BookieWatch:
    """Reads the registered bookies and watches them. Several tasks may call `now`, but only one
    may wait for changes.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._changed = asyncio.Event()
        self._writable = _Children(store, store.location.available, self._changed.set)
        self._read_only = _Children(store, store.location.read_only, self._changed.set)

    async def now(self) -> RegisteredBookies:
        """Return a snapshot of the registered bookies, including any that are switching between
        writable and read-only.

        Raises `MetadataUnavailableError`, or `NoClusterError` if the list of bookies is missing.
        """
        while not (self._writable.is_fresh and self._read_only.is_fresh):
            await self._writable.refresh()
            await self._read_only.refresh()
        if not self._writable.exists:
            raise NoClusterError(f"{self._writable.path} is missing from the metadata store")
        writable = tuple(name for name in self._writable.names if name != READ_ONLY_NAME)
        return RegisteredBookies(writable, self._read_only.names)

    async def changed(self) -> None:
        """Wait until `now` may return a different result. Return immediately if `now` has never
        been called.
        """
        if self._writable.is_fresh and self._read_only.is_fresh:
            self._changed.clear()
            await self._changed.wait()


class _Children:
    def __init__(self, store: MetadataStore, path: str, on_change: Callable[[], None]) -> None:
        self.names: tuple[str, ...] = ()
        self.path = path
        self.exists = False
        self._store = store
        self._on_change = on_change
        self._change_count = 1
        self._read_at = 0

    @property
    def is_fresh(self) -> bool:
        return self._read_at == self._change_count

    async def refresh(self) -> None:
        if not self.is_fresh:
            # Get the count first, because a change during the request makes the result stale.
            change_count = self._change_count
            names = await self._read()
            self.exists, self.names = names is not None, names or ()
            self._read_at = change_count

    async def _read(self) -> tuple[str, ...] | None:
        while True:
            try:
                return tuple(await self._store.children(self.path, self._note_change))
            except NoNodeError:
                # Watch for the node's creation, unless it has been created in the meantime.
                if not await self._store.exists(self.path, self._note_change):
                    return None

    def _note_change(self) -> None:
        self._change_count += 1
        self._on_change()
