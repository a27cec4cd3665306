"""The verbs `readjournal` and `lastmark`, and the records that a bookie would replay.

In BookKeeper: `tools/cli/commands/bookie/ReadJournalCommand.java`, `LastMarkCommand.java`.
"""

from collections.abc import Iterator

from labkit.system.model.entry import ENTRY_HEADER, LAC_HEADER, Digest, decode_entry
from labkit.system.model.errors import BKDigestMatchException, StorageDamagedException
from labkit.system.storage.disk import Disk, File
from labkit.system.storage.journal import (
    CONTENT_LENGTH,
    EXPLICIT_LAC,
    FENCE,
    LEDGER_KEY,
    journal_ids,
)
from labkit.system.storage.journal_scan import JournalRecord, JournalScan
from labkit.system.storage.log_mark import LAST_MARK, LogMark, mark_file_name, read_last_mark
from labkit.views.shell.folders import BookieFolders, FileId, ShellError, find_file
from labkit.views.shell.records import (
    Damage,
    ExplicitLacRecord,
    FenceRecord,
    JournalFile,
    JournalRecordView,
    LastMark,
    LedgerKeyRecord,
    MarkCopy,
    StoredEntry,
    UnknownRecord,
)
from labkit.views.xray.file_spans import first_nonzero

_IDS_SIZE = 16


def read_journal(
    folders: BookieFolders, file_id: FileId, digest: Digest | None = None
) -> Iterator[JournalFile | JournalRecordView | Damage]:
    """Yield the journal, then its records, then a `Damage` if its end is torn or damaged.

    Raises `ShellError` if the journal does not exist, and `StorageDamagedException` if it contains
    bytes that no bookie writes.
    """
    directory = find_file(folders.journals, "journal", file_id)
    scan = JournalScan(directory, file_id.number)
    yield JournalFile(file_id.number, scan.name, scan.version)
    for record in scan.records():
        yield view_record(record, scan.name, digest)
    yield from _damaged_end(directory.open(f"current/{scan.name}"), scan.name, scan.end_offset)


def view_record(record: JournalRecord, file: str, digest: Digest | None) -> JournalRecordView:
    offset, ledger_id, entry_id, body = record
    common = (file, offset, len(body), ledger_id, entry_id)
    rest = body[_IDS_SIZE + CONTENT_LENGTH.size :]
    if entry_id >= 0:
        return view_entry(file, offset, ledger_id, entry_id, body, digest)
    if entry_id == LEDGER_KEY:
        return LedgerKeyRecord(*common, rest)
    if entry_id == FENCE:
        return FenceRecord(*common)
    if entry_id == EXPLICIT_LAC:
        return ExplicitLacRecord(*common, explicit_lac_of(rest), rest)
    return UnknownRecord(*common, body[_IDS_SIZE:])


def view_entry(
    file: str, offset: int, ledger_id: int, entry_id: int, data: bytes, digest: Digest | None
) -> StoredEntry:
    """Decode a stored entry, and check its digest if `digest` is given."""
    confirmed: int | None = None
    if len(data) >= ENTRY_HEADER.size:
        confirmed = ENTRY_HEADER.struct.unpack_from(data)[2]
    payload_offset = ENTRY_HEADER.size + (digest.size if digest else 0)
    matches = None if digest is None else digest_matches(data, digest, ledger_id, entry_id)
    return StoredEntry(
        file, offset, len(data), ledger_id, entry_id, confirmed, data, payload_offset, matches
    )


def digest_matches(data: bytes, digest: Digest, ledger_id: int, entry_id: int) -> bool:
    """Return whether a client that reads the entry would accept its digest."""
    try:
        decode_entry(data, digest, ledger_id, entry_id)
    except BKDigestMatchException:
        return False
    return True


def explicit_lac_of(body: bytes) -> int | None:
    """Return the LastAddConfirmed in an explicit LAC's body, or None if the body is too short."""
    if len(body) < LAC_HEADER.size:
        return None
    confirmed: int = LAC_HEADER.struct.unpack_from(body)[1]
    return confirmed


def _damaged_end(file: File, name: str, end: int) -> Iterator[Damage]:
    """Yield the damage, if any, after the last record, which ends at `end`.

    A bookie writes nothing but zeros, if anything, after the last record.
    """
    size = file.size()
    length_bytes = file.read(end, CONTENT_LENGTH.size)
    is_complete = len(length_bytes) == CONTENT_LENGTH.size
    length = CONTENT_LENGTH.struct.unpack(length_bytes)[0] if is_complete else 0
    if length:
        item = f"a record of {length} bytes" if length > 0 else "padding"
        yield Damage(
            name, end, f"{item} is cut off by the end of the file at {size}; replay stops here"
        )
    elif (beyond := first_nonzero(file, end)) is not None:
        yield Damage(
            name,
            end,
            f"the records end here, but the bytes at offset {beyond} are not zero: the file was"
            " torn by a crash, damaged, or reused; replay stops here",
        )


def last_marks(folders: BookieFolders) -> tuple[LastMark, ...]:
    """Return the LastLogMark of each journal directory.

    Raises `ShellError` if no journal directory or no ledger directory was given.
    """
    if not folders.journals or not folders.ledgers:
        raise ShellError(
            "the ledger directories contain a LastLogMark for each journal directory, so both are"
            " needed: use --data, or --journal and --ledgers"
        )
    count = len(folders.journals)
    return tuple(_last_mark(folders.ledgers, index, count) for index in range(count))


def _last_mark(ledgers: tuple[Disk, ...], index: int, journal_count: int) -> LastMark:
    name = mark_file_name(index, journal_count)
    path = f"current/{name}"
    copies = tuple(_mark_copy(d, path) for d in ledgers if d.exists(path))
    best = max(read_last_mark(directory, name) for directory in ledgers)
    return LastMark(index, best.file_id, best.offset, copies)


def _mark_copy(directory: Disk, path: str) -> MarkCopy:
    file = directory.open(path)
    data = file.read(0, LAST_MARK.size + 1)
    file.close()
    mark = LAST_MARK.struct.unpack(data) if len(data) == LAST_MARK.size else (-1, -1)
    if min(mark) < 0:
        return MarkCopy(directory.path(path), None, None)
    return MarkCopy(directory.path(path), *mark)


def records_from_mark(folders: BookieFolders) -> Iterator[tuple[str, JournalRecord]]:
    """Yield every record that will be replayed at the next start, and the name of its journal.

    Raises `StorageDamagedException` if a journal is damaged, or if the journal in which replay
    starts is missing.
    """
    for directory, mark in zip(folders.journals, last_marks(folders), strict=True):
        needed = [i for i in journal_ids(directory) if i >= mark.journal_id]
        if mark.journal_id and mark.journal_id not in needed:
            name = LogMark(mark.journal_id, 0).file_name
            raise StorageDamagedException(
                f"{directory.path('')}: journal {name} is missing, but according to LastLogMark"
                " replay starts in it"
            )
        for journal_id in needed:
            scan = JournalScan(directory, journal_id)
            start = mark.offset if journal_id == mark.journal_id else 0
            for record in scan.records(start):
                yield scan.name, record


def all_records(folders: BookieFolders) -> Iterator[tuple[str, JournalRecord]]:
    for directory in folders.journals:
        for journal_id in journal_ids(directory):
            scan = JournalScan(directory, journal_id)
            for record in scan.records():
                yield scan.name, record
