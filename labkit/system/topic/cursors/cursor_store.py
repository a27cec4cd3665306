"""Stores a cursor: in a ledger of its own while the cursor is in use, otherwise in its node.

    created       the node contains the state and refers to no ledger
    first write   a new ledger stores the state as its first entry; then the node refers to it
    later writes  each write adds one entry with the complete state; only the last entry is used
    ledger old    same as the first write; then the old ledger is deleted
    closed        the node contains the state again; then the ledger is deleted
    recovered     the ledger is opened with recovery, which fences the previous owner. The state is
                  read from its last entry, or from the node if there is none. The node is written
                  as in "closed", so that the previous owner cannot switch to another ledger.

A state that is too large for a node stays in the ledger. A state that is too large for an entry is
split into several entries (`formats.encode_position`). A node that refers to a ledger also contains
the mark-delete position and its properties, if they fit. If they do not fit and the ledger is lost,
the cursor restarts at the topic's first entry.

In Pulsar: `managed-ledger/.../ManagedCursorImpl.java`.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.store import MAX_NODE_BYTES, MetadataUnavailableError, NodeTooLargeError
from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException, LabkitError
from labkit.system.topic.chain.guarded_node import GuardedNode, ManagedLedgerFencedError
from labkit.system.topic.chain.ledger_chain import NOWHERE
from labkit.system.topic.chain.ledgers import create_ledger, run_to_completion, try_to_delete_ledger
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.cursors.acknowledged import CursorState
from labkit.system.topic.cursors.formats import (
    IN_NODE,
    CursorNode,
    count_parts_before,
    decode_cursor_node,
    decode_position,
    encode_cursor_node,
    encode_position,
    join_parts,
)
from labkit.system.topic.names import managed_ledger_name

MAX_CURSOR_PROPERTIES_BYTES = 512 * 1024
"""The maximum size of a subscriber's properties, which are always stored in the node."""


class CursorStore:
    """The sole owner of one cursor's node and ledger. Calls must not overlap.

    Every call may raise `ManagedLedgerFencedError` and `MetadataUnavailableError`.
    """

    def __init__(
        self,
        path: str,
        cursor: str,
        chain_node: GuardedNode,
        client: BookKeeper,
        config: ManagedLedgerConfig,
    ) -> None:
        self._client = client
        self._config = config
        self._managed_ledger = managed_ledger_name(path.rpartition("/")[0])
        self._cursor = cursor
        self._name = f"cursor {cursor} of {self._managed_ledger}"
        self._path = path
        self._node = GuardedNode(client.store, path, self._name, chain_node)
        self.cursor_properties: tuple[tuple[str, str], ...] = ()
        self._writer: LedgerWriter | None = None
        self._opened_at_ms = 0
        self._ledgers: dict[int, None] = {}
        """Ledgers that the node may refer to or that must still be deleted."""

    async def exists(self) -> bool:
        return await self._node.read()

    async def create(self, state: CursorState, cursor_properties: Mapping[str, str]) -> None:
        """Raise `NodeTooLargeError` or `NodeExistsError` if the cursor cannot be created."""
        self.cursor_properties = tuple(cursor_properties.items())
        size = len(self._node_without_state(IN_NODE))
        if size > MAX_CURSOR_PROPERTIES_BYTES:
            raise NodeTooLargeError(
                f"{self._name}: properties are too large: expected at most"
                f" {MAX_CURSOR_PROPERTIES_BYTES} bytes, got {size}"
            )
        data = encode_cursor_node(CursorNode(IN_NODE, state, self.cursor_properties))
        await self._node.create(data)

    async def take_over(self) -> CursorState | None:
        """Take over the cursor from its previous owner. Return None if it does not exist.

        Raises `DamagedNodeError`, and the same exceptions as `BookKeeper.open_ledger` and
        `LedgerReader.read_entry`.
        """
        while await self._node.read():
            node = decode_cursor_node(self._node.data)
            self.cursor_properties = node.cursor_properties
            state = await self._last_state(node)
            self._ledgers = {node.ledger_id: None} if node.ledger_id != IN_NODE else {}
            try:
                await self._fence_previous_owner(node.ledger_id, state)
            except ManagedLedgerFencedError:
                continue  # The previous owner has changed the node in the meantime, so retry.
            return state
        return None

    async def _fence_previous_owner(self, ledger_id: int, state: CursorState) -> None:
        """Fence the previous owner by writing to the node. The state may stay in a ledger."""
        if (data := self._node_with(state)) is not None:
            await self._node.write(data)
            await self._delete_ledgers(self._ledgers)
        elif ledger_id != IN_NODE:
            await self._node.write(self._node_referring_to(ledger_id, state))
        else:
            # This node was written by Pulsar, which allows slightly larger nodes.
            await run_to_completion(self._begin_ledger(state))

    async def write(self, state: CursorState) -> None:
        """Store the state, in a new ledger if the current one fails, is full or is too old.

        Raises `NodeTooLargeError`, and the exceptions of `BookKeeper.create_ledger` and
        `LedgerWriter.add`. After an error, the state may or may not be stored.
        """
        state = self._without_excess(state)
        if self._writer is not None and not self._is_due():
            try:
                await _add(self._writer, state)
            except LabkitError:
                pass  # Whatever the reason for the failure, a write to a new ledger may succeed.
            else:
                return
        await run_to_completion(self._begin_ledger(state))

    async def close(self, state: CursorState) -> None:
        """Store the state for the next owner. Raises the same exceptions as `write`."""
        state = self._without_excess(state)
        if (data := self._node_with(state)) is not None:
            await self._node.write(data)
            await self._end_writer()
            await self._delete_ledgers(self._ledgers)
        else:
            await self.write(state)
            await self._end_writer()

    async def delete(self) -> None:
        try:
            await self._node.delete()
        except MetadataUnavailableError:
            # The node may have been deleted. The next `write` must recreate it, so it needs a new
            # ledger.
            await self._end_writer()
            raise
        await self._end_writer()
        await self._delete_ledgers(self._ledgers)

    def report(self, error: LabkitError) -> None:
        self._client.recorder.record(
            "cursor.unstored", subscription=self._name, explanation=str(error)
        )

    async def _last_state(self, node: CursorNode) -> CursorState:
        """Return the state in the ledger's last entries or, if there are none, in the znode."""
        if node.ledger_id == IN_NODE:
            return node.state
        try:
            reader = await self._client.open_ledger(node.ledger_id)
        except BKNoSuchLedgerExistsOnMetadataServerException:
            # Either the ledger is lost, or another owner has switched to a new one. In the latter
            # case, our next write to the node will fail.
            return node.state
        last = reader.last_add_confirmed
        if last < 0:
            return node.state
        data = (await reader.read_entry(last)).payload
        first = max(0, last - count_parts_before(data))
        entries = [(await reader.read_entry(each)).payload for each in range(first, last)]
        return join_parts([decode_position(each) for each in [*entries, data]])

    def _is_due(self) -> bool:
        assert self._writer is not None
        age_ms = self._client.wall_clock_ms() - self._opened_at_ms
        return (
            self._writer.last_add_pushed + 1 >= self._config.max_entries_per_cursor_ledger
            or age_ms >= self._config.max_cursor_ledger_age_ms
        )

    async def _begin_ledger(self, state: CursorState) -> None:
        about = {"managed_ledger": self._managed_ledger, "cursor": self._cursor}
        writer = await create_ledger(self._client, self._config, "managed-ledger", **about)
        # Even if the first write fails, the ledger must be deleted later.
        self._ledgers[writer.ledger_id] = None
        try:
            await _add(writer, state)
            await self._node.write(self._node_referring_to(writer.ledger_id, state))
        except MetadataUnavailableError:
            raise  # The node may refer to the new ledger.
        except LabkitError as error:
            if isinstance(error, ManagedLedgerFencedError):
                self._ledgers = {writer.ledger_id: None}  # The next owner deletes the others.
            await self._delete_ledgers([writer.ledger_id])
            raise
        await self._end_writer()
        self._writer = writer
        self._opened_at_ms = self._client.wall_clock_ms()
        await self._delete_ledgers(each for each in self._ledgers if each != writer.ledger_id)

    async def _end_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(LabkitError):  # The state is already stored elsewhere.
                await writer.close()

    async def _delete_ledgers(self, ledger_ids: Iterable[int]) -> None:
        # Iterate over a copy, because the loop removes deleted ledgers.
        for ledger_id in list(ledger_ids):
            # If this fails, the next call retries.
            if await try_to_delete_ledger(self._client, ledger_id):
                del self._ledgers[ledger_id]

    def _node_with(self, state: CursorState) -> bytes | None:
        """Return the node's data, or None if the complete state is too large for the node."""
        if len(state.ranges) + len(state.batches) > self._config.max_ranges_in_node:
            return None
        data = encode_cursor_node(CursorNode(IN_NODE, state, self.cursor_properties))
        return data if self._fits(data) else None

    def _node_referring_to(self, ledger_id: int, state: CursorState) -> bytes:
        data = encode_cursor_node(CursorNode(ledger_id, state, self.cursor_properties))
        return data if self._fits(data) else self._node_without_state(ledger_id)

    def _node_without_state(self, ledger_id: int) -> bytes:
        node = CursorNode(ledger_id, CursorState(NOWHERE), self.cursor_properties)
        return encode_cursor_node(node)

    def _fits(self, data: bytes) -> bool:
        return len(self._path) + len(data) <= MAX_NODE_BYTES

    def _without_excess(self, state: CursorState) -> CursorState:
        """Drop ranges beyond the limit. Their messages are redelivered after a restart."""
        limit = self._config.max_ranges_stored
        return replace(state, ranges=state.ranges[:limit], batches=state.batches[:limit])


async def _add(writer: LedgerWriter, state: CursorState) -> None:
    for data in encode_position(state):
        await writer.add(data)
