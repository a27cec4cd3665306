"""Where a cursor is kept: in its own ledger while it moves, in its node while it rests.

    created       the node has the state, and names no ledger
    first write   a new ledger gets the state as its first entry; then the node names that ledger
    each write    one more entry with the whole state; only the last one counts
    ledger old    the same as for the first write; then the old ledger is deleted
    closed        the node has the state again; then the ledger is deleted
    recovered     the ledger is opened with recovery, which stops the former owner; its last
                  entry, or the node's state if it has none, is the cursor; the node is written as
                  when it is closed, which stops the former owner's next ledger, too

Everything stored was acknowledged, but the newest acknowledgements may not be stored: after a crash
messages come again, and none is skipped.

In Pulsar: `managed-ledger/.../ManagedCursorImpl.java`.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from labkit.client.bookkeeper import BookKeeper
from labkit.client.writer import LedgerWriter
from labkit.metadata.store import MetadataUnavailableError
from labkit.model.errors import (
    BKNoSuchLedgerExistsOnMetadataServerException,
    LabkitError,
)
from labkit.topic.acknowledged import CursorState
from labkit.topic.config import ManagedLedgerConfig
from labkit.topic.formats import (
    IN_NODE,
    CursorNode,
    decode_cursor_node,
    decode_position,
    encode_cursor_node,
    encode_position,
)
from labkit.topic.guarded_node import GuardedNode, ManagedLedgerFencedError
from labkit.topic.names import managed_ledger_name


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
        self._node = GuardedNode(client.store, path, f"cursor {cursor} of {managed_ledger}")
        self.cursor_properties: tuple[tuple[str, str], ...] = ()
        self._writer: LedgerWriter | None = None
        self._opened_at_ms = 0
        self._ledgers: dict[int, None] = {}
        """Ledgers that the node may name, or that are still to be deleted."""

    async def create(self, state: CursorState, cursor_properties: Mapping[str, str]) -> None:
        """A new cursor: durable when this returns.  Raises `MetadataUnavailableError`."""
        self.cursor_properties = tuple(cursor_properties.items())
        await self._write_node(IN_NODE, state)

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
            # A state too large for the node stays where it is; the node is still written, since
            # that stops the former owner.
            ledger_id = IN_NODE if self._fits(state) else node.ledger_id
            try:
                await self._write_node(ledger_id, state)
            except ManagedLedgerFencedError:
                continue  # The former owner was quicker, once more.
            await self._delete_ledgers(but=ledger_id)
            return state
        return None

    async def write(self, state: CursorState) -> None:
        """Make the state durable, in a new ledger if the present one fails, is full or old.

        Raises what `BookKeeper.create_ledger` and `LedgerWriter.add` raise for the new one, and
        `MetadataUnavailableError`; then the state may be durable or not.
        """
        state = self._shortened(state)
        if self._writer is not None and not self._is_due():
            try:
                await self._writer.add(encode_position(state))
            except LabkitError:
                pass  # A new ledger may work, whatever failed in this one.
            else:
                return
        await self._begin_ledger(state)

    async def close(self, state: CursorState) -> None:
        """Leave the cursor to the next owner.  Raises what `write` raises."""
        state = self._shortened(state)
        if self._fits(state):
            await self._write_node(IN_NODE, state)
            await self._end_writer()
            await self._delete_ledgers()
        else:
            await self.write(state)
            await self._end_writer()

    async def delete(self) -> None:
        """Delete the cursor.  Raises `MetadataUnavailableError`."""
        await self._node.delete()
        await self._end_writer()
        await self._delete_ledgers()

    async def _last_state(self, node: CursorNode) -> CursorState:
        """The state in the ledger's last entry; if there is none, that in the node."""
        if node.ledger_id == IN_NODE:
            return node.state
        try:
            reader = await self._client.open_ledger(node.ledger_id)
        except BKNoSuchLedgerExistsOnMetadataServerException:
            # Another owner has moved to a new ledger, and then the write of the node fails; or
            # it was deleted, and the node is all there is.
            return node.state
        if reader.last_add_confirmed < 0:
            return node.state
        return decode_position((await reader.read_entry(reader.last_add_confirmed)).payload)

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
        await writer.add(encode_position(state))
        try:
            await self._write_node(writer.ledger_id, state)
        except ManagedLedgerFencedError:
            self._ledgers = {writer.ledger_id: None}  # The others are the next owner's.
            await self._delete_ledgers()
            raise
        await self._end_writer()
        self._writer = writer
        self._opened_at_ms = self._client.wall_clock_ms()
        await self._delete_ledgers(but=writer.ledger_id)

    async def _write_node(self, ledger_id: int, state: CursorState) -> None:
        node = CursorNode(ledger_id, state, self.cursor_properties)
        await self._node.write(encode_cursor_node(node))

    async def _end_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(LabkitError):  # What matters is stored, and by another way.
                await writer.close()

    async def _delete_ledgers(self, but: int = IN_NODE) -> None:
        """The node names another one, or none: these are not needed any more."""
        for ledger_id in [each for each in self._ledgers if each != but]:
            with suppress(BKNoSuchLedgerExistsOnMetadataServerException):
                try:
                    await self._client.delete_ledger(ledger_id)
                except MetadataUnavailableError:
                    continue  # The next time.
            del self._ledgers[ledger_id]

    def _fits(self, state: CursorState) -> bool:
        count = len(state.ranges) + len(state.batches)
        return count <= self._config.max_ranges_in_node

    def _shortened(self, state: CursorState) -> CursorState:
        """Without the ranges beyond the limit: what they hold comes again after a restart."""
        limit = self._config.max_ranges_stored
        return replace(state, ranges=state.ranges[:limit], batches=state.batches[:limit])
