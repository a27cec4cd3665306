"""The data of the space-time diagram, extracted from a trace: lanes, messages, and breaks.

    lanes      the nodes involved with the ledger: clients to the left and right of the
               bookies, the metadata store last
    messages   a request, its arrival, and its response, as far as the trace shows them
    breaks     the times at which a node was down, paused, or cut off

A message is assembled from the events at its two ends. If the event at one end is missing, that end
remains open: for example, a request that never arrived was lost.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from labkit.system.trace.cluster_state import by_number
from labkit.system.trace.events import Event
from labkit.views.widgets.space_time.words import ABSENCE, SHOWN_KINDS, SILENCE, word_of

METADATA = "metadata"
ALWAYS, NEVER = -1, -2
_METADATA_SERVER = "zk"

_REQUESTS = {"add.sent": "add", "fence.sent": "fence", "read.sent": "read"}
_ANSWERS = {
    "add.acked": "add",
    "add.failed": "add",
    "fence.answered": "fence",
    "fence.failed": "fence",
    "read.done": "read",
    "read.failed": "read",
}
_WIDE = (
    "ensemble.set",
    "ensemble.changing",
    "ensemble.deferred",
    "ledger.closed",
    "fence.answered",
    "recovery.covered",
    "recovery.ended",
    "lac.read",
    "fragment.replicated",
)
"""Kinds of events whose entry is only the start or the end of something. These events are shown no
matter which entries are selected.
"""
_ENDS = {"node.started": "down", "node.resumed": "paused", "node.killed": "paused"}
_BEGINS = {"node.killed": "down", "node.paused": "paused"}


@dataclass(slots=True, eq=False)
class Exchange:
    """A request and its response.

    `sent`, `arrived`, `left` (when the response was sent) and `answered` are indices into the list
    of events, or -1. `end` is `done` (also if the response is "no such entry"), `refused`,
    `silence`, or "" if the trace contains no end.
    """

    what: str
    entry: int
    source: int
    target: int
    sent: int
    arrived: int = -1
    left: int = -1
    answered: int = -1
    end: str = ""


@dataclass(slots=True)
class Break:
    """The range of event indices during which a lane's node was down, paused or cut off (-1: until
    the end of the list).
    """

    lane: int
    state: str
    begin: int
    end: int = -1


@dataclass(frozen=True, slots=True)
class Diagram:
    """Everything that is drawn for one ledger.

    For each event, `words` contains its label, and `about` contains the entry that it belongs to:
    the label is shown and hidden with that entry. `about` is `ALWAYS` for an event that has a label
    but concerns no particular entry, and `NEVER` for an event that has neither an entry nor a
    label.
    """

    ledger: int
    events: tuple[Event, ...]
    words: tuple[str, ...]
    about: tuple[int, ...]
    lanes: tuple[str, ...]
    messages: tuple[Exchange, ...]
    breaks: tuple[Break, ...]


def diagram_of(events: Sequence[Event], ledger: int | None = None) -> Diagram:
    """Return the diagram of a ledger (by default the newest) with a lane for each node involved."""
    if ledger is None:
        ledger = max((event.ledger for event in events), default=-1)
    of_ledger = [e for e in events if e.kind in SHOWN_KINDS or e.kind in _REQUESTS]
    of_ledger = [e for e in of_ledger if e.ledger in (ledger, -1)]
    names = tuple(_lanes_of([e for e in of_ledger if e.ledger == ledger]))
    lacs = {_record_of(event) for event in events if event.kind == "journal.lac_appended"}
    of_ledger = [e for e in of_ledger if e.kind != "journal.synced" or _record_of(e) not in lacs]
    kept = _relinked([e for e in of_ledger if _is_shown(e, names)], events)
    kept = _without_first_starts(kept)
    words, messages = _words_of(kept), _messages_of(kept, names)
    return Diagram(
        ledger,
        tuple(kept),
        tuple(words),
        tuple(_about(kept, words, messages)),
        names,
        tuple(messages),
        tuple(_breaks_of(kept, names)),
    )


def _record_of(event: Event) -> tuple[str, str, int]:
    """Return the position of the event's journal record."""
    return event.node, event.file, event.offset


def _is_shown(event: Event, lanes: Sequence[str]) -> bool:
    if event.kind in ("link.cut", "link.healed"):
        return event.node in lanes and event.peer in (*lanes, _METADATA_SERVER)
    return event.node in lanes


def _without_first_starts(events: Iterable[Event]) -> list[Event]:
    """Drop the first start of each node. A start is shown only if the node was down before."""
    down = set[str]()
    kept = []
    for event in events:
        if event.kind == "node.killed":
            down.add(event.node)
        elif event.kind == "node.started":
            if event.node not in down:
                continue
            down.discard(event.node)
        kept.append(event)
    return kept


def _relinked(kept: list[Event], events: Sequence[Event]) -> list[Event]:
    shown = {event.seq for event in kept}
    causes = {event.seq: event.cause for event in events}
    linked = []
    for event in kept:
        cause = event.cause
        while cause >= 0 and cause not in shown:
            cause = causes.get(cause, -1)
        linked.append(event._replace(cause=cause))
    return linked


def _lanes_of(events: Iterable[Event]) -> list[str]:
    """Return the lanes in order: writers, bookies (by number), other clients, metadata."""
    bookies, writers, others = dict[str, None](), dict[str, None](), dict[str, None]()
    for event in events:
        if event.kind in _REQUESTS:
            bookies[event.peer] = None
        elif event.kind in ("ensemble.set", "ensemble.deferred"):
            bookies.update(dict.fromkeys(event.ensemble))
        if event.kind == "ledger.created":
            writers[event.node] = None
        others[event.node] = None
    last = [name for name in others if name not in bookies and name not in writers]
    ordered = sorted(bookies, key=by_number)
    return [*(w for w in writers if w not in bookies), *ordered, *last, METADATA]


def _words_of(events: Sequence[Event]) -> list[str]:
    """Return the label of each event. If later reads fence a bookie again, only its first fence is
    labelled.
    """
    words, labelled = [], set[tuple[str, str]]()
    for event in events:
        is_of_fence = event.kind == "journal.synced" and event.entry < 0
        word = "fence synced" if is_of_fence else word_of(event)
        if is_of_fence or event.kind == "ledger.fenced":
            word = "" if (event.node, word) in labelled else word
            labelled.add((event.node, word))
        words.append(word)
    return words


def _about(
    events: Sequence[Event], words: Sequence[str], messages: Iterable[Exchange]
) -> Iterator[int]:
    """Yield, for each event, the entry with which it is shown. An unlabelled event that concerns
    the whole ledger is shown together with its message, for example a read that fenced the ledger
    again.
    """
    of_message = {
        at: each.entry for each in messages for at in (each.arrived, each.left, each.answered)
    }
    for at, (event, word) in enumerate(zip(events, words, strict=True)):
        if event.kind in _WIDE or (event.entry < 0 and word):
            yield ALWAYS
        elif event.entry < 0:
            yield of_message.get(at, NEVER)
        else:
            yield event.entry


class _Matching:
    def __init__(self, lanes: Sequence[str]) -> None:
        self.messages: list[Exchange] = []
        self._times: list[int] = []
        self._fenced: dict[int, int] = {}
        self._fence_syncs: dict[str, list[int]] = {}
        self._lane = {name: at for at, name in enumerate(lanes)}
        self._by_seq: dict[int, Exchange] = {}
        self._open: dict[tuple[str, str, str, int], list[Exchange]] = {}
        self._at: dict[str, list[Exchange]] = {}

    def take(self, at: int, event: Event) -> None:
        self._times.append(event.time_us)
        if event.kind in _REQUESTS:
            self._sent(at, event)
        elif event.kind in ("memtable.put", "ledger.fenced", "read.served"):
            self._arrived(at, event)
        elif event.kind == "journal.synced":
            self._synced(at, event)
        elif event.kind in _ANSWERS:
            self._answered(at, event)
        elif event.kind == "message.lost":
            self._lost(event)

    def _sent(self, at: int, event: Event) -> None:
        if event.peer not in self._lane:
            return
        what = _REQUESTS[event.kind]
        ends = self._lane[event.node], self._lane[event.peer]
        message = Exchange(what, event.entry, *ends, sent=at)
        self.messages.append(message)
        self._by_seq[event.seq] = message
        self._open.setdefault((what, event.node, event.peer, event.entry), []).append(message)
        self._at.setdefault(event.peer, []).append(message)

    def _arrived(self, at: int, event: Event) -> None:
        message = self._by_seq.get(event.cause)
        if event.kind == "ledger.fenced":
            # Do not use the event's cause, which is the latest request and may not have arrived
            # yet. Use the earliest request that has not arrived. It may be a read, because reads
            # can fence as well.
            waiting = [each for each in self._at.get(event.node, []) if each.what != "add"]
            message = next((each for each in waiting if each.arrived < 0), None)
            self._fenced[event.seq] = at
        if message is not None:
            message.arrived = at
            if message.what != "add":
                message.left = at

    def _synced(self, at: int, event: Event) -> None:
        """Record that the responses to the requests that waited for this sync have been sent. These
        requests are the adds of the entry or, if there is no entry, all fences.
        """
        if event.entry < 0:
            self._fence_syncs.setdefault(event.node, []).append(at)
        for message in self._at.get(event.node, []):
            is_add = message.what == "add"
            fits = is_add and message.entry == event.entry if event.entry >= 0 else not is_add
            waits = message.left in (-1, message.arrived)
            if fits and waits and message.arrived >= 0:
                message.left = at

    def _lost(self, event: Event) -> None:
        source = self._lane[event.node]
        for message in list(self._at.get(event.peer, [])):
            if (message.source, self._times[message.sent]) == (source, event.time_us):
                self._at[event.peer].remove(message)

    def _answered(self, at: int, event: Event) -> None:
        what = _ANSWERS[event.kind]
        entry = -1 if what == "fence" else event.entry
        waiting = self._open.get((what, event.node, event.peer, entry))
        if not waiting:
            return
        message = waiting.pop(0)
        message.answered = at
        arrived = self._fenced.get(event.cause, -1)
        if what == "fence" and arrived > message.sent:
            syncs = self._fence_syncs.get(event.peer, [])
            message.arrived = arrived
            message.left = next((sync for sync in syncs if sync > arrived), arrived)
        if not event.kind.endswith(".failed") or event.error in ABSENCE:
            message.end = "done"
        else:
            message.end = "silence" if event.error in SILENCE else "refused"
        if message in self._at[event.peer]:
            self._at[event.peer].remove(message)


def _messages_of(events: Sequence[Event], lanes: Sequence[str]) -> list[Exchange]:
    matching = _Matching(lanes)
    for at, event in enumerate(events):
        matching.take(at, event)
    return matching.messages


def _breaks_of(events: Sequence[Event], lanes: Sequence[str]) -> list[Break]:
    breaks, under_way = list[Break](), dict[tuple[str, str], Break]()
    cuts = set[tuple[str, str]]()

    def begin(name: str, state: str, at: int) -> None:
        if (name, state) not in under_way:
            breaks.append(Break(lanes.index(name), state, at))
            under_way[name, state] = breaks[-1]

    def end(name: str, state: str, at: int) -> None:
        if (name, state) in under_way:
            under_way.pop((name, state)).end = at

    for at, event in enumerate(events):
        if event.kind in ("link.cut", "link.healed"):
            change = cuts.add if event.kind == "link.cut" else cuts.discard
            change((event.node, event.peer))
            for name in filter(lanes.__contains__, (event.node, event.peer)):
                change_state = begin if _is_cut_off(name, cuts, lanes) else end
                change_state(name, "cut off", at)
        if event.kind in _ENDS:
            end(event.node, _ENDS[event.kind], at)
        if event.kind in _BEGINS:
            begin(event.node, _BEGINS[event.kind], at)
    return breaks


def _is_cut_off(name: str, cuts: Collection[tuple[str, str]], lanes: Sequence[str]) -> bool:
    """Return whether the node is cut off, in at least one direction, from all other lanes."""
    others = [other for other in lanes if other not in (name, METADATA)]
    out = all((name, other) in cuts for other in others)
    return out or all((other, name) in cuts for other in others)
