"""Repairing a fragment: first its copies, then the metadata that promises them.

In BookKeeper: `client/LedgerFragmentReplicator.java`, `BookKeeperAdmin.replicateLedgerFragment`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice

from labkit.system.autorecovery.config import UNLIMITED, AutoRecoveryConfig
from labkit.system.autorecovery.fragments import Fragment, Underreplicated, with_replaced
from labkit.system.autorecovery.ledger_view import Ledger, missing_copies
from labkit.system.client.batch_read import BatchReads
from labkit.system.client.context import ClientContext
from labkit.system.client.ensemble import with_replacements
from labkit.system.client.reads import BookieReads, SequenceRead
from labkit.system.client.striping import write_set
from labkit.system.model.entry import Entry, make_digest, make_master_key, pack_entry
from labkit.system.model.errors import (
    BKException,
    BKMetadataVersionException,
    BKNotEnoughBookiesException,
    BKReadException,
)
from labkit.system.model.wire import Flag, add_header

_BATCH_BYTES = 1024 * 1024
"""Of one read: little memory, and enough that its costs are shared by many entries."""


class EntryUnreadableException(BKReadException):
    """No bookie gives the entry (`entry_id`), so its copies cannot be made."""

    def __init__(self, message: str, entry_id: int) -> None:
        super().__init__(message)
        self.entry_id = entry_id


class LedgerFragmentReplicator:
    """Replaces a fragment's missing copies, on other bookies.

    With too few bookies it does what it can, and lets bookies that only lost copies keep their
    places; BookKeeper's then does nothing.

    Invariant: the metadata names a bookie only when it has, durably, every copy it should have.
    A repair that ends half way leaves the metadata unchanged, and is repeated from its start.
    """

    def __init__(self, context: ClientContext, config: AutoRecoveryConfig) -> None:
        self._context = context
        self._config = config

    async def replicate(self, ledger: Ledger, short: Underreplicated) -> None:
        """Repair a fragment that is closed.

        Raises `EntryUnreadableException`, and what the bookies answer, with the metadata
        unchanged.  Raises `BKNotEnoughBookiesException` when some of its places could not be
        repaired.
        """
        assert short.fragment.closed, "its writer may still add to it"
        targets = await self.choose_targets(short)
        back = {place: name for place, name in targets.items() if name in short.bookies}
        new = {place: name for place, name in targets.items() if place not in back}
        # New bookies first: copies that go back to a doubtful one may fail and end the repair.
        for some in filter(None, (new, back)):
            await self.copy(ledger, short, some)
            await self.publish(ledger.ledger_id, short, some)
        left = [bookie for place, bookie in _places(short).items() if place not in targets]
        if left:
            raise BKNotEnoughBookiesException(
                f"the copies of {', '.join(left)} need as many other bookies that take writes, and"
                " there are no more"
            )

    async def move(self, ledger: Ledger, fragment: Fragment, targets: Mapping[int, str]) -> None:
        """Give the copies at these places to other bookies.  Raises as `replicate` does."""
        leaving = Underreplicated(fragment, tuple(targets))
        await self.copy(ledger, leaving, targets)
        await self.publish(ledger.ledger_id, leaving, targets)

    async def can_read(self, ledger: Ledger, short: Underreplicated, entry_id: int) -> bool:
        """Whether an entry that was unreadable before can be read now."""
        reads = BookieReads(ledger.ledger_id, ledger.metadata, self._context)
        for bookie in sources(short, entry_id):
            if not await missing_copies(reads, bookie, [entry_id]):
                return True
        return False

    # Steps of a repair, which a subclass may take in another order

    async def choose_targets(self, short: Underreplicated) -> dict[int, str]:
        """A replacement for each place, or for as many places as there are bookies.

        A writable bookie that lost copies is replaced, too; when there are not enough others, it
        gets its own copies again.
        """
        ensemble, watcher = list(short.fragment.ensemble), self._context.watcher
        write_quorum = short.fragment.write_quorum
        writable = await watcher.writable()
        gone = {place: name for place, name in _places(short).items() if name not in writable}
        there = {place: name for place, name in _places(short).items() if name in writable}
        # Bookies that are gone come first: those still there can have their copies again.
        targets = await watcher.replacements(ensemble, gone, write_quorum)
        if there:
            ensemble = list(with_replacements(ensemble, targets))
            others = await watcher.replacements(ensemble, there, write_quorum, [*gone.values()])
            targets |= there | others
        return targets

    async def copy(
        self, ledger: Ledger, short: Underreplicated, targets: Mapping[int, str]
    ) -> None:
        """Store the missing copies on the targets, durably."""
        await FragmentCopy(ledger, short, targets, self._context, self._config).run()

    async def publish(
        self, ledger_id: int, short: Underreplicated, targets: Mapping[int, str]
    ) -> None:
        """Let the metadata name the targets, which have their copies."""
        ensemble, first = short.fragment.ensemble, short.fragment.first
        replaced = {ensemble[at]: new for at, new in targets.items() if ensemble[at] != new}
        if not replaced or await self._replace(ledger_id, first, replaced):
            note = ",".join(targets.values())
            self._context.recorder.record("fragment.replicated", ledger_id, first, note=note)

    # Inside

    async def _replace(self, ledger_id: int, first: int, replaced: Mapping[str, str]) -> bool:
        """Put the new bookies into the metadata, whatever else has changed there meanwhile; False
        if none of the old ones is left there.
        """
        manager = self._context.manager
        while True:
            metadata, version = await manager.read(ledger_id)
            updated = with_replaced(metadata, first, replaced)
            if updated is None:
                return False
            try:
                await manager.write(ledger_id, updated, version)
            except BKMetadataVersionException:
                continue
            ensemble = ",".join(updated.ensemble_at(first))
            self._context.recorder.record("ensemble.set", ledger_id, first, note=ensemble)
            return True


def _places(short: Underreplicated) -> dict[int, str]:
    return dict(zip(short.places, short.bookies, strict=True))


def sources(short: Underreplicated, entry_id: int) -> list[str]:
    """The bookies to ask for an entry: first those that have their copies; the others may have
    some.
    """
    fragment = short.fragment
    places = write_set(entry_id, len(fragment.ensemble), fragment.write_quorum)
    return [fragment.ensemble[n] for n in sorted(places, key=lambda n: n in short.places)]


class FragmentCopy:
    """Copies the entries missing at places of a fragment to their new bookies.

    Some entries are read at a time, in one request if every bookie has all entries; while they are
    stored, each on all targets that should have it, the next ones are read.  What is read by itself
    is stored when it comes: a slow bookie delays no entry that another one gives.

    Entries are encoded again with the current LastAddConfirmed, so copies may differ in that.
    """

    def __init__(
        self,
        ledger: Ledger,
        short: Underreplicated,
        targets: Mapping[int, str],
        context: ClientContext,
        config: AutoRecoveryConfig,
    ) -> None:
        self._ledger = ledger
        self._short = short
        self._targets = targets
        self._context = context
        self._recorder = context.recorder
        self._config = config
        metadata = ledger.metadata
        self._reads = BookieReads(ledger.ledger_id, metadata, context)
        self._batches = BatchReads(ledger.ledger_id, metadata, context)
        self._digest = make_digest(metadata.digest_type, metadata.password)
        # The ledger may be fenced on the target, which takes only recovery adds then.
        self._add_header = add_header(make_master_key(metadata.password), Flag.RECOVERY_ADD)
        # Kept: a connection gives the answers of all adds that share a function together.
        self._on_stored = {name: partial(self._stored, name) for name in targets.values()}
        self._in_turn = [
            [b for place, b in targets.items() if short.fragment.is_stored(entry_id, place)]
            for entry_id in range(len(short.fragment.ensemble))
        ]
        """The targets of the first entries; after them they repeat."""
        self._unacked: dict[int, int] = {}
        """For each entry that is being stored: how many targets have not acknowledged it."""
        self._at_once: dict[int, bool] = {}
        """Entries that were read by themselves: whether they were stored when they came."""
        self._error: BKException | None = None
        """What a target answered, if it failed."""
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._next_at = self._loop.time()

    async def run(self) -> None:
        """Return when every target has all its copies, durably.

        Raises `EntryUnreadableException` and what the targets answer; then nothing more is sent.
        """
        reading = self._begin_to_read(self._short.fragment.first)
        try:
            while reading is not None:
                await self._until(reading.done)
                entries = reading.result()
                reading = self._begin_to_read(entries[-1].entry_id + 1)
                for entry in entries:
                    if self._at_once.pop(entry.entry_id, False):
                        continue
                    if not self._is_allowed:
                        await self._until_allowed()
                    self._store(entry)
            await self._until(lambda: not self._unacked)
        finally:
            if reading is not None:
                reading.cancel()

    # Reading

    def _begin_to_read(self, first: int) -> asyncio.Task[list[Entry]] | None:
        """The next entries from there on, as many as may be under way; None behind the last."""
        left = filter(self._targets_of, range(first, self._short.fragment.last + 1))
        entry_ids = [*islice(left, self._config.rereplication_entry_batch_size)]
        if not entry_ids:
            return None
        reading = self._loop.create_task(self._read(entry_ids))
        reading.add_done_callback(self._has_read)
        return reading

    def _has_read(self, reading: asyncio.Task[list[Entry]]) -> None:
        # Looked at here, too: if a target has failed, the result is not asked for any more.
        if not reading.cancelled():
            reading.exception()
        self._news.set()

    async def _read(self, entry_ids: Sequence[int]) -> list[Entry]:
        """The first of these entries, one or more.  Raises `EntryUnreadableException`."""
        first, count = entry_ids[0], len(entry_ids)
        for bookie in sources(self._short, first):
            if count == 1 or not self._batches.can_ask:
                break
            if entries := await self._batches.ask(bookie, first, count, _BATCH_BYTES):
                return entries
        bookies = {entry_id: sources(self._short, entry_id) for entry_id in entry_ids}
        sequence = SequenceRead(self._reads, bookies, self._came)
        try:
            return await sequence.run()
        except BKException as error:
            unreadable = first if sequence.unreadable is None else sequence.unreadable
            raise EntryUnreadableException(str(error), unreadable) from error

    # Storing

    def _came(self, entry: Entry) -> None:
        is_allowed = self._at_once[entry.entry_id] = self._is_allowed
        if is_allowed:
            self._store(entry)

    @property
    def _is_allowed(self) -> bool:
        """Whether one more entry may be under way, and it is not too soon for it."""
        is_full = len(self._unacked) >= self._config.rereplication_entry_batch_size
        return not is_full and self._error is None and self._next_at <= self._loop.time()

    async def _until_allowed(self) -> None:
        most = self._config.rereplication_entry_batch_size
        while not self._is_allowed:
            await self._until(lambda: len(self._unacked) < most)
            if (pause_s := self._next_at - self._loop.time()) > 0:
                await asyncio.sleep(pause_s)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Raises what a target answered."""
        while self._error is None and not is_so():
            self._news.clear()
            await self._news.wait()
        if self._error is not None:
            raise self._error

    def _targets_of(self, entry_id: int) -> list[str]:
        return self._in_turn[entry_id % len(self._in_turn)]

    def _store(self, entry: Entry) -> None:
        # A reader may learn LastAddConfirmed from this copy: it should not be an old one.
        confirmed = max(entry.last_add_confirmed, self._ledger.last_confirmed)
        ids = entry.ledger_id, entry.entry_id, confirmed
        body = self._add_header + pack_entry(*ids, entry.length, entry.payload, self._digest)
        pending = entry.entry_id, len(body) - len(self._add_header)
        targets = self._targets_of(entry.entry_id)
        self._unacked[entry.entry_id] = len(targets)
        for bookie in targets:
            if self._recorder.listening:
                self._recorder.record("add.sent", entry.ledger_id, entry.entry_id, peer=bookie)
            client = self._context.bookies.get(bookie)
            client.add(entry.ledger_id, entry.entry_id, body, self._on_stored[bookie], pending)

    def _stored(
        self, bookie: str, stored: Sequence[tuple[int, int]], error: BKException | None
    ) -> None:
        """Entries, each with the size of its copy, are on a target, or are not."""
        if self._recorder.listening:
            kind, note = ("add.failed", type(error).__name__) if error else ("entry.copied", "")
            for entry_id, _ in stored:
                ledger_id = self._ledger.ledger_id
                self._recorder.record(kind, ledger_id, entry_id, peer=bookie, note=note)
        self._news.set()
        if error is not None:
            self._error = self._error or error
            return
        for entry_id, size in stored:
            if self._config.replication_rate_by_bytes != UNLIMITED:
                paid = size / self._config.replication_rate_by_bytes
                # From now if it fell behind: unused time is not saved up for a burst.
                self._next_at = max(self._next_at, self._loop.time()) + paid
            self._unacked[entry_id] -= 1
            if not self._unacked[entry_id]:
                del self._unacked[entry_id]
