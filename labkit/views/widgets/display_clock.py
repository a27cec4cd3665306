"""The clock of a run: the position of each event in display time.

Messages of a run take a millisecond or less, and then nothing may happen for half a minute, so a
run cannot be watched in its own time.  The clock stretches time until a message's way can be
followed, skips quiet times (and says so), plays the events of one microsecond one after the other,
and pauses after the first event of a kind, so that there is time to read about it.

Positions are milliseconds of display at normal speed.  They depend only on the events, so all views
of a run agree on them and can share one cursor.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from labkit.system.trace.events import Event

HOP_MS = 420
"""The display time in ms of the median message's way."""
APART_MS = 4
"""The time between events of the same microsecond."""
QUIET_MS, SKIP_MS = 2500, 700
"""A gap longer than the first value is shown in the time of the second."""
BOOT_MS = 60
"""The longest gap before there is a ledger, while nodes start and register."""
READ_MS = 1500
"""The pause after the first event of a kind."""
START_MS = 300.0
"""The time before the first event."""
LONG_MS = 75_000
"""A run that would take longer is stretched less, down to a tenth of the usual."""

FIRST_TIMES: dict[str, str] = {
    "add.sent": "sent to Qw bookies at once",
    "memtable.put": "in its memory: readable, not yet durable",
    "journal.synced": "its journal is synced: durable",
    "add.acked": "its acknowledgement is back",
    "lac.advanced": "Qa acknowledgements: LastAddConfirmed moves on",
    "memtable.flushed": "flushed: entry log and index have it",
    "node.killed": "killed: memory is lost, files are kept",
    "node.paused": "paused: it does not answer",
    "link.cut": "cable cut: nothing comes through",
    "add.failed": "no acknowledgement from here",
    "ledger.fenced": "fenced: no more adds but recovery's",
    "read.done": "read from here, digest verified",
    "read.failed": "asked, and did not give the entry",
    "ledger.closed": "closed: its last entry is fixed",
}
"""The words beside the first event of each kind."""


class Skip(NamedTuple):
    """A skipped quiet time: two positions, and the time of the run between them."""

    start: float
    end: float
    us: int


class Hop(NamedTuple):
    """A message in flight, from the event that sent it to the event that it caused."""

    sent: Event
    came: Event
    start: float
    end: float


class Pace:
    """Gives each event of a run its position; takes more events as they come.

    positions: the events' positions, in order.  firsts: the number of an event that is the first of
    its kind -> the words about it.
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
        """The position of the last event and of the pause after it."""
        return self._at + self._pause_ms

    def take(self, events: Sequence[Event]) -> None:
        """Give these events their positions, after all earlier ones."""
        if not self._scale and events:
            self._scale = _scale(events)
        for event in events:
            last_us = self.knots[-1][1] if self.knots else event.time_us
            if self._last and not is_one_beat(self._last, event):
                self._at, self._pause_ms = self._at + self._pause_ms, 0
            self._begun |= event.ledger >= 0
            self._pass(event.time_us - last_us)
            self.positions.append(self._at)
            if not self.knots or event.time_us > last_us:
                self.knots.append((self._at, event.time_us))
            self._last = event
            is_something = event.kind != "memtable.flushed" or event.size != 0
            if event.kind in FIRST_TIMES and event.kind not in self._met and is_something:
                self._met.add(event.kind)
                self.firsts[len(self.positions) - 1] = FIRST_TIMES[event.kind]
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


def is_one_beat(earlier: Event, event: Event) -> bool:
    """Whether two events are shown as one: the same kind on the same node at the same time."""
    same = (event.time_us, event.node, event.kind)
    return (earlier.time_us, earlier.node, earlier.kind) == same


def _scale(events: Sequence[Event]) -> float:
    """Display milliseconds for one millisecond of the run."""
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
    return scale * max(min(1.0, LONG_MS / shown if shown else 1.0), 0.1)
