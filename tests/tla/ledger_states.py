"""Convert a run to the sequence of one ledger's visible states, in the specification's terms.

The specification numbers entries from 1 and uses 0 for "none"; events number them from 0 and use
-1. An event that changes nothing visible does not create a state. The responses that clients have
received before a new state begins are recorded in the previous state, because they determine which
steps of the specification are possible next.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile

from labkit.system.trace.events import Event

Segments = tuple[tuple[int, frozenset[str]], ...]
"""The first entry and the bookies of each segment."""

Answer = tuple[str, str, str, int]
"""`add`, `refused`, `fence`, `read` or `no entry`, followed by client, bookie and entry."""

_METADATA = {"ledger.created", "ensemble.set", "ledger.closed"}
_FENCED = "BKLedgerFencedException"
_ABSENT = {"BKNoSuchEntryException", "BKNoSuchLedgerExistsException"}


class NotComparable(ValueError):
    """Raised for a run that the specification cannot describe; the message says why."""


@dataclass(frozen=True, slots=True)
class Client:
    """The state of a client, according to its events."""

    begun: bool = False
    withdrawn: bool = False
    """A bookie rejected an add of the client because the ledger is fenced."""
    reads: bool = False
    """The client is a recoverer that has fenced enough bookies and is reading entries."""
    pushed: int = 0
    confirmed: int = 0
    segments: Segments = ()
    """The segments as the recoverer sees them; its ensemble changes reach the metadata only on
    close.
    """


@dataclass(frozen=True, slots=True)
class Ledger:
    """The visible state of the ledger."""

    stage: str = "none"
    last: int = 0
    segments: Segments = ()
    stored: Mapping[str, frozenset[int]] = field(default_factory=dict)
    fenced: frozenset[str] = frozenset()
    clients: Mapping[str, Client] = field(default_factory=dict)

    def with_client(self, name: str, **changes: object) -> "Ledger":
        """Return a copy with changes to one client."""
        client = replace(self.clients[name], **changes)  # type: ignore[arg-type]
        return replace(self, clients={**self.clients, name: client})


@dataclass(frozen=True, slots=True)
class State:
    """A visible state, the event that led to it, and the responses that have arrived."""

    ledger: Ledger
    event: Event | None
    arrived: int
    """The number of the run's responses that had arrived when the next state began."""


@dataclass(frozen=True, slots=True)
class Run:
    """The part of a run that concerns one ledger."""

    bookies: tuple[str, ...]
    clients: tuple[str, ...]
    write_quorum: int
    ack_quorum: int
    states: tuple[State, ...]
    arrivals: tuple[Answer, ...]
    """The responses in the order in which clients processed them."""

    @property
    def entries(self) -> int:
        """Return the highest entry that a client has pushed, or 1 if that is higher."""
        clients = self.states[-1].ledger.clients.values()
        return max(1, *(client.pushed for client in clients))


def run_of(events: Iterable[Event], bookies: Iterable[str], ledger_id: int = 0) -> Run:
    """Return the ledger's part of the run, up to the epilogue. Raises `NotComparable`."""
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
        raise NotComparable("the specification allows a client to write or recover only once")
    return tuple(names)


def _quorums(events: list[Event]) -> tuple[int, int, int]:
    created = next((event for event in events if event.kind == "ledger.created"), None)
    if created is None:
        raise NotComparable("the run does not begin with the ledger's creation")
    return created.ensemble_size, created.write_quorum, created.ack_quorum


def _states(events: list[Event], ledger: Ledger, arrivals: list[Answer]) -> Iterator[State]:
    """Yield each state as it is when the next state begins, and append responses to `arrivals`."""
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
    """Responses that have arrived but that the client has not processed yet.

    An ensemble change is a single step in the specification, so a client confirms nothing between
    the bookie's failure and the end of the change. A recoverer acts on an entry one event after it
    has read the entry, but at the same time.
    """

    def __init__(self, failures: Container[Event]) -> None:
        """`failures` are the events that start an ensemble change."""
        self._failures = failures
        self._adds: dict[str, list[Answer]] = {}
        self._reads: list[Answer] = []
        self._now_us = 0

    def before(self, event: Event) -> list[Answer]:
        """Return the responses that take effect before this event."""
        freed = self._reads if event.time_us > self._now_us else []
        self._reads = [] if freed else self._reads
        self._now_us = event.time_us
        return freed

    def after(self, event: Event) -> list[Answer]:
        """Return the responses that take effect from this event on."""
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
    """Return, for each ensemble change, the first failed add to a bookie that is replaced."""
    failed: dict[tuple[str, str], Event] = {}
    found: set[Event] = set()
    for event in events:
        if event.kind == "add.failed":
            failed.setdefault((event.node, event.peer), event)
        elif event.kind == "ensemble.changing":
            lost = [failed.pop((event.node, bookie), event) for bookie in event.bookies]
            found.add(min(lost, key=lambda each: each.seq))
    return found


def _kind_of_answer(event: Event) -> str:
    match event.kind, event.error:
        case "add.acked", _:
            return "add"
        case "add.failed", error if error == _FENCED:
            return "refused"
        case "fence.answered", _:
            return "fence"
        case "read.done", _:
            return "read"
        case "read.failed", error if error in _ABSENT:
            return "no entry"
    return ""


def _steps(events: list[Event]) -> Iterator[list[Event]]:
    """Group the events that are a single step in the specification.

    One response may confirm several entries, and one metadata write may set both ensembles and the
    last entry.
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
    """Return the visible state after the event."""
    node, entry = event.node, event.entry + 1
    match event.kind:
        case "ledger.created":
            return replace(ledger, stage="open").with_client(node, begun=True)
        case "ensemble.set":
            return replace(ledger, segments=_with_segment(ledger.segments, entry, event.ensemble))
        case "ledger.closed":
            return replace(ledger, stage="closed", last=entry)
        case "memtable.put":
            stored = {**ledger.stored, node: ledger.stored[node] | {entry}}
            return replace(ledger, stored=stored)
        case "ledger.fenced":
            return replace(ledger, fenced=ledger.fenced | {node})
        case "recovery.started":
            stage = "closed" if ledger.stage == "closed" else "in recovery"
            segments = tuple((first + 1, frozenset(names)) for first, names in event.segments)
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
        case "add.failed" if event.error == _FENCED:
            return ledger.with_client(node, withdrawn=True)
        case "recovery.covered":
            return ledger.with_client(node, reads=True, pushed=entry, confirmed=entry)
        case "ensemble.deferred":
            segments = _with_segment(ledger.clients[node].segments, entry, event.ensemble)
            return ledger.with_client(node, segments=segments)
    return ledger


def _with_segment(segments: Segments, first: int, names: tuple[str, ...]) -> Segments:
    kept = tuple(segment for segment in segments if segment[0] != first)
    return tuple(sorted((*kept, (first, frozenset(names))), key=lambda each: each[0]))
