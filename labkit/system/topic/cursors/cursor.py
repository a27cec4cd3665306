"""A cursor: which entries of a chain a subscription has acknowledged.

Acknowledgements take effect immediately, and are stored a little later in a single entry. If the
owner crashes in between, messages are redelivered, but none are skipped.

In Pulsar: `managed-ledger/.../ManagedCursorImpl.java`.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Literal

from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKLedgerClosedException,
    LabkitError,
)
from labkit.system.topic.backoff import FIRST_PAUSE_S, MAX_PAUSE_S, Backoff
from labkit.system.topic.chain.guarded_node import ManagedLedgerFencedError
from labkit.system.topic.chain.ledger_chain import NOWHERE, LedgerChain, Position
from labkit.system.topic.cursors.acknowledged import Acknowledged, CursorState
from labkit.system.topic.cursors.cursor_store import CursorStore

Start = Position | Literal["earliest", "latest"]


class ManagedCursor:
    """The acknowledgements of one subscription; a reader's cursor has no store."""

    def __init__(
        self,
        name: str,
        state: CursorState,
        chain: LedgerChain,
        store: CursorStore | None,
        persist_interval_ms: int,
        on_fenced: Callable[[ManagedLedgerFencedError], None],
    ) -> None:
        """Do not call this directly; use `ManagedLedger.open_cursor`."""
        self.name = name
        self.properties: Mapping[str, int] = dict(state.properties)
        """Numbers that are stored with mark-delete."""
        self.cursor_properties: Mapping[str, str] = dict(store.cursor_properties if store else ())
        """The subscriber's properties, set when the cursor was created."""
        self._acknowledged = Acknowledged(state, chain.next_position)
        self._mark_delete_stored = state.mark_delete
        self._chain = chain
        self._store = store
        self._interval_s = persist_interval_ms / 1000
        self._pauses = Backoff(max(self._interval_s, FIRST_PAUSE_S), MAX_PAUSE_S)
        self._on_fenced = on_fenced
        self._lock = asyncio.Lock()
        self._changes = self._changes_stored = 0
        self._store_at = 0.0
        self._due: asyncio.TimerHandle | None = None
        self._storing: asyncio.Task[None] | None = None
        self._ended: LabkitError | None = None

    @property
    def is_durable(self) -> bool:
        """Whether the cursor outlives its owner and prevents ledgers from being trimmed."""
        return self._store is not None

    @property
    def mark_delete(self) -> Position:
        """Every entry up to and including this position has been acknowledged."""
        return self._acknowledged.mark_delete

    @property
    def durable_mark_delete(self) -> Position:
        """The position from which the next owner might resume. Later ledgers are not trimmed."""
        return min(self._mark_delete_stored, self.mark_delete)

    @property
    def state(self) -> CursorState:
        return CursorState(
            self._acknowledged.mark_delete,
            self._acknowledged.ranges,
            self._acknowledged.batches,
            tuple(self.properties.items()),
        )

    @property
    def unacknowledged_count(self) -> int:
        """The number of confirmed entries that have not been acknowledged."""
        behind = self._chain.entry_count(self.mark_delete, self._chain.end)
        ranges = self._acknowledged.ranges
        return behind - sum(self._chain.entry_count(each.lower, each.upper) for each in ranges)

    def is_acknowledged(self, position: Position) -> bool:
        """Return whether the entry, with every message of its batch, has been acknowledged."""
        return self._acknowledged.contains(position)

    def unacknowledged_in_batch(self, position: Position) -> int | None:
        """Return the bit mask of a partly acknowledged batch, as in `CursorState`, or None."""
        return self._acknowledged.unacknowledged_in_batch(position)

    @property
    def batch_count(self) -> int:
        return self._acknowledged.batch_count

    def acknowledge(self, positions: Iterable[Position]) -> None:
        """Acknowledge these entries, ignoring trimmed ones. Raise `BKIncorrectParameterException`,
        and acknowledge nothing, if one of them is after the last confirmed entry.
        """
        positions = list(positions)
        for position in positions:
            self._check(position)
        for position in filter(self._is_stored, positions):
            self._acknowledged.add(position)
        self._changed()

    def acknowledge_batch(
        self, position: Position, batch_size: int, unacknowledged_bits: int
    ) -> None:
        """Acknowledge all messages of a batch except those in `unacknowledged_bits`."""
        self._check(position)
        if self._is_stored(position):
            self._acknowledged.add_batch(position, batch_size, unacknowledged_bits)
            self._changed()

    def acknowledge_up_to(
        self, position: Position, properties: Mapping[str, int] | None = None
    ) -> None:
        """Acknowledge everything up to and including the position.

        `properties` replace the cursor's properties, and are stored with the position.
        """
        self._check(position)
        ledger_id, entry_id = position
        if self._chain.has_ledger(ledger_id):
            entry_id = min(entry_id, self._chain.entry_count_of(ledger_id) - 1)
        self._acknowledged.add_up_to((ledger_id, entry_id))
        if properties is not None:
            self.properties = dict(properties)
        self._changed()

    async def reset(self, start: Start) -> None:
        """Durably acknowledge the entries before `start`, and no others."""
        self._acknowledged.reset(mark_delete_before(self._chain, start))
        self._changed()
        await self.flush()

    async def flush(self) -> None:
        """Store all acknowledgements made so far. After an error, retry at increasing intervals.

        Raises `BKLedgerClosedException` after `close`, and the exceptions of `CursorStore.write`.
        """
        async with self._lock:
            # Read this before the write, because the write does not store later changes.
            changes = self._changes
            if self._store is None or changes == self._changes_stored:
                return
            if self._ended is not None:
                raise self._ended
            loop = asyncio.get_running_loop()
            self._store_at = loop.time() + self._interval_s
            state = self.state
            try:
                await self._store.write(state)
            except ManagedLedgerFencedError as error:
                self._on_fenced(error)
                raise
            except LabkitError as error:
                # The write may have succeeded, and after a seek, the position may be earlier.
                self._mark_delete_stored = min(self._mark_delete_stored, state.mark_delete)
                self._store_at = loop.time() + self._pauses.next_pause_s()
                self._store.report(error)
                raise
            self._pauses.reset()
            self._mark_delete_stored = state.mark_delete
            self._changes_stored = changes

    async def close(self) -> None:
        """Store the state for the next owner and stop. Raises the same exceptions as `flush`."""
        async with self._lock:
            if self._ended is None:
                self.stop(BKLedgerClosedException(f"cursor {self.name} was closed"))
                if self._store is not None and self._changes:
                    try:
                        await self._store.close(self.state)
                    except LabkitError as error:
                        self._store.report(error)
                        raise

    async def delete(self) -> None:
        """Delete the cursor. It remains usable if this raises `MetadataUnavailableError`."""
        async with self._lock:
            if self._store is not None:
                await self._store.delete()
            self.stop(BKLedgerClosedException(f"cursor {self.name} was deleted"))

    def stop(self, reason: LabkitError) -> None:
        """Stop storing acknowledgements. A later `flush` raises `reason`."""
        self._ended = reason
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _is_stored(self, position: Position) -> bool:
        ledger_id, entry_id = position
        return 0 <= entry_id < self._chain.entry_count_of(ledger_id)

    def _check(self, position: Position) -> None:
        if position > self._chain.end:
            raise BKIncorrectParameterException(
                f"cursor {self.name}: cannot acknowledge {position[0]}:{position[1]}, because the"
                f" last confirmed entry is {self._chain.end[0]}:{self._chain.end[1]}"
            )

    def _changed(self) -> None:
        self._changes += 1
        if self._due is None and self._storing is None:
            self._store_later()

    def _store_later(self) -> None:
        if self._store is not None and self._ended is None:
            loop = asyncio.get_running_loop()
            delay_s = max(0.0, self._store_at - loop.time())
            self._due = loop.call_later(delay_s, self._start_storing)

    def _start_storing(self) -> None:
        self._due = None
        self._storing = asyncio.get_running_loop().create_task(self._store_now())

    async def _store_now(self) -> None:
        try:
            with suppress(LabkitError):  # If fenced, `_on_fenced` was called; otherwise, retry.
                await self.flush()
        finally:
            self._storing = None
        if self._changes != self._changes_stored:
            self._store_later()


def mark_delete_before(chain: LedgerChain, start: Start) -> Position:
    """Return the mark-delete position that makes `start` the first unacknowledged entry."""
    if start == "latest":
        return chain.end
    return chain.last_before(NOWHERE if start == "earliest" else start) or chain.start
