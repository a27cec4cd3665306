"""Results of the verbs: a frozen dataclass for each kind of thing in a bookie's files.

Offsets and sizes are in bytes.  The offset of a record or entry is that of its length word; its
size is the value of the length word.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JournalFile:
    """A journal that is being read; `journal_id` is its name as a number."""

    journal_id: int
    name: str
    version: int


@dataclass(frozen=True, slots=True)
class LogFile:
    """An entry log that is being read, and the requested ledger or entry; None for all."""

    log_id: int
    name: str
    ledger_id: int | None
    entry_id: int | None


@dataclass(frozen=True, slots=True)
class Source:
    """The journal or entry log of the entries that follow."""

    file: str


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a ledger in a journal or an entry log."""

    file: str
    offset: int
    size: int
    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True)
class StoredEntry(Record):
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


@dataclass(frozen=True, slots=True)
class LedgerKeyRecord(Record):
    """A journal record: the ledger's master key, from which replay creates the ledger again."""

    master_key: bytes


@dataclass(frozen=True, slots=True)
class FenceRecord(Record):
    """A journal record: from here on the ledger takes only recovery's adds."""


@dataclass(frozen=True, slots=True)
class ExplicitLacRecord(Record):
    """A journal record: the writer's LastAddConfirmed; None if the body is too short."""

    last_add_confirmed: int | None
    body: bytes


@dataclass(frozen=True, slots=True)
class UnknownRecord(Record):
    """A journal record with a negative entry id that means nothing: replay skips it."""

    body: bytes


JournalRecordView = StoredEntry | LedgerKeyRecord | FenceRecord | ExplicitLacRecord | UnknownRecord


@dataclass(frozen=True, slots=True)
class Damage:
    """The end of a file that no writer leaves: torn by a crash, or damaged."""

    file: str
    offset: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}, offset {self.offset}: {self.problem}"


@dataclass(frozen=True, slots=True)
class MarkCopy:
    """One ledger directory's copy of a LastLogMark; both None when it is not 16 bytes long, or
    negative.
    """

    file: str
    journal_id: int | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class LastMark:
    """The place where replay of a journal directory starts: the largest copy, 0 without one."""

    journal_index: int
    journal_id: int
    offset: int
    copies: tuple[MarkCopy, ...]


@dataclass(frozen=True, slots=True)
class LedgerBytes:
    """The bytes of a ledger's entries in an entry log, including length words."""

    ledger_id: int
    size: int


FROM_MAP = "ledgers map"
"""A source of log metadata: the log's own map was complete."""


@dataclass(frozen=True, slots=True)
class LogMetadata:
    """The ledgers in an entry log; `source` says how they were found."""

    log_id: int
    name: str
    total_size: int
    ledgers: tuple[LedgerBytes, ...]
    source: str


@dataclass(frozen=True, slots=True)
class LedgerIndexFile:
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


@dataclass(frozen=True, slots=True)
class EntryLocation:
    """An entry's place by the index; `offset` is that of the entry itself."""

    entry_id: int
    log_id: int
    offset: int


@dataclass(frozen=True, slots=True)
class NoLocations:
    """A run of slots without a location: this bookie has no such entries in its entry logs."""

    first_entry_id: int
    last_entry_id: int


@dataclass(frozen=True, slots=True)
class LedgerSummary:
    """A ledger on this bookie: entries in entry logs, and those only in the journal so far.

    `index_file` is empty when the ledger has none yet.
    """

    ledger_id: int
    index_file: str
    fenced: bool
    entry_count: int
    journal_entry_count: int
    last_entry_id: int


@dataclass(frozen=True, slots=True)
class FilesOnDisc:
    """Files by kind, each a path; None for a kind that was not asked for."""

    journals: tuple[str, ...] | None
    entry_logs: tuple[str, ...] | None
    indexes: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class ConsistencyReport:
    """The result of a check of every index against the entry logs."""

    ledger_count: int
    entry_count: int
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RebuiltIndex:
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
