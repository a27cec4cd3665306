"""A run as its views share it: the events, their places on the clock, and messages in flight."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any, Protocol

from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.views.widgets.display_clock import Hop, Pace

SIGNS: dict[str, tuple[str, str]] = {
    "node.killed": ("◆", "lost"),
    "node.paused": ("‖", "ink"),
    "node.started": ("▲", "well"),
    "node.resumed": ("▲", "well"),
    "link.cut": ("✂", "lost"),
    "disk.bad": ("!", "lost"),
    "disk.rotted": ("!", "lost"),
    "bookie.formatted": ("!", "lost"),
    "session.lost": ("!", "lost"),
    "recovery.started": ("⊘", "ink"),
    "ledger.closed": ("■", "ink"),
    "epilogue.started": ("⚑", "ink"),
}
"""Events with a sign on the bar of every view, and its colour."""


class TraceLike(Protocol):
    """A trace: a log, or a simulated run."""

    @property
    def events(self) -> Sequence[Event]:
        """The events in the order of their `seq`."""


RunSource = TraceLike | Sequence[Event]


def events_of(source: RunSource) -> Sequence[Event]:
    """The events of a trace, or the events themselves."""
    return source if isinstance(source, Sequence) else source.events


class Places:
    """The places of a run's events on the clock, and messages in flight.

    departing: `seq` of an event -> the messages that it sends.  firsts: `seq` of an event that is
    the first of its kind -> the words about it.
    """

    def __init__(self) -> None:
        self.departing: dict[int, list[Hop]] = {}
        self.firsts: dict[int, str] = {}
        self._by_seq: dict[int, tuple[Event, float]] = {}

    def put(self, event: Event, at: float, first: str = "") -> None:
        """Add the next event."""
        self._by_seq[event.seq] = event, at
        if first:
            self.firsts[event.seq] = first
        sent, left_at = self._by_seq.get(event.cause, (event, at))
        if sent.node != event.node and sent.time_us < event.time_us:
            self.departing.setdefault(sent.seq, []).append(Hop(sent, event, left_at, at))

    def at(self, seq: int) -> float:
        return self._by_seq[seq][1]


class DisplayedRun(Places):
    """Takes the events of a run, all at once or as they arrive.

    name: the same for every view of the same run; by default made from the events.
    """

    def __init__(self, events: Sequence[Event], name: str = "") -> None:
        super().__init__()
        self.name = name or name_of(events)
        self.pace = Pace()
        self.events: list[Event] = []
        self._down: set[str] = set()
        self._signs: list[list[Any]] = []
        self._knots_sent = 0
        self.take(events)

    def take(self, events: Sequence[Event]) -> None:
        """Add events after all others."""
        first = len(self.events)
        self.events += events
        self.pace.take(events)
        for number, event in enumerate(events, start=first):
            at = self.pace.positions[number]
            self.put(event, at, self.pace.firsts.get(number, ""))
            if self._has_sign(event):
                glyph, colour = SIGNS.get(event.kind, ("●", "ink"))
                self._signs.append([at, glyph, describe(event), colour])

    def clock_message(self) -> dict[str, Any]:
        """The whole clock, as a message for the browser."""
        self._knots_sent = len(self.pace.knots)
        return self._message(self.pace.knots)

    def clock_growth(self) -> dict[str, Any]:
        """The same message with only the knots that were not sent before."""
        fresh = self.pace.knots[self._knots_sent :]
        self._knots_sent = len(self.pace.knots)
        return self._message(fresh)

    def _message(self, knots: Iterable[tuple[float, int]]) -> dict[str, Any]:
        return {
            "knots": [[round(at, 1), us] for at, us in knots],
            "signs": self._signs,
            "skips": [[each.start, each.end, span(each.us)] for each in self.pace.skips],
            "end": round(self.pace.end, 1),
            "slider": "Moment of the run",
        }

    def _has_sign(self, event: Event) -> bool:
        if event.kind == "node.killed":
            self._down.add(event.node)
        if event.kind == "node.started":
            was_down = event.node in self._down
            self._down.discard(event.node)
            return was_down
        return event.kind in SIGNS or (event.kind == "ensemble.set" and event.entry > 0)


def name_of(events: Sequence[Event]) -> str:
    """A name that is the same for the same events."""
    return blake2b(repr(events).encode(), digest_size=8).hexdigest()


def beats_of(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Groups of events that are shown at once: one kind, node and microsecond."""
    for _, group in groupby(events, key=lambda event: (event.time_us, event.node, event.kind)):
        yield list(group)


def in_ms(time_us: float) -> str:
    """A time of the run, as every view writes it."""
    return f"{time_us / 1000:,.2f} ms"


def span(us: int) -> str:
    """A duration in a suitable unit."""
    return f"{us / 1e6:,.1f} s" if us >= 1_000_000 else f"{us / 1000:,.1f} ms"
