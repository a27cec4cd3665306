"""The verbs' results as lines, labelled as BookKeeper's own shell does."""

from collections.abc import Iterator
from functools import singledispatch

from labkit.system.model.layout import Span
from labkit.system.storage.log_mark import LogMark
from labkit.system.storage.xray import format_spans
from labkit.views.shell.records import (
    FROM_MAP,
    ConsistencyReport,
    Damage,
    EntryLocation,
    ExplicitLacRecord,
    FenceRecord,
    FilesOnDisc,
    JournalFile,
    LastMark,
    LedgerIndexFile,
    LedgerKeyRecord,
    LedgerSummary,
    LogFile,
    LogMetadata,
    NoLocations,
    RebuiltIndex,
    Record,
    Source,
    StoredEntry,
    UnknownRecord,
)

_DUMP_WIDTH = 16


@singledispatch
def as_lines(value: object, with_data: bool) -> Iterator[str]:
    """A value as lines; with `with_data` also what `-m` adds: an entry's bytes, or an index's
    header.
    """
    raise TypeError(f"no text for a {type(value).__name__}")


@as_lines.register
def _(value: JournalFile, with_data: bool) -> Iterator[str]:
    yield f"Scan journal {value.journal_id} ({value.name})"
    yield f"Journal Version : {value.version}"


@as_lines.register
def _(value: LogFile, with_data: bool) -> Iterator[str]:
    ledger = "" if value.ledger_id is None else f" for LedgerId {value.ledger_id}"
    entry = "" if value.entry_id is None else f" for EntryId {value.entry_id}"
    yield f"Scan entry log {value.log_id} ({value.name}){ledger}{entry}"


@as_lines.register
def _(value: Source, with_data: bool) -> Iterator[str]:
    yield f"In {value.file}"


@as_lines.register
def _(value: StoredEntry, with_data: bool) -> Iterator[str]:
    yield _title(value)
    yield "Type:           DATA"
    confirmed = value.last_add_confirmed
    yield f"LastConfirmed:  {'none: the entry is too short' if confirmed is None else confirmed}"
    if value.digest_matches is not None:
        yield f"Digest:         {'ok' if value.digest_matches else 'DOES NOT MATCH'}"
    if with_data:
        what = "digest and payload" if value.digest_matches is None else "payload"
        yield f"Data:           {what}, {len(value.payload)} bytes"
        yield from dump(value.payload)
    yield ""


@as_lines.register
def _(value: LedgerKeyRecord, with_data: bool) -> Iterator[str]:
    yield from (_title(value), "Type:           META", f"MasterKey:      {value.master_key.hex()}")
    yield ""


@as_lines.register
def _(value: FenceRecord, with_data: bool) -> Iterator[str]:
    yield from (_title(value), "Type:           META", "Fenced", "")


@as_lines.register
def _(value: ExplicitLacRecord, with_data: bool) -> Iterator[str]:
    confirmed = value.last_add_confirmed
    yield from (_title(value), "Type:           META")
    yield f"ExplicitLac:    {'none: the body is too short' if confirmed is None else confirmed}"
    yield ""


@as_lines.register
def _(value: UnknownRecord, with_data: bool) -> Iterator[str]:
    yield from (_title(value), "Type:           UNKNOWN (replay skips it)", "")


@as_lines.register
def _(value: Damage, with_data: bool) -> Iterator[str]:
    # Damage goes to standard error, in every format.
    yield from ()


@as_lines.register
def _(value: LastMark, with_data: bool) -> Iterator[str]:
    name = LogMark(value.journal_id, value.offset).file_name
    yield f"LastLogMark : Journal Id - {value.journal_id}({name}), Pos - {value.offset}"


@as_lines.register
def _(value: LogMetadata, with_data: bool) -> Iterator[str]:
    yield f"Print entryLogMetadata of entrylog {value.log_id} ({value.name})"
    if value.source != FROM_MAP:
        yield f"Source: {value.source}"
    usage = 1.0 if value.total_size else 0.0
    yield (
        f"entryLogId: {value.log_id}, remaining size: {value.total_size},"
        f" total size: {value.total_size}, usage: {usage}"
    )
    for ledger in value.ledgers:
        yield (
            f"--------- Lid={ledger.ledger_id}, TotalSizeOfEntriesOfLedger={ledger.size}  ---------"
        )


@as_lines.register
def _(value: LedgerIndexFile, with_data: bool) -> Iterator[str]:
    yield f"===== LEDGER: {value.ledger_id} ====="
    if with_data:
        yield f"master key  : {value.master_key.hex()}"
        yield f"size         : {value.size}"
        yield f"entries      : {value.slot_count}"
        yield f"isFenced     : {str(value.fenced).lower()}"
        if value.explicit_lac is not None:
            yield f"explicitLac  : {value.explicit_lac}"


@as_lines.register
def _(value: EntryLocation, with_data: bool) -> Iterator[str]:
    yield f"entry {value.entry_id}\t:\t(log:{value.log_id}, pos: {value.offset})"


@as_lines.register
def _(value: NoLocations, with_data: bool) -> Iterator[str]:
    first, last = value.first_entry_id, value.last_entry_id
    yield f"{f'entry {first}' if first == last else f'entries {first} to {last}'}\t:\tN/A"


@as_lines.register
def _(value: LedgerSummary, with_data: bool) -> Iterator[str]:
    yield (
        f"ledgerID: {value.ledger_id}, entries: {value.entry_count},"
        f" only in the journal: {value.journal_entry_count}, last entry: {value.last_entry_id},"
        f" isFenced: {str(value.fenced).lower()}"
    )


@as_lines.register
def _(value: FilesOnDisc, with_data: bool) -> Iterator[str]:
    for title, paths in (
        ("Journal", value.journals),
        ("EntryLog/Ledger", value.entry_logs),
        ("Index", value.indexes),
    ):
        if paths is not None:
            yield f"--------- Printing the list of {title} Files ---------"
            yield from paths
            yield ""


@as_lines.register
def _(value: ConsistencyReport, with_data: bool) -> Iterator[str]:
    yield "=== Performing local consistency check ==="
    yield f"{value.ledger_count} ledgers, {value.entry_count} entries"
    if value.errors:
        yield "=== Check returned errors: ==="
        yield from value.errors
    else:
        yield "=== Check passed ==="


@as_lines.register
def _(value: RebuiltIndex, with_data: bool) -> Iterator[str]:
    yield f"===== LEDGER: {value.ledger_id} ====="
    yield f"index        : {value.file}"
    yield f"version      : {value.version}"
    yield f"master key  : {value.master_key.hex()}"
    yield f"entries      : {len(value.locations)}"
    yield f"isFenced     : {str(value.fenced).lower()} ({value.fence_reason})"
    if value.unreadable:
        yield f"unreadable   : {', '.join(map(str, value.unreadable))}"
    if value.journal_entry_count:
        yield f"in journal   : {value.journal_entry_count} more entries, which replay brings in"


@as_lines.register
def _(value: Span, with_data: bool) -> Iterator[str]:
    yield format_spans([value])


def _title(record: Record) -> str:
    return (
        f"--------- Lid={record.ledger_id}, Eid={record.entry_id}, ByteOffset={record.offset},"
        f" EntrySize={record.size} ---------"
    )


def dump(data: bytes) -> Iterator[str]:
    """Bytes in rows of 16, in hexadecimal and as text."""
    for at in range(0, len(data), _DUMP_WIDTH):
        line = data[at : at + _DUMP_WIDTH]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
        yield f"  {at:06x}  {line.hex(' '):<{3 * _DUMP_WIDTH}} {shown}"
