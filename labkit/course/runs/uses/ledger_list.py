"""The ledgers that a program has written, oldest first, in one node of the metadata store.

The same idea as a topic's chain (`labkit.system.topic.chain.chain_store`): a ledger has one writer
and ends once, so a program that goes on needs a list of ledgers; and since the list is replaced by
compare-and-set, of two programs that go on at the same time one gets its ledger in.
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
    """Another program has changed the list since this one read it."""


class LedgerList:
    """One program's view of the list; `read` it before `replace`."""

    def __init__(self, store: MetadataStore, path: str) -> None:
        self._store = store
        self._path = path
        self._version = _MISSING

    async def read(self) -> tuple[int, ...]:
        """The ids; none if nothing was ever written."""
        try:
            data, self._version = await self._store.get(self._path)
        except NoNodeError:
            return ()
        return tuple(json.loads(data))

    async def replace(self, ids: Sequence[int]) -> None:
        """Store another list in the place of the one that was read.  Raises `ListChangedError`."""
        data = json.dumps(list(ids)).encode()
        try:
            if self._version == _MISSING:
                await self._store.create(self._path, data)
                self._version = 0
            else:
                self._version = await self._store.set(self._path, data, self._version)
        except (BadVersionError, NodeExistsError):
            raise ListChangedError(
                f"{self._path} was changed by another program: give up, or read it again"
            ) from None
