"""The storage of one bookie, which combines journals, a memtable, entry logs and indexes.

`LedgerStore` determines the order in which the components are written; each of the other modules
implements one component. The package's docstring explains the rules, and lists the methods that
each thread may call.

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
from labkit.system.storage.disk import Disk, is_out_of_space, sync_file
from labkit.system.storage.entry_log import EntryLogger, log_name
from labkit.system.storage.flush_events import WrittenEntry, record_flush, written_entries
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
from labkit.system.storage.journal_scan import CHUNK_BYTES, JournalRecord
from labkit.system.storage.log_mark import (
    START,
    LogMark,
    mark_file_name,
    read_last_mark,
    write_last_mark,
)
from labkit.system.storage.memtable import Memtable
from labkit.system.storage.other_storages import reject_other_storages
from labkit.system.storage.replay import RecordApplier, replay_journal
from labkit.system.trace.recorder import Recorder

_FLUSH_SLICE_BYTES = 4 * MIB
"""After each slice, the entry log is synced and the memory is freed."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A memtable that must be flushed, and the LastLogMarks (one per journal) that must be
    persisted afterwards.
    """

    marks: tuple[LogMark, ...]
    memtable: Memtable


class LedgerStore:
    """All files of one bookie.

    Invariants:
    - an entry is in the memtable before its record is in the journal;
    - LastLogMark never advances past a record unless the record's entry is in the entry log and
      the index, and both are synced;
    - an entry is readable from the moment `add_entry` returns until its ledger is dropped.
    """

    # Components that a subclass may replace
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
        """Check the directories, replay each journal, create a new file in each journal directory,
        and only then advance LastLogMark. Replayed entries are flushed whenever the memtable is
        full, and once more just before LastLogMark advances.

        `first_journal_id` is the id of the first file in an empty journal directory; BookKeeper
        uses the current time in milliseconds. Raises `OtherStorageException` if a directory belongs
        to another storage implementation, and `StorageDamagedException` if a file is missing or
        damaged.
        """
        reject_other_storages((*journal_disks, *ledger_disks))
        self.ledger_disks = ledger_disks
        self.config = config
        self.recorder = recorder
        self.entry_logger = self.entry_logger_class(ledger_disks, config)
        self.ledgers = self.ledgers_class(ledger_disks, config)
        self.collected = CollectedLedgers()
        self.garbage = GarbageCollector(self.entry_logger, self.ledgers)
        self.memtable = self.memtable_class()
        self.flushing_memtable: Memtable | None = None
        """Set by `begin_checkpoint` and cleared by `end_checkpoint`. If the flush in between fails,
        the attribute stays set until a later checkpoint succeeds.
        """
        self.start_lacked_space = False
        """Whether the disk was too full for the replayed entries when the store was opened. If so,
        the entries stay in memory, and their journal files are kept, until a checkpoint succeeds.
        """
        self.record_applier = RecordApplier(self.ledgers, self._replay_entries)
        self.logs_to_sync: dict[int, None] = {}
        """Entry logs that contain complete copies of journaled entries (an ordered set). These logs
        must be synced before LastLogMark advances.
        """
        self._mark_file_names = [
            mark_file_name(i, len(journal_disks)) for i in range(len(journal_disks))
        ]
        self.marks = tuple(
            max(self.read_last_mark(disk, name) for disk in ledger_disks)
            for name in self._mark_file_names
        )
        ends = tuple(
            self.replay(*journal) for journal in zip(journal_disks, self.marks, strict=True)
        )
        self.journals = tuple(
            self.journal_class(disk, config, first_journal_id, end)
            for disk, end in zip(journal_disks, ends, strict=True)
        )
        # Free the master keys, which are needed only during replay.
        self.record_applier.keys.clear()
        self._flush_replayed(ends)

    # Requests

    def add_entry(
        self,
        ledger_id: int,
        entry_id: int,
        data: bytes,
        master_key: bytes,
        *,
        recovery: bool = False,
    ) -> LogMark:
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
        """Add either all of these entries or none of them. Their ledgers must share a master key
        and a journal.

        Each of `entries` must be a packed entry that starts with the given ledger id and entry id,
        because replay reads the ids from the entry. Entry ids must be between 0 and `MAX_ENTRY_ID`,
        and the master key must have 20 bytes. (For requests, `model.wire` checks all of this.)

        Returns the position of the first entry's journal record; the other records follow it. An
        add may be acknowledged once the journal is synced past its record or, with deferred sync,
        once the record is written. Raises the same errors as `ledger_for_adds`.
        """
        distinct_ids = dict.fromkeys(ledger_ids)
        ledgers = [self.ledger_for_adds(i, master_key, recovery=recovery) for i in distinct_ids]
        # Put the entries into the memtable before the journal, so that the entry of every synced
        # record is in a memtable whenever a mark is determined.
        for ledger_id, entry_id, data in zip(ledger_ids, entry_ids, entries, strict=True):
            self.memtable.put(ledger_id, entry_id, data)
        for ledger in ledgers:
            ledger.has_new_entries = True
            journal = self._journal_with_key(ledger)
        return journal.append(*entries)

    def fence(self, ledger_id: int, master_key: bytes) -> LogMark:
        """Reject further adds to the ledger, even if this bookie has never stored it.

        The fence may be acknowledged once everything appended so far has been synced. Raises the
        same errors as `ledger_with_key`.
        """
        ledger = self.ledger_with_key(ledger_id, master_key)
        ledger.fence()
        mark = self._journal_with_key(ledger).append(fence_record(ledger_id))
        return self._trace_append("journal.fence_appended", ledger_id, mark)

    def set_explicit_lac(self, ledger_id: int, lac_body: bytes, master_key: bytes) -> LogMark:
        """Store the writer's LastAddConfirmed. Raises the same errors as `ledger_with_key`.

        Returns the position of the journal record. Journals before version 6 cannot contain such a
        record, so nothing has to be synced, and the value is lost on restart, as in BookKeeper.
        """
        ledger = self.ledger_with_key(ledger_id, master_key)
        ledger.set_explicit_lac(lac_body)
        journal = self._journal_with_key(ledger)
        if journal.version < EXPLICIT_LAC_SINCE:
            return journal.synced
        mark = journal.append(explicit_lac_record(ledger_id, lac_body))
        return self._trace_append("journal.lac_appended", ledger_id, mark)

    def read_entry(self, ledger_id: int, entry_id: int) -> bytes:
        """Return an entry, or the ledger's last entry on this bookie if the entry id is -1.

        Raises `NoLedgerException` or `NoEntryException` only if it is certain that the bookie does
        not have the entry. Raises `StorageDamagedException` or `OSError` if the bookie should have
        the entry but cannot read it.
        """
        ledger = self.ledger_for_reads(ledger_id)
        if entry_id == NO_ENTRY_ID:
            entry_id = self.last_entry_id(ledger_id)
        # Check memory first, because during a flush, the index may not contain the entry yet.
        data = self.entry_in_memory(ledger_id, entry_id)
        if data is not None:
            return data
        location = ledger.index.location(entry_id) if entry_id >= 0 else 0
        if location == 0:
            raise NoEntryException(
                f"entry {entry_id} of ledger {ledger_id} does not exist on this bookie"
            )
        return self.entry_logger.read(location, ledger_id, entry_id)

    def is_in_memory(self, ledger_id: int, entry_id: int) -> bool:
        return self.entry_in_memory(ledger_id, entry_id) is not None

    def entry_in_memory(self, ledger_id: int, entry_id: int) -> bytes | None:
        data = self.memtable.get(ledger_id, entry_id)
        if data is None and self.flushing_memtable is not None:
            data = self.flushing_memtable.get(ledger_id, entry_id)
        return data

    def last_entry_id(self, ledger_id: int) -> int:
        """Return the ledger's highest entry id on this bookie, or -1."""
        ledger = self.ledgers.get(ledger_id)
        return max(
            self.memtable.last_entry_id(ledger_id),
            self.flushing_memtable.last_entry_id(ledger_id) if self.flushing_memtable else -1,
            ledger.index.last_entry_id() if ledger else -1,
        )

    def entry_ids(self, ledger_id: int) -> list[int]:
        """Return the sorted ids of the ledger's entries on this bookie.

        Raises `NoLedgerException`.
        """
        ledger = self.ledger_for_reads(ledger_id)
        # Read the memtables first, because a concurrent flush moves entries to the index.
        newer, older = self.memtable, self.flushing_memtable
        found = set(newer.entry_ids(ledger_id))
        if older is not None:
            found.update(older.entry_ids(ledger_id))
        return sorted(found.union(entry_id for entry_id, _ in ledger.index.locations()))

    def ledger(self, ledger_id: int) -> LedgerDescriptor | None:
        return self.ledgers.get(ledger_id)

    def ledger_for_reads(self, ledger_id: int) -> LedgerDescriptor:
        """Return the ledger, or raise `NoLedgerException`."""
        ledger = self.ledgers.get(ledger_id)
        if ledger is None:
            raise NoLedgerException(f"ledger {ledger_id} does not exist on this bookie")
        return ledger

    def ledger_ids(self) -> list[int]:
        return self.ledgers.ledger_ids()

    def journal_of(self, ledger_id: int) -> Journal:
        return self.journals[ledger_id % len(self.journals)]

    def set_full_directories(self, directories: set[int]) -> None:
        """Stop creating logs and indexes in the directories with these indices, unless all
        directories are full.

        Existing indexes, `lastId` and LastLogMark are still written to full directories, which
        therefore need some space.
        """
        self.entry_logger.set_full_directories(directories)
        self.ledgers.set_full_directories(directories)

    def commit(self) -> None:
        """Write and sync everything appended so far, in the calling thread."""
        for journal in self.journals:
            journal.commit()

    # Checkpoints

    @property
    def needs_checkpoint(self) -> bool:
        """Whether the memtable is full and no other checkpoint is unfinished. A failed checkpoint
        is retried by `bookie.checkpoints`.
        """
        return self.flushing_memtable is None and self.memtable.is_full(
            self.config.skip_list_size_limit
        )

    @property
    def is_overfull(self) -> bool:
        """Whether adds must wait, because the memtable is full again before the previous one has
        been flushed, or because a journal cannot keep up.
        """
        memtable_full = self.memtable.is_full(self.config.skip_list_size_limit)
        journal_limit = self.config.journal_max_memory_size_mb * MIB // len(self.journals)
        return (memtable_full and self.flushing_memtable is not None) or any(
            journal.group_bytes > journal_limit for journal in self.journals
        )

    @property
    def mark_can_advance(self) -> bool:
        """Whether a new checkpoint would advance LastLogMark. False while a checkpoint is
        unfinished.
        """
        behind = any(
            journal.synced > mark for journal, mark in zip(self.journals, self.marks, strict=True)
        )
        return behind and self.flushing_memtable is None

    def begin_checkpoint(self) -> Checkpoint:
        """Determine the mark (the position up to which the journal is synced), and replace the
        memtable with an empty one. The old memtable contains all unflushed entries before the mark.

        If an earlier checkpoint has failed, merge the newer entries into its memtable.
        """
        if self.flushing_memtable is None:
            self.flushing_memtable = self.memtable
        else:
            for ledger_id, entry_id, data in self.memtable:
                self.flushing_memtable.put(ledger_id, entry_id, data)
        self.memtable = self.memtable_class()
        return Checkpoint(
            tuple(journal.synced for journal in self.journals), self.flushing_memtable
        )

    def flush(self, checkpoint: Checkpoint) -> None:
        """Write the checkpoint's memtable to disk, then persist the mark, and finally delete old
        journals.

        Only one flush may run at a time. It can run in another thread while entries are added and
        read. After `OSError`, LastLogMark does not advance, and the next checkpoint retries the
        flush.
        """
        self.flush_entries(checkpoint.memtable)
        if any(mark != START for mark in checkpoint.marks):
            self.persist_marks(checkpoint.marks)
            for journal, mark in zip(self.journals, self.marks, strict=True):
                journal.trim(mark)

    def end_checkpoint(self) -> None:
        self.flushing_memtable = None

    def checkpoint(self) -> None:
        """Flush the memtable and advance LastLogMark, in the calling thread."""
        self.flush(self.begin_checkpoint())
        self.end_checkpoint()

    def close(self) -> None:
        self.commit()
        self.checkpoint()
        for journal in self.journals:
            journal.close()
        self.entry_logger.close()
        self.ledgers.close()

    # Rules that a subclass may change

    def replay(self, disk: Disk, mark: LogMark) -> LogMark:
        chunk_bytes = min(CHUNK_BYTES, self.config.skip_list_size_limit)
        return replay_journal(disk, mark, chunk_bytes, self.replay_records, self.recorder)

    def replay_records(self, records: Sequence[JournalRecord], path: str) -> None:
        self.record_applier.apply(records, path)

    def keep_stored_copy(self, ledger: LedgerDescriptor, entry_id: int) -> bool:
        """Return whether the entry log contains a complete copy of the entry; if so, keep that
        copy.

        The stored copy is preferred to the one in the journal, because a record that was torn over
        preallocated zeros can contain the ids of any entry (see `journal_scan`). Before LastLogMark
        advances past the record, the log is synced, and the location is written again (the
        failed-sync rule, see `disk`).
        """
        location = ledger.index.location(entry_id)
        is_stored = location > 0 and self.entry_logger.has_entry(
            location, ledger.ledger_id, entry_id
        )
        if is_stored:
            self.logs_to_sync[location >> 32] = None
            self.ledgers.set_locations(ledger.ledger_id, (entry_id,), (location,))
        return is_stored

    def was_collected(self, ledger_id: int) -> bool:
        """Return whether garbage collection has dropped the ledger. If so, remember the ledger for
        another seven days, because this call means that there was a request for it.
        """
        return self.collected.must_reject(ledger_id)

    def flush_entries(self, memtable: Memtable) -> None:
        """Write entries to the entry log and sync it, then write and sync their locations. Free
        memory by removing entries from the memtable slice by slice.
        """
        written: list[WrittenEntry] = []
        for runs in memtable.slices(_FLUSH_SLICE_BYTES):
            locations = [self.entry_logger.append(run.ledger_id, run.entries) for run in runs]
            self.entry_logger.sync()
            for run, run_locations in zip(runs, locations, strict=True):
                self.ledgers.set_locations(run.ledger_id, run.entry_ids, run_locations)
            # Remove the entries now, so that the next checkpoint does not write them again if the
            # flush of the indexes fails.
            memtable.remove(runs)
            if self.recorder.listening:
                written += written_entries(runs, locations)
        self.ledgers.flush()
        if self.recorder.listening:
            record_flush(self.recorder, written)

    def persist_marks(self, marks: tuple[LogMark, ...]) -> None:
        """Advance LastLogMark in every ledger directory."""
        marks = tuple(max(pair) for pair in zip(self.marks, marks, strict=True))
        for name, mark in zip(self._mark_file_names, marks, strict=True):
            for disk in self.ledger_disks:
                self.write_last_mark(disk, mark, name)
            self.recorder.record("mark.persisted", file=mark.file_name, offset=mark.offset)
        self.marks = marks

    def ledger_for_adds(
        self, ledger_id: int, master_key: bytes, *, recovery: bool = False
    ) -> LedgerDescriptor:
        """Return the ledger for an add, creating it if needed.

        Raises `UnauthorizedAccessException` if the master key is wrong. Raises
        `LedgerFencedException` if the ledger has been deleted, or if it is fenced and this is not a
        `recovery` add.
        """
        if self.was_collected(ledger_id):
            raise LedgerFencedException(f"ledger {ledger_id} was deleted")
        ledger = self._get_or_create(ledger_id, master_key)
        if ledger.fenced and not recovery:
            raise LedgerFencedException(
                f"ledger {ledger_id} is fenced: a client has started to recover it"
            )
        return ledger

    def ledger_with_key(self, ledger_id: int, master_key: bytes) -> LedgerDescriptor:
        """Return the ledger for a fence or an explicit LAC, creating it if needed.

        Raises `UnauthorizedAccessException` if the master key is wrong, and `NoLedgerException` if
        the ledger has been deleted.
        """
        if self.was_collected(ledger_id):
            raise NoLedgerException(f"ledger {ledger_id} was deleted")
        return self._get_or_create(ledger_id, master_key)

    # Internals

    def _replay_entries(self, ledger: LedgerDescriptor, records: Sequence[JournalRecord]) -> None:
        # Look up an entry only if its id is not higher than the last one in the index.
        last = ledger.index.last_entry_id()
        for _, ledger_id, entry_id, data in records:
            try:
                is_stored = entry_id <= last and self.keep_stored_copy(ledger, entry_id)
            except OSError as error:  # from a flush of the index
                if not is_out_of_space(error):
                    raise
                self.start_lacked_space, is_stored = True, False
            if not is_stored:
                self.memtable.put(ledger_id, entry_id, data)
        if self.memtable.is_full(self.config.skip_list_size_limit):
            self._flush_replayed()

    def _flush_replayed(self, ends: tuple[LogMark, ...] = ()) -> None:
        """Flush the entries that have been replayed so far, unless the disk is full. If `ends`
        contains the end positions of the journals, advance LastLogMark to these positions.
        """
        # Sync these logs before the mark advances, because records before the mark are never
        # replayed again.
        for log_id in self.logs_to_sync:
            sync_file(self.entry_logger.disk_of(log_id), log_name(log_id))
        self.logs_to_sync.clear()
        if self.start_lacked_space:
            return
        try:
            self.flush_entries(self.memtable)
            self.memtable = self.memtable_class()
            if ends:
                self.persist_marks(ends)
        except OSError as error:
            if not is_out_of_space(error):
                raise
            self.start_lacked_space = True

    def _get_or_create(self, ledger_id: int, master_key: bytes) -> LedgerDescriptor:
        ledger = self.ledgers.get(ledger_id) or self.ledgers.create(ledger_id, master_key)
        if ledger.master_key != master_key:
            raise UnauthorizedAccessException(
                f"wrong password: ledger {ledger_id} was created with a different one"
            )
        return ledger

    def _journal_with_key(self, ledger: LedgerDescriptor) -> Journal:
        """Return the ledger's journal. Append the ledger's master key first, unless this process
        has already done so, because replay needs the key before other records of the ledger.
        """
        journal = self.journal_of(ledger.ledger_id)
        if not ledger.key_in_journal:
            ledger.key_in_journal = True
            mark = journal.append(ledger_key_record(ledger.ledger_id, ledger.master_key))
            self._trace_append("journal.key_appended", ledger.ledger_id, mark)
        return journal

    def _trace_append(self, kind: str, ledger_id: int, mark: LogMark) -> LogMark:
        self.recorder.record(kind, ledger_id, file=mark.file_name, offset=mark.offset)
        return mark
