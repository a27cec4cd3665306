"""Well-known mistakes of a storage, each put into the real store by its name.

A defect changes one rule of `LedgerStore` and leaves the rest as it is, so the crash map shows what
that one rule is worth.  Its `store_factory` goes where `LedgerStore` goes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec

from labkit.system.storage.config import MIB
from labkit.system.storage.disk import Disk, File
from labkit.system.storage.garbage import GarbageCollector
from labkit.system.storage.index.ledger_descriptor import LedgerDescriptor
from labkit.system.storage.log_mark import LogMark
from labkit.system.storage.memtable import Memtable
from labkit.system.storage.store import Checkpoint, LedgerStore
from labkit.worlds.sim.settings.bookie_script import StoreFactory

P = ParamSpec("P")


class MarkBeforeFlush(LedgerStore):
    """LastLogMark is persisted before the memtable is on disk."""

    def flush(self, checkpoint: Checkpoint) -> None:
        self.persist_marks(checkpoint.marks)
        super().flush(checkpoint)


class MarkAfterFlush(LedgerStore):
    """The mark is taken when the flush has ended, not when it begins."""

    def flush(self, checkpoint: Checkpoint) -> None:
        self.write_entries(checkpoint.memtable)
        now = tuple(journal.synced for journal in self.journals)
        super().flush(Checkpoint(now, Memtable()))


class JournalsRemovedFirst(LedgerStore):
    """Journals go before the mark that makes them superfluous is persisted."""

    def flush(self, checkpoint: Checkpoint) -> None:
        self.write_entries(checkpoint.memtable)
        for journal, mark in zip(self.journals, checkpoint.marks, strict=True):
            journal.trim(mark)
        super().flush(Checkpoint(checkpoint.marks, Memtable()))


class MarkOfOneDirectory(LedgerStore):
    """Each ledger directory is flushed by itself, and the first that is done moves LastLogMark for
    all of them.  In BookKeeper: issue 2083, fixed by #3329.
    """

    def flush(self, checkpoint: Checkpoint) -> None:
        first, others = Memtable(), Memtable()
        for ledger_id, entry_id, data in checkpoint.memtable:
            part = others if ledger_id % len(self.ledger_disks) else first
            part.put(ledger_id, entry_id, data)
        super().flush(Checkpoint(checkpoint.marks, first))
        self.write_entries(others)


class IndexFirst(LedgerStore):
    """The index is synced before the entry log, as in BookKeeper.  Replay looks into the log before
    it trusts the index, so this is safe.
    """

    def write_entries(self, memtable: Memtable) -> None:
        for ledger_id, entry_id, data in memtable:
            locations = self.entry_logger.append(ledger_id, [data])
            ledger = self.ledgers.get(ledger_id)
            if ledger is not None:
                ledger.index.set_locations([entry_id], locations)
        self.ledgers.flush()
        self.entry_logger.sync()


class IndexFirstAndTrusted(IndexFirst):
    """The index is synced before the entry log, and replay skips every entry that it names."""

    def is_stored(self, ledger: LedgerDescriptor, entry_id: int) -> bool:
        return ledger.index.location(entry_id) != 0


class FenceNotFlushed(LedgerStore):
    """A checkpoint without entries writes nothing but the mark, so a fence's record is passed by
    while its index header is still in memory.  In BookKeeper: `InterleavedLedgerStorage.flush`.
    """

    def write_entries(self, memtable: Memtable) -> None:
        if memtable.entry_count:
            super().write_entries(memtable)


class ReplayKeepsMark(LedgerStore):
    """Replay flushes what it found and leaves LastLogMark where it was: nothing is lost, but every
    start replays it again, and the journals stay.  In BookKeeper: issue 2087.
    """

    def replay(self, disk: Disk, mark: LogMark) -> LogMark:
        super().replay(disk, mark)
        return mark


class _HastyCollector(GarbageCollector):
    def point_to_copies(self, moved: list[tuple[int, int, int, int]]) -> None:
        for ledger_id, entry_id, _, new in moved:
            ledger = self.ledgers.get(ledger_id)
            if ledger is not None:
                ledger.index.set_locations([entry_id], [new])
        self.ledgers.flush()


def _with_hasty_collector(open_store: Callable[P, LedgerStore]) -> Callable[P, LedgerStore]:
    """Compaction removes the old log while the copies are not synced yet."""

    def opened(*arguments: P.args, **options: P.kwargs) -> LedgerStore:
        store = open_store(*arguments, **options)
        store.garbage = _HastyCollector(store.entry_logger, store.ledgers)
        return store

    return opened


class _LateFile:
    """A file whose sync is asked for and not waited for: it ends with the next write."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._sync_is_due = False
        self.read, self.size, self.close = file.read, file.size, file.close
        self.next_data = file.next_data

    def write(self, offset: int, data: bytes) -> None:
        if self._sync_is_due:
            self._file.sync()
        self._sync_is_due = False
        self._file.write(offset, data)

    def sync(self) -> None:
        self._sync_is_due = True


class _UnsyncedRollFile(_LateFile):
    """A file that is synced at once until it is full; its last sync goes to the next file."""

    def sync(self) -> None:
        if self.size() <= MIB:
            self._file.sync()


class _Through:
    """A disk whose files are handed out wrapped."""

    def __init__(self, disk: Disk, wrap: type[_LateFile]) -> None:
        self._disk = disk
        self._wrap = wrap
        self.exists, self.names, self.files = disk.exists, disk.names, disk.files
        self.path, self.rename = disk.path, disk.rename
        self.remove, self.sync_folder = disk.remove, disk.sync_folder
        self.sync_whole = disk.sync_whole

    def create(self, path: str) -> File:
        return self._wrap(self._disk.create(path))

    def open(self, path: str) -> File:
        return self._wrap(self._disk.open(path))


def _with_journal_files(
    wrap: type[_LateFile], open_store: Callable[Concatenate[Sequence[Disk], P], LedgerStore]
) -> Callable[Concatenate[Sequence[Disk], P], LedgerStore]:
    def opened(
        journal_disks: Sequence[Disk], /, *arguments: P.args, **options: P.kwargs
    ) -> LedgerStore:
        wrapped = [_Through(disk, wrap) for disk in journal_disks]
        return open_store(wrapped, *arguments, **options)

    return opened


@dataclass(frozen=True, slots=True)
class Defect:
    """A mistake: its name, what it does in one sentence, and the store that makes it."""

    name: str
    story: str
    store_factory: StoreFactory


DEFECTS = {
    defect.name: defect
    for defect in (
        Defect(
            "mark persisted before the flush",
            "LastLogMark passes records whose entries are still only in the memtable",
            MarkBeforeFlush,
        ),
        Defect(
            "mark taken after the flush",
            "LastLogMark passes records that came while the flush was under way",
            MarkAfterFlush,
        ),
        Defect(
            "journals removed before the mark",
            "LastLogMark still points into a journal that is gone",
            JournalsRemovedFirst,
        ),
        Defect(
            "mark of one directory",
            "LastLogMark passes entries that another ledger directory has not flushed yet",
            MarkOfOneDirectory,
        ),
        Defect(
            "ack before sync",
            "an add is answered while its group's sync is still under way",
            _with_journal_files(_LateFile, LedgerStore),
        ),
        Defect(
            "wrong file synced at a roll",
            "the group that fills a journal is answered after a sync of the next journal",
            _with_journal_files(_UnsyncedRollFile, LedgerStore),
        ),
        Defect(
            "index before log, trusted",
            "the index points at bytes that a crash took away, and replay believes it",
            IndexFirstAndTrusted,
        ),
        Defect(
            "fence not flushed",
            "LastLogMark passes a fence whose index header was never written",
            FenceNotFlushed,
        ),
        Defect(
            "log removed before its copies are synced",
            "compaction takes away the only durable copy",
            _with_hasty_collector(LedgerStore),
        ),
        Defect(
            "replay keeps the mark",
            "every start replays the same records again, and no journal may ever go",
            ReplayKeepsMark,
        ),
    )
}
"""The mistakes by name."""
