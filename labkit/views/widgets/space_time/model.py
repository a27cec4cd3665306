"""The data of the space-time diagram, made from a trace: lanes, messages, and breaks.

    lanes      the nodes that worked with the ledger: clients left and right of the bookies,
               the metadata store last
    messages   a request, its arrival, and its answer, as far as they are known
    breaks     when a node was down, paused, or cut off

A message is made from the events at its ends.  An end without an event stays open: a request that
never arrived was lost.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

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
"""Kinds whose entry says where something begins or ends: shown for every choice of entries."""
_ENDS = {"node.started": "down", "node.resumed": "paused", "node.killed": "paused"}
_BEGINS = {"node.killed": "down", "node.paused": "paused"}


@dataclass(slots=True, eq=False)
class Exchange:
    """A request and its answer.  `sent`, `arrived`, `left` and `answered` are places in the list of
    events, -1 where there is none; `end` is `done` ("no such entry" is an answer too), `refused`,
    `silence`, or "" if nothing came.
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
    """A lane's node was down, paused or cut off between two places in the list of events (-1: to
    the end).
    """

    lane: int
    state: str
    begin: int
    end: int = -1


@dataclass(frozen=True, slots=True)
class Diagram:
    """Everything that is drawn for one ledger.

    For each event `words` has the words beside it, and `about` the entry with which it is shown or
    hidden: `ALWAYS` if it is about no entry, `NEVER` if it has no words.
    """

    ledger: int
    events: tuple[Event, ...]
    words: tuple[str, ...]
    about: tuple[int, ...]
    lanes: tuple[str, ...]
    messages: tuple[Exchange, ...]
    breaks: tuple[Break, ...]


def diagram_of(
    events: Sequence[Event], ledger: int | None = None, lanes: Sequence[str] | None = None
) -> Diagram:
    """The diagram of a ledger, by default the newest, with a lane for each node that took part."""
    if ledger is None:
        ledger = max((event.ledger for event in events), default=-1)
    of_ledger = [e for e in events if e.kind in SHOWN_KINDS or e.kind in _REQUESTS]
    of_ledger = [e for e in of_ledger if e.ledger in (ledger, -1)]
    names = tuple(lanes or _lanes_of([e for e in of_ledger if e.ledger == ledger]))
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


def _is_shown(event: Event, lanes: Sequence[str]) -> bool:
    if event.kind in ("link.cut", "link.healed"):
        return event.node in lanes and event.peer in (*lanes, _METADATA_SERVER)
    return event.node in lanes


def _without_first_starts(events: Iterable[Event]) -> list[Event]:
    """The events without the first start of each node: a start is shown only after a stop."""
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
    """The shown events, each linked to its nearest cause that is shown."""
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
    """The lanes: writers, bookies in the order of their names, other clients, metadata."""
    bookies, writers, others = dict[str, None](), dict[str, None](), dict[str, None]()
    for event in events:
        if event.kind in _REQUESTS:
            bookies[event.peer] = None
        elif event.kind in ("ensemble.set", "ensemble.deferred"):
            bookies.update(dict.fromkeys(event.note.split(",")))
        if event.kind == "ledger.created":
            writers[event.node] = None
        others[event.node] = None
    last = [name for name in others if name not in bookies and name not in writers]
    ordered = sorted(bookies, key=_by_number)
    return [*(w for w in writers if w not in bookies), *ordered, *last, METADATA]


def _by_number(name: str) -> tuple[str, int]:
    digits = re.search(r"\d*$", name)[0]  # type: ignore[index] # matches every string
    return name.removesuffix(digits), int(digits or -1)


def _words_of(events: Sequence[Event]) -> list[str]:
    """The words of each event; a bookie that is fenced again by later reads says so only once."""
    words, said = [], set[tuple[str, str]]()
    for event in events:
        is_of_fence = event.kind == "journal.synced" and event.entry < 0
        word = "fence synced" if is_of_fence else word_of(event)
        if is_of_fence or event.kind == "ledger.fenced":
            word = "" if (event.node, word) in said else word
            said.add((event.node, word))
        words.append(word)
    return words


def _about(
    events: Sequence[Event], words: Sequence[str], messages: Iterable[Exchange]
) -> Iterator[int]:
    """For each event the entry that it is about.  An event of the whole ledger without words
    belongs to the message that it is an end of, such as a read that fenced again.
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
    """Makes messages from events, one by one."""

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
        """Take the event at the place `at` of the list."""
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
            # Its cause is the latest request, which may not have arrived yet; and reads fence too.
            waiting = [each for each in self._at.get(event.node, []) if each.what != "add"]
            message = next((each for each in waiting if each.arrived < 0), None)
            self._fenced[event.seq] = at
        if message is not None:
            message.arrived = at
            if message.what != "add":
                message.left = at

    def _synced(self, at: int, event: Event) -> None:
        """The requests that waited for this sync can be answered: the entry's add, or all
        fences.
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
        """The message that was sent there at this moment is lost: it never arrives."""
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
        if not event.kind.endswith(".failed") or event.note.startswith(ABSENCE):
            message.end = "done"
        else:
            message.end = "silence" if event.note.startswith(SILENCE) else "refused"
        if message in self._at[event.peer]:
            self._at[event.peer].remove(message)


def _messages_of(events: Sequence[Event], lanes: Sequence[str]) -> list[Exchange]:
    matching = _Matching(lanes)
    for at, event in enumerate(events):
        matching.take(at, event)
    return matching.messages


def _breaks_of(events: Sequence[Event], lanes: Sequence[str]) -> list[Break]:
    breaks, under_way = list[Break](), dict[tuple[str, str], Break]()
    cut: dict[str, set[tuple[str, str]]] = {name: set() for name in lanes}
    for at, event in enumerate(events):
        if event.kind in ("link.cut", "link.healed"):
            for name, pair in _cut_of(event):
                if name in cut:
                    (cut[name].add if event.kind == "link.cut" else cut[name].discard)(pair)
                    _switch(breaks, under_way, lanes, name, at, _is_alone(cut[name], name, lanes))
            continue
        if event.kind in _ENDS and (event.node, _ENDS[event.kind]) in under_way:
            under_way.pop((event.node, _ENDS[event.kind])).end = at
        if event.kind in _BEGINS:
            state = _BEGINS[event.kind]
            breaks.append(Break(lanes.index(event.node), state, at))
            under_way[event.node, state] = breaks[-1]
    return breaks


def _cut_of(event: Event) -> list[tuple[str, tuple[str, str]]]:
    pair = (event.node, event.peer)
    return [(event.node, pair), (event.peer, pair)]


def _is_alone(cut: set[tuple[str, str]], name: str, lanes: Sequence[str]) -> bool:
    """Whether the node is cut off from all other lanes, in at least one direction."""
    others = [other for other in lanes if other not in (name, METADATA)]
    out = all((name, other) in cut for other in others)
    return out or all((other, name) in cut for other in others)


def _switch(
    breaks: list[Break],
    under_way: dict[tuple[str, str], Break],
    lanes: Sequence[str],
    name: str,
    at: int,
    is_alone: bool,
) -> None:
    found = under_way.get((name, "cut off"))
    if is_alone and found is None:
        breaks.append(Break(lanes.index(name), "cut off", at))
        under_way[name, "cut off"] = breaks[-1]
    elif not is_alone and found is not None:
        under_way.pop((name, "cut off")).end = at
