"""The data that all views of a run share: events, clock positions, messages in flight."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any, Protocol

from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.views.widgets.display_clock import DisplayClock, Hop, beat_of

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
"""The glyph and colour of the events that every view marks on its bar, by kind of event."""


class TraceLike(Protocol):
    @property
    def events(self) -> Sequence[Event]:
        """The events in the order of their `seq`."""


RunSource = TraceLike | Sequence[Event]


def events_of(source: RunSource) -> Sequence[Event]:
    return source if isinstance(source, Sequence) else source.events


class EventPositions:
    """The positions of a run's events on the clock, and messages in flight.

    departing: the messages sent by each event, by the event's `seq`.
    firsts: the explanation of each event that is the first of its kind, by its `seq`.
    completing: the acknowledgements that completed a quorum, by the `seq` of their event.
    refused: adds that a fenced bookie rejected, by the `seq` of the event that sent them.
    """

    def __init__(self) -> None:
        self.departing: dict[int, list[Hop]] = {}
        self.firsts: dict[int, str] = {}
        self.completing: set[int] = set()
        self.refused: dict[int, list[Hop]] = {}
        self._by_seq: dict[int, tuple[Event, float]] = {}

    def put(self, event: Event, at: float, first: str = "") -> None:
        self._by_seq[event.seq] = event, at
        if first:
            self.firsts[event.seq] = first
        sent, left_at = self._by_seq.get(event.cause, (event, at))
        if sent.node != event.node and sent.time_us < event.time_us:
            self.departing.setdefault(sent.seq, []).append(Hop(sent, event, left_at, at))
        if event.kind == "lac.advanced":
            self.completing.add(event.cause)
        elif event.kind == "add.failed" and event.error == "BKLedgerFencedException":
            self.refused.setdefault(sent.seq, []).append(Hop(sent, event, left_at, at))

    def at(self, seq: int) -> float:
        return self._by_seq[seq][1]


class DisplayedRun(EventPositions):
    """The events of a run, which are added all at once or as they arrive.

    name: identifies the run to the views that share it; by default it is derived from the events.
    sentence: describes an event that the bar marks.
    """

    def __init__(
        self,
        events: Sequence[Event],
        name: str = "",
        sentence: Callable[[Event], str] = describe,
    ) -> None:
        super().__init__()
        self.name = name or name_of(events)
        self._sentence = sentence
        self.clock = DisplayClock()
        self.events: list[Event] = []
        self._down: set[str] = set()
        self._signs: list[list[Any]] = []
        self._knots_sent = 0
        self.check_at: float | None = None
        """The position just before the epilogue of a simulated run, in which everything is read
        back after a power cut, or None if there is no epilogue.
        """
        self.take(events)

    def take(self, events: Sequence[Event]) -> None:
        first = len(self.events)
        self.events += events
        self.clock.take(events)
        for number, event in enumerate(events, start=first):
            at = self.clock.positions[number]
            self.put(event, at, self.clock.firsts.get(number, ""))
            if event.kind == "epilogue.started" and self.check_at is None:
                self.check_at = at - 1
            if self._has_sign(event):
                glyph, colour = SIGNS.get(event.kind, ("●", "ink"))
                self._signs.append([at, glyph, self._sentence(event), colour])

    def clock_message(self, *, is_growth: bool = False) -> dict[str, Any]:
        """Return what the browser needs to know about the clock. is_growth: omit the knots that
        have already been sent.
        """
        first = self._knots_sent if is_growth else 0
        self._knots_sent = len(self.clock.knots)
        return {
            "knots": [[round(at, 1), us] for at, us in self.clock.knots[first:]],
            "signs": self._signs,
            "skips": [[each.start, each.end, span(each.us)] for each in self.clock.skips],
            "end": round(self.clock.end, 1),
            "check": None if self.check_at is None else round(self.check_at, 1),
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
    return blake2b(repr(events).encode(), digest_size=8).hexdigest()


def beats_of(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Group events that are shown together."""
    for _, group in groupby(events, key=beat_of):
        yield list(group)


def in_ms(time_us: float) -> str:
    return f"{time_us / 1000:,.2f} ms"


def time_words(time_us: float) -> str:
    """Format the time since the start of the run, in milliseconds if it is less than a second, and
    in seconds otherwise.
    """
    return in_ms(time_us) if time_us < 1_000_000 else f"{time_us / 1e6:,.3f} s"


def span(us: int) -> str:
    return f"{us / 1e6:,.1f} s" if us >= 1_000_000 else f"{us / 1000:,.1f} ms"
