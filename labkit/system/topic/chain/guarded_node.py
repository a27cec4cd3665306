"""A node of the metadata store that only its current owner can write.

In Pulsar: `managed-ledger/.../MetaStoreImpl.java`.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

from labkit.system.metadata.store import (
    BadVersionError,
    MetadataError,
    MetadataStore,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from labkit.system.model.errors import LabkitError

_NO_NODE = -1


class ManagedLedgerFencedError(LabkitError):
    """Another owner has changed the chain or a cursor, so this owner must stop."""


@dataclass(frozen=True, slots=True)
class _Content:
    data: bytes = b""
    version: int = _NO_NODE


class GuardedNode:
    """A node that is written by compare-and-set. If there are two owners, only one of them can
    continue.

    If a write gets no response, the node is read to find out whether the write was carried out; if
    not, the write is repeated. If a call fails or is cancelled before its response arrives, the
    next call first finds out whether the change was carried out. Every call may raise
    `MetadataUnavailableError`. Every change raises `ManagedLedgerFencedError` if another owner has
    written the node or its parent.
    """

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        description: str,
        parent: "GuardedNode | None" = None,
    ) -> None:
        """`parent` is the node above this one; only its current owner can create this node."""
        self._store = store
        self._path = path
        self._description = description
        self._parent = parent
        self._content = _Content()
        """The node's content as this owner last read or wrote it."""
        self._unsettled: _Content | None = None
        """What the node contains if a change without a response was carried out, or None."""
        self._lock = asyncio.Lock()

    @property
    def data(self) -> bytes:
        """The node's data as this owner last read or wrote it; empty if the node did not exist."""
        return self._content.data

    async def read(self) -> bool:
        """Return whether the node exists. The next write fails if another owner changes it."""
        self._content = await self._stored()
        self._unsettled = None
        return self._content.version != _NO_NODE

    async def create(self, data: bytes) -> None:
        """Raise `NodeExistsError` if the node exists."""
        async with self._lock:
            await self._settle()
            await self._create(data)

    async def write(self, data: bytes) -> None:
        async with self._lock:
            await self._settle()
            await self._write(data)

    async def rewrite(self) -> None:
        """Rewrite the current content to find out whether another owner has changed it."""
        async with self._lock:
            # Do this before reading `data`, because another change may be in progress.
            await self._settle()
            await self._write(self.data)

    async def delete(self) -> None:
        async with self._lock:
            await self._settle()
            if self._content.version != _NO_NODE:
                request = self._store.delete(self._path, self._content.version)
                try:
                    await self._change(request, _Content())
                except BadVersionError:
                    raise fenced_error(self._description) from None
                except NoNodeError:
                    self._content = _Content()

    async def _write(self, data: bytes) -> None:
        before = self._content
        try:
            await self._write_once(data)
        except MetadataUnavailableError:
            await self._settle()
            if self._content == before:
                await self._write_once(data)

    async def _write_once(self, data: bytes) -> None:
        version = self._content.version
        try:
            if version == _NO_NODE:
                await self._create(data)
            else:
                request = self._store.set(self._path, data, version)
                await self._change(request, _Content(data, version + 1))
        except (NodeExistsError, BadVersionError, NoNodeError):
            raise fenced_error(self._description) from None

    async def _create(self, data: bytes) -> None:
        created = _Content(data, 0)
        if (parent := self._parent) is None:
            await self._change(self._store.create(self._path, data), created)
            return
        async with parent._lock:
            await parent._settle()
            request = self._store.create_child(self._path, data, parent._content.version)
            try:
                await self._change(request, created)
            except (BadVersionError, NoNodeError):
                raise fenced_error(parent._description) from None

    async def _change(self, request: Awaitable[object], after: _Content) -> None:
        """Await a request that changes the node's content to this content."""
        self._unsettled = after
        try:
            await request
        except MetadataError as error:
            if not isinstance(error, MetadataUnavailableError):
                self._unsettled = None  # The request was certainly not carried out.
            raise
        self._content, self._unsettled = after, None

    async def _settle(self) -> None:
        """If the response to the last change is missing, find out whether it was carried out."""
        if (after := self._unsettled) is None:
            return
        stored = await self._stored()
        # If the change rewrote the same bytes, another owner may have written them instead. In that
        # case, the content does not prove that this owner's change was carried out.
        was_carried_out = stored == after and (not after.data or after.data != self.data)
        if stored != self._content and not was_carried_out:
            raise fenced_error(self._description)
        self._content, self._unsettled = stored, None

    async def _stored(self) -> _Content:
        try:
            return _Content(*await self._store.get(self._path))
        except NoNodeError:
            return _Content()


def fenced_error(description: str) -> ManagedLedgerFencedError:
    return ManagedLedgerFencedError(
        f"another owner has changed {description}: open the topic again"
    )
