"""Results of the verbs about files: a frozen dataclass for each kind of thing, and its text.

The labels are those of BookKeeper's own shell.  Offsets and sizes are in bytes.  The offset of a
record or entry is that of its length word; its size is the value of the length word.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from labkit.system.storage.log_mark import LogMark

_DUMP_WIDTH = 16


class Result:
    """One result of a verb.  `--json` prints its fields, with the class's name as `kind`."""

    __slots__ = ()

    def lines(self, with_data: bool) -> Iterator[str]:
        """Yield the result's text, with `with_data` also what `-m` adds."""
        raise NotImplementedError

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with it: printed to standard error, and the exit code is 1."""
        yield from ()


@dataclass(frozen=True, slots=True)
class JournalFile(Result):
    """A journal that is being read; `journal_id` is its name as a number."""

    journal_id: int
    name: str
    version: int

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"Scan journal {self.journal_id} ({self.name})"
        yield f"Journal Version : {self.version}"


@dataclass(frozen=True, slots=True)
class LogFile(Result):
    """An entry log that is being read, and the requested ledger or entry; None for all."""

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
    """The journal or entry log of the entries that follow."""

    file: str

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"In {self.file}"


@dataclass(frozen=True, slots=True)
class LedgerRecord(Result):
    """A record of a ledger in a journal or an entry log."""

    file: str
    offset: int
    size: int
    ledger_id: int
    entry_id: int

    @property
    def title(self) -> str:
        """The first line of its text."""
        return (
            f"--------- Lid={self.ledger_id}, Eid={self.entry_id}, ByteOffset={self.offset},"
            f" EntrySize={self.size} ---------"
        )


@dataclass(frozen=True, slots=True)
class StoredEntry(LedgerRecord):
    """An entry in a journal or an entry log.

    `last_add_confirmed` is None if the entry is shorter than its header, `digest_matches` if no
    check was requested.  `data` is the whole entry, `payload_offset` the offset of the payload in
    it (the digest's end; the digest's beginning if no digest type was given).
    """

    last_add_confirmed: int | None
    data: bytes
    payload_offset: int
    digest_matches: bool | None

    @property
    def payload(self) -> bytes:
        """The client's payload; it includes the digest if no digest type was given."""
        return self.data[self.payload_offset :]

    def lines(self, with_data: bool) -> Iterator[str]:
        yield self.title
        yield "Type:           DATA"
        lac = self.last_add_confirmed
        yield f"LastConfirmed:  {'none: the entry is too short' if lac is None else lac}"
        if self.digest_matches is not None:
            yield f"Digest:         {'ok' if self.digest_matches else 'DOES NOT MATCH'}"
        if with_data:
            what = "digest and payload" if self.digest_matches is None else "payload"
            yield f"Data:           {what}, {len(self.payload)} bytes"
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
    """A journal record: the ledger's master key, from which replay creates the ledger again."""

    master_key: bytes

    def lines(self, with_data: bool) -> Iterator[str]:
        yield from (self.title, "Type:           META", f"MasterKey:      {self.master_key.hex()}")
        yield ""


@dataclass(frozen=True, slots=True)
class FenceRecord(LedgerRecord):
    """A journal record: from here on the ledger takes only recovery's adds."""

    def lines(self, with_data: bool) -> Iterator[str]:
        yield from (self.title, "Type:           META", "Fenced", "")


@dataclass(frozen=True, slots=True)
class ExplicitLacRecord(LedgerRecord):
    """A journal record: the writer's LastAddConfirmed; None if the body is too short."""

    last_add_confirmed: int | None
    body: bytes

    def lines(self, with_data: bool) -> Iterator[str]:
        confirmed = self.last_add_confirmed
        yield from (self.title, "Type:           META")
        yield f"ExplicitLac:    {'none: the body is too short' if confirmed is None else confirmed}"
        yield ""


@dataclass(frozen=True, slots=True)
class UnknownRecord(LedgerRecord):
    """A journal record with a negative entry id that means nothing: replay skips it."""

    body: bytes

    def lines(self, with_data: bool) -> Iterator[str]:
        yield from (self.title, "Type:           UNKNOWN (replay skips it)", "")


JournalRecordView = StoredEntry | LedgerKeyRecord | FenceRecord | ExplicitLacRecord | UnknownRecord


@dataclass(frozen=True, slots=True)
class Damage(Result):
    """The end of a file that no writer leaves: torn by a crash, or damaged."""

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
    """One ledger directory's copy of a LastLogMark; both None when it is not 16 bytes long, or
    negative.
    """

    file: str
    journal_id: int | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class LastMark(Result):
    """The place where replay of a journal directory starts: the largest copy, 0 without one."""

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
                yield f"{copy.file}: not 16 bytes long, or negative, so it does not count"


@dataclass(frozen=True, slots=True)
class LedgerBytes:
    """The bytes of a ledger's entries in an entry log, including length words."""

    ledger_id: int
    size: int


FROM_MAP = "ledgers map"
"""A source of log metadata: the log's own map was complete."""


@dataclass(frozen=True, slots=True)
class LogMetadata(Result):
    """The ledgers in an entry log; `source` says how they were found."""

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
    """The header of a ledger's index file; `size` is that of its slots, `slot_count` their
    number.
    """

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
    """An entry's place by the index; `offset` is that of the entry itself."""

    entry_id: int
    log_id: int
    offset: int

    def lines(self, with_data: bool) -> Iterator[str]:
        yield f"entry {self.entry_id}\t:\t(log:{self.log_id}, pos: {self.offset})"


@dataclass(frozen=True, slots=True)
class NoLocations(Result):
    """A run of slots without a location: this bookie has no such entries in its entry logs."""

    first_entry_id: int
    last_entry_id: int

    def lines(self, with_data: bool) -> Iterator[str]:
        first, last = self.first_entry_id, self.last_entry_id
        yield f"{f'entry {first}' if first == last else f'entries {first} to {last}'}\t:\tN/A"


@dataclass(frozen=True, slots=True)
class LedgerSummary(Result):
    """A ledger on this bookie: entries in entry logs, and those only in the journal so far.

    `index_file` is empty when the ledger has none yet.
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
    """Files by kind, each a path; None for a kind that was not asked for."""

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
    """The result of a check of every index against the entry logs."""

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
            yield f"{len(self.errors)} errors; the first: {self.errors[0]}"


@dataclass(frozen=True, slots=True)
class RebuiltIndex(Result):
    """A ledger's index as its entry logs and journals give it.

    `unreadable` are entry ids in the old index without a complete and correct copy in any log: they
    keep a location, so that a read of them says "could not read" and never "no such entry".
    `journal_entry_count` counts entries that only replay will bring into an entry log.  `version`
    is that of the index's header.
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
            yield f"in journal   : {self.journal_entry_count} more entries, which replay brings in"


def dump(data: bytes) -> Iterator[str]:
    """Yield bytes in rows of 16, in hexadecimal and as text."""
    for at in range(0, len(data), _DUMP_WIDTH):
        line = data[at : at + _DUMP_WIDTH]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
        yield f"  {at:06x}  {line.hex(' '):<{3 * _DUMP_WIDTH}} {shown}"
