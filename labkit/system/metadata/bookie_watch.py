"""Which bookies are registered, known without asking each time.

A watch reports that a list has changed, not how; then the list is read again.

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
    """Ids of the bookies that live, sorted: those that take writes, and those that only read.

    A bookie that is just changing over may be in both.
    """

    writable: tuple[str, ...]
    read_only: tuple[str, ...]

    @property
    def alive(self) -> tuple[str, ...]:
        """Both, sorted."""
        return tuple(sorted({*self.writable, *self.read_only}))


class BookieWatch:
    """The registered bookies.  For one reader, which acts on them and waits for a change."""

    def __init__(self, store: MetadataStore) -> None:
        self._changed = asyncio.Event()
        self._writable = _Folder(store, store.place.available, self._changed.set)
        self._read_only = _Folder(store, store.place.read_only, self._changed.set)

    async def now(self) -> RegisteredBookies:
        """The bookies of one moment: one that changes between the lists is not missing.

        Raises `MetadataUnavailableError`, and `NoClusterError` when there is no list of bookies:
        they are not all gone then.
        """
        while not (self._writable.is_fresh and self._read_only.is_fresh):
            await self._writable.refresh()
            await self._read_only.refresh()
        if not self._writable.exists:
            raise NoClusterError(f"{self._writable.path} is missing in the metadata store")
        writable = tuple(name for name in self._writable.names if name != READ_ONLY_NAME)
        return RegisteredBookies(writable, self._read_only.names)

    async def changed(self) -> None:
        """Return when the bookies may differ from what `now` returned last; at once before the
        first `now`, and also after a lost session.
        """
        if self._writable.is_fresh and self._read_only.is_fresh:
            # Every change noted so far is already in the last `now`.
            self._changed.clear()
            await self._changed.wait()


class _Folder:
    """The names in a folder, and whether they may have changed since they were read."""

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
            # Read before asking: a change during the call makes the answer stale.
            change_count = self._change_count
            names = await self._ask()
            self.exists, self.names = names is not None, names or ()
            self._read_at = change_count

    async def _ask(self) -> tuple[str, ...] | None:
        while True:
            try:
                return tuple(await self._store.children(self.path, self._note_change))
            except NoNodeError:
                # Watch for its coming, unless it has come meanwhile.
                if not await self._store.exists(self.path, self._note_change):
                    return None

    def _note_change(self) -> None:
        self._change_count += 1
        self._on_change()
