"""A partition's chain of ledgers, in which only the last ledger is open.

    opened          the last ledger is recovered, which fences its writer; a new ledger is created
    full or old     the ledger is closed, and the next one is created
    failed          the same, and the next ledger stores the entries that the failed one did not;
                    after a ledger that accepted no entry, the owner backs off exponentially
    consumed        consumed ledgers that retention no longer keeps are removed from the chain, then
                    deleted
    terminated      the ledger is closed, and no owner ever creates another one
    fenced          another owner has changed the chain, so this one stops

In Pulsar: `managed-ledger/.../ManagedLedgerImpl.java`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar, TypeVar

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import MAX_PAYLOAD_SIZE, LedgerWriter
from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKLedgerClosedException,
    LabkitError,
)
from labkit.system.topic.append_queue import AppendQueue, AwaitedEntry, PendingEntry
from labkit.system.topic.backoff import FIRST_PAUSE_S, MAX_PAUSE_S, Backoff
from labkit.system.topic.chain.chain_reader import ChainReader, StoredEntry
from labkit.system.topic.chain.chain_store import ChainStore
from labkit.system.topic.chain.guarded_node import ManagedLedgerFencedError
from labkit.system.topic.chain.ledger_chain import LedgerInfo, Position
from labkit.system.topic.chain.ledgers import run_to_completion
from labkit.system.topic.chain.rollover import Rollover, rollover_reason
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.cursors.cursor import ManagedCursor, Start
from labkit.system.topic.cursors.managed_cursors import ManagedCursors
from labkit.system.topic.maintenance import MaintenanceTask

_Result = TypeVar("_Result")


class ManagedLedger:
    """A partition's sole owner: appends entries to the chain, reads them, and manages its cursors.

    Invariants: only the last ledger is open; entries are stored exactly once and in the order of
    `append`, even if a ledger fails in between; once an entry has failed, all later ones fail.
    """

    store_class: ClassVar[type[ChainStore]] = ChainStore
    queue_class: ClassVar[type[AppendQueue]] = AppendQueue

    def __init__(
        self, name: str, path: str, client: BookKeeper, config: ManagedLedgerConfig
    ) -> None:
        self.name = name
        self._client = client
        self._config = config
        self._store = self.store_class(name, path, client, config)
        self.chain = self._store.chain
        self._reader = ChainReader(self.chain, client, config.entry_cache_size_bytes)
        self._cursors = ManagedCursors(
            path, self.chain, self._store.node, client, config, self.abandon
        )
        self.writer: LedgerWriter | None = None
        """The writer of the open ledger, if any."""
        self._opened_at_ms = 0
        self._pauses = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S)
        self._lock = asyncio.Lock()
        self._pause_over = asyncio.Event()
        """Cleared during a pause, in which no ledger is created."""
        self._pause_over.set()
        self.queue = self.queue_class(self._reader.add_to_cache)
        self._ended: LabkitError | None = BKLedgerClosedException(f"{name} is not open yet")
        """The error that every call raises before `open`, after `close` and after `abandon`."""
        self._maintenance = MaintenanceTask(self._maintain, config.check_interval_ms)
        self._on_confirmed: list[Callable[[], None]] = []
        self._on_ended: list[Callable[[LabkitError], None]] = []
        self._is_reporting = False
        self._unfinished: Rollover | None = None
        """A rollover that has begun. If its caller was cancelled, the next caller finishes it."""

    async def open(self) -> None:
        """Take over the chain and its cursors from the previous owner.

        Raises `ManagedLedgerFencedError` if another owner takes over at the same time,
        `MarkedForDeletionError` if the topic's deletion has begun, and the same exceptions as
        `BookKeeper.open_ledger`, `BookKeeper.create_ledger` and `CursorStore.take_over`.
        """
        async with self._lock:
            await self._store.take_over()
            # Do this before recovering the cursors. Until a new chain has been stored, a previous
            # owner could still store it and create cursors.
            if self._store.terminated is None:
                await run_to_completion(self.begin_ledger(Rollover("opened", "opened")))
            try:
                await self._cursors.take_over()
            except LabkitError:
                with suppress(LabkitError):  # If this fails, the next owner closes the ledger.
                    if self.writer is not None:
                        await self._store.close_last_ledger(self.writer)
                await self._store.delete_removed_ledgers()
                raise
            self._ended = None
        await self._store.delete_removed_ledgers()
        self._maintenance.begin()

    async def close(self) -> None:
        """Close the ledger and the cursors. Call this after all pushed entries are confirmed.

        Raises `MetadataUnavailableError` and the exceptions of `LedgerWriter.close`. Even after an
        error or a cancellation, this managed ledger accepts no more calls.
        """
        closed = BKLedgerClosedException(f"{self.name} was closed: open the topic again")
        async with self._lock:
            was_open = self._ended is None
            try:
                if was_open:
                    await self._cursors.close(closed)
                with suppress(ManagedLedgerFencedError):  # The next owner has closed the ledger.
                    if self.writer is not None:
                        await self._seal(self.writer)
                    if was_open:
                        await self._store.store_closed()
            finally:
                self._stop(closed)
        await self._store.delete_removed_ledgers()

    def configure(self, config: ManagedLedgerConfig) -> None:
        """Apply settings to future ledgers, but not to this owner's timers and cursors."""
        self._config = self._store.config = config

    @property
    def ledgers(self) -> tuple[LedgerInfo, ...]:
        """The chain's ledgers. For the open ledger, the entry and byte counts are current."""
        return self.chain.ledgers

    @property
    def properties(self) -> Mapping[str, str]:
        return self._store.properties

    async def set_property(self, name: str, value: str) -> None:
        async with self._lock:
            self._check_open()
            await self._abandon_if_fenced(self._store.set_property(name, value))

    @property
    def terminated(self) -> Position | None:
        return self._store.terminated

    async def terminate(self) -> Position:
        """Terminate the chain after its last confirmed entry, and return that entry's position.

        Raises the error that ended this managed ledger, and the same exceptions as
        `LedgerWriter.close` and `ChainStore.terminate`. After an error or a cancellation, only the
        next owner can determine whether the chain has been terminated.
        """
        async with self._lock:
            self._check_open()
            # Entries may be waiting if their appender was cancelled during a rollover or a pause.
            self._pause_over.set()
            await self.push_waiting()
            self._check_open()  # The rollover may have failed.
            try:
                if self.writer is not None:
                    await self.writer.all_confirmed()
                    await self._seal(self.writer)
                return await self._store.terminate(self.last_confirmed)
            except LabkitError as error:
                self.abandon(error)
                raise
            except asyncio.CancelledError:
                unknown = f"{self.name} may have been terminated: open the topic again"
                self.abandon(BKLedgerClosedException(unknown))
                raise

    # Appending

    async def append(self, data: bytes) -> asyncio.Future[Position]:
        """Push an entry as in `append_entries`. The future resolves to its position, or fails."""
        entry = AwaitedEntry(data)
        await self.append_entries([entry])
        return entry.stored

    async def append_entries(self, entries: Sequence[PendingEntry]) -> None:
        """Push entries, and notify each entry's appender when the entry is stored or has failed.

        If too many entries are unconfirmed, the call waits. If a ledger is full or fails, its
        unconfirmed entries are written to the next one. If the next ledger cannot be created, or
        another owner has taken over, these entries fail, and so does every later call. If the call
        is cancelled, the entries may still be stored.

        Raises `BKIncorrectParameterException` if an entry is too large for a frame,
        `BKLedgerClosedException` after `close`, `ManagedLedgerTerminatedError` if the chain is
        terminated, and the error that ended this managed ledger.
        """
        if any(len(entry.data) > MAX_PAYLOAD_SIZE for entry in entries):
            raise BKIncorrectParameterException(
                f"entry is too large for a frame: expected at most {MAX_PAYLOAD_SIZE} bytes"
            )
        async with self._lock:
            self._check_open()
            self._store.check_not_terminated()
            if self.writer is not None:
                with suppress(LabkitError):  # `push_waiting` checks whether the writer has ended.
                    await self.writer.drain()
            self._check_open()  # Another owner may have taken over during the wait.
            self.queue.add(entries)
            await self.push_waiting()
        # Release the lock first, so that other calls do not have to wait for a pause.
        await self._pause_over.wait()

    async def push_waiting(self) -> None:
        """Push all waiting entries, unless a pause begins; maintenance pushes the rest after it."""
        while self.queue.is_waiting and self._pause_over.is_set():
            if rollover := self._rollover_due():
                await self._roll_over(rollover)
            else:
                writer = self.writer
                assert writer is not None
                confirmed = self.queue.push(writer, self._rollover_due)
                confirmed.add_done_callback(partial(self._added, writer))
        if self._rollover_due():
            self._maintenance.trigger()

    def _added(self, writer: LedgerWriter, added: asyncio.Future[int]) -> None:
        # `_seal` has already settled the entries of an earlier ledger.
        if added.cancelled() or writer is not self.writer:
            return
        if added.exception() is not None:
            self._maintenance.trigger()
        else:
            self._stored(writer.ledger_id, added.result())

    def _stored(self, ledger_id: int, last_entry_id: int) -> None:
        self.chain.open_entry_count = last_entry_id + 1
        self.chain.open_size_bytes += self.queue.confirm(ledger_id, last_entry_id)
        if self._on_confirmed and not self._is_reporting:
            self._is_reporting = True
            asyncio.get_running_loop().call_soon(self._report_confirmed)

    # Reading

    @property
    def last_confirmed(self) -> Position:
        """The newest confirmed entry or, if there is none, (L, -1), where L is the open ledger."""
        return self.chain.end

    async def read(self, start: Position, max_entries: int, max_bytes: int) -> list[StoredEntry]:
        return await self._reader.read(start, max_entries, max_bytes)

    def when_confirmed(self, action: Callable[[], None]) -> None:
        """Call `action` when `last_confirmed` has advanced, at most once per event loop turn."""
        self._on_confirmed.append(action)

    def when_ended(self, action: Callable[[LabkitError], None]) -> None:
        """Call `action` with the reason when this managed ledger is abandoned (`abandon`)."""
        self._on_ended.append(action)

    # Cursors

    @property
    def cursors(self) -> Mapping[str, ManagedCursor]:
        return self._cursors.by_name

    async def open_cursor(
        self,
        name: str,
        start: Start,
        *,
        durable: bool = True,
        cursor_properties: Mapping[str, str] | None = None,
    ) -> ManagedCursor:
        """Return the cursor with this name, or a new one that starts at `start`.

        A durable cursor is stored before this returns. Raises `ManagedLedgerFencedError`,
        `MetadataUnavailableError`, and the error that ended this managed ledger.
        """
        self._check_open()
        return await self._abandon_if_fenced(
            self._cursors.open(name, start, durable, cursor_properties or {})
        )

    async def delete_cursor(self, name: str) -> None:
        await self._abandon_if_fenced(self._cursors.delete(name))
        self._maintenance.trigger()

    async def trim(self) -> list[int]:
        """Delete consumed ledgers that retention no longer keeps, and return their ids."""
        # While a cursor is being created, the ledger at which it starts must not be trimmed.
        async with self._cursors.lock, self._lock:
            if self._ended is not None:
                return []
            deleted = await self._abandon_if_fenced(self._store.trim(self._cursors.slowest_durable))
        # Do this outside the lock, so that appends do not have to wait for deletions.
        await self._store.delete_removed_ledgers()
        return deleted

    # Maintenance

    async def _maintain(self) -> None:
        async with self._lock:
            if rollover := self._rollover_due():
                await self._roll_over(rollover)
            await self.push_waiting()
        with suppress(LabkitError):  # The next round will retry.
            await self.trim()

    def abandon(self, error: LabkitError) -> None:
        """Stop for good and fail all unconfirmed entries, because another owner has taken over, a
        rollover or a termination has failed, or a termination was cancelled.
        """
        if self._ended is None:
            self._stop(error)
            self._cursors.stop(error)
            for action in self._on_ended:
                action(error)

    async def _abandon_if_fenced(self, change: Awaitable[_Result]) -> _Result:
        try:
            return await change
        except ManagedLedgerFencedError as error:
            self.abandon(error)
            raise

    def _check_open(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _stop(self, error: LabkitError) -> None:
        self._ended = error
        self._maintenance.stop()
        self._pause_over.set()
        self.queue.fail(error)

    def _report_confirmed(self) -> None:
        # Clear this first, so that entries confirmed by an action are reported in the next turn.
        self._is_reporting = False
        for action in self._on_confirmed:
            action()

    # Ledgers

    def _rollover_due(self) -> Rollover | None:
        """Return why the next ledger must be created now: a rollover is unfinished, or the open
        ledger has failed or is full. Return None during a pause, and after this owner has ended.
        """
        if self._ended is not None or not self._pause_over.is_set():
            return None
        writer = self.writer
        if self._unfinished is not None or writer is None:
            return self._unfinished
        if writer.is_ended:
            return Rollover("failure", f"ledger {writer.ledger_id} failed")
        age_ms = self._client.wall_clock_ms() - self._opened_at_ms
        return rollover_reason(writer.last_add_pushed + 1, writer.length, age_ms, self._config)

    async def _roll_over(self, rollover: Rollover) -> None:
        """Close the open ledger and create the next one; call `abandon` if that fails."""
        self._unfinished = rollover
        try:
            if (writer := self.writer) is not None:
                with suppress(LabkitError):  # The next ledger stores entries that fail here.
                    await writer.all_confirmed()
                await self._seal(writer)
                self.queue.requeue()
                if self._ended is None:  # A cursor may have been fenced in the meantime.
                    self._pause_after(writer)
            if self._ended is None and self._pause_over.is_set():
                await run_to_completion(self.begin_ledger(rollover))
        except asyncio.CancelledError:
            self._maintenance.trigger()  # The maintenance task finishes the rollover.
            raise
        except LabkitError as error:
            self._unfinished = None
            self.abandon(error)
        else:
            self._maintenance.trigger()

    def _pause_after(self, writer: LedgerWriter) -> None:
        """Begin a pause if the ledger accepted no entry, because the next one may not either."""
        if writer.metadata.last_entry_id >= 0:
            self._pauses.reset()
            return
        pause_s = self._pauses.next_pause_s()
        self._client.recorder.record(
            "ledger.delayed", writer.ledger_id, topic=self.name, seconds=pause_s
        )
        self._pause_over.clear()
        asyncio.get_running_loop().call_later(pause_s, self._end_pause)

    def _end_pause(self) -> None:
        self._pause_over.set()
        self._maintenance.trigger()  # The maintenance task finishes the rollover.

    async def begin_ledger(self, rollover: Rollover) -> LedgerWriter:
        writer = self.writer = await self._store.begin_ledger()
        self._unfinished = None
        self._opened_at_ms = self._client.wall_clock_ms()
        self._client.recorder.record(
            "ledger.rolled",
            writer.ledger_id,
            topic=self.name,
            detail=rollover.detail,
            explanation=rollover.explanation,
        )
        return writer

    async def _seal(self, writer: LedgerWriter) -> None:
        """Close a ledger, unless another client has closed it, and settle its entries."""
        metadata = await self._store.close_last_ledger(writer)
        self._stored(writer.ledger_id, metadata.last_entry_id)
        self._store.record_closed(writer.ledger_id, metadata)
        self.writer = None
