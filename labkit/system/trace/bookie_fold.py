"""The inside of one bookie at one moment, folded from its events up to it.

Where an entry is on its way through one bookie: in the memtable, as a record in the journal, in the
entry log, in the index.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe


@dataclass(frozen=True, slots=True)
class Kept:
    """An entry in the memtable.

    state: `put`; `replayed`, out of the journal after a crash; `written`, to the entry log by a
    flush that is not done; `lost` when the bookie was killed.
    """

    ledger: int
    entry: int
    state: str = "put"


@dataclass(frozen=True, slots=True)
class Record:
    """A record in the journal.

    state: `written`, not synced; `synced`; `unsure`, when the bookie was killed before the sync;
    `lost`, when replay did not find it.  `group` numbers the syncs of a bookie from 0; -1: none.
    kind: `entry`; or `key`, `fence`, `LAC`, which concern the whole ledger: their entry is -1.
    """

    ledger: int
    entry: int
    offset: int
    state: str = "written"
    group: int = -1
    kind: str = "entry"


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry in the entry log; `indexed`: the index says so."""

    ledger: int
    entry: int
    offset: int
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """LastLogMark: replay would start here."""

    file: str
    offset: int


@dataclass(frozen=True, slots=True)
class Found:
    """The entry that was just read, and where it was found: `memtable` or `entry log`."""

    ledger: int
    entry: int
    where: str


@dataclass(frozen=True, slots=True)
class BookieState:
    """What the events so far have made of the bookie.

    state: up, down, paused or unknown.  The memtable is in the order in which a flush
    writes it; journals and entry logs are in the order of their files, records and entries in that
    of their offsets.
    """

    event_count: int
    time_us: int
    sentence: str
    state: str
    memtable: tuple[Kept, ...]
    journals: dict[str, tuple[Record, ...]]
    logs: dict[str, tuple[Stored, ...]]
    mark: Mark | None
    found: Found | None


def fold_bookie(events: Iterable[Event], upto: int | None = None) -> BookieState:
    """The state after the first `upto` events of one bookie (all by default)."""
    moment = BookieFold()
    for event in events:
        if moment.event_count == upto:
            break
        moment.apply(event)
    return moment.state()


Key = tuple[int, int]
Place = TypeVar("Place", Record, Stored)


@dataclass(slots=True)
class BookieFold:
    """Takes the events of one bookie one by one, and gives the state of the moment."""

    event_count: int = 0
    last: Event | None = None
    up: str = "unknown"
    memtable: dict[Key, Kept] = field(default_factory=dict)
    journals: dict[str, dict[Key, Record]] = field(default_factory=dict)
    logs: dict[str, dict[Key, Stored]] = field(default_factory=dict)
    mark: Mark | None = None
    found: Found | None = None
    group: int = -1
    left_in_group: int = 0
    special: list[tuple[str, Key]] = field(default_factory=list)
    """File and key of each record that is not an entry's and waits for its sync."""
    was_killed: bool = False

    def apply(self, event: Event) -> None:
        """Take one more event."""
        self.found = None
        if event.kind in _APPLY:
            if self.up == "unknown":
                self.up = "up"
            _APPLY[event.kind](self, event)
        self.event_count += 1
        self.last = event

    def state(self) -> BookieState:
        """The state after the events so far."""
        return BookieState(
            self.event_count,
            self.last.time_us if self.last else -1,
            describe(self.last) if self.last else "",
            self.up,
            tuple(kept for _, kept in sorted(self.memtable.items())),
            {file: _by_offset(records) for file, records in self.journals.items()},
            {file: _by_offset(entries) for file, entries in self.logs.items()},
            self.mark,
            self.found,
        )

    def change_records(self, before: str, after: str) -> None:
        """Every record in one state gets another."""
        for records in self.journals.values():
            for key, record in records.items():
                if record.state == before:
                    records[key] = replace(record, state=after)

    def is_indexed(self, key: Key) -> bool:
        """Whether some entry log has the entry and the index says so."""
        return any(key in log and log[key].indexed for log in self.logs.values())


def _by_offset(places: dict[Key, Place]) -> tuple[Place, ...]:
    return tuple(sorted(places.values(), key=lambda place: place.offset))


def _started(moment: BookieFold, event: Event) -> None:
    moment.up = "up"
    _settle(moment)


def _settle(moment: BookieFold) -> None:
    """After a crash, when replay is over: what it did not find is lost."""
    if moment.was_killed:
        moment.change_records("unsure", "lost")
        moment.was_killed = False


def _killed(moment: BookieFold, event: Event) -> None:
    moment.up = "down"
    moment.was_killed = True
    for key, kept in moment.memtable.items():
        moment.memtable[key] = replace(kept, state="lost")
    moment.change_records("written", "unsure")
    moment.special = []


def _paused(moment: BookieFold, event: Event) -> None:
    moment.up = "paused"


def _resumed(moment: BookieFold, event: Event) -> None:
    moment.up = "up"


def _put(moment: BookieFold, event: Event) -> None:
    key = (event.ledger, event.entry)
    moment.memtable.setdefault(key, Kept(*key))


def _appended(moment: BookieFold, event: Event) -> None:
    key = (event.ledger, event.entry)
    moment.journals.setdefault(event.file, {})[key] = Record(*key, event.offset)


def _special_appended(moment: BookieFold, event: Event) -> None:
    # A ledger can have several in one file; its entries have no negative ids.
    key = (event.ledger, -event.offset)
    kind = _SPECIAL[event.kind]
    moment.journals.setdefault(event.file, {})[key] = Record(
        event.ledger, -1, event.offset, kind=kind
    )
    moment.special.append((event.file, key))


def _synced(moment: BookieFold, event: Event) -> None:
    if moment.left_in_group <= 0:
        moment.group += 1
        moment.left_in_group = event.size
    moment.left_in_group -= 1
    records = moment.journals.get(event.file, {})
    # A sync covers all that lies before, too.
    covered = [
        key for file, key in moment.special if file == event.file and -key[1] <= event.offset
    ]
    moment.special = [
        (f, key) for f, key in moment.special if f != event.file or key not in covered
    ]
    for key in (*covered, (event.ledger, event.entry)):
        if key in records:
            records[key] = replace(records[key], state="synced", group=moment.group)


def _settle_by_replay(moment: BookieFold, event: Event) -> None:
    """Replay found every record before the end that it reports, and no other."""
    end = _journal_id(event.file), event.offset
    for file, records in moment.journals.items():
        for key, record in records.items():
            if record.state == "unsure":
                found = (_journal_id(file), record.offset) < end
                records[key] = replace(record, state="synced" if found else "lost")


def _journal_id(file: str) -> int:
    return int(file.removesuffix(".txn"), 16)


def _replayed(moment: BookieFold, event: Event) -> None:
    """Every entry's synced record from LastLogMark on goes into the memtable again, unless entry
    log and index have the entry.
    """
    moment.up = "up"
    _settle_by_replay(moment, event)
    moment.memtable.clear()
    files = list(moment.journals)
    first = files.index(moment.mark.file) if moment.mark and moment.mark.file in files else 0
    for file in files[first:]:
        start = moment.mark.offset if moment.mark and moment.mark.file == file else 0
        for key, record in moment.journals[file].items():
            needed = record.kind == "entry" and record.offset >= start
            if needed and record.state == "synced" and not moment.is_indexed(key):
                moment.memtable[key] = Kept(*key, "replayed")


def _log_written(moment: BookieFold, event: Event) -> None:
    key = (event.ledger, event.entry)
    moment.logs.setdefault(event.file, {})[key] = Stored(*key, event.offset)
    moment.memtable[key] = Kept(*key, "written")


def _index_written(moment: BookieFold, event: Event) -> None:
    key = (event.ledger, event.entry)
    for log in reversed(moment.logs.values()):
        if key in log:
            log[key] = replace(log[key], indexed=True)
            break


def _flushed(moment: BookieFold, event: Event) -> None:
    moment.memtable = {k: kept for k, kept in moment.memtable.items() if kept.state != "written"}


def _marked(moment: BookieFold, event: Event) -> None:
    # Before the first checkpoint the mark is before every journal.
    moment.mark = Mark(event.file, event.offset) if event.offset > 0 else None
    _settle(moment)
    # What a crash took from memory and replay did not bring back is gone.
    moment.memtable = {k: kept for k, kept in moment.memtable.items() if kept.state != "lost"}


def _served(moment: BookieFold, event: Event) -> None:
    where = "memtable" if "memtable" in event.note else "entry log"
    moment.found = Found(event.ledger, event.entry, where)


_SPECIAL = {
    "journal.key_appended": "key",
    "journal.fence_appended": "fence",
    "journal.lac_appended": "LAC",
}

_APPLY: dict[str, Callable[[BookieFold, Event], None]] = {
    "node.started": _started,
    "bookie.registered": _started,
    "node.killed": _killed,
    "node.paused": _paused,
    "node.resumed": _resumed,
    "memtable.put": _put,
    "journal.appended": _appended,
    **dict.fromkeys(_SPECIAL, _special_appended),
    "journal.synced": _synced,
    "journal.replayed": _replayed,
    "entry_log.written": _log_written,
    "index.written": _index_written,
    "memtable.flushed": _flushed,
    "mark.persisted": _marked,
    "read.served": _served,
}

BOOKIE_KINDS = tuple(_APPLY)
"""The kinds of events that a bookie's inside depends on."""
