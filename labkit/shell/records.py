"""Results of the verbs: one frozen dataclass for each kind of thing in a bookie's files.

Offsets and sizes are in bytes.  The offset of a record or entry is that of its length word, its
size is what the length word says.
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
    """An entry log that is being read, and the ledger or entry asked for; None for all."""

    log_id: int
    name: str
    ledger_id: int | None
    entry_id: int | None


@dataclass(frozen=True, slots=True)
class Source:
    """The journal or entry log that the entries which follow lie in."""

    file: str


@dataclass(frozen=True, slots=True)
class Record:
    """Something of a ledger as it lies in a journal or an entry log."""

    file: str
    offset: int
    size: int
    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True)
class StoredEntry(Record):
    """An entry in a journal or an entry log.

    `last_add_confirmed` is None when the entry is shorter than its header.  `digest_matches` is
    None when no check was asked for.  `data` is the entry whole, `payload_offset` where the
    payload begins in it (the digest's end; its beginning when no digest type was given).
    """

    last_add_confirmed: int | None
    data: bytes
    payload_offset: int
    digest_matches: bool | None

    @property
    def payload(self) -> bytes:
        """What the client gave, behind the digest if that was not told apart."""
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
    """A journal record: how far the writer had confirmed; None if the body is too short."""

    last_add_confirmed: int | None
    body: bytes


@dataclass(frozen=True, slots=True)
class UnknownRecord(Record):
    """A journal record with a negative entry id that means nothing: replay skips it."""

    body: bytes


JournalRecordView = StoredEntry | LedgerKeyRecord | FenceRecord | ExplicitLacRecord | UnknownRecord


@dataclass(frozen=True, slots=True)
class Damage:
    """Where a file ends as no writer leaves it: torn by a crash, or damaged."""

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
    """Where replay of one journal directory starts: the largest of the copies, 0 without one."""

    journal_index: int
    journal_id: int
    offset: int
    copies: tuple[MarkCopy, ...]


@dataclass(frozen=True, slots=True)
class LedgerBytes:
    """What a ledger's entries take in an entry log, length words included."""

    ledger_id: int
    size: int


FROM_MAP = "ledgers map"
"""As a source of log metadata: the log's own map was whole."""


@dataclass(frozen=True, slots=True)
class LogMetadata:
    """Which ledgers an entry log holds; `source` says how that was found."""

    log_id: int
    name: str
    total_size: int
    ledgers: tuple[LedgerBytes, ...]
    source: str


@dataclass(frozen=True, slots=True)
class LedgerIndexFile:
    """The head of a ledger's index file; `size` is that of its slots, `slot_count` their number."""

    ledger_id: int
    file: str
    master_key: bytes
    size: int
    slot_count: int
    fenced: bool
    explicit_lac: int | None


@dataclass(frozen=True, slots=True)
class EntryLocation:
    """Where an index says that an entry lies: `offset` is that of the entry itself."""

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

    `unreadable` are entry ids that the old index has and no log holds whole and right: they keep a
    location, so that a read of them says "could not read" and never "no such entry".
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
