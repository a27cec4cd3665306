"""The clock of a run, which maps the time of each event to a position in display time.

A run cannot be watched in real time, because a message takes a millisecond or less, and then
nothing may happen for half a minute. The clock stretches time so that messages can be followed,
skips quiet periods (and says so), plays the events of the same microsecond one after another, and
pauses after the first event of each kind so that the reader has time to read about it.

Positions are milliseconds of display time at normal speed, and depend only on the events, so all
views of a run agree on them and can share a cursor.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from labkit.system.trace.events import Event
from labkit.system.trace.kinds import KINDS

HOP_MS = 420
"""The display time of a message with the median latency, in milliseconds."""
APART_MS = 4
"""The display time between two events of the same microsecond."""
QUIET_MS, SKIP_MS = 2500, 700
"""A gap whose display time would exceed QUIET_MS is shown for SKIP_MS instead."""
BOOT_MS = 60
"""The maximum gap before the first ledger, while nodes start and register."""
READ_MS = 1500
"""The pause after the first event of a kind."""
START_MS = 300.0
"""The display time before the first event."""
MAX_RUN_MS = 75_000
"""The maximum display time of a run. For longer runs, time is stretched less, down to a tenth of
the usual factor.
"""


class Skip(NamedTuple):
    """A quiet period that is skipped: its start and end positions, and its length in microseconds
    of run time.
    """

    start: float
    end: float
    us: int


class Hop(NamedTuple):
    """A message in flight, from the event that sent it to the event that it caused."""

    sent: Event
    arrived: Event
    start: float
    end: float


class DisplayClock:
    """Assigns a position to each event of a run; accepts more events as they arrive.

    positions: the positions of the events, in order.
    firsts: the explanation of each event that is the first of its kind, by the event's index.
    """

    def __init__(self) -> None:
        self.positions: list[float] = []
        self.knots: list[tuple[float, int]] = []
        self.skips: list[Skip] = []
        self.firsts: dict[int, str] = {}
        self._at = START_MS
        self._met: set[str] = set()
        self._scale = 0.0
        self._begun = False
        self._last: Event | None = None
        self._pause_ms = 0

    @property
    def end(self) -> float:
        """The position of the last event, plus the pause after it."""
        return self._at + self._pause_ms

    def take(self, events: Sequence[Event]) -> None:
        if not self._scale and events:
            self._scale = _scale(events)
        for event in events:
            last_us = self.knots[-1][1] if self.knots else event.time_us
            if self._last and beat_of(self._last) != beat_of(event):
                self._at, self._pause_ms = self._at + self._pause_ms, 0
            self._begun |= event.ledger >= 0
            self._pass(event.time_us - last_us)
            self.positions.append(self._at)
            if not self.knots or event.time_us > last_us:
                self.knots.append((self._at, event.time_us))
            self._last = event
            is_something = event.kind != "memtable.flushed" or event.size != 0
            words = KINDS[event.kind].first
            if words and event.kind not in self._met and is_something:
                self._met.add(event.kind)
                self.firsts[len(self.positions) - 1] = words
                self._pause_ms = READ_MS

    def _pass(self, gap_us: int) -> None:
        if gap_us > 0 and self.knots[-1][0] < self._at:
            self.knots.append((self._at, self.knots[-1][1]))
        shown = gap_us / 1000 * self._scale
        if not self._begun:
            shown = min(shown, BOOT_MS)
        elif shown > QUIET_MS:
            self.skips.append(Skip(self._at, self._at + SKIP_MS, gap_us))
            shown = SKIP_MS
        self._at += shown if gap_us > 0 else APART_MS if self.positions else 0


def beat_of(event: Event) -> tuple[int, str, str]:
    """Return what consecutive events have in common if they are shown together."""
    return event.time_us, event.node, event.kind


def _scale(events: Sequence[Event]) -> float:
    """Return the display time of one millisecond of the run, in milliseconds."""
    by_seq = {event.seq: event for event in events}
    ways = [
        event.time_us - by_seq[event.cause].time_us
        for event in events
        if event.cause in by_seq and by_seq[event.cause].node != event.node
    ]
    hop_us = median([way for way in ways if way > 0] or [1250])
    scale = HOP_MS / (hop_us / 1000)
    times = sorted({event.time_us for event in events})
    gaps = [(b - a) / 1000 * scale for a, b in pairwise(times)]
    shown = sum(SKIP_MS if gap > QUIET_MS else gap for gap in gaps)
    return scale * max(min(1.0, MAX_RUN_MS / shown if shown else 1.0), 0.1)
