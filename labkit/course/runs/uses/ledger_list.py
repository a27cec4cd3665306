"""The list of the ledgers that a program has written, oldest first, stored in a znode.

This list works like a topic's chain (`labkit.system.topic.chain.chain_store`). A ledger has one
writer and is closed only once, so a program that keeps writing needs a list of ledgers. The list is
replaced by compare-and-set, so if two programs try to replace it at the same time, only one of them
adds its ledger.
"""

import json
from collections.abc import Sequence

from labkit.system.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
)
from labkit.system.model.errors import LabkitError

_MISSING = -1


class ListChangedError(LabkitError):
    """Raised if another program has changed the list since it was last read."""


class LedgerList:
    """One program's view of the list; the program must call `read` before `replace`."""

    def __init__(self, store: MetadataStore, path: str) -> None:
        self._store = store
        self._path = path
        self._version = _MISSING

    async def read(self) -> tuple[int, ...]:
        """Return the ledger ids, or an empty tuple if the list has never been written."""
        try:
            data, self._version = await self._store.get(self._path)
        except NoNodeError:
            return ()
        return tuple(json.loads(data))

    async def replace(self, ids: Sequence[int]) -> None:
        """Replace the list that was read. Raises `ListChangedError` if the list has changed
        since.
        """
        data = json.dumps(list(ids)).encode()
        try:
            if self._version == _MISSING:
                await self._store.create(self._path, data)
                self._version = 0
            else:
                self._version = await self._store.set(self._path, data, self._version)
        except (BadVersionError, NodeExistsError):
            raise ListChangedError(
                f"another program has changed {self._path}: read it again or give up"
            ) from None
