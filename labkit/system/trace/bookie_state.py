"""The state of one bookie: its copies of entries, and the location of each copy inside the bookie.

A copy passes through these states:

    sent -> memtable -> durable (journal synced) -> flushed (entry log and index synced)

A copy is `failed` if the writer receives no acknowledgement, and `lost` if the bookie is killed
while the copy is only in memory. If replay finds a journal record that was never synced, the
replayed entry is flushed, and the events of that flush restore the copy in this state.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from operator import lt
from typing import NamedTuple, TypeVar

from labkit.system.trace.events import Event
from labkit.system.trace.handlers import handlers_of, on

ON_DISK = ("durable", "flushed")
_Key = tuple[int, int]
_Value = TypeVar("_Value")


class Copy(NamedTuple):
    """A bookie's copy of an entry.

    damaged: whether the digest was wrong when the copy was last read.
    """

    state: str
    acked: bool = False
    reads: int = 0
    journal_file: str = ""
    journal_offset: int = -1
    log_file: str = ""
    log_offset: int = -1
    error: str = ""
    damaged: bool = False


Copies = dict[int, dict[int, Copy]]
"""Copies, keyed by ledger id and entry id."""


class MemtableEntry(NamedTuple):
    """An entry in the memtable.

    state: `put` by an add, `replayed` from the journal after a crash, `written` to the entry log by
    an unfinished flush, or `lost` because the bookie was killed.
    """

    ledger: int
    entry: int
    state: str = "put"


class JournalRecord(NamedTuple):
    """A record in a journal file.

    state: `written` if it is not synced yet, `synced`, `unsure` if the bookie was killed before the
    sync, or `lost` if replay did not find the record.
    group: the number of the sync that covered the record (counted from 0 in each bookie), or -1.
    kind: `entry`, `key`, `fence` or `LAC`. The last three are about the whole ledger, so their
    entry is -1.
    """

    ledger: int
    entry: int
    offset: int
    state: str = "written"
    group: int = -1
    kind: str = "entry"


class LoggedEntry(NamedTuple):
    """An entry in an entry log.

    indexed: whether the index contains its location.
    is_garbage: whether the bookie has dropped the ledger.
    """

    ledger: int
    entry: int
    offset: int
    indexed: bool = False
    is_garbage: bool = False


class Mark(NamedTuple):
    """LastLogMark, the journal position at which the next replay starts."""

    file: str
    offset: int


class ServedEntry(NamedTuple):
    """The entry that was read last. `where` is `memtable` or `entry log`."""

    ledger: int
    entry: int
    where: str


_OnDisk = TypeVar("_OnDisk", JournalRecord, LoggedEntry)


@dataclass(frozen=True, slots=True)
class Bookie:
    """A bookie, its copies of entries, and the ledgers that are fenced on it.

    state: up, down, paused or unknown.
    """

    state: str
    entries: Copies
    fenced: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class BookieState:
    """The contents of a bookie's memory and files.

    `memtable` is in the order in which a flush writes it. `journals` and `logs` are in file order,
    and the records and entries in a file are in the order of their offsets.
    """

    state: str
    memtable: tuple[MemtableEntry, ...]
    journals: dict[str, tuple[JournalRecord, ...]]
    logs: dict[str, tuple[LoggedEntry, ...]]
    mark: Mark | None
    served: ServedEntry | None


class BookieFold:
    def __init__(self) -> None:
        self._copies: Copies = {}
        self._own: set[int] = set()
        """The ledgers whose dictionaries of copies are not shared with returned values."""
        self._latest: Bookie | None = None
        self._fenced: frozenset[int] = frozenset()
        self._durable_fences: frozenset[int] = frozenset()
        self._memtable: dict[_Key, MemtableEntry] = {}
        self._journals: dict[str, dict[_Key, JournalRecord]] = {}
        self._logs: dict[str, dict[_Key, LoggedEntry]] = {}
        self._mark: Mark | None = None
        self._served_entry: ServedEntry | None = None
        self._group = -1
        self._left_in_group = 0
        self._special: list[tuple[str, _Key]] = []
        """The file and the dictionary key of each unsynced `key`, `fence` or `LAC` record."""
        self._was_killed = False
        self._handlers = {kind: getattr(self, name) for kind, name in BOOKIE_HANDLERS}

    def apply(self, event: Event) -> None:
        self._served_entry = None
        handle = self._handlers.get(event.kind)
        if handle is not None:
            handle(event)

    def bookie(self, state: str) -> Bookie:
        """Return the bookie with its copies. If nothing has changed, return the same object as
        before.
        """
        self._own.clear()
        if self._latest is None or self._latest.state != state:
            ledgers = in_order(self._copies).items()
            self._copies = {ledger: in_order(copies) for ledger, copies in ledgers}
            self._latest = Bookie(state, self._copies, self._fenced)
        return self._latest

    def inside(self, state: str) -> BookieState:
        return BookieState(
            state,
            tuple(kept for _, kept in sorted(self._memtable.items())),
            {file: _by_offset(records.values()) for file, records in self._journals.items()},
            {file: _by_offset(entries.values()) for file, entries in self._logs.items()},
            self._mark,
            self._served_entry,
        )

    def copies(self, ledger: int) -> Mapping[int, Copy]:
        """Return the copies of the ledger's entries, keyed by entry id."""
        return self._copies.get(ledger, _NONE)

    def copy(self, event: Event) -> Copy:
        """Return the copy of the event's entry, or a copy in state `sent` if there is none."""
        return self.copies(event.ledger).get(event.entry, _SENT)

    def put(self, ledger: int, entry: int, copy: Copy) -> None:
        """Store a copy, unless the entry is -1, which means that the event is about the whole
        ledger.
        """
        if entry < 0:
            return
        if ledger not in self._own:
            # Copy the dictionaries, because values returned earlier share them.
            self._copies = {**self._copies, ledger: {**self._copies.get(ledger, {})}}
            self._own.add(ledger)
            self._latest = None
        self._copies[ledger][entry] = copy

    def apply_report(self, event: Event) -> None:
        """Apply a writer's or a reader's report about a copy on this bookie."""
        copy = self.copy(event)
        match event.kind:
            case "add.sent":
                copy = _SENT if copy.state in ("failed", "lost") else copy
            case "add.acked":
                copy = copy._replace(acked=True)
            case "add.failed":
                state = "failed" if copy.state == "sent" else copy.state
                copy = copy._replace(state=state, error=event.error)
            case "read.done":
                copy = copy._replace(reads=copy.reads + 1, damaged=False)
            case "read.failed" if event.error == "BKDigestMatchException":
                copy = copy._replace(damaged=True)
            case _:
                return
        self.put(event.ledger, event.entry, copy)

    # The process

    @on("node.started", "bookie.registered")
    def _started(self, _: Event) -> None:
        """Handle the end of replay after a crash: records that the replay did not find are lost."""
        if self._was_killed:
            self._change_records("unsure", "lost")
            self._was_killed = False

    @on("node.killed")
    def _killed(self, event: Event) -> None:
        """Drop what was only in memory. If only the process died (`kept`), the operating system
        still writes an unsynced fence to the disk.
        """
        self._was_killed = True
        if event.detail != "kept":
            self._set_fenced(self._fenced & self._durable_fences)
        for (ledger, entry), kept in self._memtable.items():
            self._memtable[ledger, entry] = kept._replace(state="lost")
            copy = self.copies(ledger).get(entry, _SENT)
            if copy.state == "memtable":
                self.put(ledger, entry, copy._replace(state="lost"))
        self._change_records("written", "unsure")
        self._special = []

    def _change_records(self, before: str, after: str) -> None:
        for records in self._journals.values():
            for key, record in records.items():
                if record.state == before:
                    records[key] = record._replace(state=after)

    # The memtable and the journal

    @on("memtable.put")
    def _put(self, event: Event) -> None:
        copy, key = self.copy(event), (event.ledger, event.entry)
        state = copy.state if copy.state in ON_DISK else "memtable"
        self.put(*key, copy._replace(state=state, damaged=False))
        self._memtable.setdefault(key, MemtableEntry(*key))

    @on("journal.appended")
    def _appended(self, event: Event) -> None:
        copy, key = self.copy(event), (event.ledger, event.entry)
        self.put(*key, copy._replace(journal_file=event.file, journal_offset=event.offset))
        self._journals.setdefault(event.file, {})[key] = JournalRecord(*key, event.offset)

    @on("journal.key_appended", "journal.fence_appended", "journal.lac_appended")
    def _special_appended(self, event: Event) -> None:
        # A file can contain several such records of a ledger, so the key contains the offset
        # instead of an entry id. The offset is negated, so that it differs from all entry ids.
        key = (event.ledger, -event.offset)
        record = JournalRecord(event.ledger, -1, event.offset, kind=_SPECIAL[event.kind])
        self._journals.setdefault(event.file, {})[key] = record
        self._special.append((event.file, key))

    @on("journal.synced")
    def _synced(self, event: Event) -> None:
        copy, key = self.copy(event), (event.ledger, event.entry)
        self.put(*key, copy._replace(state="flushed" if copy.state == "flushed" else "durable"))
        if self._left_in_group <= 0:
            self._group += 1
            self._left_in_group = event.size
        self._left_in_group -= 1
        records = self._journals.get(event.file, {})
        # A sync also covers all earlier records of the file.
        covered = [(f, k) for f, k in self._special if f == event.file and -k[1] <= event.offset]
        self._special = [each for each in self._special if each not in covered]
        for each in (*(k for _, k in covered), key):
            if each in records:
                records[each] = records[each]._replace(state="synced", group=self._group)
                if records[each].kind == "fence":
                    self._durable_fences |= {records[each].ledger}

    @on("journal.replayed")
    def _replayed(self, event: Event) -> None:
        """Put entries after the mark that are not in the index back into the memtable.

        The replay found exactly the records before the position that is in the event.
        """
        end = _journal_id(event.file), event.offset
        for file, records in self._journals.items():
            for key, record in records.items():
                if record.state == "unsure":
                    was_found = (_journal_id(file), record.offset) < end
                    records[key] = record._replace(state="synced" if was_found else "lost")
                    if was_found and record.kind == "fence":
                        self._durable_fences |= {record.ledger}
                        self._set_fenced(self._fenced | {record.ledger})
        self._memtable.clear()
        files, mark = list(self._journals), self._mark
        first = files.index(mark.file) if mark and mark.file in files else 0
        for file in files[first:]:
            start = mark.offset if mark and mark.file == file else 0
            for key, record in self._journals[file].items():
                is_needed = record.kind == "entry" and record.offset >= start
                if is_needed and record.state == "synced" and not self._is_indexed(key):
                    self._memtable[key] = MemtableEntry(*key, "replayed")

    def _is_indexed(self, key: _Key) -> bool:
        return any(key in log and log[key].indexed for log in self._logs.values())

    # The entry log and the index

    @on("entry_log.written")
    def _log_written(self, event: Event) -> None:
        copy, key = self.copy(event), (event.ledger, event.entry)
        self.put(*key, copy._replace(log_file=event.file, log_offset=event.offset))
        self._logs.setdefault(event.file, {})[key] = LoggedEntry(*key, event.offset)
        self._memtable[key] = MemtableEntry(*key, "written")

    @on("index.written")
    def _index_written(self, event: Event) -> None:
        key = (event.ledger, event.entry)
        log = next((log for log in reversed(self._logs.values()) if key in log), None)
        if log is not None:
            log[key] = log[key]._replace(indexed=True)

    @on("memtable.flushed")
    def _flushed(self, _: Event) -> None:
        self._durable_fences |= self._fenced  # The index of a ledger contains its fence.
        for (ledger, entry), kept in list(self._memtable.items()):
            if kept.state == "written":
                del self._memtable[ledger, entry]
                copy = self.copies(ledger).get(entry, _SENT)
                self.put(ledger, entry, copy._replace(state="flushed"))

    @on("mark.persisted")
    def _marked(self, event: Event) -> None:
        # Offset 0 means that the mark is before every journal file, because there has been no
        # checkpoint yet.
        self._mark = Mark(event.file, event.offset) if event.offset > 0 else None
        self._started(event)
        # Replay has not restored the lost entries, so they are no longer in memory.
        self._memtable = {k: kept for k, kept in self._memtable.items() if kept.state != "lost"}

    @on("ledger.fenced")
    def _ledger_fenced(self, event: Event) -> None:
        self._set_fenced(self._fenced | {event.ledger})

    def _set_fenced(self, fenced: frozenset[int]) -> None:
        if fenced != self._fenced:
            self._fenced, self._latest = fenced, None

    # Garbage collection

    @on("ledger.collected", "ledger.dropped")
    def _dropped(self, event: Event) -> None:
        """Drop a ledger and its index. Its entries remain in the entry logs as garbage."""
        ledger = event.ledger
        self._copies = {each: copies for each, copies in self._copies.items() if each != ledger}
        self._own.discard(ledger)
        self._memtable = {key: kept for key, kept in self._memtable.items() if key[0] != ledger}
        self._durable_fences -= {ledger}
        self._fenced -= {ledger}
        self._latest = None
        for entries in self._logs.values():
            for key, logged in entries.items():
                if key[0] == ledger:
                    entries[key] = logged._replace(indexed=False, is_garbage=True)

    @on("log.removed")
    def _log_removed(self, event: Event) -> None:
        self._logs.pop(event.file, None)

    @on("read.served")
    def _served(self, event: Event) -> None:
        self._served_entry = ServedEntry(event.ledger, event.entry, event.detail)


_NONE: dict[int, Copy] = {}
_SENT = Copy("sent")
_SPECIAL = {
    "journal.key_appended": "key",
    "journal.fence_appended": "fence",
    "journal.lac_appended": "LAC",
}
BOOKIE_HANDLERS = handlers_of(BookieFold)


def _journal_id(file: str) -> int:
    return int(file.removesuffix(".txn"), 16)


def _by_offset(places: Collection[_OnDisk]) -> tuple[_OnDisk, ...]:
    return tuple(sorted(places, key=lambda place: place.offset))


def in_order(found: dict[int, _Value]) -> dict[int, _Value]:
    """Return the mapping sorted by id. If it is already sorted, which is the usual case, return the
    same object.
    """
    keys = list(found)
    return found if all(map(lt, keys, keys[1:])) else dict(sorted(found.items()))
