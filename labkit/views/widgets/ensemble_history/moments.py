"""The moments at which a ledger's bookies, or their states, changed.

    created, closed, down, back, recovery
    change      a writer's ensemble change; deferred: a recovery's, not in the metadata yet
    lost, marked, repaired      by auditor and replication workers

Each moment has the ledger's segments in the metadata at that time, and for each place the entries
that should be there and those that were durable there: these can differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from labkit.system.trace.events import Event
from labkit.system.trace.fold import ON_DISK, ClusterState, Fold, Ledger, Segment

TOGETHER_US = 1000
"""Events of one node within this many microseconds are one moment."""

_SHOWN = {
    "ensemble.set": "change",
    "ensemble.deferred": "deferred",
    "ledger.closed": "closed",
    "node.killed": "down",
    "node.paused": "down",
    "node.started": "back",
    "node.resumed": "back",
    "recovery.started": "recovery",
    "recovery.ended": "recovery",
    "recovery.failed": "recovery",
    "bookie.lost": "lost",
    "ledger.underreplicated": "marked",
    "fragment.replicated": "repaired",
    "replication.done": "repaired",
}
_FOLDED = (
    *_SHOWN,
    *("ledger.created", "bookie.registered", "add.pushed", "lac.advanced"),
    *("add.sent", "add.acked", "add.failed"),
    *("memtable.put", "journal.synced", "entry_log.written", "memtable.flushed"),
)
_OF_NODES = ("node.killed", "node.paused", "node.started", "node.resumed", "bookie.lost")
_END = "epilogue.started"


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """One place of a segment's ensemble.

    It should have the entries `due`; `held` of them are durable there.  `state`: up, down, paused
    or unknown.  `is_new`: another bookie had this place just before.
    """

    bookie: str
    state: str
    held: tuple[int, ...]
    due: tuple[int, ...]
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class SegmentEntries:
    """A segment with its entries; `last` is `first` - 1 while it has none.  `is_deferred`: only
    the client that recovers the ledger knows of it.
    """

    first: int
    last: int
    places: tuple[SegmentPlace, ...]
    is_deferred: bool = False


@dataclass(frozen=True, slots=True)
class HistoryMoment:
    """`kind`: one of the words in the module's docstring; `words`: what happened."""

    time_us: int
    kind: str
    words: str
    stretches: tuple[SegmentEntries, ...]
    last_add_confirmed: int
    is_closed: bool


def newest_ledger(events: Sequence[Event]) -> int:
    """The highest id of a ledger created in these events; -1 if there is none."""
    return max((event.ledger for event in events if event.kind == "ledger.created"), default=-1)


class History:
    """Takes the events of a run one by one, up to a simulated run's epilogue.

    moments: the ledger's moments so far; the last one may still change.  nodes: every bookie and
    its state.
    """

    def __init__(self, ledger_id: int) -> None:
        self.ledger_id = ledger_id
        self.moments: list[HistoryMoment] = []
        self._fold = Fold()
        self._deferred: dict[str, dict[int, tuple[str, ...]]] = {}
        self._used: dict[str, None] = {}
        self._group: list[Event] = []
        self._before: tuple[SegmentEntries, ...] = ()
        self._is_over = False

    @property
    def nodes(self) -> dict[str, str]:
        """Every bookie and its state."""
        return {name: bookie.state for name, bookie in self._fold.state().bookies.items()}

    def take(self, event: Event) -> bool:
        """Take the next event; returns whether it belongs to a moment."""
        self._is_over |= event.kind == _END
        if self._is_over or event.kind not in _FOLDED or event.ledger not in (-1, self.ledger_id):
            return False
        self._fold.take(event)
        if event.kind in ("ensemble.set", "ensemble.deferred"):
            self._used.update(dict.fromkeys(_names(event)))
        if event.kind == "ensemble.deferred":
            self._deferred.setdefault(event.node, {})[event.entry] = _names(event)
        if event.kind == "ledger.closed":
            self._deferred.pop(event.node, None)
        is_foreign = event.kind in _OF_NODES and (event.peer or event.node) not in self._used
        if event.kind not in _SHOWN or is_foreign or not self._used:
            return False
        if self._group and _is_one_moment(self._group[-1], event):
            self._group.append(event)
            self.moments.pop()
        else:
            before = self.moments[-1].stretches if self.moments else ()
            self._group, self._before = [event], before
        self.moments.append(self._moment())
        return True

    def now(self) -> tuple[SegmentEntries, ...]:
        """The ledger's segments after the events taken so far."""
        own = self._deferred.get(self._group[-1].node, {}) if self._group else {}
        stretches = _stretches(self._fold.state(), self.ledger_id, own)
        return tuple(_marked(stretch, self._before) for stretch in stretches)

    def _moment(self) -> HistoryMoment:
        ledger = self._fold.ledgers.get(self.ledger_id, Ledger())
        words = [_words(event, self._before, ledger) for event in self._group]
        kinds = [_SHOWN[event.kind] for event in self._group]
        return HistoryMoment(
            self._group[0].time_us,
            "repaired" if "repaired" in kinds else kinds[-1] if self._before else "created",
            "; ".join(words),
            self.now(),
            ledger.last_add_confirmed,
            ledger.closed,
        )


def moments_of(events: Sequence[Event], ledger_id: int) -> list[HistoryMoment]:
    """The ledger's moments in order, up to a simulated run's epilogue."""
    history = History(ledger_id)
    for event in events:
        history.take(event)
    return history.moments


def _is_one_moment(earlier: Event, event: Event) -> bool:
    """Whether the events belong to one moment.  A deferred change and its publication never do."""
    both = {earlier.kind, event.kind}
    return (
        event.node == earlier.node
        and event.time_us - earlier.time_us <= TOGETHER_US
        and ("ensemble.deferred" not in both or len(both) == 1)
    )


def _stretches(
    state: ClusterState, ledger_id: int, deferred: dict[int, tuple[str, ...]]
) -> Sequence[SegmentEntries]:
    ledger = state.ledgers.get(ledger_id, Ledger())
    segments = {each.first_entry: each.ensemble for each in ledger.segments} | deferred
    firsts = sorted(segments)
    end = ledger.last_add_confirmed if ledger.closed else ledger.last_add_pushed
    lasts = [*(first - 1 for first in firsts[1:]), max(end, (firsts or [0])[-1] - 1)]
    return [
        SegmentEntries(
            first,
            last,
            _places(state, ledger_id, Segment(first, segments[first]), last),
            first in deferred,
        )
        for first, last in zip(firsts, lasts, strict=True)
    ]


def _places(
    state: ClusterState, ledger_id: int, segment: Segment, last: int
) -> tuple[SegmentPlace, ...]:
    size, quorum = len(segment.ensemble), state.ledgers[ledger_id].write_quorum
    places = []
    for at, name in enumerate(segment.ensemble):
        bookie = state.bookies.get(name)
        copies = bookie.entries.get(ledger_id, {}) if bookie else {}
        due = tuple(e for e in range(segment.first_entry, last + 1) if (at - e) % size < quorum)
        held = tuple(e for e in due if e in copies and copies[e].state in ON_DISK)
        places.append(SegmentPlace(name, bookie.state if bookie else "unknown", held, due))
    return tuple(places)


def _marked(stretch: SegmentEntries, before: Sequence[SegmentEntries]) -> SegmentEntries:
    """The segment, with places marked as new that another bookie had before."""
    if not before:
        return stretch
    old = _covering(before, stretch.first)
    return replace(
        stretch,
        places=tuple(
            replace(place, is_new=place.bookie != was)
            for place, was in zip(stretch.places, old, strict=True)
        ),
    )


def _covering(stretches: Sequence[SegmentEntries], entry: int) -> list[str]:
    """The ensemble of the entry."""
    stretch = next(each for each in reversed(stretches) if each.first <= entry)
    return [place.bookie for place in stretch.places]


def _names(event: Event) -> tuple[str, ...]:
    return tuple(name.strip() for name in event.note.split(","))


def _words(event: Event, before: Sequence[SegmentEntries], ledger: Ledger) -> str:
    """What happened, short."""
    node, entry = event.node, event.entry
    if event.kind in ("ensemble.set", "ensemble.deferred"):
        if not before:
            sizes = f"E={ledger.ensemble_size} Qw={ledger.write_quorum} Qa={ledger.ack_quorum}"
            return f"created by {node}, {sizes}"
        pairs = zip(_covering(before, entry), _names(event), strict=True)
        changes = ", ".join(f"{new} for {old}" for old, new in pairs if new != old)
        later = " (not in the metadata yet)" if event.kind == "ensemble.deferred" else ""
        return f"from entry {entry} on {changes or 'as deferred'}{later}"
    return {
        "ledger.closed": f"closed by {node} at entry {entry}",
        "node.killed": f"{node} is down",
        "node.paused": f"{node} is paused",
        "node.started": f"{node} is back",
        "node.resumed": f"{node} goes on",
        "recovery.started": f"{node} begins to recover it",
        "recovery.ended": f"recovered by {node}",
        "recovery.failed": f"{node} could not recover it: {event.note}",
        "bookie.lost": f"{node}, the auditor, takes {event.peer} for lost",
        "ledger.underreplicated": f"marked: copies of {event.note} are missing",
        "fragment.replicated": f"repaired by {node}",
        "replication.done": "all copies are there",
    }[event.kind]
