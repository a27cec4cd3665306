"""A node of the metadata store that one owner writes, until another one has.

In Pulsar: `managed-ledger/.../MetaStoreImpl.java`.
"""

from labkit.system.metadata.store import (
    BadVersionError,
    MetadataStore,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from labkit.system.model.errors import LabkitError

_NO_NODE = -1


class ManagedLedgerFencedError(LabkitError):
    """Another owner has changed the chain or a cursor: this one must stop."""


class GuardedNode:
    """A node written by compare-and-set, so that of two owners only one goes on.

    After a lost answer it is unknown whether the write was carried out; the next write finds
    out first.  Every call may raise `MetadataUnavailableError`.
    """

    def __init__(self, store: MetadataStore, path: str, what: str) -> None:
        """`what` names it in errors."""
        self.data = b""
        """The node's content as this owner knows it; empty while there is no node."""
        self._store = store
        self._path = path
        self._what = what
        self._version = _NO_NODE
        self._unsure: bytes | None = None

    async def read(self) -> bool:
        """Read the node again, and say whether it exists.  The next write succeeds only if the node
        has not changed by then.
        """
        try:
            self.data, self._version = await self._store.get(self._path)
        except NoNodeError:
            self.data, self._version = b"", _NO_NODE
        self._unsure = None
        return self._version != _NO_NODE

    async def write(self, data: bytes) -> None:
        """Write the node.  Raises `ManagedLedgerFencedError` if another owner has written it."""
        await self._find_out()
        try:
            if self._version == _NO_NODE:
                await self._store.create(self._path, data)
                self._version = 0
            else:
                self._version = await self._store.set(self._path, data, self._version)
        except (NodeExistsError, BadVersionError, NoNodeError):
            raise fenced(self._what) from None
        except MetadataUnavailableError:
            # The write may have been carried out: the next call compares the node with this.
            self._unsure = data
            raise
        self.data = data

    async def delete(self) -> None:
        """Delete the node.  Raises `ManagedLedgerFencedError` if another owner has written it."""
        await self._find_out()
        if self._version != _NO_NODE:
            try:
                await self._store.delete(self._path, self._version)
            except BadVersionError:
                raise fenced(self._what) from None
            except NoNodeError:
                pass  # An earlier attempt did it, and its answer was lost.
            self.data, self._version = b"", _NO_NODE

    async def _find_out(self) -> None:
        """Find out whether the last write was carried out."""
        if self._unsure is None:
            return
        wanted, version = self._unsure, self._version
        await self.read()
        # A new version with the wanted bytes is this owner's own write.
        if self._version != version and self.data != wanted:
            raise fenced(self._what)


def fenced(what: str) -> ManagedLedgerFencedError:
    """The error of an owner that was overtaken: another one has changed `what`."""
    return ManagedLedgerFencedError(f"another owner has changed {what}: open the topic again")
