"""A run as the sequence of what is visible of one ledger, in the specification's terms.

The specification counts entries from 1 and has 0 for "none"; events count from 0 and have -1.
Events that change nothing visible make no state, but what clients have learned by then is noted in
the state before: the answers that arrived decide which steps of the specification can come next.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile

from labkit.system.trace.events import Event

Segments = tuple[tuple[int, frozenset[str]], ...]
"""First entry and bookies of each."""

Answer = tuple[str, str, str, int]
"""`add`, `refused`, `fence`, `read` or `no entry`; client, bookie and entry."""

_METADATA = {"ledger.created", "ensemble.set", "ledger.closed"}
_FENCED = "BKLedgerFencedException"
_ABSENT = {"BKNoSuchEntryException", "BKNoSuchLedgerExistsException"}


class NotComparable(ValueError):
    """The specification has no such runs; the message says what it lacks."""


@dataclass(frozen=True, slots=True)
class Client:
    """What a client has reported."""

    begun: bool = False
    withdrawn: bool = False
    """A bookie refused its add, as the ledger is fenced."""
    reads: bool = False
    """A recoverer has fenced enough bookies and reads entries."""
    pushed: int = 0
    confirmed: int = 0
    segments: Segments = ()
    """A recoverer's; the metadata learn of its ensemble changes at the close."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What is visible of the ledger at a moment."""

    stage: str = "none"
    last: int = 0
    segments: Segments = ()
    stored: Mapping[str, frozenset[int]] = field(default_factory=dict)
    fenced: frozenset[str] = frozenset()
    clients: Mapping[str, Client] = field(default_factory=dict)

    def with_client(self, name: str, **changes: object) -> "Ledger":
        """The same with changes to one client."""
        client = replace(self.clients[name], **changes)  # type: ignore[arg-type]
        return replace(self, clients={**self.clients, name: client})


@dataclass(frozen=True, slots=True)
class State:
    """A moment: what is visible, the event that made it so, and the answers that have arrived."""

    ledger: Ledger
    event: Event | None
    arrived: int
    """How many of the run's answers had arrived when the next state began."""


@dataclass(frozen=True, slots=True)
class Run:
    """One ledger's part of a run."""

    bookies: tuple[str, ...]
    clients: tuple[str, ...]
    write_quorum: int
    ack_quorum: int
    states: tuple[State, ...]
    arrivals: tuple[Answer, ...]
    """In the order in which clients took them."""

    @property
    def entries(self) -> int:
        """The highest entry that a client pushed; at least 1."""
        clients = self.states[-1].ledger.clients.values()
        return max(1, *(client.pushed for client in clients))


def run_of(events: Iterable[Event], bookies: Iterable[str], ledger_id: int = 0) -> Run:
    """The run of that ledger, up to the epilogue.  Raises `NotComparable`."""
    before = takewhile(lambda event: event.kind != "epilogue.started", events)
    ours = [event for event in before if event.ledger == ledger_id]
    names, clients = tuple(bookies), _clients(ours)
    ensemble, write_quorum, ack_quorum = _quorums(ours)
    if ensemble != write_quorum:
        raise NotComparable(f"the specification has no striping: E={ensemble}, Qw={write_quorum}")
    ledger = Ledger(
        stored=dict.fromkeys(names, frozenset()), clients={name: Client() for name in clients}
    )
    arrivals: list[Answer] = []
    states = tuple(_states(ours, ledger, arrivals))
    return Run(names, clients, write_quorum, ack_quorum, states, tuple(arrivals))


def _clients(events: list[Event]) -> tuple[str, ...]:
    wanted = ("ledger.created", "recovery.started")
    names = [event.node for event in events if event.kind in wanted]
    if not names:
        raise NotComparable("no client created the ledger")
    if len(set(names)) < len(names):
        raise NotComparable("a client of the specification writes or recovers, and only once")
    return tuple(names)


def _quorums(events: list[Event]) -> tuple[int, int, int]:
    created = next((event for event in events if event.kind == "ledger.created"), None)
    if created is None:
        raise NotComparable("the run does not begin with the ledger's creation")
    sizes = dict(part.split("=") for part in created.note.split())
    return int(sizes["E"]), int(sizes["Qw"]), int(sizes["Qa"])


def _states(events: list[Event], ledger: Ledger, arrivals: list[Answer]) -> Iterator[State]:
    """The states, each as it is when the next one begins; fills `arrivals`."""
    made_by: Event | None = None
    held = _Held(_first_failures(events))
    for group in _steps(events):
        arrivals.extend(held.before(group[0]))
        changed = ledger
        for event in group:
            changed = after(changed, event)
        if changed != ledger:
            yield State(ledger, made_by, len(arrivals))
            ledger, made_by = changed, group[-1]
        for event in group:
            arrivals.extend(each for each in held.after(event) if each not in arrivals)
    yield State(ledger, made_by, len(arrivals))


class _Held:
    """Answers that have arrived and that their client has not looked at.

    A client that changes the ensemble confirms nothing from the bookie's failure on, as the change
    is one step in the specification.  A recoverer decides on what it read an event later, at the
    same time.
    """

    def __init__(self, failures: Container[Event]) -> None:
        """`failures`: where a change begins."""
        self._failures = failures
        self._adds: dict[str, list[Answer]] = {}
        self._reads: list[Answer] = []
        self._now_us = 0

    def before(self, event: Event) -> list[Answer]:
        """What counts before this event."""
        freed = self._reads if event.time_us > self._now_us else []
        self._reads = [] if freed else self._reads
        self._now_us = event.time_us
        return freed

    def after(self, event: Event) -> list[Answer]:
        """What counts from this event on."""
        node, kind = event.node, _kind_of_answer(event)
        answer = kind, node, event.peer, 0 if kind == "fence" else event.entry + 1
        if event in self._failures:
            self._adds[node] = []
        elif event.kind == "ensemble.set":
            return self._adds.pop(node, [])
        elif event.kind == "add.pushed":
            freed = [each for each in self._reads if each[1] == node]
            self._reads = [each for each in self._reads if each[1] != node]
            return freed
        elif kind in ("read", "no entry"):
            self._reads.append(answer)
        elif kind == "add" and node in self._adds:
            self._adds[node].append(answer)
        elif kind:
            return [answer]
        return []


def _first_failures(events: list[Event]) -> set[Event]:
    """For each ensemble change the first failure of an add to a bookie that it replaces."""
    failed: dict[tuple[str, str], Event] = {}
    found: set[Event] = set()
    for event in events:
        if event.kind == "add.failed":
            failed.setdefault((event.node, event.peer), event)
        elif event.kind == "ensemble.changing":
            lost = [failed.pop((event.node, bookie), event) for bookie in event.note.split(", ")]
            found.add(min(lost, key=lambda each: each.seq))
    return found


def _kind_of_answer(event: Event) -> str:
    match event.kind, event.note:
        case "add.acked", _:
            return "add"
        case "add.failed", note if note == _FENCED:
            return "refused"
        case "fence.answered", _:
            return "fence"
        case "read.done", _:
            return "read"
        case "read.failed", note if note in _ABSENT:
            return "no entry"
    return ""


def _steps(events: list[Event]) -> Iterator[list[Event]]:
    """What is one step of the specification and several events: one answer may confirm several
    entries, and one write of the metadata sets ensembles and the end.
    """

    def step(numbered: tuple[int, Event]) -> tuple[object, ...]:
        number, event = numbered
        if event.kind in _METADATA:
            return "metadata", event.node, event.time_us
        if event.kind == "lac.advanced":
            return "confirmed", event.node, event.time_us
        return "alone", number

    for _, group in groupby(enumerate(events), step):
        yield [event for _, event in group]


def after(ledger: Ledger, event: Event) -> Ledger:
    """What is visible after the event."""
    node, entry = event.node, event.entry + 1
    match event.kind:
        case "ledger.created":
            return replace(ledger, stage="open").with_client(node, begun=True)
        case "ensemble.set":
            return replace(ledger, segments=_with_segment(ledger.segments, entry, event.note))
        case "ledger.closed":
            return replace(ledger, stage="closed", last=entry)
        case "memtable.put":
            stored = {**ledger.stored, node: ledger.stored[node] | {entry}}
            return replace(ledger, stored=stored)
        case "ledger.fenced":
            return replace(ledger, fenced=ledger.fenced | {node})
        case "recovery.started":
            stage = "closed" if ledger.stage == "closed" else "in recovery"
            segments = tuple(map(_segment, event.note.split()))
            return replace(ledger, stage=stage).with_client(node, begun=True, segments=segments)
        case _ if node in ledger.clients:
            return _after_client(ledger, event)
    return ledger


def _after_client(ledger: Ledger, event: Event) -> Ledger:
    node, entry = event.node, event.entry + 1
    match event.kind:
        case "add.pushed":
            return ledger.with_client(node, pushed=entry)
        case "lac.advanced":
            return ledger.with_client(node, confirmed=entry)
        case "add.failed" if event.note == _FENCED:
            return ledger.with_client(node, withdrawn=True)
        case "recovery.covered":
            return ledger.with_client(node, reads=True, pushed=entry, confirmed=entry)
        case "ensemble.deferred":
            segments = _with_segment(ledger.clients[node].segments, entry, event.note)
            return ledger.with_client(node, segments=segments)
    return ledger


def _segment(note: str) -> tuple[int, frozenset[str]]:
    """One of `recovery.started`: "0:b0,b1,b2"."""
    first, names = note.split(":", 1)
    return int(first) + 1, frozenset(names.split(","))


def _with_segment(segments: Segments, first: int, names: str) -> Segments:
    kept = tuple(segment for segment in segments if segment[0] != first)
    return tuple(sorted((*kept, (first, frozenset(names.split(",")))), key=lambda each: each[0]))
