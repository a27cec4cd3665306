"""Replay: what the journal has from LastLogMark on goes into the memtable again when a store opens.

Applying a record twice changes nothing, so a start that a crash interrupted begins again.  A start
that finds no space for what it replayed keeps it in memory, and its journals on disk, until a
checkpoint finds space.

In BookKeeper: `bookie/BookieImpl.java` (readJournal, replay).
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter

from labkit.system.model.entry import MAX_ENTRY_ID
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import Disk, is_out_of_space
from labkit.system.storage.entry_log import EntryLogger, log_name
from labkit.system.storage.index.ledger_cache import LedgerCache
from labkit.system.storage.index.ledger_index import LedgerIndex, fits_header
from labkit.system.storage.journal import EXPLICIT_LAC, FENCE, LEDGER_KEY, Journal, journal_ids
from labkit.system.storage.journal_scan import BATCH_BYTES, JournalRecord, JournalScan
from labkit.system.storage.log_mark import LogMark, read_last_mark, write_last_mark
from labkit.system.storage.memtable import Memtable
from labkit.system.trace.recorder import Recorder

_KEY_OFFSET = 20
_ENTRY_ID = attrgetter("entry_id")


class ReplayedStore(ABC):
    """The part of `LedgerStore` that reads the journal.

    `lacks_space`: the start found no space for what it replayed.  Reads find it in memory; the next
    checkpoint tries again.
    """

    config: StorageConfig
    lacks_space = False
    recorder: Recorder
    entry_logger: EntryLogger
    ledgers: LedgerCache
    memtable: Memtable
    replayed_keys: dict[int, bytes]
    """Master keys found in the journal."""
    trusted_logs: dict[int, None]
    """Entry logs in which replay found entries that the journal has, too."""

    # Parts, which a subclass may exchange

    journal_class = Journal
    memtable_class = Memtable
    entry_logger_class = EntryLogger
    ledgers_class = LedgerCache
    read_last_mark = staticmethod(read_last_mark)
    write_last_mark = staticmethod(write_last_mark)

    @abstractmethod
    def write_entries(self, memtable: Memtable) -> None:
        """Bring the entries to disk and forget them."""

    @abstractmethod
    def persist_marks(self, marks: tuple[LogMark, ...]) -> None:
        """Make replay start there from now on."""

    # Rules, which a subclass may change

    def replay(self, disk: Disk, mark: LogMark) -> LogMark:
        """Put every record from the mark on into the memtable; returns where the journal ends.

        A replay that finds nothing behind the mark is reported too: 0 records.
        """
        needed = [file_id for file_id in journal_ids(disk) if file_id >= mark.file_id]
        # Without that file acknowledged entries are gone: to start would be to deny them.
        if mark.file_id and mark.file_id not in needed:
            raise StorageDamagedException(
                f"journal {mark.file_name} is missing in {disk.path('current')}, and LastLogMark"
                " says that replay starts in it; put the file back, or remove this bookie's data"
                " and let its ledgers be replicated again"
            )
        end, record_count = mark, 0
        size = min(BATCH_BYTES, self.config.skip_list_size_limit)
        for file_id in needed:
            scan = JournalScan(disk, file_id)
            start = mark.offset if file_id == mark.file_id else 0
            for records in scan.batches(start, size):
                self.replay_records(records, scan.path)
                record_count += len(records)
            end = LogMark(file_id, scan.end_offset)
        if needed:
            # A killed process leaves records that it did not sync.  A power cut must not take them
            # once a mark points behind them: the next start would miss them.
            sync_again(disk, end.file_name)
            self.recorder.record(
                "journal.replayed", file=end.file_name, offset=end.offset, size=record_count
            )
        return end

    def replay_records(self, records: Sequence[JournalRecord], path: str) -> None:
        """Do again what the records say: entries, or one other record.

        A key record that a crash tore inside its key is the last one of its write, so a key alone
        creates nothing: the ledger comes back with its first other record.
        """
        first = records[0]
        if first.entry_id == LEDGER_KEY:
            self._replay_key(first, path)
            return
        by_ledger = defaultdict[int, list[JournalRecord]](list)
        for record in records:
            by_ledger[record.ledger_id].append(record)
        for ledger_id, of_ledger in by_ledger.items():
            ledger = self.ledgers.get(ledger_id) or self._created_again(of_ledger[0], path)
            # Neither key record nor index: the ledger was deleted.
            if ledger is None:
                continue
            ledger.distrust()
            if first.entry_id >= 0:
                self._replay_entries(ledger, of_ledger, path)
            elif first.entry_id == FENCE:
                ledger.fence()
            elif first.entry_id == EXPLICIT_LAC:
                self._replay_explicit_lac(ledger, first, path)

    def is_stored(self, ledger: LedgerIndex, entry_id: int) -> bool:
        """Whether index and entry log have the entry whole.

        If so, its copy there stays: a record torn over preallocated zeros can carry any entry's
        ids. But where only the last process ended, that copy may be one that it had not synced, or
        could not sync.  So before the mark passes the record, the log is synced, and the location
        is written again.
        """
        location = ledger.location(entry_id)
        held = location > 0 and self.entry_logger.holds(location, ledger.ledger_id, entry_id)
        if held:
            self.trusted_logs[location >> 32] = None
            self.ledgers.set_locations(ledger.ledger_id, (entry_id,), (location,))
        return held

    def flush_replayed(self, ends: tuple[LogMark, ...] = ()) -> None:
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

    # Inside

    def _replay_key(self, record: JournalRecord, path: str) -> None:
        key = self.replayed_keys[record.ledger_id] = record.body[_KEY_OFFSET:]
        ledger = self.ledgers.get(record.ledger_id)
        if ledger is not None and ledger.master_key != key:
            raise _damaged(record, path, "a second master key")

    def _created_again(self, record: JournalRecord, path: str) -> LedgerIndex | None:
        key = self.replayed_keys.get(record.ledger_id)
        if key is None:
            return None
        if record.ledger_id < 0 or not fits_header(key):
            raise _damaged(record, path, f"a master key of {len(key)} bytes")
        return self.ledgers.create(record.ledger_id, key)

    def _replay_explicit_lac(self, ledger: LedgerIndex, record: JournalRecord, path: str) -> None:
        lac = record.body[_KEY_OFFSET:]
        if not fits_header(ledger.master_key, lac):
            raise _damaged(record, path, f"an explicit LAC of {len(lac)} bytes")
        ledger.set_explicit_lac(lac)

    def _replay_entries(
        self, ledger: LedgerIndex, records: Sequence[JournalRecord], path: str
    ) -> None:
        last = ledger.last_entry_id()
        if min(map(_ENTRY_ID, records)) <= last:
            # Behind its last entry an index has none: no look at each.
            records = [
                record
                for record in records
                if record.entry_id > last or not self.is_stored(ledger, record.entry_id)
            ]
        if not records:
            return
        _, _, entry_ids, entries = zip(*records, strict=True)
        if max(entry_ids) > MAX_ENTRY_ID:
            record = max(records, key=_ENTRY_ID)
            raise _damaged(record, path, f"entry {record.entry_id}")
        self.memtable.put_all(ledger.ledger_id, entry_ids, entries)
        if self.memtable.is_full(self.config.skip_list_size_limit):
            self.flush_replayed()


def sync_again(disk: Disk, name: str) -> None:
    """Make durable what an earlier process wrote into a journal or entry log and may not have
    synced.
    """
    file = disk.open(f"current/{name}")
    file.sync()
    file.close()
    disk.sync_folder("current")


def _damaged(record: JournalRecord, path: str, what: str) -> StorageDamagedException:
    """For a record that no writer leaves, torn or not."""
    return StorageDamagedException(
        f"journal {path}, offset {record.offset}: {what} for ledger {record.ledger_id}"
    )
