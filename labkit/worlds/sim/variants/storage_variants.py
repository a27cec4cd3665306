"""Well-known storage bugs, which can be planted in the real store by name.

A defect changes a single rule of `LedgerStore`, so the crash map shows why this rule is needed. The
defect's `store_factory` replaces `LedgerStore`.
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
    """The mark is determined at the end of a flush instead of at its start."""

    def flush(self, checkpoint: Checkpoint) -> None:
        self.flush_entries(checkpoint.memtable)
        now = tuple(journal.synced for journal in self.journals)
        super().flush(Checkpoint(now, Memtable()))


class JournalsRemovedFirst(LedgerStore):
    """Journals are deleted before the mark that makes them obsolete has been persisted."""

    def flush(self, checkpoint: Checkpoint) -> None:
        self.flush_entries(checkpoint.memtable)
        for journal, mark in zip(self.journals, checkpoint.marks, strict=True):
            journal.trim(mark)
        super().flush(Checkpoint(checkpoint.marks, Memtable()))


class MarkOfOneDirectory(LedgerStore):
    """Each ledger directory is flushed separately, and the first one advances LastLogMark for all.

    In BookKeeper: issue 2083, fixed by #3329.
    """

    def flush(self, checkpoint: Checkpoint) -> None:
        first, others = Memtable(), Memtable()
        for ledger_id, entry_id, data in checkpoint.memtable:
            part = others if ledger_id % len(self.ledger_disks) else first
            part.put(ledger_id, entry_id, data)
        super().flush(Checkpoint(checkpoint.marks, first))
        self.flush_entries(others)


class IndexFirst(LedgerStore):
    """The index is synced before the entry log, as in BookKeeper. Replay checks the log before it
    trusts the index, so this is safe.
    """

    def flush_entries(self, memtable: Memtable) -> None:
        for ledger_id, entry_id, data in memtable:
            locations = self.entry_logger.append(ledger_id, [data])
            ledger = self.ledgers.get(ledger_id)
            if ledger is not None:
                ledger.index.set_locations([entry_id], locations)
        self.ledgers.flush()
        self.entry_logger.sync()


class IndexFirstAndTrusted(IndexFirst):
    """The index is synced before the entry log, and replay skips every indexed entry."""

    def keep_stored_copy(self, ledger: LedgerDescriptor, entry_id: int) -> bool:
        return ledger.index.location(entry_id) != 0


class FenceNotFlushed(LedgerStore):
    """If there are no new entries, a checkpoint writes only the mark. The mark then advances past a
    fence's record although the index header with the fence is still in memory. In BookKeeper:
    `InterleavedLedgerStorage.flush`.
    """

    def flush_entries(self, memtable: Memtable) -> None:
        if memtable.entry_count:
            super().flush_entries(memtable)


class ReplayKeepsMark(LedgerStore):
    """Replay flushes the entries that it has read, but does not advance LastLogMark.

    Nothing is lost, but every start repeats the replay, and journals are never deleted. In
    BookKeeper: issue 2087.
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
    """Return a factory of stores that delete a compacted log before its copies are synced."""

    def opened(*arguments: P.args, **options: P.kwargs) -> LedgerStore:
        store = open_store(*arguments, **options)
        store.garbage = _HastyCollector(store.entry_logger, store.ledgers)
        return store

    return opened


class _LazilySyncedFile:
    """A file that postpones each `sync` until the next write."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._sync_is_pending = False
        self.read, self.size, self.close = file.read, file.size, file.close
        self.next_data = file.next_data

    def write(self, offset: int, data: bytes) -> None:
        if self._sync_is_pending:
            self._file.sync()
        self._sync_is_pending = False
        self._file.write(offset, data)

    def sync(self) -> None:
        self._sync_is_pending = True


class _UnsyncedRollFile(_LazilySyncedFile):
    """A file that is synced after every write until it is full.

    The last write is not synced, as if the next file had been synced instead.
    """

    def sync(self) -> None:
        if self.size() <= MIB:
            self._file.sync()


class _WrappingDisk:
    def __init__(self, disk: Disk, wrap: type[_LazilySyncedFile]) -> None:
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
    wrap: type[_LazilySyncedFile], open_store: Callable[Concatenate[Sequence[Disk], P], LedgerStore]
) -> Callable[Concatenate[Sequence[Disk], P], LedgerStore]:
    def opened(
        journal_disks: Sequence[Disk], /, *arguments: P.args, **options: P.kwargs
    ) -> LedgerStore:
        wrapped = [_WrappingDisk(disk, wrap) for disk in journal_disks]
        return open_store(wrapped, *arguments, **options)

    return opened


@dataclass(frozen=True, slots=True)
class Defect:
    """A bug: its name, a one-sentence description, and the store that contains it."""

    name: str
    description: str
    store_factory: StoreFactory


DEFECTS = {
    defect.name: defect
    for defect in (
        Defect(
            "mark persisted before the flush",
            "LastLogMark advances past records whose entries are still only in the memtable",
            MarkBeforeFlush,
        ),
        Defect(
            "mark taken after the flush",
            "LastLogMark advances past records that arrived during the flush",
            MarkAfterFlush,
        ),
        Defect(
            "journals removed before the mark",
            "LastLogMark still points into a journal that has been deleted",
            JournalsRemovedFirst,
        ),
        Defect(
            "mark of one directory",
            "LastLogMark advances past entries that another ledger directory has not flushed yet",
            MarkOfOneDirectory,
        ),
        Defect(
            "ack before sync",
            "an add is acknowledged before the sync of its group has completed",
            _with_journal_files(_LazilySyncedFile, LedgerStore),
        ),
        Defect(
            "wrong file synced at a roll",
            "the group that fills a journal is acknowledged after a sync of the next journal",
            _with_journal_files(_UnsyncedRollFile, LedgerStore),
        ),
        Defect(
            "index before log, trusted",
            "the index points to bytes that were lost in a crash, and replay trusts it",
            IndexFirstAndTrusted,
        ),
        Defect(
            "fence not flushed",
            "LastLogMark advances past a fence whose index header was never written",
            FenceNotFlushed,
        ),
        Defect(
            "log removed before its copies are synced",
            "compaction deletes the only durable copy",
            _with_hasty_collector(LedgerStore),
        ),
        Defect(
            "replay keeps the mark",
            "every start replays the same records, and no journal can ever be deleted",
            ReplayKeepsMark,
        ),
    )
}
"""The defects by name."""
