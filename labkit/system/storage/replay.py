"""Replays the journal: reapplies all records from LastLogMark onward when a bookie starts.

The store and this module call each other, so that a subclass of the store can override each step:

    LedgerStore.replay               once for each journal
      replay_journal                 reads the records from the mark on, in chunks
        LedgerStore.replay_records
          RecordApplier.apply        creates ledgers, fences them, stores explicit LACs
            LedgerStore._replay_entries
                                     puts entries into the memtable, unless the entry log and
                                     the index already contain them

Applying a record twice has the same effect as applying it once, so a start that was interrupted by
a crash can be repeated.

In BookKeeper: `bookie/BookieImpl.java` (readJournal, replay).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise

from labkit.system.model.entry import MAX_ENTRY_ID
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.disk import Disk, sync_file
from labkit.system.storage.index.ledger_cache import LedgerCache
from labkit.system.storage.index.ledger_descriptor import LedgerDescriptor
from labkit.system.storage.index.ledger_index import IndexHeader
from labkit.system.storage.journal import EXPLICIT_LAC, FENCE, LEDGER_KEY, PADDED_SINCE, journal_ids
from labkit.system.storage.journal_scan import JournalRecord, JournalScan
from labkit.system.storage.log_mark import LogMark
from labkit.system.trace.recorder import Recorder

_SPECIAL_BODY_OFFSET = 20
"""The offset of the key or LAC, which follows two ids and a length."""

Apply = Callable[[Sequence[JournalRecord], str], None]
"""Applies a chunk, which consists of entries or of one special record. The string is the journal's
path, for error messages.
"""
PutEntries = Callable[[LedgerDescriptor, Sequence[JournalRecord]], None]


def replay_journal(
    disk: Disk, mark: LogMark, chunk_bytes: int, apply: Apply, recorder: Recorder
) -> LogMark:
    """Apply every record at or after the mark, and return the position at which the journal ends.

    Raises `StorageDamagedException` if a file is missing or a record is damaged.
    """
    needed = [file_id for file_id in journal_ids(disk) if file_id >= mark.file_id]
    # If the bookie started without this file, it would respond "no such entry" for acknowledged
    # entries.
    if mark.file_id and mark.file_id not in needed:
        raise StorageDamagedException(
            f"journal {mark.file_name} is missing in {disk.path('current')}, but LastLogMark"
            " says that replay starts in it; restore the file, or delete this bookie's data"
            " and let its ledgers be replicated again"
        )
    _check_none_missing(disk, needed)
    end, record_count = mark, 0
    for file_id in needed:
        scan = JournalScan(disk, file_id)
        start = mark.offset if file_id == mark.file_id else 0
        for records in scan.chunks(start, chunk_bytes):
            apply(records, scan.path)
            record_count += len(records)
        end = LogMark(file_id, scan.end_offset)
    if needed:
        # Sync records that a killed process may have left unsynced, because a mark must not point
        # past records that a power failure could remove.
        sync_file(disk, end.file_name)
        recorder.record(
            "journal.replayed", file=end.file_name, offset=end.offset, size=record_count
        )
    return end


def _check_none_missing(disk: Disk, file_ids: Sequence[int]) -> None:
    """Raise `StorageDamagedException` if a file between two others is missing.

    The id of a new file is one more than the largest existing id. Only bookies that wrote version 4
    or earlier may have used the current time as the id, so a gap before such a file is allowed.
    """
    for before, after in pairwise(file_ids):
        if after == before + 1:
            continue
        scan = JournalScan(disk, after)
        scan.file.close()
        if scan.version >= PADDED_SINCE:
            missing = LogMark(before + 1, 0).file_name
            raise StorageDamagedException(
                f"journal {missing} is missing in {disk.path('current')}, but {scan.name} comes"
                " after it; restore the file, or delete this bookie's data and let its ledgers be"
                " replicated again"
            )


class RecordApplier:
    """Applies journal records to a bookie's ledgers, and passes entries to `put_entries`.

    The last record of a write may be torn (see `journal_scan`), so a ledger is created from a
    master key only when another record of the ledger follows. A ledger that has neither an index
    nor a key record has been deleted, so its records are skipped.
    """

    def __init__(self, ledgers: LedgerCache, put_entries: PutEntries) -> None:
        self.keys: dict[int, bytes] = {}
        self._ledgers = ledgers
        self._put_entries = put_entries

    def apply(self, records: Sequence[JournalRecord], path: str) -> None:
        """Apply the records. Raises `StorageDamagedException` if a record is damaged."""
        first = records[0]
        if first.entry_id == LEDGER_KEY:
            self._keep_key(first, path)
            return
        by_ledger = defaultdict[int, list[JournalRecord]](list)
        for record in records:
            by_ledger[record.ledger_id].append(record)
        for ledger_id, ledger_records in by_ledger.items():
            ledger = self._ledgers.get(ledger_id) or self._recreate(ledger_records[0], path)
            if ledger is None:
                continue
            ledger.index.assume_unsynced()
            if first.entry_id >= 0:
                highest = max(ledger_records, key=lambda record: record.entry_id)
                if highest.entry_id > MAX_ENTRY_ID:
                    raise _damaged(highest, path, f"invalid entry id {highest.entry_id}")
                self._put_entries(ledger, ledger_records)
            elif first.entry_id == FENCE:
                ledger.fence()
            elif first.entry_id == EXPLICIT_LAC:
                lac = first.body[_SPECIAL_BODY_OFFSET:]
                if not IndexHeader(ledger.master_key, explicit_lac=lac).is_encodable:
                    raise _damaged(first, path, f"invalid explicit LAC of {len(lac)} bytes")
                ledger.set_explicit_lac(lac)

    def _keep_key(self, record: JournalRecord, path: str) -> None:
        key = self.keys[record.ledger_id] = record.body[_SPECIAL_BODY_OFFSET:]
        ledger = self._ledgers.get(record.ledger_id)
        if ledger is not None and ledger.master_key != key:
            raise _damaged(record, path, "a second, different master key")

    def _recreate(self, record: JournalRecord, path: str) -> LedgerDescriptor | None:
        key = self.keys.get(record.ledger_id)
        if key is None:
            return None
        if record.ledger_id < 0 or not IndexHeader(key).is_encodable:
            raise _damaged(record, path, f"invalid master key of {len(key)} bytes")
        return self._ledgers.create(record.ledger_id, key)


def _damaged(record: JournalRecord, path: str, problem: str) -> StorageDamagedException:
    return StorageDamagedException(
        f"journal {path}, offset {record.offset}: {problem} for ledger {record.ledger_id}"
    )
