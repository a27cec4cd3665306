"""Recovers a chain's cursors when the chain is opened, and creates and deletes cursors.

In Pulsar: `managed-ledger/.../ManagedLedgerImpl.java`, `ManagedCursorContainer.java`.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import NoNodeError
from labkit.system.model.errors import LabkitError
from labkit.system.topic.chain.guarded_node import GuardedNode, ManagedLedgerFencedError
from labkit.system.topic.chain.ledger_chain import LedgerChain, Position
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.cursors.acknowledged import CursorState
from labkit.system.topic.cursors.cursor import ManagedCursor, Start, mark_delete_before
from labkit.system.topic.cursors.cursor_store import CursorStore
from labkit.system.topic.names import decode_name, encode_name


class ManagedCursors:
    def __init__(
        self,
        managed_ledger_path: str,
        chain: LedgerChain,
        chain_node: GuardedNode,
        client: BookKeeper,
        config: ManagedLedgerConfig,
        on_fenced: Callable[[ManagedLedgerFencedError], None],
    ) -> None:
        self.by_name: dict[str, ManagedCursor] = {}
        self._path = managed_ledger_path
        self._chain = chain
        self._chain_node = chain_node
        self._client = client
        self._config = config
        self._on_fenced = on_fenced
        self.lock = asyncio.Lock()
        """Held while a cursor is created or deleted."""
        self._ended: LabkitError | None = None

    @property
    def slowest_durable(self) -> Position | None:
        """The lowest `durable_mark_delete` of the durable cursors, or None if there are none."""
        durable = (cursor for cursor in self.by_name.values() if cursor.is_durable)
        return min((cursor.durable_mark_delete for cursor in durable), default=None)

    async def take_over(self) -> None:
        """Take over all durable cursors. Raises the same exceptions as `CursorStore.take_over`."""
        try:
            nodes = await self._client.store.children(self._path)
        except NoNodeError:
            return
        for node in nodes:
            store = self._store(decode_name(node))
            state = await store.take_over()
            if state is not None:
                self._add(decode_name(node), state, store)

    async def open(
        self,
        name: str,
        start: Start,
        durable: bool,
        cursor_properties: Mapping[str, str],
    ) -> ManagedCursor:
        async with self.lock:
            if name in self.by_name:
                return self.by_name[name]
            state = CursorState(mark_delete_before(self._chain, start))
            store = None
            if durable:
                store = self._store(name)
                state = await self._create(store, state, cursor_properties)
            if self._ended is not None:  # The owner has ended in the meantime.
                raise self._ended
            return self._add(name, state, store)

    async def delete(self, name: str) -> None:
        async with self.lock:
            cursor = self.by_name.get(name)
            if cursor is not None:
                await cursor.delete()
                del self.by_name[name]

    async def close(self, reason: LabkitError) -> None:
        """Store all cursors for the next owner. A later `open` raises `reason`."""
        self._ended = reason
        # Iterate over a copy, because a consumer may delete a cursor during a write.
        for cursor in list(self.by_name.values()):
            with suppress(LabkitError):  # If this fails, some messages are redelivered.
                await cursor.close()

    def stop(self, reason: LabkitError) -> None:
        """Stop storing cursors. A later `open` raises `reason`."""
        self._ended = reason
        for cursor in self.by_name.values():
            cursor.stop(reason)

    async def _create(
        self, store: CursorStore, state: CursorState, cursor_properties: Mapping[str, str]
    ) -> CursorState:
        if not await store.exists():
            await store.create(state, cursor_properties)
            return state
        # Either an earlier attempt by this owner has created the cursor, or another owner has taken
        # over the chain. In the latter case, this write fails.
        await self._chain_node.rewrite()
        return await store.take_over() or state

    def _store(self, name: str) -> CursorStore:
        path = f"{self._path}/{encode_name(name)}"
        return CursorStore(path, name, self._chain_node, self._client, self._config)

    def _add(self, name: str, state: CursorState, store: CursorStore | None) -> ManagedCursor:
        cursor = ManagedCursor(
            name,
            state,
            self._chain,
            store,
            self._config.cursor_persist_interval_ms,
            self._on_fenced,
        )
        self.by_name[name] = cursor
        return cursor
