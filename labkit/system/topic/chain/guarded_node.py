"""A node of the metadata store that only its current owner can write.

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
    """A node written by compare-and-set, so that only one of two owners can continue.

    If the response to a write is lost, the next write first finds out whether the lost one was
    carried out.  Every call may raise `MetadataUnavailableError`.
    """

    def __init__(self, store: MetadataStore, path: str, what: str) -> None:
        """`what` describes the node in error messages."""
        self.data = b""
        """The content of the node when this owner last read or wrote it; empty if there was no
        node.
        """
        self._store = store
        self._path = path
        self._what = what
        self._version = _NO_NODE
        self._unsure: bytes | None = None

    async def read(self) -> bool:
        """Read the node, and return whether it exists.

        The next write succeeds only if the node does not change before it.
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
            raise fenced_error(self._what) from None
        except MetadataUnavailableError:
            # The write may have been carried out: the next call compares the node with `data`.
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
                raise fenced_error(self._what) from None
            except NoNodeError:
                pass  # An earlier attempt deleted it, and its response was lost.
            self.data, self._version = b"", _NO_NODE

    async def _find_out(self) -> None:
        if self._unsure is None:
            return
        wanted, version = self._unsure, self._version
        await self.read()
        # A new version with exactly these bytes is this owner's own write.
        if self._version != version and self.data != wanted:
            raise fenced_error(self._what)


def fenced_error(what: str) -> ManagedLedgerFencedError:
    """Return the error of an owner that was fenced because another one has changed `what`."""
    return ManagedLedgerFencedError(f"another owner has changed {what}: open the topic again")
