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
    """Another owner has changed the chain or a cursor: this owner must stop."""


class GuardedNode:
    """A node written by compare-and-set, so that only one of two owners can continue.

    If the response to a write or a deletion is lost, the next call first determines whether it was
    carried out. Every call may raise `MetadataUnavailableError`.
    """

    def __init__(self, store: MetadataStore, path: str, description: str) -> None:
        self.data = b""
        """The content when this owner last read or wrote the node; empty if it did not exist."""
        self._store = store
        self._path = path
        self._description = description
        self._version = _NO_NODE
        self._is_uncertain = False
        self._wanted: bytes | None = None
        """If `_is_uncertain`: the data of the write without a response; None for a deletion."""

    async def read(self) -> bool:
        """Read the node, and return whether it exists.

        The next write fails if another owner changes the node first.
        """
        try:
            self.data, self._version = await self._store.get(self._path)
        except NoNodeError:
            self.data, self._version = b"", _NO_NODE
        self._is_uncertain = False
        return self._version != _NO_NODE

    async def write(self, data: bytes) -> None:
        """Raise `ManagedLedgerFencedError` if another owner has written the node."""
        await self._settle_uncertainty()
        try:
            if self._version == _NO_NODE:
                await self._store.create(self._path, data)
                self._version = 0
            else:
                self._version = await self._store.set(self._path, data, self._version)
        except (NodeExistsError, BadVersionError, NoNodeError):
            raise fenced_error(self._description) from None
        except MetadataUnavailableError:
            self._is_uncertain, self._wanted = True, data
            raise
        self.data = data

    async def delete(self) -> None:
        """Raise `ManagedLedgerFencedError` if another owner has written the node."""
        await self._settle_uncertainty()
        if self._version != _NO_NODE:
            try:
                await self._store.delete(self._path, self._version)
            except BadVersionError:
                raise fenced_error(self._description) from None
            except NoNodeError:
                pass
            except MetadataUnavailableError:
                self._is_uncertain, self._wanted = True, None
                raise
            self.data, self._version = b"", _NO_NODE

    async def _settle_uncertainty(self) -> None:
        if not self._is_uncertain:
            return
        wanted, version = self._wanted, self._version
        exists = await self.read()
        # A new version with exactly these bytes is this owner's own write.
        was_done = not exists if wanted is None else self.data == wanted
        if self._version != version and not was_done:
            raise fenced_error(self._description)


def fenced_error(description: str) -> ManagedLedgerFencedError:
    return ManagedLedgerFencedError(
        f"another owner has changed {description}: open the topic again"
    )
