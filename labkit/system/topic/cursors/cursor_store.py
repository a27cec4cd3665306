"""Where a cursor is kept: in its own ledger while it moves, in its node while it rests.

    created       the node has the state, and names no ledger
    first write   a new ledger gets the state as its first entry; then the node names that ledger
    each write    one more entry with the whole state; only the last one counts
    ledger old    the same as for the first write; then the old ledger is deleted
    closed        the node has the state again; then the ledger is deleted
    recovered     the ledger is opened with recovery, which stops the former owner; its last
                  entry, or the node's state if it has none, is the cursor; the node is written as
                  when it is closed, which stops the former owner's next ledger, too

A state that is too large for a node stays in the ledger, and one that is too large for an entry
takes several (`formats.encode_position`).  A node that names a ledger repeats the mark-delete
position and its properties if there is room for both, and has neither otherwise: a cursor that
has lost its ledger then begins at the topic's first entry.

Everything stored was acknowledged, but the newest acknowledgements may not be stored: after a crash
messages come again, and none is skipped.

In Pulsar: `managed-ledger/.../ManagedCursorImpl.java`.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.store import LARGEST_NODE, MetadataUnavailableError, NodeTooLargeError
from labkit.system.model.errors import (
    BKNoSuchLedgerExistsOnMetadataServerException,
    LabkitError,
)
from labkit.system.topic.chain.acknowledged import CursorState
from labkit.system.topic.chain.chain import NOWHERE
from labkit.system.topic.chain.formats import (
    IN_NODE,
    CursorNode,
    decode_cursor_node,
    decode_position,
    encode_cursor_node,
    encode_position,
    joined,
    parts_before,
)
from labkit.system.topic.chain.guarded_node import GuardedNode, ManagedLedgerFencedError
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.names import managed_ledger_name

LARGEST_CURSOR_PROPERTIES = 512 * 1024
"""Bytes of a subscriber's properties, which are always in the node."""


class CursorStore:
    """One cursor's node and ledger, as their only owner.  Calls are not to overlap.

    Every call may raise `ManagedLedgerFencedError`: another owner has the cursor now.
    """

    def __init__(
        self,
        path: str,
        cursor: str,
        client: BookKeeper,
        config: ManagedLedgerConfig,
    ) -> None:
        managed_ledger = managed_ledger_name(path.rpartition("/")[0])
        self._client = client
        self._config = config
        self._custom_metadata = (
            ("application", b"pulsar"),
            ("component", b"managed-ledger"),
            ("pulsar/managed-ledger", managed_ledger.encode()),
            ("pulsar/cursor", cursor.encode()),
        )
        self._name = f"cursor {cursor} of {managed_ledger}"
        self._path = path
        self._node = GuardedNode(client.store, path, self._name)
        self.cursor_properties: tuple[tuple[str, str], ...] = ()
        self._writer: LedgerWriter | None = None
        self._opened_at_ms = 0
        self._ledgers: dict[int, None] = {}
        """Ledgers that the node may name, or that are still to be deleted."""

    async def create(self, state: CursorState, cursor_properties: Mapping[str, str]) -> None:
        """Create the cursor; it is durable when this returns.

        Raises `NodeTooLargeError` if the properties are larger than `LARGEST_CURSOR_PROPERTIES`,
        and `MetadataUnavailableError`.
        """
        self.cursor_properties = tuple(cursor_properties.items())
        size = len(self._node_without_state(IN_NODE))
        if size > LARGEST_CURSOR_PROPERTIES:
            raise NodeTooLargeError(
                f"{self._name}: its properties have {size} bytes; at most"
                f" {LARGEST_CURSOR_PROPERTIES} are stored"
            )
        await self._node.write(
            encode_cursor_node(CursorNode(IN_NODE, state, self.cursor_properties))
        )

    async def recover(self) -> CursorState | None:
        """Take the cursor over from its former owner; None if there is no such cursor.

        Raises `MetadataUnavailableError`, `DamagedNodeError`, and what `BookKeeper.open_ledger` and
        `LedgerReader.read_entry` raise.
        """
        while await self._node.read():
            node = decode_cursor_node(self._node.data)
            self.cursor_properties = node.cursor_properties
            state = await self._last_state(node)
            self._ledgers = {node.ledger_id: None} if node.ledger_id != IN_NODE else {}
            try:
                await self._take_over(node.ledger_id, state)
            except ManagedLedgerFencedError:
                continue  # The former owner was quicker, once more.
            return state
        return None

    async def _take_over(self, ledger_id: int, state: CursorState) -> None:
        """Write the node, wherever the state belongs: that stops the former owner."""
        if (data := self._node_with(state)) is not None:
            await self._node.write(data)
            await self._delete_ledgers(self._ledgers)
        elif ledger_id != IN_NODE:
            await self._node.write(self._node_naming(ledger_id, state))
        else:
            # Pulsar wrote it, whose nodes may be a little larger.
            await self._begin_ledger(state)

    async def write(self, state: CursorState) -> None:
        """Make the state durable, in a new ledger if the present one fails, is full or old.

        Raises what `BookKeeper.create_ledger` and `LedgerWriter.add` raise for the new one,
        `NodeTooLargeError` and `MetadataUnavailableError`; then the state may be durable or not.
        """
        state = self._shortened(state)
        if self._writer is not None and not self._is_due():
            try:
                await _add(self._writer, state)
            except LabkitError:
                pass  # A new ledger may work, whatever failed in this one.
            else:
                return
        await self._begin_ledger(state)

    async def close(self, state: CursorState) -> None:
        """Leave the cursor to the next owner.  Raises what `write` raises."""
        state = self._shortened(state)
        if (data := self._node_with(state)) is not None:
            await self._node.write(data)
            await self._end_writer()
            await self._delete_ledgers(self._ledgers)
        else:
            await self.write(state)
            await self._end_writer()

    async def delete(self) -> None:
        """Delete the cursor.  Raises `MetadataUnavailableError`."""
        await self._node.delete()
        await self._end_writer()
        await self._delete_ledgers(self._ledgers)

    def report(self, error: LabkitError) -> None:
        """Record that the cursor's state could not be stored."""
        self._client.recorder.record("cursor.unstored", note=f"{self._name}: {error}")

    async def _last_state(self, node: CursorNode) -> CursorState:
        """The state in the ledger's last entries; if there are none, that in the node."""
        if node.ledger_id == IN_NODE:
            return node.state
        try:
            reader = await self._client.open_ledger(node.ledger_id)
        except BKNoSuchLedgerExistsOnMetadataServerException:
            # Another owner has moved to a new ledger, and then the write of the node fails; or
            # it was deleted, and the node is all there is.
            return node.state
        last = reader.last_add_confirmed
        if last < 0:
            return node.state
        data = (await reader.read_entry(last)).payload
        first = max(0, last - parts_before(data))
        entries = [(await reader.read_entry(each)).payload for each in range(first, last)]
        return joined([decode_position(each) for each in [*entries, data]])

    def _is_due(self) -> bool:
        assert self._writer is not None
        age_ms = self._client.wall_clock_ms() - self._opened_at_ms
        return (
            self._writer.last_add_pushed + 1 >= self._config.max_entries_per_cursor_ledger
            or age_ms >= self._config.max_cursor_ledger_age_ms
        )

    async def _begin_ledger(self, state: CursorState) -> None:
        """A new ledger, with the state in it before the node names it."""
        config = self._config
        writer = await self._client.create_ledger(
            config.ensemble_size,
            config.write_quorum,
            config.ack_quorum,
            custom_metadata=self._custom_metadata,
        )
        # Noted before the first write: if that fails, the ledger must still be deleted.
        self._ledgers[writer.ledger_id] = None
        try:
            await _add(writer, state)
            await self._node.write(self._node_naming(writer.ledger_id, state))
        except MetadataUnavailableError:
            raise  # The node may name it.
        except LabkitError as error:
            if isinstance(error, ManagedLedgerFencedError):
                self._ledgers = {writer.ledger_id: None}  # The others are the next owner's.
            await self._delete_ledgers([writer.ledger_id])
            raise
        await self._end_writer()
        self._writer = writer
        self._opened_at_ms = self._client.wall_clock_ms()
        await self._delete_ledgers(each for each in self._ledgers if each != writer.ledger_id)

    async def _end_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(LabkitError):  # What matters is stored, and by another way.
                await writer.close()

    async def _delete_ledgers(self, ledger_ids: Iterable[int]) -> None:
        """Delete ledgers that the node does not name."""
        # A copy: what is deleted is forgotten at once.
        for ledger_id in list(ledger_ids):
            with suppress(BKNoSuchLedgerExistsOnMetadataServerException):
                try:
                    await self._client.delete_ledger(ledger_id)
                except MetadataUnavailableError:
                    continue  # The next time.
            del self._ledgers[ledger_id]

    def _node_with(self, state: CursorState) -> bytes | None:
        """The node with the whole state in it; None if that is too much for a node."""
        if len(state.ranges) + len(state.batches) > self._config.max_ranges_in_node:
            return None
        data = encode_cursor_node(CursorNode(IN_NODE, state, self.cursor_properties))
        return data if self._fits(data) else None

    def _node_naming(self, ledger_id: int, state: CursorState) -> bytes:
        data = encode_cursor_node(CursorNode(ledger_id, state, self.cursor_properties))
        return data if self._fits(data) else self._node_without_state(ledger_id)

    def _node_without_state(self, ledger_id: int) -> bytes:
        node = CursorNode(ledger_id, CursorState(NOWHERE), self.cursor_properties)
        return encode_cursor_node(node)

    def _fits(self, data: bytes) -> bool:
        return len(self._path) + len(data) <= LARGEST_NODE

    def _shortened(self, state: CursorState) -> CursorState:
        """Without the ranges beyond the limit: what they hold comes again after a restart."""
        limit = self._config.max_ranges_stored
        return replace(state, ranges=state.ranges[:limit], batches=state.batches[:limit])


async def _add(writer: LedgerWriter, state: CursorState) -> None:
    for data in encode_position(state):
        await writer.add(data)
