"""Repairing a fragment: first its copies, then the metadata that promises them.

In BookKeeper: `client/LedgerFragmentReplicator.java`, `BookKeeperAdmin.replicateLedgerFragment`.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from labkit.autorecovery.config import UNLIMITED, AutoRecoveryConfig
from labkit.autorecovery.copies import Ledger, missing_copies
from labkit.autorecovery.fragments import Fragment, Underreplicated, with_replaced
from labkit.client.context import ClientContext
from labkit.client.ensemble import with_replacements
from labkit.client.quorum import most_telling
from labkit.client.reads import BookieReads
from labkit.client.striping import write_set
from labkit.model.entry import Entry, encode_entry, make_digest, make_master_key
from labkit.model.errors import (
    BKException,
    BKMetadataVersionException,
    BKNotEnoughBookiesException,
    BKReadException,
)
from labkit.model.wire import Answer, Flag, Opcode, encode_add


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
    """Copies the entries missing at places of a fragment to their new bookies: a window of entries,
    each read from one bookie and then stored on all targets that should have it.

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
        self._reads = BookieReads(ledger.ledger_id, ledger.metadata, context)
        self._digest = make_digest(ledger.metadata.digest_type, ledger.metadata.password)
        self._master_key = make_master_key(ledger.metadata.password)
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        fragment = short.fragment
        self._left = iter(range(fragment.first, fragment.last + 1))
        self._unacked: dict[int, int] = {}
        """For each entry under way: how many targets have not acknowledged it."""
        self._next_at = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Return when every target has all its copies, durably.

        Raises `EntryUnreadableException` and what the targets answer; then nothing more is sent.
        """
        self._fill()
        await self._ended

    def _fill(self) -> None:
        """Go on with the next entries, as many as may be under way and as fast as is allowed."""
        while len(self._unacked) < self._config.rereplication_entry_batch_size:
            if self._ended.done() or self._must_pause():
                return
            entry_id = next(self._left, None)
            if entry_id is None:
                if not self._unacked:
                    self._ended.set_result(None)
                return
            if count := len(self._targets_of(entry_id)):
                self._unacked[entry_id] = count
                self._read(entry_id, iter(sources(self._short, entry_id)), [])

    def _must_pause(self) -> bool:
        if self._timer is None and self._next_at > self._loop.time():
            self._timer = self._loop.call_at(self._next_at, self._go_on)
        return self._timer is not None

    def _go_on(self) -> None:
        self._timer = None
        self._fill()

    def _targets_of(self, entry_id: int) -> list[str]:
        fragment = self._short.fragment
        return [b for place, b in self._targets.items() if fragment.is_stored(entry_id, place)]

    def _read(self, entry_id: int, left: Iterator[str], errors: list[BKException]) -> None:
        bookie = next(left, None)
        if bookie is not None:
            self._reads.ask(bookie, entry_id, partial(self._has_read, left, errors))
        elif not self._ended.done():
            why = most_telling(errors)
            self._ended.set_exception(EntryUnreadableException(str(why), entry_id))

    def _has_read(
        self,
        left: Iterator[str],
        errors: list[BKException],
        _: str,
        entry_id: int,
        copy: Entry | BKException,
    ) -> None:
        if self._ended.done():
            return
        if isinstance(copy, BKException):
            errors.append(copy)
            self._read(entry_id, left, errors)
        else:
            self._store(copy)

    def _store(self, entry: Entry) -> None:
        # A reader may learn LastAddConfirmed from this copy: it should not be an old one.
        confirmed = max(entry.last_add_confirmed, self._ledger.last_confirmed)
        data = encode_entry(replace(entry, last_add_confirmed=confirmed), self._digest)
        # The ledger may be fenced on the target, which takes only recovery adds then.
        body = encode_add(self._master_key, data, Flag.RECOVERY_ADD)
        ledger_id, entry_id = entry.ledger_id, entry.entry_id
        for bookie in self._targets_of(entry_id):
            if self._recorder.listening:
                self._recorder.record("add.sent", ledger_id, entry_id, peer=bookie)
            stored = partial(self._stored, entry_id, bookie, len(data))
            self._context.bookies.get(bookie).ask(Opcode.ADD, ledger_id, entry_id, body, stored)

    def _stored(self, entry_id: int, bookie: str, size: int, answer: Answer | BKException) -> None:
        failed = isinstance(answer, BKException)
        if self._recorder.listening:
            kind, note = ("add.failed", type(answer).__name__) if failed else ("entry.copied", "")
            self._recorder.record(kind, self._ledger.ledger_id, entry_id, peer=bookie, note=note)
        if self._ended.done():
            return
        if isinstance(answer, BKException):
            self._ended.set_exception(answer)
            return
        if self._config.replication_rate_by_bytes != UNLIMITED:
            paid = size / self._config.replication_rate_by_bytes
            # From now if it fell behind: unused time is not saved up for a burst.
            self._next_at = max(self._next_at, self._loop.time()) + paid
        self._unacked[entry_id] -= 1
        if not self._unacked[entry_id]:
            del self._unacked[entry_id]
            self._fill()
