"""The state of a cluster at one moment, folded from the events up to it.

A view keeps no separate model: it draws a `ClusterState`.

Where one bookie's copy of an entry is, in the order in which a copy gets there:

    sent -> memtable -> durable (journal synced) -> flushed (entry log and index synced)

`failed`: the writer gets no acknowledgement.  `lost`: the bookie died while only its memory had
the copy.  A journal record that was written but not synced may come back at the replay; the copy is
then flushed as part of the replay, so the events of that flush bring it back here too.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from operator import lt
from typing import TypeVar

from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe

ON_DISK = ("durable", "flushed")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Copy:
    """One entry on one bookie: its state, where its bytes lie, and how often it was read here.

    damaged: the last answer from here had a digest that did not match.
    """

    state: str
    acked: bool = False
    reads: int = 0
    journal_file: str = ""
    journal_offset: int = -1
    log_file: str = ""
    log_offset: int = -1
    note: str = ""
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class Bookie:
    """`state`: up, down, paused or unknown; `entries`: ledger id -> entry id -> copy."""

    state: str
    entries: dict[int, dict[int, Copy]]


@dataclass(frozen=True, slots=True)
class Segment:
    """From `first_entry` on, the ledger is stored on these bookies; their order counts."""

    first_entry: int
    ensemble: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger as its writer knows it.  -1: not known, or no entry yet."""

    ensemble_size: int = -1
    write_quorum: int = -1
    ack_quorum: int = -1
    segments: tuple[Segment, ...] = ()
    last_add_pushed: int = -1
    last_add_confirmed: int = -1
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """The latest read of an entry from a bookie.  `state`: asked, served, done or failed."""

    reader: str
    ledger: int
    entry: int
    bookie: str
    state: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What the events so far have made of the cluster.

    `event_count` events were folded; `time_us` and `sentence` are the last one's.  Bookies are in
    the order of their names (bookie-2 before bookie-10), ledgers and entries by id.
    """

    event_count: int
    time_us: int
    sentence: str
    bookies: dict[str, Bookie]
    ledgers: dict[int, Ledger]
    read: Read | None


def fold(
    events: Iterable[Event], upto: int | None = None, bookies: Iterable[str] = ()
) -> ClusterState:
    """The state after the first `upto` events (all by default).

    `bookies` names those that exist whether or not an event has named them yet.
    """
    moment = Fold(bookies)
    for event in events:
        if moment.event_count == upto:
            break
        moment.take(event)
    return moment.state()


@dataclass(slots=True)
class Fold:
    """Takes events one by one and gives the state at any moment.

    What did not change from one state to the next is the same object, so that a picture of each
    moment of a long run costs only what changed.
    """

    names: Iterable[str] = ()
    event_count: int = 0
    last: Event | None = None
    nodes: dict[str, str] = field(default_factory=dict)
    bookies: dict[str, dict[int, dict[int, Copy]]] = field(default_factory=dict)
    ledgers: dict[int, Ledger] = field(default_factory=dict)
    flushing: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    read: Read | None = None
    _given: dict[str, Bookie] = field(default_factory=dict)
    _own: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        for name in self.names:
            self.meet(name)

    def take(self, event: Event) -> None:
        """Take one more event."""
        if event.node in self.bookies and event.node not in self.nodes:
            self.change(event.node, "up")
        if event.kind in _APPLY:
            _APPLY[event.kind](self, event)
        self.event_count += 1
        self.last = event

    def state(self) -> ClusterState:
        """The state after the events that were taken."""
        self._own.clear()
        for name in self.bookies:
            if name not in self._given:
                self._given[name] = Bookie(
                    self.nodes.get(name, "unknown"),
                    {
                        key: _in_order(copies)
                        for key, copies in _in_order(self.bookies[name]).items()
                    },
                )
                self.bookies[name] = self._given[name].entries
        return ClusterState(
            self.event_count,
            self.last.time_us if self.last else -1,
            describe(self.last) if self.last else "",
            {name: self._given[name] for name in sorted(self.bookies, key=_by_number)},
            _in_order(self.ledgers),
            self.read,
        )

    def meet(self, bookie: str) -> dict[int, dict[int, Copy]]:
        """The bookie's entries; it exists from now on."""
        return self.bookies.setdefault(bookie, {})

    def change(self, node: str, state: str) -> None:
        """The node is up, down or paused from now on."""
        self.nodes[node] = state
        self._given.pop(node, None)

    def copies(self, bookie: str, ledger: int) -> dict[int, Copy]:
        """The bookie's copies of the ledger's entries, to be changed: no state has this object."""
        if (bookie, ledger) not in self._own:
            self._own.add((bookie, ledger))
            ledgers = self.meet(bookie)
            self.bookies[bookie] = {**ledgers, ledger: {**ledgers.get(ledger, {})}}
            self._given.pop(bookie, None)
        return self.bookies[bookie][ledger]

    def copy(self, bookie: str, event: Event) -> Copy:
        """The bookie's copy of the event's entry; an unreported one counts as sent."""
        return self.meet(bookie).get(event.ledger, {}).get(event.entry, Copy("sent"))

    def put(self, bookie: str, event: Event, copy: Copy) -> None:
        """Keep the copy of the event's entry; an event of the whole ledger has none."""
        if event.entry >= 0:
            self.copies(bookie, event.ledger)[event.entry] = copy

    def ledger(self, event: Event) -> Ledger:
        """What is known of the event's ledger."""
        return self.ledgers.get(event.ledger, Ledger())


def _in_order(found: dict[int, _Value]) -> dict[int, _Value]:
    """By id; the same object if it is in order already, as nearly always."""
    keys = list(found)
    return found if all(map(lt, keys, keys[1:])) else dict(sorted(found.items()))


def _by_number(name: str) -> tuple[str, int]:
    digits = re.search(r"\d*$", name)[0]  # type: ignore[index] # matches every string
    return name.removesuffix(digits), int(digits or -1)


# Nodes


def _started(moment: Fold, event: Event) -> None:
    moment.change(event.node, "up")


def _registered(moment: Fold, event: Event) -> None:
    moment.meet(event.node)
    moment.change(event.node, "up")


def _paused(moment: Fold, event: Event) -> None:
    moment.change(event.node, "paused")


def _killed(moment: Fold, event: Event) -> None:
    moment.change(event.node, "down")
    moment.flushing.pop(event.node, None)
    for ledger, copies in moment.bookies.get(event.node, {}).items():
        lost = [entry for entry, copy in copies.items() if copy.state == "memtable"]
        for entry in lost:
            copy = replace(copies[entry], state="lost")
            moment.copies(event.node, ledger)[entry] = copy


# A ledger, as its writer sees it


def _created(moment: Fold, event: Event) -> None:
    numbers = [int(number) for number in re.findall(r"\d+", event.note)]
    if len(numbers) == 3:
        e, qw, qa = numbers
        ledger = replace(moment.ledger(event), ensemble_size=e, write_quorum=qw, ack_quorum=qa)
        moment.ledgers[event.ledger] = ledger


def _ensemble_set(moment: Fold, event: Event) -> None:
    ledger, first = moment.ledger(event), max(event.entry, 0)
    ensemble = tuple(re.findall(r"[^\s,\[\]()'\"]+", event.note))
    for bookie in ensemble:
        moment.meet(bookie)
    # A writer replaces a segment in which no entry was confirmed, and a repair any of them.
    others = (each for each in ledger.segments if each.first_entry != first)
    segments = sorted((*others, Segment(first, ensemble)), key=lambda each: each.first_entry)
    moment.ledgers[event.ledger] = replace(ledger, segments=tuple(segments))


def _pushed(moment: Fold, event: Event) -> None:
    ledger = moment.ledger(event)
    pushed = max(ledger.last_add_pushed, event.entry)
    moment.ledgers[event.ledger] = replace(ledger, last_add_pushed=pushed)


def _confirmed(moment: Fold, event: Event) -> None:
    ledger = moment.ledger(event)
    confirmed = max(ledger.last_add_confirmed, event.entry)
    moment.ledgers[event.ledger] = replace(ledger, last_add_confirmed=confirmed)


def _closed(moment: Fold, event: Event) -> None:
    _confirmed(moment, event)
    moment.ledgers[event.ledger] = replace(moment.ledger(event), closed=True)


# An entry on its way to one bookie


def _sent(moment: Fold, event: Event) -> None:
    copy = moment.copy(event.peer, event)
    if copy.state in ("failed", "lost"):
        copy = Copy("sent")
    moment.put(event.peer, event, copy)


def _in_memtable(moment: Fold, event: Event) -> None:
    copy = moment.copy(event.node, event)
    state = copy.state if copy.state in ON_DISK else "memtable"
    moment.put(event.node, event, replace(copy, state=state, damaged=False))


def _appended(moment: Fold, event: Event) -> None:
    copy = moment.copy(event.node, event)
    place = {"journal_file": event.file, "journal_offset": event.offset}
    moment.put(event.node, event, replace(copy, **place))  # type: ignore[arg-type]


def _synced(moment: Fold, event: Event) -> None:
    if event.entry < 0:
        # A fence or an explicit LAC copies nothing.
        return
    copy = moment.copy(event.node, event)
    state = "flushed" if copy.state == "flushed" else "durable"
    moment.put(event.node, event, replace(copy, state=state))


def _acked(moment: Fold, event: Event) -> None:
    moment.put(event.peer, event, replace(moment.copy(event.peer, event), acked=True))


def _failed(moment: Fold, event: Event) -> None:
    copy = moment.copy(event.peer, event)
    state = "failed" if copy.state == "sent" else copy.state
    moment.put(event.peer, event, replace(copy, state=state, note=event.note))


def _log_written(moment: Fold, event: Event) -> None:
    copy = moment.copy(event.node, event)
    copy = replace(copy, log_file=event.file, log_offset=event.offset)
    moment.put(event.node, event, copy)
    moment.flushing.setdefault(event.node, []).append((event.ledger, event.entry))


def _flushed(moment: Fold, event: Event) -> None:
    for ledger, entry in moment.flushing.pop(event.node, []):
        copies = moment.copies(event.node, ledger)
        copies[entry] = replace(copies[entry], state="flushed")


# Reads


def _served(moment: Fold, event: Event) -> None:
    reader = event.peer or (moment.read.reader if moment.read else "")
    moment.read = Read(reader, event.ledger, event.entry, event.node, "served", event.note)


def _read_by_reader(moment: Fold, event: Event) -> None:
    state = {"read.sent": "asked", "read.done": "done", "read.failed": "failed"}[event.kind]
    moment.read = Read(event.node, event.ledger, event.entry, event.peer, state, event.note)
    copy = moment.copy(event.peer, event)
    if state == "done":
        moment.put(event.peer, event, replace(copy, reads=copy.reads + 1, damaged=False))
    elif state == "failed" and event.note.startswith("BKDigestMatchException"):
        moment.put(event.peer, event, replace(copy, damaged=True))


def _only_told(moment: Fold, event: Event) -> None:
    """The picture stays as it is; the sentence says what happened."""


_APPLY: dict[str, Callable[[Fold, Event], None]] = {
    "node.started": _started,
    "node.killed": _killed,
    "node.paused": _paused,
    "node.resumed": _started,
    "bookie.registered": _registered,
    "journal.replayed": _only_told,
    "ledger.created": _created,
    "ensemble.set": _ensemble_set,
    "ledger.closed": _closed,
    "ledger.fenced": _only_told,
    "ledger.rolled": _only_told,
    "add.pushed": _pushed,
    "add.sent": _sent,
    "memtable.put": _in_memtable,
    "journal.appended": _appended,
    "journal.synced": _synced,
    "add.acked": _acked,
    "add.failed": _failed,
    "lac.advanced": _confirmed,
    "entry_log.written": _log_written,
    "memtable.flushed": _flushed,
    "read.sent": _read_by_reader,
    "read.served": _served,
    "read.done": _read_by_reader,
    "read.failed": _read_by_reader,
}

FOLDED_KINDS = tuple(_APPLY)
"""The kinds that a state depends on, or that a learner should see: what a view is sent."""
