"""The moments at which a ledger's bookies, or their states, changed.

    created, closed, down, back, recovery
    change      a writer's ensemble change; deferred: a recovery's change, not in the metadata yet
    lost, marked, repaired      caused by the auditor and the replication workers

Each moment records the ledger's segments according to the metadata at that time. For each bookie of
a segment, it records the entries that the bookie should have and the entries that were durable on
it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from labkit.system.trace.bookie_state import ON_DISK
from labkit.system.trace.cluster_state import ClusterFold, ClusterState, Ledger, Segment
from labkit.system.trace.events import Event
from labkit.views.widgets.drawing.plurals import quorum_words

TOGETHER_US = 1000
"""Events of the same node that happen within this many microseconds belong to the same moment."""

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
    *("bookie.formatted", "ledger.collected", "ledger.dropped"),
)
_OF_NODES = ("node.killed", "node.paused", "node.started", "node.resumed", "bookie.lost")
_END = "epilogue.started"


@dataclass(frozen=True, slots=True)
class SegmentBookie:
    """A bookie of a segment's ensemble.

    `expected`: the entries that the bookie should have; `durable`: the ones that are durable there.
    `state` is up, down, paused or unknown. `is_new`: whether the bookie has just replaced another
    one.
    """

    name: str
    state: str
    durable: tuple[int, ...]
    expected: tuple[int, ...]
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class SegmentEntries:
    """A segment with its entries. If the segment has no entries, `last` is `first` - 1.
    `is_deferred`: whether only the recovering client knows about the segment.
    """

    first: int
    last: int
    bookies: tuple[SegmentBookie, ...]
    is_deferred: bool = False


@dataclass(frozen=True, slots=True)
class HistoryMoment:
    """A moment. `kind`: one of the words in the module's docstring. `words`: describes what
    happened.
    """

    time_us: int
    kind: str
    words: str
    segments: tuple[SegmentEntries, ...]
    last_add_confirmed: int
    is_closed: bool


def newest_ledger(events: Sequence[Event]) -> int:
    """Return the highest id of the ledgers created before the epilogue, or -1 if there are none."""
    before = takewhile(lambda event: event.kind != _END, events)
    return max((event.ledger for event in before if event.kind == "ledger.created"), default=-1)


class History:
    """Collects the moments of a run, event by event, up to the epilogue of a simulated run.

    moments: the ledger's moments so far. The last one may still change.
    nodes: the state of each bookie.
    """

    def __init__(self, ledger_id: int) -> None:
        self.ledger_id = ledger_id
        self.moments: list[HistoryMoment] = []
        self._fold = ClusterFold()
        self._deferred: dict[str, dict[int, tuple[str, ...]]] = {}
        self._used: dict[str, None] = {}
        self._group: list[Event] = []
        self._before: tuple[SegmentEntries, ...] = ()
        self._is_over = False

    @property
    def nodes(self) -> dict[str, str]:
        return {name: bookie.state for name, bookie in self._fold.state().bookies.items()}

    def take(self, event: Event) -> bool:
        """Apply the next event, and return whether it is part of a moment."""
        self._is_over |= event.kind == _END
        if self._is_over or event.kind not in _FOLDED or event.ledger not in (-1, self.ledger_id):
            return False
        self._fold.apply(event)
        if event.kind in ("ensemble.set", "ensemble.deferred"):
            self._used.update(dict.fromkeys(event.ensemble))
        if event.kind == "ensemble.deferred":
            self._deferred.setdefault(event.node, {})[event.entry] = event.ensemble
        if event.kind == "ledger.closed":
            self._deferred.pop(event.node, None)
        is_foreign = event.kind in _OF_NODES and (event.peer or event.node) not in self._used
        if event.kind not in _SHOWN or is_foreign or not self._used:
            return False
        if self._group and _is_one_moment(self._group[-1], event):
            self._group.append(event)
            self.moments.pop()
        else:
            before = self.moments[-1].segments if self.moments else ()
            self._group, self._before = [event], before
        self.moments.append(self._moment())
        return True

    def now(self) -> tuple[SegmentEntries, ...]:
        own = self._deferred.get(self._group[-1].node, {}) if self._group else {}
        segments = _segments(self._fold.state(), self.ledger_id, own)
        return tuple(_marked(segment, self._before) for segment in segments)

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


def history_of(events: Iterable[Event], ledger_id: int) -> History:
    history = History(ledger_id)
    for event in events:
        history.take(event)
    return history


def _is_one_moment(earlier: Event, event: Event) -> bool:
    """Return whether the events belong to the same moment. A deferred ensemble change and its
    publication belong to different moments.
    """
    both = {earlier.kind, event.kind}
    return (
        event.node == earlier.node
        and event.time_us - earlier.time_us <= TOGETHER_US
        and ("ensemble.deferred" not in both or len(both) == 1)
    )


def _segments(
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
            _bookies(state, ledger_id, Segment(first, segments[first]), last),
            first in deferred,
        )
        for first, last in zip(firsts, lasts, strict=True)
    ]


def _bookies(
    state: ClusterState, ledger_id: int, segment: Segment, last: int
) -> tuple[SegmentBookie, ...]:
    size, quorum = len(segment.ensemble), state.ledgers[ledger_id].write_quorum
    found = []
    for at, name in enumerate(segment.ensemble):
        bookie = state.bookies.get(name)
        copies = bookie.entries.get(ledger_id, {}) if bookie else {}
        expected = tuple(
            e for e in range(segment.first_entry, last + 1) if (at - e) % size < quorum
        )
        durable = tuple(e for e in expected if e in copies and copies[e].state in ON_DISK)
        found.append(SegmentBookie(name, bookie.state if bookie else "unknown", durable, expected))
    return tuple(found)


def _marked(segment: SegmentEntries, before: Sequence[SegmentEntries]) -> SegmentEntries:
    """Mark the bookies in the segment that have replaced others."""
    if not before:
        return segment
    old = _covering(before, segment.first)
    return replace(
        segment,
        bookies=tuple(
            replace(bookie, is_new=bookie.name != was)
            for bookie, was in zip(segment.bookies, old, strict=True)
        ),
    )


def _covering(segments: Sequence[SegmentEntries], entry: int) -> list[str]:
    segment = next(each for each in reversed(segments) if each.first <= entry)
    return [bookie.name for bookie in segment.bookies]


def _words(event: Event, before: Sequence[SegmentEntries], ledger: Ledger) -> str:
    node, entry = event.node, event.entry
    if event.kind in ("ensemble.set", "ensemble.deferred"):
        if not before:
            sizes = quorum_words(ledger.ensemble_size, ledger.write_quorum, ledger.ack_quorum)
            return f"created by {node}: {sizes}"
        pairs = zip(_covering(before, entry), event.ensemble, strict=True)
        changes = ", ".join(f"{new} replaces {old}" for old, new in pairs if new != old)
        later = " (not in the metadata yet)" if event.kind == "ensemble.deferred" else ""
        return f"from entry {entry} on, {changes or 'as deferred'}{later}"
    return {
        "ledger.closed": f"closed by {node} at entry {entry}",
        "node.killed": f"{node} is down",
        "node.paused": f"{node} is paused",
        "node.started": f"{node} is back",
        "node.resumed": f"{node} is resumed",
        "recovery.started": f"{node} starts recovery",
        "recovery.ended": f"{node} has recovered it",
        "recovery.failed": f"{node} could not recover it: {event.error}",
        "bookie.lost": f"auditor {node} considers {event.peer} lost",
        "ledger.underreplicated": f"marked as under-replicated: missing {', '.join(event.bookies)}",
        "fragment.replicated": f"re-replicated by {node}",
        "replication.done": "fully replicated",
    }[event.kind]
