"""LedgerStore: one bookie's storage as a whole, usable without cluster or event loop.

In BookKeeper: `bookie/BookieImpl.java` (journal, replay), `bookie/SortedLedgerStorage.java`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.system.model.entry import NO_ENTRY_ID
from labkit.system.model.errors import (
    LedgerFencedException,
    NoEntryException,
    NoLedgerException,
    UnauthorizedAccessException,
)
from labkit.system.storage.collected_ledgers import CollectedLedgers
from labkit.system.storage.config import MIB, StorageConfig
from labkit.system.storage.directories import refuse_other_storages
from labkit.system.storage.disk import Disk, is_out_of_space
from labkit.system.storage.entry_log import EntryLogger, log_name
from labkit.system.storage.flush_events import WrittenEntry, record_flush
from labkit.system.storage.garbage import GarbageCollector
from labkit.system.storage.index.ledger_cache import LedgerCache
from labkit.system.storage.index.ledger_descriptor import LedgerDescriptor
from labkit.system.storage.journal import (
    EXPLICIT_LAC_SINCE,
    Journal,
    explicit_lac_record,
    fence_record,
    ledger_key_record,
)
from labkit.system.storage.journal_scan import BATCH_BYTES, JournalRecord
from labkit.system.storage.log_mark import (
    START,
    LogMark,
    mark_name,
    read_last_mark,
    write_last_mark,
)
from labkit.system.storage.memtable import Memtable
from labkit.system.storage.replay import apply_records, replay_journal, sync_again
from labkit.system.trace.recorder import Recorder

_FLUSH_SLICE_BYTES = 4 * MIB
"""Bytes of entries that one sync of the entry log covers: their memory is free after it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A flush under way: `marks` are where each journal's LastLogMark goes once `memtable` is on
    disk.
    """

    marks: tuple[LogMark, ...]
    memtable: Memtable


class LedgerStore:
    """Entries by ledger and entry id, durable once the journal is synced.

    Invariants:
      - an entry is in the memtable before its record is in the journal;
      - LastLogMark never passes a record whose entry is not in entry log and index, synced;
      - reads find an entry from the moment of `add_entry` on, and forever.
    """

    # Parts, which a subclass may exchange
    journal_class = Journal
    memtable_class = Memtable
    entry_logger_class = EntryLogger
    ledgers_class = LedgerCache
    read_last_mark = staticmethod(read_last_mark)
    write_last_mark = staticmethod(write_last_mark)

    def __init__(
        self,
        journal_disks: Sequence[Disk],
        ledger_disks: Sequence[Disk],
        config: StorageConfig,
        recorder: Recorder,
        first_journal_id: int,
    ) -> None:
        """Open the directories and replay the journal from LastLogMark.

        `first_journal_id` names the journal of an empty directory; BookKeeper takes the time in
        milliseconds.  Raises `OtherStorageException` for directories that are not this storage's,
        and `StorageDamagedException` when a needed journal is missing or damaged, or a file's
        name belongs to something else.
        """
        refuse_other_storages((*journal_disks, *ledger_disks))
        self.ledger_disks = ledger_disks
        self.config = config
        self.recorder = recorder
        self.entry_logger = self.entry_logger_class(ledger_disks, config)
        self.ledgers = self.ledgers_class(ledger_disks, config)
        self.collected = CollectedLedgers()
        self.garbage = GarbageCollector(self.entry_logger, self.ledgers)
        self.memtable = self.memtable_class()
        self.flushing: Memtable | None = None
        self.lacks_space = False
        """Whether the start found no space for what it replayed.  Reads find it in memory, its
        journals stay, and the next checkpoint tries again.
        """
        self.replayed_keys: dict[int, bytes] = {}
        """Master keys found in the journal, until the start is over."""
        self.trusted_logs: dict[int, None] = {}
        """Entry logs in which replay found entries that the journal has, too."""
        self._mark_names = [mark_name(i, len(journal_disks)) for i in range(len(journal_disks))]
        self.marks = tuple(
            max(self.read_last_mark(disk, name) for disk in ledger_disks)
            for name in self._mark_names
        )
        ends = tuple(
            self.replay(*journal) for journal in zip(journal_disks, self.marks, strict=True)
        )
        self.journals = tuple(
            self.journal_class(disk, config, first_journal_id, end)
            for disk, end in zip(journal_disks, ends, strict=True)
        )
        self.replayed_keys = {}
        self._flush_replayed(ends)

    # What a bookie does with a request

    def add_entry(
        self,
        ledger_id: int,
        entry_id: int,
        data: bytes,
        master_key: bytes,
        *,
        recovery: bool = False,
    ) -> LogMark:
        """Take an entry: `add_entries` with one."""
        return self.add_entries((ledger_id,), (entry_id,), (data,), master_key, recovery=recovery)

    def add_entries(
        self,
        ledger_ids: Sequence[int],
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        master_key: bytes,
        *,
        recovery: bool = False,
    ) -> LogMark:
        """Take entries of ledgers with one key and one journal, all or none.  Returns where the
        first one's journal record lies; the others follow it directly.  Each may be acknowledged
        once the journal is synced past its record.

        Raises what `ledger_for_adds` raises.
        """
        different = dict.fromkeys(ledger_ids)
        # All of them first: if one is refused, the others must not be changed.
        ledgers = [self.ledger_for_adds(each, master_key, recovery=recovery) for each in different]
        # Before the journal: a synced record must be in the memtable when a mark is taken.
        for ledger_id, entry_id, data in zip(ledger_ids, entry_ids, entries, strict=True):
            self.memtable.put(ledger_id, entry_id, data)
        for ledger in ledgers:
            ledger.got_entries = True
            journal = self._journal_with_key(ledger)
        return journal.append(*entries)

    def fence(self, ledger_id: int, master_key: bytes) -> LogMark:
        """Refuse further adds to the ledger, also if this bookie never saw it.

        Answer only once the journal is synced past the place returned.  Raises
        `UnauthorizedAccessException`, and `NoLedgerException` for a ledger that was collected.
        """
        ledger = self.handle(ledger_id, master_key)
        ledger.fence()
        mark = self._journal_with_key(ledger).append(fence_record(ledger_id))
        return self._record_mark("journal.fence_appended", ledger_id, mark)

    def set_explicit_lac(self, ledger_id: int, lac_body: bytes, master_key: bytes) -> LogMark:
        """Keep the writer's LastAddConfirmed for readers.

        The formats before journal version 6 have no room for it: then it is lost at a restart, as
        in BookKeeper, and readers learn the LastAddConfirmed from the entries.  Raises what `fence`
        raises.
        """
        ledger = self.handle(ledger_id, master_key)
        ledger.set_explicit_lac(lac_body)
        journal = self._journal_with_key(ledger)
        if journal.version < EXPLICIT_LAC_SINCE:
            return journal.synced
        mark = journal.append(explicit_lac_record(ledger_id, lac_body))
        return self._record_mark("journal.lac_appended", ledger_id, mark)

    def read_entry(self, ledger_id: int, entry_id: int) -> bytes:
        """The entry's bytes; with entry id -1 those of the ledger's last entry here.

        Raises `NoLedgerException` and `NoEntryException` only when that is certain, and
        `StorageDamagedException` or `OSError` when the entry should be there and cannot be read.
        """
        ledger = self.ledgers.get(ledger_id)
        if ledger is None:
            raise NoLedgerException(f"this bookie stores nothing of ledger {ledger_id}")
        if entry_id == NO_ENTRY_ID:
            entry_id = self.last_entry_id(ledger_id)
        # Memory first: while a flush runs, the index may not have the entry yet.
        data = self._in_memory(ledger_id, entry_id)
        if data is not None:
            return data
        location = ledger.index.location(entry_id) if entry_id >= 0 else 0
        if location == 0:
            raise NoEntryException(f"no entry {entry_id} of ledger {ledger_id} on this bookie")
        return self.entry_logger.read(location, ledger_id, entry_id)

    def is_in_memory(self, ledger_id: int, entry_id: int) -> bool:
        """Whether a read of the entry is a tailing read, served from the memtable."""
        return self._in_memory(ledger_id, entry_id) is not None

    def last_entry_id(self, ledger_id: int) -> int:
        """The ledger's highest entry id on this bookie; -1 if it has none."""
        ledger = self.ledgers.get(ledger_id)
        return max(
            self.memtable.last_entry_id(ledger_id),
            self.flushing.last_entry_id(ledger_id) if self.flushing else -1,
            ledger.index.last_entry_id() if ledger else -1,
        )

    def entry_ids(self, ledger_id: int) -> list[int]:
        """The ledger's entries on this bookie, ascending.  Raises `NoLedgerException`."""
        ledger = self.ledgers.get(ledger_id)
        if ledger is None:
            raise NoLedgerException(f"this bookie stores nothing of ledger {ledger_id}")
        # Memory first: a flush meanwhile moves entries from there to the index.
        found = set(self.memtable.entry_ids(ledger_id))
        if self.flushing:
            found.update(self.flushing.entry_ids(ledger_id))
        return sorted(found.union(entry_id for entry_id, _ in ledger.index.locations()))

    def ledger(self, ledger_id: int) -> LedgerDescriptor | None:
        """What the bookie knows of a ledger beside its entries: key, fence, explicit LAC."""
        return self.ledgers.get(ledger_id)

    def ledger_ids(self) -> list[int]:
        """The ledgers that this bookie stores, ascending."""
        return self.ledgers.ledger_ids()

    def journal_of(self, ledger_id: int) -> Journal:
        """The journal that a ledger's records go to.

        In BookKeeper: `BookieImpl.getJournal`.
        """
        return self.journals[ledger_id % len(self.journals)]

    def set_full_directories(self, places: set[int]) -> None:
        """Keep new entry logs away from these ledger directories."""
        self.entry_logger.set_full_directories(places)

    def commit(self) -> None:
        """Make everything added so far durable, here and now."""
        for journal in self.journals:
            journal.commit()

    # Bringing the memtable to disk

    @property
    def needs_checkpoint(self) -> bool:
        """Whether the memtable is over its limit and no flush of an earlier one is under way."""
        return self.flushing is None and self.memtable.is_full(self.config.skip_list_size_limit)

    @property
    def is_overfull(self) -> bool:
        """Whether adds must wait: the memtable is full again before the one set aside is on disk,
        or the journal cannot keep up.
        """
        memtable_full = self.memtable.is_full(self.config.skip_list_size_limit)
        journal_limit = self.config.journal_max_memory_size_mb * MIB // len(self.journals)
        return (memtable_full and self.flushing is not None) or any(
            journal.group_bytes > journal_limit for journal in self.journals
        )

    @property
    def has_changes(self) -> bool:
        """Whether a checkpoint now would move LastLogMark."""
        behind = any(
            journal.synced > mark for journal, mark in zip(self.journals, self.marks, strict=True)
        )
        return behind and self.flushing is None

    def begin_checkpoint(self) -> Checkpoint:
        """Take the mark and set the memtable aside; adds go on into an empty one.

        The mark is what the journal has synced now: all of that is in the memtable set aside, or
        in an earlier one.  A checkpoint that did not reach its end is done again with this one.
        """
        if self.flushing is None:
            self.flushing = self.memtable
        else:
            for ledger_id, entry_id, data in self.memtable:
                self.flushing.put(ledger_id, entry_id, data)
        self.memtable = self.memtable_class()
        return Checkpoint(tuple(journal.synced for journal in self.journals), self.flushing)

    def flush(self, checkpoint: Checkpoint) -> None:
        """Bring the checkpoint to disk, then move LastLogMark.  May run in a thread, beside adds
        and reads.  Raises `OSError`; LastLogMark then stays, and the next checkpoint does it again.
        """
        self.write_entries(checkpoint.memtable)
        if any(mark != START for mark in checkpoint.marks):
            self.persist_marks(checkpoint.marks)
            for journal, mark in zip(self.journals, self.marks, strict=True):
                journal.trim(mark)

    def end_checkpoint(self) -> None:
        """The flush is done: reads find its entries through the index from now on."""
        self.flushing = None

    def checkpoint(self) -> None:
        """Flush the memtable and move LastLogMark, here and now."""
        self.flush(self.begin_checkpoint())
        self.end_checkpoint()

    def close(self) -> None:
        """Commit the journal, flush everything, close all files."""
        self.commit()
        self.checkpoint()
        for journal in self.journals:
            journal.close()
        self.entry_logger.close()
        self.ledgers.close()

    # Rules, which a subclass may change

    def replay(self, disk: Disk, mark: LogMark) -> LogMark:
        """Replay a journal from the mark on into the memtable; return where the journal ends."""
        batch_bytes = min(BATCH_BYTES, self.config.skip_list_size_limit)
        return replay_journal(disk, mark, batch_bytes, self.replay_records, self.recorder)

    def replay_records(self, records: Sequence[JournalRecord], path: str) -> None:
        """Apply records of the journal at `path`."""
        apply_records(records, path, self.ledgers, self.replayed_keys, self._replay_entries)

    def is_stored(self, ledger: LedgerDescriptor, entry_id: int) -> bool:
        """Return whether the index points to a complete copy of the entry in the entry log.

        Such a copy is kept, because a journal record that was torn over preallocated zeros can
        carry the ids of any entry.  If only the process died, the copy may not be synced, or its
        sync may have failed.  So the log is synced, and the location is written again, before
        LastLogMark passes the record.
        """
        location = ledger.index.location(entry_id)
        held = location > 0 and self.entry_logger.holds(location, ledger.ledger_id, entry_id)
        if held:
            self.trusted_logs[location >> 32] = None
            self.ledgers.set_locations(ledger.ledger_id, (entry_id,), (location,))
        return held

    def was_collected(self, ledger_id: int) -> bool:
        """Whether garbage collection has dropped the ledger, which must not come back."""
        return ledger_id in self.collected

    def write_entries(self, memtable: Memtable) -> None:
        """Entries into the entry log, synced; then their locations into the index, synced.

        The memtable gives up its entries slice by slice, so their memory is there for new ones.
        """
        written: list[WrittenEntry] = []
        for runs in memtable.slices(_FLUSH_SLICE_BYTES):
            places = [self.entry_logger.append(run.ledger_id, run.entries) for run in runs]
            self.entry_logger.sync()
            for run, locations in zip(runs, places, strict=True):
                self.ledgers.set_locations(run.ledger_id, run.entry_ids, locations)
            # Reads find them through the index, and if its flush fails, the logs do not get them
            # again.
            memtable.remove(runs)
            if self.recorder.listening:
                written += (
                    WrittenEntry(run.ledger_id, entry_id, location, len(data))
                    for run, locations in zip(runs, places, strict=True)
                    for entry_id, data, location in zip(
                        run.entry_ids, run.entries, locations, strict=True
                    )
                )
        self.ledgers.flush()
        if self.recorder.listening:
            record_flush(self.recorder, written)

    def persist_marks(self, marks: tuple[LogMark, ...]) -> None:
        """LastLogMark moves there in every ledger directory, and never back."""
        marks = tuple(max(pair) for pair in zip(self.marks, marks, strict=True))
        for name, mark in zip(self._mark_names, marks, strict=True):
            for disk in self.ledger_disks:
                self.write_last_mark(disk, mark, name)
            self.recorder.record("mark.persisted", file=mark.file_name, offset=mark.offset)
        self.marks = marks

    def ledger_for_adds(
        self, ledger_id: int, master_key: bytes, *, recovery: bool = False
    ) -> LedgerDescriptor:
        """The ledger if it takes adds, new if this bookie stores nothing of it yet.

        Raises `UnauthorizedAccessException` for another key than the ledger's, and
        `LedgerFencedException` for a ledger that was collected, or that is fenced if this is not
        for a `recovery` add.
        """
        if self.was_collected(ledger_id):
            raise LedgerFencedException(f"ledger {ledger_id} was deleted, and its entries are gone")
        ledger = self._ledger(ledger_id, master_key)
        if ledger.fenced and not recovery:
            raise LedgerFencedException(f"ledger {ledger_id} is fenced: a reader has recovered it")
        return ledger

    def handle(self, ledger_id: int, master_key: bytes) -> LedgerDescriptor:
        """The ledger, if the key is right; new if this bookie stores nothing of it yet."""
        if self.was_collected(ledger_id):
            raise NoLedgerException(f"ledger {ledger_id} was deleted, and its entries are gone")
        return self._ledger(ledger_id, master_key)

    # Inside

    def _replay_entries(self, ledger: LedgerDescriptor, records: Sequence[JournalRecord]) -> None:
        # After its last entry an index has none: no need to look for each.
        last = ledger.index.last_entry_id()
        for _, ledger_id, entry_id, data in records:
            if entry_id > last or not self.is_stored(ledger, entry_id):
                self.memtable.put(ledger_id, entry_id, data)
        if self.memtable.is_full(self.config.skip_list_size_limit):
            self._flush_replayed()

    def _flush_replayed(self, ends: tuple[LogMark, ...] = ()) -> None:
        """Bring to disk what was replayed so far, if there is space for it; with `ends`, which are
        those of the journals, move LastLogMark there.
        """
        # Before the mark moves: what it passes is not replayed again.
        for log_id in self.trusted_logs:
            sync_again(self.entry_logger.disk_of(log_id), log_name(log_id))
        self.trusted_logs.clear()
        if self.lacks_space:
            return
        try:
            self.write_entries(self.memtable)
            self.memtable = self.memtable_class()
            if ends:
                self.persist_marks(ends)
        except OSError as error:
            if not is_out_of_space(error):
                raise
            self.lacks_space = True

    def _ledger(self, ledger_id: int, master_key: bytes) -> LedgerDescriptor:
        ledger = self.ledgers.get(ledger_id) or self.ledgers.create(ledger_id, master_key)
        if ledger.master_key != master_key:
            raise UnauthorizedAccessException(
                f"ledger {ledger_id} was created with another password"
            )
        return ledger

    def _in_memory(self, ledger_id: int, entry_id: int) -> bytes | None:
        data = self.memtable.get(ledger_id, entry_id)
        if data is None and self.flushing is not None:
            data = self.flushing.get(ledger_id, entry_id)
        return data

    def _journal_with_key(self, ledger: LedgerDescriptor) -> Journal:
        """The ledger's journal, in which its key comes before its first record: replay must be able
        to create the ledger again.
        """
        journal = self.journal_of(ledger.ledger_id)
        if not ledger.key_in_journal:
            ledger.key_in_journal = True
            mark = journal.append(ledger_key_record(ledger.ledger_id, ledger.master_key))
            self._record_mark("journal.key_appended", ledger.ledger_id, mark)
        return journal

    def _record_mark(self, kind: str, ledger_id: int, mark: LogMark) -> LogMark:
        self.recorder.record(kind, ledger_id, file=mark.file_name, offset=mark.offset)
        return mark
