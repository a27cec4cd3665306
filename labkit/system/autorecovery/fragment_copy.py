"""Creates the missing copies of a fragment's entries on their new bookies.

    FragmentReader ---> CopyWindow ---> FragmentWriter
    reads some           bounds how      stores each entry on all
    entries at a         many are        targets that should
    time                 being stored    have it

While entries are being stored, the next ones are read. An entry that was read individually, not in
a batch, is stored as soon as it arrives if the window has room. This way, a slow bookie does not
delay entries from other bookies.

In BookKeeper: `client/LedgerFragmentReplicator.java`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice

from labkit.system.autorecovery.config import UNLIMITED
from labkit.system.autorecovery.fragments import Fragment, UnderreplicatedFragment
from labkit.system.autorecovery.ledger_view import LedgerView
from labkit.system.client.batch_read import BatchReads
from labkit.system.client.context import ClientContext
from labkit.system.client.reads import BookieReads, SequenceRead
from labkit.system.model.entry import Entry, make_digest, make_master_key, pack_entry
from labkit.system.model.errors import BKException, BKReadException
from labkit.system.model.wire import Flag, add_header

_BATCH_BYTES = 1024 * 1024
"""Small enough to need little memory, and large enough to make the cost of each read negligible."""


class EntryUnreadableException(BKReadException):
    """No bookie returned the entry."""

    def __init__(self, message: str, entry_id: int) -> None:
        super().__init__(message)
        self.entry_id = entry_id


async def copy_fragment(
    ledger: LedgerView,
    underreplicated: UnderreplicatedFragment,
    targets: Mapping[int, str],
    context: ClientContext,
    rate: "RateLimit",
    window_size: int,
) -> None:
    """Create the missing copies of a fragment; `targets` maps ensemble indexes to new bookies.

    Return when every target has stored all its copies durably. Raises `EntryUnreadableException`,
    or the first error reported by a target. After an error, no more entries are sent.
    """
    window = CopyWindow(rate, window_size)
    writer = FragmentWriter(ledger, underreplicated, targets, context, window)
    reader = FragmentReader(ledger, underreplicated, context, window, writer)
    for part in _parts_in_order(underreplicated.fragment, targets):
        reading = reader.begin(part)
        try:
            while reading is not None:
                await window.wait_until(reading.done)
                entries = reading.result()
                reading = reader.begin(range(entries[-1].entry_id + 1, part.stop))
                for entry in entries:
                    await writer.store(entry)
            await window.wait_until_empty()
        finally:
            if reading is not None:
                reading.cancel()


def _parts_in_order(fragment: Fragment, targets: Mapping[int, str]) -> list[range]:
    """Return the fragment's entries in the order in which to copy them.

    If lost copies are restored on a bookie, the metadata already lists the bookie. So if the repair
    fails, only a check can detect that it was incomplete. Checks always test a bookie's first and
    last copies, so these copies, which are among the first and last E entries, are stored after all
    others.
    """
    first, stop = fragment.first, fragment.last + 1
    if all(fragment.ensemble[index] != bookie for index, bookie in targets.items()):
        return [range(first, stop)]
    size = len(fragment.ensemble)
    middle = range(min(first + size, stop), max(stop - size, min(first + size, stop)))
    return [middle, range(first, middle.start), range(middle.stop, stop)]


class FragmentReader:
    """Reads up to one window of entries at a time from the bookies that have copies."""

    def __init__(
        self,
        ledger: LedgerView,
        underreplicated: UnderreplicatedFragment,
        context: ClientContext,
        window: "CopyWindow",
        writer: "FragmentWriter",
    ) -> None:
        self._underreplicated = underreplicated
        self._window = window
        self._writer = writer
        self._reads = BookieReads(ledger.ledger_id, ledger.metadata, context)
        self._batches = BatchReads(ledger.ledger_id, ledger.metadata, context)

    def begin(self, left: range) -> asyncio.Task[list[Entry]] | None:
        """Start reading the first entries of `left` that any target should get.

        Return None if there are no such entries. The task returns at least one entry, or raises
        `EntryUnreadableException`.
        """
        wanted = (entry_id for entry_id in left if self._writer.targets_of(entry_id))
        entry_ids = [*islice(wanted, self._window.size)]
        if not entry_ids:
            return None
        reading = asyncio.get_running_loop().create_task(self._read(entry_ids))
        reading.add_done_callback(self._done)
        return reading

    def _done(self, reading: asyncio.Task[list[Entry]]) -> None:
        # Mark the exception as retrieved: if a target has failed, `copy_fragment` never retrieves
        # it.
        if not reading.cancelled():
            reading.exception()
        self._window.changed.set()

    async def _read(self, entry_ids: Sequence[int]) -> list[Entry]:
        first, count = entry_ids[0], len(entry_ids)
        for bookie in self._underreplicated.sources(first):
            if count == 1 or not self._batches.is_supported:
                break
            if entries := await self._batches.ask(bookie, first, count, _BATCH_BYTES):
                return entries
        bookies = {entry_id: self._underreplicated.sources(entry_id) for entry_id in entry_ids}
        sequence = SequenceRead(self._reads, bookies, self._writer.store_early)
        try:
            return await sequence.run()
        except BKException as error:
            unreadable = first if sequence.unreadable is None else sequence.unreadable
            raise EntryUnreadableException(str(error), unreadable) from error


class RateLimit:
    """Limits how many bytes a worker stores per second over all fragments (-1: no limit)."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._now = asyncio.get_running_loop().time
        self._next_at = self._now()

    @property
    def pause_s(self) -> float:
        """How long to wait before storing the next entry. If it is not positive, there is no need
        to wait.
        """
        return self._next_at - self._now()

    def count(self, size: int) -> None:
        if self._bytes_per_s != UNLIMITED:
            # Start from the current time, so that no burst follows an idle period.
            self._next_at = max(self._next_at, self._now()) + size / self._bytes_per_s


class CopyWindow:
    """Limits how many entries of a fragment are stored at a time.

    Each `wait` method raises the first error reported by a target.
    """

    def __init__(self, rate: RateLimit, size: int) -> None:
        self.size = size
        self.changed = asyncio.Event()
        """Set whenever a target responds or a read ends."""
        self._rate = rate
        self._unacked: dict[int, int] = {}
        """How many targets have not acknowledged each entry yet."""
        self._error: BKException | None = None
        """The error of the first target that failed."""

    @property
    def has_room(self) -> bool:
        is_full = len(self._unacked) >= self.size
        return not is_full and self._error is None and self._rate.pause_s <= 0

    async def wait_for_room(self) -> None:
        while not self.has_room:
            await self.wait_until(lambda: len(self._unacked) < self.size)
            if (pause_s := self._rate.pause_s) > 0:
                await asyncio.sleep(pause_s)

    async def wait_until_empty(self) -> None:
        await self.wait_until(lambda: not self._unacked)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        while self._error is None and not condition():
            self.changed.clear()
            await self.changed.wait()
        if self._error is not None:
            raise self._error

    def add(self, entry_id: int, target_count: int) -> None:
        self._unacked[entry_id] = target_count

    def acknowledge(self, entry_id: int, size: int) -> None:
        self._rate.count(size)
        self._unacked[entry_id] -= 1
        if not self._unacked[entry_id]:
            del self._unacked[entry_id]
        self.changed.set()

    def fail(self, error: BKException) -> None:
        self._error = self._error or error
        self.changed.set()


class FragmentWriter:
    """Stores entries on the targets, re-encoded with the current LastAddConfirmed."""

    def __init__(
        self,
        ledger: LedgerView,
        underreplicated: UnderreplicatedFragment,
        targets: Mapping[int, str],
        context: ClientContext,
        window: CopyWindow,
    ) -> None:
        self._ledger = ledger
        self._bookies = context.bookie_client
        self._recorder = context.recorder
        self._window = window
        metadata = ledger.metadata
        self._digest = make_digest(metadata.digest_type, metadata.password)
        # A recovery add is accepted even if the ledger is fenced on the target.
        self._add_header = add_header(make_master_key(metadata.password), Flag.RECOVERY_ADD)
        # Share one callback among all adds to a target, so that a connection can report several
        # responses in one call.
        self._on_stored = {name: partial(self._stored, name) for name in targets.values()}
        self._targets_by_turn = [
            [
                b
                for index, b in targets.items()
                if underreplicated.fragment.should_have(entry_id, index)
            ]
            for entry_id in range(len(underreplicated.fragment.ensemble))
        ]
        """The targets of entries 0 to E - 1; the pattern repeats for later entries."""
        self._stored_early: set[int] = set()

    def targets_of(self, entry_id: int) -> list[str]:
        return self._targets_by_turn[entry_id % len(self._targets_by_turn)]

    def store_early(self, entry: Entry) -> None:
        """Store an entry before its turn, if the window has room."""
        if self._window.has_room:
            self._stored_early.add(entry.entry_id)
            self._send(entry)

    async def store(self, entry: Entry) -> None:
        """Store an entry as soon as the window has room, unless it was stored early."""
        if entry.entry_id in self._stored_early:
            self._stored_early.remove(entry.entry_id)
        else:
            await self._window.wait_for_room()
            self._send(entry)

    def _send(self, entry: Entry) -> None:
        # Readers may learn LastAddConfirmed from this copy, so include the latest known value.
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
        """Handle a target's response to adds; `stored` contains the id and size of each entry."""
        if self._recorder.listening:
            kind, why = ("add.failed", type(error).__name__) if error else ("entry.copied", "")
            for entry_id, _ in stored:
                ledger_id = self._ledger.ledger_id
                self._recorder.record(kind, ledger_id, entry_id, peer=bookie, error=why)
        if error is not None:
            self._window.fail(error)
            return
        for entry_id, size in stored:
            self._window.acknowledge(entry_id, size)
