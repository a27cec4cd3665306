"""Copying the missing entries of a fragment to their new bookies.

    FragmentReader ---> CopyWindow ---> FragmentWriter
    reads some           bounds how      stores each entry on all
    entries at a         many are        targets that should
    time                 being stored    have it

The next entries are read while the previous ones are stored.  An entry that was requested by
itself is stored as soon as it arrives, if the window has room, so a slow bookie does not delay
entries that come from other bookies.

In BookKeeper: `client/LedgerFragmentReplicator.java`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice

from labkit.system.autorecovery.config import UNLIMITED, AutoRecoveryConfig
from labkit.system.autorecovery.fragments import Underreplicated
from labkit.system.autorecovery.ledger_view import LedgerView
from labkit.system.client.batch_read import BatchReads
from labkit.system.client.context import ClientContext
from labkit.system.client.reads import BookieReads, SequenceRead
from labkit.system.model.entry import Entry, make_digest, make_master_key, pack_entry
from labkit.system.model.errors import BKException, BKReadException
from labkit.system.model.wire import Flag, add_header

_BATCH_BYTES = 1024 * 1024
"""Size of one read: small in memory, and large enough to share its costs among many entries."""


class EntryUnreadableException(BKReadException):
    """No bookie returned the entry (`entry_id`), so it cannot be copied."""

    def __init__(self, message: str, entry_id: int) -> None:
        super().__init__(message)
        self.entry_id = entry_id


async def copy_fragment(
    ledger: LedgerView,
    short: Underreplicated,
    targets: Mapping[int, str],
    context: ClientContext,
    config: AutoRecoveryConfig,
) -> None:
    """Copy the missing entries of a fragment to the new bookie of each place in its ensemble.

    Return when every target has stored all its copies durably.  Raises
    `EntryUnreadableException`, and the error of a target; nothing more is sent after that.
    """
    window = CopyWindow(config)
    writer = FragmentWriter(ledger, short, targets, context, window)
    reader = FragmentReader(ledger, short, context, window, writer)
    reading = reader.begin(short.fragment.first)
    try:
        while reading is not None:
            await window.until(reading.done)
            entries = reading.result()
            reading = reader.begin(entries[-1].entry_id + 1)
            for entry in entries:
                await writer.store(entry)
        await window.until_empty()
    finally:
        if reading is not None:
            reading.cancel()


class FragmentReader:
    """Reads entries from the bookies that have copies, as many at a time as the window holds."""

    def __init__(
        self,
        ledger: LedgerView,
        short: Underreplicated,
        context: ClientContext,
        window: "CopyWindow",
        writer: "FragmentWriter",
    ) -> None:
        self._short = short
        self._window = window
        self._writer = writer
        self._reads = BookieReads(ledger.ledger_id, ledger.metadata, context)
        self._batches = BatchReads(ledger.ledger_id, ledger.metadata, context)

    def begin(self, first: int) -> asyncio.Task[list[Entry]] | None:
        """Start reading the next entries that a target should have; return None after the last.

        The task returns one or more of them.  Raises `EntryUnreadableException`.
        """
        left = filter(self._writer.targets_of, range(first, self._short.fragment.last + 1))
        entry_ids = [*islice(left, self._window.size)]
        if not entry_ids:
            return None
        reading = asyncio.get_running_loop().create_task(self._read(entry_ids))
        reading.add_done_callback(self._done)
        return reading

    def _done(self, reading: asyncio.Task[list[Entry]]) -> None:
        # Retrieved here, too: if a target has failed, nobody else asks for the result.
        if not reading.cancelled():
            reading.exception()
        self._window.changed.set()

    async def _read(self, entry_ids: Sequence[int]) -> list[Entry]:
        first, count = entry_ids[0], len(entry_ids)
        for bookie in self._short.sources(first):
            if count == 1 or not self._batches.can_ask:
                break
            if entries := await self._batches.ask(bookie, first, count, _BATCH_BYTES):
                return entries
        bookies = {entry_id: self._short.sources(entry_id) for entry_id in entry_ids}
        sequence = SequenceRead(self._reads, bookies, self._writer.store_early)
        try:
            return await sequence.run()
        except BKException as error:
            unreadable = first if sequence.unreadable is None else sequence.unreadable
            raise EntryUnreadableException(str(error), unreadable) from error


class CopyWindow:
    """Bounds the entries that are being stored at a time, and the bytes stored per second.

    `changed` is set when a target responds and when a read ends.
    """

    def __init__(self, config: AutoRecoveryConfig) -> None:
        self.size = config.rereplication_entry_batch_size
        self.changed = asyncio.Event()
        self._bytes_per_s = config.replication_rate_by_bytes
        self._now = asyncio.get_running_loop().time
        self._next_at = self._now()
        self._unacked: dict[int, int] = {}
        """For each entry: how many targets have not acknowledged it."""
        self._error: BKException | None = None
        """The error of the first target that failed."""

    @property
    def has_room(self) -> bool:
        """Whether one more entry may be stored now, and no target has failed."""
        is_full = len(self._unacked) >= self.size
        return not is_full and self._error is None and self._next_at <= self._now()

    async def until_room(self) -> None:
        """Return when one more entry may be stored.  Raises the error of a target."""
        while not self.has_room:
            await self.until(lambda: len(self._unacked) < self.size)
            if (pause_s := self._next_at - self._now()) > 0:
                await asyncio.sleep(pause_s)

    async def until_empty(self) -> None:
        """Return when all targets have all entries.  Raises the error of a target."""
        await self.until(lambda: not self._unacked)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when the condition holds.  Raises the error of a target."""
        while self._error is None and not condition():
            self.changed.clear()
            await self.changed.wait()
        if self._error is not None:
            raise self._error

    def add(self, entry_id: int, target_count: int) -> None:
        """Add an entry that is being stored on `target_count` targets."""
        self._unacked[entry_id] = target_count

    def acknowledge(self, entry_id: int, size: int) -> None:
        """Note that one more target has stored the entry of `size` bytes."""
        if self._bytes_per_s != UNLIMITED:
            # Not before now: unused time must not add up to a burst.
            self._next_at = max(self._next_at, self._now()) + size / self._bytes_per_s
        self._unacked[entry_id] -= 1
        if not self._unacked[entry_id]:
            del self._unacked[entry_id]
        self.changed.set()

    def fail(self, error: BKException) -> None:
        """End the copy with the error of a target; the first error is kept."""
        self._error = self._error or error
        self.changed.set()


class FragmentWriter:
    """Stores entries on all targets that should have them.

    Entries are encoded again with the current LastAddConfirmed, so copies may differ in that.
    """

    def __init__(
        self,
        ledger: LedgerView,
        short: Underreplicated,
        targets: Mapping[int, str],
        context: ClientContext,
        window: CopyWindow,
    ) -> None:
        self._ledger = ledger
        self._bookies = context.bookies
        self._recorder = context.recorder
        self._window = window
        metadata = ledger.metadata
        self._digest = make_digest(metadata.digest_type, metadata.password)
        # The ledger may be fenced on the target, which takes only recovery adds then.
        self._add_header = add_header(make_master_key(metadata.password), Flag.RECOVERY_ADD)
        # One function per target: a connection reports the adds that share a function together.
        self._on_stored = {name: partial(self._stored, name) for name in targets.values()}
        self._in_turn = [
            [b for place, b in targets.items() if short.fragment.is_stored(entry_id, place)]
            for entry_id in range(len(short.fragment.ensemble))
        ]
        """The targets of the first E entries; the pattern repeats after them."""
        self._stored_early: set[int] = set()

    def targets_of(self, entry_id: int) -> list[str]:
        """The targets that should have the entry."""
        return self._in_turn[entry_id % len(self._in_turn)]

    def store_early(self, entry: Entry) -> None:
        """Store an entry before its turn, if the window has room now."""
        if self._window.has_room:
            self._stored_early.add(entry.entry_id)
            self._send(entry)

    async def store(self, entry: Entry) -> None:
        """Store an entry as soon as the window has room, unless it was stored early.

        Raises the error of a target.
        """
        if entry.entry_id in self._stored_early:
            self._stored_early.remove(entry.entry_id)
        else:
            await self._window.until_room()
            self._send(entry)

    def _send(self, entry: Entry) -> None:
        # A reader may learn LastAddConfirmed from this copy: it should not be an old one.
        confirmed = max(entry.last_add_confirmed, self._ledger.last_confirmed)
        ids = entry.ledger_id, entry.entry_id, confirmed
        body = self._add_header + pack_entry(*ids, entry.length, entry.payload, self._digest)
        pending = entry.entry_id, len(body) - len(self._add_header)
        targets = self.targets_of(entry.entry_id)
        self._window.add(entry.entry_id, len(targets))
        for bookie in targets:
            if self._recorder.listening:
                self._recorder.record("add.sent", entry.ledger_id, entry.entry_id, peer=bookie)
            client = self._bookies.get(bookie)
            client.add(entry.ledger_id, entry.entry_id, body, self._on_stored[bookie], pending)

    def _stored(
        self, bookie: str, stored: Sequence[tuple[int, int]], error: BKException | None
    ) -> None:
        """Handle a target's response for entries, each with the size of its copy."""
        if self._recorder.listening:
            kind, note = ("add.failed", type(error).__name__) if error else ("entry.copied", "")
            for entry_id, _ in stored:
                ledger_id = self._ledger.ledger_id
                self._recorder.record(kind, ledger_id, entry_id, peer=bookie, note=note)
        if error is not None:
            self._window.fail(error)
            return
        for entry_id, size in stored:
            self._window.acknowledge(entry_id, size)
