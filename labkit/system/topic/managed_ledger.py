"""A partition's chain of ledgers: one open at the end, the others closed for good.

    opened          the last ledger is recovered, which stops its owner's writer; a new one begins
    full, old       the ledger is closed, and the next one begins
    failed          the same, and the entries it does not have go into the next one; after a
                    ledger that took no entry at all the next one waits, longer each time
    consumed        what retention does not keep is taken from the chain, and then deleted
    terminated      the ledger is closed, and no owner begins another one
    overtaken       another owner has changed the chain: this one has ended

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
from labkit.system.topic.backoff import FIRST_PAUSE_S, LONGEST_PAUSE_S, Backoff
from labkit.system.topic.chain.chain import LedgerInfo, Position
from labkit.system.topic.chain.chain_reader import ChainReader, StoredEntry
from labkit.system.topic.chain.chain_store import ChainStore
from labkit.system.topic.chain.guarded_node import ManagedLedgerFencedError
from labkit.system.topic.chain.retention import rollover_reason
from labkit.system.topic.chain.upkeep import Upkeep
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.cursors.cursor import ManagedCursor, Start
from labkit.system.topic.cursors.cursors import ManagedCursors

_Answer = TypeVar("_Answer")


class ManagedLedger:
    """Appends entries to a partition's chain, reads them, and keeps its cursors, as its only owner.

    Invariants: only the last ledger is open; a ledger joins the chain in the metadata store before
    it gets its first entry, and leaves it before it is deleted; ids never go back; entries are
    stored in the order of `append`, each once, even when a ledger fails under them; once one has
    failed, so does every later one.
    """

    store_class: ClassVar[type[ChainStore]] = ChainStore
    queue_class: ClassVar[type[AppendQueue]] = AppendQueue

    def __init__(
        self, name: str, path: str, client: BookKeeper, config: ManagedLedgerConfig
    ) -> None:
        self.name = name
        self._client = client
        self._config = config
        self._wall_clock_ms = client.wall_clock_ms
        self._store = self.store_class(name, path, client, config)
        self.chain = self._store.chain
        self._reader = ChainReader(self.chain, client, config.entry_cache_size_bytes)
        self._cursors = ManagedCursors(path, self.chain, client, config, self.end)
        self._writer: LedgerWriter | None = None
        self._opened_at_ms = 0
        self._pauses = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._turn = asyncio.Lock()
        self.queue = self.queue_class(self._reader.stored)
        """The entries on their way."""
        self._ended: LabkitError | None = BKLedgerClosedException(f"{name} is not open yet")
        self._upkeep = Upkeep(self._keep_up, config.check_interval_ms)
        self._on_confirmed: list[Callable[[], None]] = []
        self._on_ended: list[Callable[[LabkitError], None]] = []
        self._is_reporting = False

    async def open(self) -> None:
        """Take over the chain and its cursors from their previous owner.

        Raises `ManagedLedgerFencedError` when another takes it over at this moment, and what
        `BookKeeper.open_ledger`, `BookKeeper.create_ledger` and `CursorStore.recover` raise.
        """
        async with self._turn:
            await self._store.take_over()
            if self._store.terminated is None:
                await self.begin_ledger("opened")
            try:
                await self._cursors.recover()
            except LabkitError:
                with suppress(LabkitError):  # The next to open it closes it.
                    if self._writer is not None:
                        await self._store.seal(self._writer)
                await self._store.delete_dropped()
                raise
            self._ended = None
        await self._store.delete_dropped()
        self._upkeep.begin()

    async def close(self) -> None:
        """Close the open ledger and the cursors; what is pushed must be confirmed by now.

        Raises what `LedgerWriter.close` raises, and `MetadataUnavailableError`; it is closed all
        the same.
        """
        async with self._turn:
            was_open = self._ended is None
            if was_open:
                await self._cursors.close()
            try:
                with suppress(ManagedLedgerFencedError):  # The next owner has done it.
                    if self._writer is not None:
                        await self._seal(self._writer)
                    if was_open:
                        await self._store.store_closed()
            finally:
                self._stop(BKLedgerClosedException(f"{self.name} was closed: open the topic again"))
        await self._store.delete_dropped()

    def configure(self, config: ManagedLedgerConfig) -> None:
        """Use these settings for the ledgers from now on; cursors and intervals keep theirs."""
        self._config = self._store.config = config

    @property
    def writer(self) -> LedgerWriter | None:
        """The open ledger."""
        return self._writer

    @property
    def ledgers(self) -> tuple[LedgerInfo, ...]:
        """The chain, with the confirmed entries and bytes of its open ledger."""
        return self.chain.ledgers

    @property
    def properties(self) -> Mapping[str, str]:
        """What is stored with the chain for its owners, by name."""
        return self._store.properties

    async def set_property(self, name: str, value: str) -> None:
        """Store a property of the chain.  Raises what ended this, and what `trim` raises."""
        async with self._turn:
            self._check_open()
            await self._end_if_fenced(self._store.set_property(name, value))

    @property
    def terminated(self) -> Position | None:
        """The last entry of a terminated chain; None: entries may still be appended."""
        return self._store.terminated

    async def terminate(self) -> Position:
        """End the chain for good after its last confirmed entry, which is returned.

        Raises what ended this, and what `LedgerWriter.close` and `ChainStore.terminate` raise; the
        next to open it learns whether the chain is terminated.
        """
        async with self._turn:
            self._check_open()
            try:
                if self._writer is not None:
                    await self._writer.confirmed()
                    await self._seal(self._writer)
                return await self._store.terminate(self.last_confirmed)
            except LabkitError as error:
                self.end(error)
                raise

    # Appending

    async def append(self, data: bytes) -> asyncio.Future[Position]:
        """Push an entry; the future gives the ledger and entry id under which it is stored.

        As `append_entries`; the future fails where that tells of a failure.
        """
        [stored] = await self.append_all([data])
        return stored

    async def append_all(self, entries: Sequence[bytes]) -> list[asyncio.Future[Position]]:
        """Push entries, as `append` does."""
        awaited = [AwaitedEntry(data) for data in entries]
        await self.append_entries(awaited)
        return [entry.stored for entry in awaited]

    async def append_entries(self, entries: Sequence[PendingEntry]) -> None:
        """Push entries; each one's appender learns under which ledger and entry id it is stored.

        Entries are pushed in the order of the calls; the call waits while too many are unconfirmed.
        Where a ledger can take no more, its entries that are not confirmed go into the next one, in
        their order.  When there can be no next one, or another owner has taken over, they fail, and
        so does every later call: open the partition again.

        Raises `BKIncorrectParameterException` for an entry that fits into no frame; then none of
        them is pushed.  Raises `BKLedgerClosedException` after `close`, what ended it, and
        `ManagedLedgerTerminatedError`.
        """
        if any(len(entry.data) > MAX_PAYLOAD_SIZE for entry in entries):
            raise BKIncorrectParameterException(
                f"an entry of more than {MAX_PAYLOAD_SIZE} bytes: it fits into no frame"
            )
        async with self._turn:
            self._check_open()
            self._store.check_takes_entries()
            if self._writer is not None:
                with suppress(LabkitError):  # Whether the writer has ended is asked below.
                    await self._writer.drain()
            # Again: another owner may have taken over while these entries waited.
            self._check_open()
            self.queue.add(entries)
            await self.push_waiting()

    async def push_waiting(self) -> None:
        """Push the waiting entries, into a new ledger wherever one is full or has failed."""
        while self.queue.is_waiting:
            if reason := self._reason_to_roll():
                await self._roll_over(reason)
            else:
                writer = self._writer
                assert writer is not None
                confirmed = self.queue.push(writer, self._reason_to_roll)
                confirmed.add_done_callback(partial(self._added, writer))
        if self._reason_to_roll():
            self._upkeep.want()

    def _added(self, writer: LedgerWriter, added: asyncio.Future[int]) -> None:
        """Note that the entries up to this one are stored, or that the writer has failed."""
        # An earlier ledger answers late: `_seal` has settled which of its entries are stored.
        if added.cancelled() or writer is not self._writer:
            return
        if added.exception() is not None:
            self._upkeep.want()
        else:
            self._stored(writer.ledger_id, added.result())

    def _stored(self, ledger_id: int, last_entry_id: int) -> None:
        self.chain.open_entry_count = last_entry_id + 1
        self.chain.open_size_bytes += self.queue.stored(ledger_id, last_entry_id)
        if self._on_confirmed and not self._is_reporting:
            self._is_reporting = True
            asyncio.get_running_loop().call_soon(self._report_confirmed)

    # Reading

    @property
    def last_confirmed(self) -> Position:
        """The newest confirmed entry; (L, -1) if there is none, where L is the open ledger."""
        return self.chain.end

    async def read(self, start: Position, max_entries: int, max_bytes: int) -> list[StoredEntry]:
        """As `ChainReader.read`: from the first entry at `start` or after it."""
        return await self._reader.read(start, max_entries, max_bytes)

    def next_position(self, position: Position) -> Position:
        """The first entry after the position; at the end, the place of the entry to come."""
        return self.chain.next_position(position)

    def previous_position(self, position: Position) -> Position:
        """As `LedgerChain.previous_position`: in front of (L, 0) it is (L, -1)."""
        return self.chain.previous_position(position)

    def when_confirmed(self, action: Callable[[], None]) -> None:
        """Call it whenever `last_confirmed` has moved, at most once in a turn of the event loop."""
        self._on_confirmed.append(action)

    def when_ended(self, action: Callable[[LabkitError], None]) -> None:
        """Call it once, with the reason: fenced, or no next ledger could be made.  `close` does not
        call it.
        """
        self._on_ended.append(action)

    # Cursors

    @property
    def cursors(self) -> Mapping[str, ManagedCursor]:
        """All cursors, by name."""
        return self._cursors.by_name

    async def open_cursor(
        self,
        name: str,
        start: Start,
        *,
        durable: bool = True,
        properties: Mapping[str, int] | None = None,
        cursor_properties: Mapping[str, str] | None = None,
    ) -> ManagedCursor:
        """The cursor of that name, or a new one for which the entry at `start` is the first one
        that is not acknowledged.  Durable when this returns, unless it is not to be.

        Raises what ended this, `ManagedLedgerFencedError` and `MetadataUnavailableError`.
        """
        self._check_open()
        return await self._cursors.open(
            name, start, durable, properties or {}, cursor_properties or {}
        )

    async def delete_cursor(self, name: str) -> None:
        """Delete a cursor; ledgers that only it kept may be trimmed.

        Raises `ManagedLedgerFencedError` and `MetadataUnavailableError`.
        """
        await self._cursors.delete(name)
        self._upkeep.want()

    async def trim(self) -> list[int]:
        """Delete the ledgers that retention does not keep; returns their ids.

        Raises `ManagedLedgerFencedError` and `MetadataUnavailableError`.
        """
        async with self._turn:
            if self._ended is not None:
                return []
            gone = await self._end_if_fenced(self._store.trim(self._cursors.slowest_durable))
        # Outside of the turn: appends need not wait for deletions.
        await self._store.delete_dropped()
        return gone

    # Upkeep

    async def _keep_up(self) -> None:
        async with self._turn:
            if reason := self._reason_to_roll():
                await self._roll_over(reason)
            await self.push_waiting()
        with suppress(LabkitError):  # The next round tries again.
            await self.trim()

    def end(self, error: LabkitError) -> None:
        """Stop for good: another owner has taken over, or there can be no next ledger."""
        if self._ended is None:
            self._stop(error)
            self._cursors.stop(error)
            for action in self._on_ended:
                action(error)

    async def _end_if_fenced(self, change: Awaitable[_Answer]) -> _Answer:
        try:
            return await change
        except ManagedLedgerFencedError as error:
            self.end(error)
            raise

    def _check_open(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _stop(self, error: LabkitError) -> None:
        self._ended = error
        self._upkeep.stop()
        self.queue.fail(error)

    def _report_confirmed(self) -> None:
        # First: what an action confirms is reported in the next turn.
        self._is_reporting = False
        for action in self._on_confirmed:
            action()

    # Ledgers

    def _reason_to_roll(self) -> str:
        writer = self._writer
        if self._ended is not None or writer is None:
            return ""
        if writer.is_ended:
            return f"ledger {writer.ledger_id} failed"
        age_ms = self._wall_clock_ms() - self._opened_at_ms
        return rollover_reason(writer.last_add_pushed + 1, writer.length, age_ms, self._config)

    async def _roll_over(self, reason: str) -> None:
        """Close the open ledger and begin the next, which gets the entries not stored in the old
        one.  If there can be no next ledger, this managed ledger ends.
        """
        writer = self._writer
        assert writer is not None
        with suppress(LabkitError):  # The next ledger stores what this one does not.
            await writer.confirmed()
        try:
            await self._seal(writer)
            # Once it is closed, its end says which entries it has: the others go into the next.
            self.queue.requeue()
            await self._pause_after(writer)
            # A cursor may have met another owner during the pause.
            if self._ended is None:
                await self.begin_ledger(reason)
        except LabkitError as error:
            self.end(error)
        else:
            self._upkeep.want()

    async def _pause_after(self, writer: LedgerWriter) -> None:
        """Wait if the ledger took no entry: the next one might not take any either."""
        if writer.metadata.last_entry_id >= 0:
            self._pauses.succeeded()
            return
        pause_s = self._pauses.failed()
        note = f"{self.name}: for {pause_s:g} s"
        self._client.recorder.record("ledger.delayed", writer.ledger_id, note=note)
        await asyncio.sleep(pause_s)

    async def begin_ledger(self, reason: str) -> LedgerWriter:
        """Begin the chain's next ledger.  Raises what `ChainStore.begin_ledger` raises."""
        writer = self._writer = await self._store.begin_ledger()
        self._opened_at_ms = self._wall_clock_ms()
        note = f"{self.name}: {reason}"
        self._client.recorder.record("ledger.rolled", writer.ledger_id, note=note)
        return writer

    async def _seal(self, writer: LedgerWriter) -> None:
        """Close a ledger, or learn where another client closed it: entries before are stored."""
        metadata = await self._store.seal(writer)
        self._stored(writer.ledger_id, metadata.last_entry_id)
        self._store.sealed(writer.ledger_id, metadata)
        self._writer = None
