"""Results of the verbs that read files: frozen dataclasses that format themselves as text.

The labels are the same as in BookKeeper's shell. Offsets and sizes are in bytes. The offset of a
record or entry is the offset of its length prefix, which is not included in its size.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from labkit.system.storage.log_mark import LogMark

_DUMP_WIDTH = 16


class Result:
    """The result of a verb. With `--json`, it is printed as an object with its fields and with
    `kind`, the name of its class.
    """

    __slots__ = ()

    def lines(self, with_data: bool) -> Iterator[str]:
        """Yield the lines of text; `with_data` is True if option `-m` is given."""
        raise NotImplementedError

    def problems(self) -> Iterator[str]:
        """Yield error messages for standard error; if there are any, the exit code is 1."""
        yield from ()


@dataclass(frozen=True, slots=True)
class JournalFile(Result):
    """A journal that is being read; `journal_id` is the number in its file name."""

    journal_id: int
    name: str
    version: int

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"Scan journal {self.journal_id} ({self.name})"
        yield f"Journal Version : {self.version}"


@dataclass(frozen=True, slots=True)
class LogFile(Result):
    """An entry log that is being read, and the requested ledger and entry (None: all)."""

    log_id: int
    name: str
    ledger_id: int | None
    entry_id: int | None

    def lines(self, with_data: bool) -> Iterator[str]:
        ledger = "" if self.ledger_id is None else f" for LedgerId {self.ledger_id}"
        entry = "" if self.entry_id is None else f" for EntryId {self.entry_id}"
        yield f"Scan entry log {self.log_id} ({self.name}){ledger}{entry}"


@dataclass(frozen=True, slots=True)
class Source(Result):
    file: str

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"In {self.file}"


@dataclass(frozen=True, slots=True)
class LedgerRecord(Result):
    file: str
    offset: int
    size: int
    ledger_id: int
    entry_id: int

    @property
    def title(self) -> str:
        return (
            f"--------- Lid={self.ledger_id}, Eid={self.entry_id}, ByteOffset={self.offset},"
            f" EntrySize={self.size} ---------"
        )


@dataclass(frozen=True, slots=True)
class StoredEntry(LedgerRecord):
    """An entry in a journal or an entry log.

    `last_add_confirmed` is None if the entry is shorter than its header; `digest_matches` is None
    if no check was requested. `data` is the whole entry, and `payload_offset` is the offset of the
    payload in it, or of the digest if no digest type was given.
    """

    last_add_confirmed: int | None
    data: bytes
    payload_offset: int
    digest_matches: bool | None

    @property
    def payload(self) -> bytes:
        """The client's payload, preceded by the digest if no digest type was given."""
        return self.data[self.payload_offset :]

    def lines(self, with_data: bool) -> Iterator[str]:
        yield self.title
        yield "Type:           DATA"
        lac = self.last_add_confirmed
        yield f"LastConfirmed:  {'none: the entry is too short' if lac is None else lac}"
        if self.digest_matches is not None:
            yield f"Digest:         {'ok' if self.digest_matches else 'DOES NOT MATCH'}"
        if with_data:
            content = "digest and payload" if self.digest_matches is None else "payload"
            yield f"Data:           {content}, {len(self.payload)} bytes"
            yield from dump(self.payload)
        yield ""

    def problems(self) -> Iterator[str]:
        if self.digest_matches is False:
            yield (
                f"{self.file}, offset {self.offset}: the digest of entry {self.entry_id} of ledger"
                f" {self.ledger_id} does not match"
            )


@dataclass(frozen=True, slots=True)
class LedgerKeyRecord(LedgerRecord):
    """A journal record with the ledger's master key, which allows replay to recreate the ledger."""

    master_key: bytes

    def lines(self, with_data: bool) -> Iterator[str]:
        yield from (self.title, "Type:           META", f"MasterKey:      {self.master_key.hex()}")
        yield ""


@dataclass(frozen=True, slots=True)
class FenceRecord(LedgerRecord):
    """A journal record after which the ledger accepts only adds from recovery."""

    def lines(self, with_data: bool) -> Iterator[str]:
        yield from (self.title, "Type:           META", "Fenced", "")


@dataclass(frozen=True, slots=True)
class ExplicitLacRecord(LedgerRecord):
    """A journal record with the writer's LastAddConfirmed (None if the body is too short)."""

    last_add_confirmed: int | None
    body: bytes

    def lines(self, with_data: bool) -> Iterator[str]:
        confirmed = self.last_add_confirmed
        yield from (self.title, "Type:           META")
        yield f"ExplicitLac:    {'none: the body is too short' if confirmed is None else confirmed}"
        yield ""


@dataclass(frozen=True, slots=True)
class UnknownRecord(LedgerRecord):
    body: bytes

    def lines(self, with_data: bool) -> Iterator[str]:
        yield from (self.title, "Type:           UNKNOWN (replay skips it)", "")


JournalRecordView = StoredEntry | LedgerKeyRecord | FenceRecord | ExplicitLacRecord | UnknownRecord


@dataclass(frozen=True, slots=True)
class Damage(Result):
    """A part of a file that is damaged or was torn by a crash."""

    file: str
    offset: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}, offset {self.offset}: {self.problem}"

    def lines(self, with_data: bool) -> Iterator[str]:
        yield from ()

    def problems(self) -> Iterator[str]:
        yield str(self)


@dataclass(frozen=True, slots=True)
class MarkCopy:
    """A ledger directory's copy of LastLogMark.

    `journal_id` and `offset` are None if the file is not 16 bytes long, or a number is negative.
    """

    file: str
    journal_id: int | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class LastMark(Result):
    """The position at which replay of a journal directory starts: the largest of the copies, or 0
    if there are no copies.
    """

    journal_index: int
    journal_id: int
    offset: int
    copies: tuple[MarkCopy, ...]

    def lines(self, with_data: bool) -> Iterator[str]:
        name = LogMark(self.journal_id, self.offset).file_name
        yield f"LastLogMark : Journal Id - {self.journal_id}({name}), Pos - {self.offset}"

    def problems(self) -> Iterator[str]:
        for copy in self.copies:
            if copy.journal_id is None:
                yield f"{copy.file}: ignored, because it is negative or not 16 bytes long"


@dataclass(frozen=True, slots=True)
class LedgerBytes:
    """The total size of a ledger's entries in an entry log, including length prefixes."""

    ledger_id: int
    size: int


FROM_MAP = "ledgers map"
"""The value of `LogMetadata.source` if the log's own map was complete."""


@dataclass(frozen=True, slots=True)
class LogMetadata(Result):
    """The ledgers in an entry log; `source` describes how they were found."""

    log_id: int
    name: str
    total_size: int
    ledgers: tuple[LedgerBytes, ...]
    source: str

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"Print entryLogMetadata of entrylog {self.log_id} ({self.name})"
        if self.source != FROM_MAP:
            yield f"Source: {self.source}"
        usage = 1.0 if self.total_size else 0.0
        yield (
            f"entryLogId: {self.log_id}, remaining size: {self.total_size},"
            f" total size: {self.total_size}, usage: {usage}"
        )
        for ledger in self.ledgers:
            size = f"TotalSizeOfEntriesOfLedger={ledger.size}"
            yield f"--------- Lid={ledger.ledger_id}, {size}  ---------"


@dataclass(frozen=True, slots=True)
class LedgerIndexFile(Result):
    """The header of a ledger's index; `size` and `slot_count` describe its slots."""

    ledger_id: int
    file: str
    master_key: bytes
    size: int
    slot_count: int
    fenced: bool
    explicit_lac: int | None

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"===== LEDGER: {self.ledger_id} ====="
        if with_data:
            yield f"master key  : {self.master_key.hex()}"
            yield f"size         : {self.size}"
            yield f"entries      : {self.slot_count}"
            yield f"isFenced     : {str(self.fenced).lower()}"
            if self.explicit_lac is not None:
                yield f"explicitLac  : {self.explicit_lac}"


@dataclass(frozen=True, slots=True)
class EntryLocation(Result):
    """An entry's location in the index; `offset` is the offset of the entry, not of its length
    prefix.
    """

    entry_id: int
    log_id: int
    offset: int

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"entry {self.entry_id}\t:\t(log:{self.log_id}, pos: {self.offset})"


@dataclass(frozen=True, slots=True)
class NoLocations(Result):
    """A range of empty slots. None of these entries are in this bookie's entry logs."""

    first_entry_id: int
    last_entry_id: int

    def lines(self, with_data: bool) -> Iterator[str]:
        first, last = self.first_entry_id, self.last_entry_id
        yield f"{f'entry {first}' if first == last else f'entries {first} to {last}'}\t:\tN/A"


@dataclass(frozen=True, slots=True)
class LedgerSummary(Result):
    """A ledger on this bookie.

    `entry_count` counts the entries in entry logs, and `journal_entry_count` counts the entries
    that are only in the journal so far. `index_file` is empty if the ledger has no index yet.
    """

    ledger_id: int
    index_file: str
    fenced: bool
    entry_count: int
    journal_entry_count: int
    last_entry_id: int

    def lines(self, with_data: bool) -> Iterator[str]:
        yield (
            f"ledgerID: {self.ledger_id}, entries: {self.entry_count},"
            f" only in the journal: {self.journal_entry_count}, last entry: {self.last_entry_id},"
            f" isFenced: {str(self.fenced).lower()}"
        )


@dataclass(frozen=True, slots=True)
class FilesOnDisc(Result):
    journals: tuple[str, ...] | None
    entry_logs: tuple[str, ...] | None
    indexes: tuple[str, ...] | None

    def lines(self, with_data: bool) -> Iterator[str]:
        for title, paths in (
            ("Journal", self.journals),
            ("EntryLog/Ledger", self.entry_logs),
            ("Index", self.indexes),
        ):
            if paths is not None:
                yield f"--------- Printing the list of {title} Files ---------"
                yield from paths
                yield ""


@dataclass(frozen=True, slots=True)
class ConsistencyReport(Result):
    ledger_count: int
    entry_count: int
    errors: tuple[str, ...]

    def lines(self, with_data: bool) -> Iterator[str]:
        yield "=== Performing local consistency check ==="
        yield f"{self.ledger_count} ledgers, {self.entry_count} entries"
        if self.errors:
            yield "=== Check returned errors: ==="
            yield from self.errors
        else:
            yield "=== Check passed ==="

    def problems(self) -> Iterator[str]:
        if self.errors:
            yield f"errors found: {len(self.errors)}; the first one: {self.errors[0]}"


@dataclass(frozen=True, slots=True)
class RebuiltIndex(Result):
    """A ledger's index, reconstructed from entry logs and journals.

    `unreadable` lists entry ids that are in the old index but have no complete and correct copy in
    any log. These entries keep a location in the index, so that reading them fails with a read
    error instead of "no such entry". `journal_entry_count` counts the entries that are only in the
    journal, until replay writes them to an entry log. `version` is the version of the index header.
    """

    ledger_id: int
    directory: str
    file: str
    version: int
    master_key: bytes
    fenced: bool
    fence_reason: str
    explicit_lac: bytes
    locations: tuple[EntryLocation, ...]
    unreadable: tuple[int, ...]
    journal_entry_count: int

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"===== LEDGER: {self.ledger_id} ====="
        yield f"index        : {self.file}"
        yield f"version      : {self.version}"
        yield f"master key  : {self.master_key.hex()}"
        yield f"entries      : {len(self.locations)}"
        yield f"isFenced     : {str(self.fenced).lower()} ({self.fence_reason})"
        if self.unreadable:
            yield f"unreadable   : {', '.join(map(str, self.unreadable))}"
        if self.journal_entry_count:
            yield f"in journal   : {self.journal_entry_count} more entries, added by replay"


def dump(data: bytes) -> Iterator[str]:
    for at in range(0, len(data), _DUMP_WIDTH):
        line = data[at : at + _DUMP_WIDTH]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
        yield f"  {at:06x}  {line.hex(' '):<{3 * _DUMP_WIDTH}} {text}"
