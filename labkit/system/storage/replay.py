"""Replay: a start puts what the journal has from LastLogMark on into the memtable again.

    replay_journal   reads every record from the mark on, in batches
    apply_records    creates ledgers, fences them and keeps explicit LACs as the records say, and
                     gives entries to the store, which skips those that entry log and index have

Applying a record twice changes nothing, so a start that a crash interrupted begins again.

In BookKeeper: `bookie/BookieImpl.java` (readJournal, replay).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from labkit.system.model.entry import MAX_ENTRY_ID
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.disk import Disk
from labkit.system.storage.index.ledger_cache import LedgerCache
from labkit.system.storage.index.ledger_descriptor import LedgerDescriptor
from labkit.system.storage.index.ledger_index import IndexHeader
from labkit.system.storage.journal import EXPLICIT_LAC, FENCE, LEDGER_KEY, journal_ids
from labkit.system.storage.journal_scan import JournalRecord, JournalScan
from labkit.system.storage.log_mark import LogMark
from labkit.system.trace.recorder import Recorder

_KEY_OFFSET = 20

Apply = Callable[[Sequence[JournalRecord], str], None]
"""Takes records, entries or one other record, and the path of their journal, for errors."""
PutEntries = Callable[[LedgerDescriptor, Sequence[JournalRecord]], None]


def replay_journal(
    disk: Disk, mark: LogMark, batch_bytes: int, apply: Apply, recorder: Recorder
) -> LogMark:
    """Apply every record from the mark on; returns where the journal ends.

    A replay that finds nothing after the mark is reported too: 0 records.  Raises
    `StorageDamagedException` when a needed journal is missing or damaged.
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
    for file_id in needed:
        scan = JournalScan(disk, file_id)
        start = mark.offset if file_id == mark.file_id else 0
        for records in scan.batches(start, batch_bytes):
            apply(records, scan.path)
            record_count += len(records)
        end = LogMark(file_id, scan.end_offset)
    if needed:
        # A killed process leaves records that it did not sync.  A power cut must not take them
        # once a mark points behind them: the next start would miss them.
        sync_again(disk, end.file_name)
        recorder.record(
            "journal.replayed", file=end.file_name, offset=end.offset, size=record_count
        )
    return end


def apply_records(
    records: Sequence[JournalRecord],
    path: str,
    ledgers: LedgerCache,
    keys: dict[int, bytes],
    put_entries: PutEntries,
) -> None:
    """Do again what the records say: entries, or one other record.

    `keys` collects the master keys of the journal.  A key record that a crash tore inside its key
    is the last one of its write, so a key alone creates nothing: the ledger comes back with its
    first other record.  A ledger with neither key record nor index was deleted.
    """
    first = records[0]
    if first.entry_id == LEDGER_KEY:
        _take_key(first, path, ledgers, keys)
        return
    by_ledger = defaultdict[int, list[JournalRecord]](list)
    for record in records:
        by_ledger[record.ledger_id].append(record)
    for ledger_id, of_ledger in by_ledger.items():
        ledger = ledgers.get(ledger_id) or _recreate(of_ledger[0], path, ledgers, keys)
        if ledger is None:
            continue
        ledger.index.mark_unsynced()
        if first.entry_id >= 0:
            _check_ids(of_ledger, path)
            put_entries(ledger, of_ledger)
        elif first.entry_id == FENCE:
            ledger.fence()
        elif first.entry_id == EXPLICIT_LAC:
            lac = first.body[_KEY_OFFSET:]
            if not IndexHeader(ledger.master_key, explicit_lac=lac).is_possible:
                raise _damaged(first, path, f"an explicit LAC of {len(lac)} bytes")
            ledger.set_explicit_lac(lac)


def _take_key(
    record: JournalRecord, path: str, ledgers: LedgerCache, keys: dict[int, bytes]
) -> None:
    key = keys[record.ledger_id] = record.body[_KEY_OFFSET:]
    ledger = ledgers.get(record.ledger_id)
    if ledger is not None and ledger.master_key != key:
        raise _damaged(record, path, "a second master key")


def _recreate(
    record: JournalRecord, path: str, ledgers: LedgerCache, keys: dict[int, bytes]
) -> LedgerDescriptor | None:
    key = keys.get(record.ledger_id)
    if key is None:
        return None
    if record.ledger_id < 0 or not IndexHeader(key).is_possible:
        raise _damaged(record, path, f"a master key of {len(key)} bytes")
    return ledgers.create(record.ledger_id, key)


def _check_ids(records: Sequence[JournalRecord], path: str) -> None:
    highest = max(records, key=lambda record: record.entry_id)
    if highest.entry_id > MAX_ENTRY_ID:
        raise _damaged(highest, path, f"entry {highest.entry_id}")


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
