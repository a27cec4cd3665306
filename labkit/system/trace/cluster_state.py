"""The state of a cluster at one moment, computed by folding all events up to that moment."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from labkit.system.trace.bookie_state import Bookie, BookieFold, BookieState, in_order
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import handlers_of, on
from labkit.system.trace.sentence import describe


class Segment(NamedTuple):
    """The ensemble that stores a ledger's entries from `first_entry` on."""

    first_entry: int
    ensemble: tuple[str, ...]


class Ledger(NamedTuple):
    """A ledger from its writer's point of view. -1 means that the value is unknown, or that there
    is no entry yet.

    last_entry: the last entry in the metadata, if the ledger is `closed`.
    in_recovery: whether a recovery has started since the ledger was last closed.
    """

    ensemble_size: int = -1
    write_quorum: int = -1
    ack_quorum: int = -1
    segments: tuple[Segment, ...] = ()
    last_add_pushed: int = -1
    last_add_confirmed: int = -1
    closed: bool = False
    last_entry: int = -1
    in_recovery: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """The latest read of an entry from a bookie. Its `state` is asked, served, done or failed."""

    reader: str
    ledger: int
    entry: int
    bookie: str
    state: str


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The bookies and ledgers of a cluster after `event_count` events.

    `time_us` and `sentence` describe the last event. Bookies are sorted `by_number`, and ledgers
    and entries are sorted by id.
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
    """Return the state after the first `upto` events (default: all).

    The bookies in `bookies` are included even if no event mentions them.
    """
    return _folded(events, upto, bookies).state()


def fold_bookie(events: Iterable[Event], bookie: str, upto: int | None = None) -> BookieState:
    return _folded(events, upto, [bookie]).inside(bookie)


def _folded(events: Iterable[Event], upto: int | None, bookies: Iterable[str]) -> "ClusterFold":
    moment = ClusterFold(bookies)
    for event in events:
        if moment.event_count == upto:
            break
        moment.apply(event)
    return moment


_NODE_STATES = {
    **dict.fromkeys(("node.started", "node.resumed"), "up"),
    **dict.fromkeys(("bookie.registered", "journal.replayed"), "up"),
    "node.paused": "paused",
    "node.killed": "down",
}
"""The state of a node after an event of one of these kinds."""


class ClusterFold:
    """Computes the state of a cluster by folding events, one at a time.

    Consecutive states share all unchanged objects, so computing the state after each event of
    a long run is cheap.

    nodes: whether each node, including clients, is up, down or paused.
    """

    def __init__(self, bookies: Iterable[str] = ()) -> None:
        self.event_count = 0
        self.last: Event | None = None
        self.nodes: dict[str, str] = {}
        self.bookies: dict[str, BookieFold] = {name: BookieFold() for name in bookies}
        self.ledgers: dict[int, Ledger] = {}
        self.read: Read | None = None
        self._handlers = {kind: getattr(self, name) for kind, name in _HANDLERS}

    def apply(self, event: Event) -> None:
        handle = self._handlers.get(event.kind)
        if handle is not None:
            handle(event)
        bookie = self.bookies.get(event.node)
        if bookie is None and event.kind in _OF_BOOKIES:
            bookie = self._bookie(event.node)
        if bookie is not None:
            bookie.apply(event)
            if event.node not in self.nodes:
                self.nodes[event.node] = "up"
        self.event_count += 1
        self.last = event

    def state(self) -> ClusterState:
        return ClusterState(
            self.event_count,
            self.last.time_us if self.last else -1,
            describe(self.last) if self.last else "",
            {
                name: self.bookies[name].bookie(self.nodes.get(name, "unknown"))
                for name in sorted(self.bookies, key=by_number)
            },
            in_order(self.ledgers),
            self.read,
        )

    def inside(self, bookie: str) -> BookieState:
        return self._bookie(bookie).inside(self.nodes.get(bookie, "unknown"))

    def _bookie(self, name: str) -> BookieFold:
        found = self.bookies.get(name)
        if found is None:
            found = self.bookies[name] = BookieFold()
        return found

    @on(*_NODE_STATES)
    def _node_changed(self, event: Event) -> None:
        self.nodes[event.node] = _NODE_STATES[event.kind]

    @on("bookie.formatted")
    def _formatted(self, event: Event) -> None:
        self.bookies[event.node] = BookieFold()

    # A ledger, as its writer sees it

    def _ledger(self, event: Event) -> Ledger:
        return self.ledgers.get(event.ledger, _UNKNOWN)

    @on("ledger.created")
    def _created(self, event: Event) -> None:
        self.ledgers[event.ledger] = self._ledger(event)._replace(
            ensemble_size=event.ensemble_size,
            write_quorum=event.write_quorum,
            ack_quorum=event.ack_quorum,
        )

    @on("ensemble.set")
    def _ensemble_set(self, event: Event) -> None:
        ledger, first = self._ledger(event), event.entry
        for bookie in event.ensemble:
            self._bookie(bookie)
        # A writer may replace the last segment if none of its entries are confirmed; a repair may
        # replace any segment.
        others = (each for each in ledger.segments if each.first_entry != first)
        segments = tuple(sorted((*others, Segment(first, event.ensemble))))
        self.ledgers[event.ledger] = ledger._replace(segments=segments)

    @on("add.pushed")
    def _pushed(self, event: Event) -> None:
        ledger = self._ledger(event)
        pushed = max(ledger.last_add_pushed, event.entry)
        self.ledgers[event.ledger] = ledger._replace(last_add_pushed=pushed)

    @on("lac.advanced")
    def _confirmed(self, event: Event) -> None:
        ledger = self._ledger(event)
        confirmed = max(ledger.last_add_confirmed, event.entry)
        self.ledgers[event.ledger] = ledger._replace(last_add_confirmed=confirmed)

    @on("recovery.started")
    def _recovery_started(self, event: Event) -> None:
        self.ledgers[event.ledger] = self._ledger(event)._replace(in_recovery=True)

    @on("ledger.closed")
    def _closed(self, event: Event) -> None:
        self._confirmed(event)
        self.ledgers[event.ledger] = self._ledger(event)._replace(
            closed=True, last_entry=event.entry, in_recovery=False
        )

    # Copies, as seen by writers and readers

    @on("add.sent", "add.acked", "add.failed", "read.sent", "read.done", "read.failed")
    def _reported(self, event: Event) -> None:
        states = {"read.sent": "asked", "read.done": "done", "read.failed": "failed"}
        if event.kind in states:
            ids = event.ledger, event.entry
            self.read = Read(event.node, *ids, event.peer, states[event.kind])
        self._bookie(event.peer).apply_report(event)

    @on("read.served")
    def _served(self, event: Event) -> None:
        reader = event.peer or (self.read.reader if self.read else "")
        self.read = Read(reader, event.ledger, event.entry, event.node, "served")


_HANDLERS = handlers_of(ClusterFold)
_OF_BOOKIES = (
    *("bookie.registered", "memtable.put", "journal.appended", "journal.synced"),
    "entry_log.written",
)
"""Kinds of events that only bookies report."""
_UNKNOWN = Ledger()


def by_number(name: str) -> tuple[str, int]:
    """Return a sort key for bookie names that orders them by their numbers."""
    digits = re.search(r"\d*$", name)[0]  # type: ignore[index] # matches every string
    return name.removesuffix(digits), int(digits or -1)
