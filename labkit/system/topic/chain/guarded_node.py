"""A node of the metadata store that only its current owner can write.

In Pulsar: `managed-ledger/.../MetaStoreImpl.java`.
"""

import asyncio
from collections.abc import Awaitable
from functools import partial

from labkit.system.metadata.store import (
    BadVersionError,
    MetadataError,
    MetadataStore,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    send_again_if_lost,
)
from labkit.system.model.errors import LabkitError

_NO_NODE = -1


class ManagedLedgerFencedError(LabkitError):
    """Another owner has changed the chain or a cursor: this owner must stop."""


class GuardedNode:
    """A node written by compare-and-set, so that only one of two owners can continue.

    If a write gets no response, the node is read, and the write is repeated. If a call fails or is
    cancelled before its response arrives, the next call first determines whether the change was
    carried out. Every call may raise `MetadataUnavailableError`.
    """

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        description: str,
        parent: "GuardedNode | None" = None,
    ) -> None:
        """`parent` is the node above this one; only its current owner can create this node."""
        self.data = b""
        """The content when this owner last read or wrote the node; empty if it did not exist."""
        self._store = store
        self._path = path
        self._description = description
        self._parent = parent
        self._version = _NO_NODE
        self._is_uncertain = False
        """Whether the last change has had no response."""
        self._wanted: bytes | None = None
        """The data of that change; None for a deletion."""
        self._turn = asyncio.Lock()

    async def read(self) -> bool:
        """Read the node, and return whether it exists.

        The next write fails if another owner changes the node first.
        """
        self.data, self._version = await self._stored()
        self._is_uncertain = False
        return self._version != _NO_NODE

    async def create(self, data: bytes) -> None:
        """Raise `NodeExistsError` if the node exists, and `ManagedLedgerFencedError` if another
        owner has written the parent.
        """
        if (parent := self._parent) is None:
            await self._change(self._store.create(self._path, data), data, 0)
            return
        async with parent._turn:
            await parent._settle_uncertainty()
            request = self._store.create_child(self._path, data, parent._version)
            try:
                await self._change(request, data, 0)
            except (BadVersionError, NoNodeError):
                raise fenced_error(parent._description) from None

    async def write(self, data: bytes) -> None:
        """Raise `ManagedLedgerFencedError` if another owner has written the node."""
        async with self._turn:
            await send_again_if_lost(partial(self._write, data))

    async def rewrite(self) -> None:
        """Write the current content again. Raise `ManagedLedgerFencedError` if another owner has
        written the node.
        """
        async with self._turn:
            # Read `data` only now, because another change may have been in progress.
            await self._settle_uncertainty()
            await send_again_if_lost(partial(self._write, self.data))

    async def delete(self) -> None:
        """Raise `ManagedLedgerFencedError` if another owner has written the node."""
        async with self._turn:
            await self._settle_uncertainty()
            if self._version != _NO_NODE:
                request = self._store.delete(self._path, self._version)
                try:
                    await self._change(request, None, _NO_NODE)
                except BadVersionError:
                    raise fenced_error(self._description) from None
                except NoNodeError:
                    self.data, self._version = b"", _NO_NODE

    async def _write(self, data: bytes) -> None:
        await self._settle_uncertainty()
        try:
            if self._version == _NO_NODE:
                await self.create(data)
            else:
                request = self._store.set(self._path, data, self._version)
                await self._change(request, data, self._version + 1)
        except (NodeExistsError, BadVersionError, NoNodeError):
            raise fenced_error(self._description) from None

    async def _change(self, request: Awaitable[object], wanted: bytes | None, version: int) -> None:
        """Await a request, after which the node will have this data and version."""
        self._is_uncertain, self._wanted = True, wanted
        try:
            await request
        except MetadataUnavailableError:
            raise
        except MetadataError:
            self._is_uncertain = False
            raise
        self.data, self._version, self._is_uncertain = wanted or b"", version, False

    async def _settle_uncertainty(self) -> None:
        """Find out whether the last change was carried out, if its response did not arrive."""
        if not self._is_uncertain:
            return
        data, version = await self._stored()
        # A new version with exactly these bytes is this owner's own write.
        was_done = version == _NO_NODE if self._wanted is None else data == self._wanted
        if version != self._version and not was_done:
            raise fenced_error(self._description)
        self.data, self._version, self._is_uncertain = data, version, False

    async def _stored(self) -> tuple[bytes, int]:
        try:
            return await self._store.get(self._path)
        except NoNodeError:
            return b"", _NO_NODE


def fenced_error(description: str) -> ManagedLedgerFencedError:
    return ManagedLedgerFencedError(
        f"another owner has changed {description}: open the topic again"
    )
