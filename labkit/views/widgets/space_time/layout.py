"""The layout of the space-time diagram: the events to show (`ShownPart`), the events of each dot,
and the width of each lane.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from labkit.views.widgets.scene import rounded
from labkit.views.widgets.space_time.model import ALWAYS, METADATA, Diagram
from labkit.views.widgets.space_time.words import METADATA_KINDS, label_of
from labkit.views.widgets.text_metrics import width_of

BESIDE = 20
"""The part of a lane's width without room for words."""
LONG = 6
"""A gap of this many times the median one is marked as quiet time."""
CAUSES = 12
"""The largest number of causes, one behind the other, that are marked with an event."""
FARTHEST = 4
"""The largest distance of two moments in real time, in rows; the median gap is one row.  A longer
gap is marked as quiet time.
"""


@dataclass(frozen=True, slots=True)
class ShownPart:
    """The part of a diagram that is shown.

    `entries`: the first and the last to show; `window_ms`: a period of the run.  `follow`: the
    entry whose chain of causes stands out, -1: none.  `real_time`: the distances of rows follow
    their times.
    """

    entries: tuple[int, int]
    window_ms: tuple[float, float]
    follow: int = -1
    real_time: bool = False

    def shows(self, diagram: Diagram, at: int) -> bool:
        """Whether the event at the place `at` is shown."""
        first, last = self.entries
        ms, about = diagram.events[at].time_us / 1000, diagram.about[at]
        in_time = self.window_ms[0] <= ms <= self.window_ms[1]
        return in_time and (about == ALWAYS or first <= about <= last)


@dataclass(frozen=True, slots=True)
class Dot:
    """The events on one lane at one moment, as places in the list of events."""

    lane: int
    row: int
    events: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows, one for each moment, and in real time also rows without dots between two moments:
    `times` are the rows' times in microseconds.

    row: the row of each shown event, by its place.  x, room: for each lane its line and the width
    of its words.  quiet: a row -> the quiet time in microseconds before it, if it is long.
    """

    diagram: Diagram
    choice: ShownPart
    dots: tuple[Dot, ...]
    times: tuple[int, ...]
    x: tuple[float, ...]
    room: tuple[float, ...]
    row: dict[int, int] = field(repr=False)
    quiet: dict[int, int] = field(repr=False)

    def row_near(self, place: int) -> int:
        """The row of the event, or of the next event that is shown."""
        return bisect_left(self.times, self.diagram.events[place].time_us)

    def label(self, dot: Dot, places: Sequence[int]) -> str:
        """The words beside a dot when these of its events have happened."""
        is_metadata = self.diagram.lanes[dot.lane] == METADATA
        events = self.diagram.events
        return label_of(
            [
                (self.diagram.words[at], events[at].entry)
                for at in places
                if is_metadata or events[at].kind not in METADATA_KINDS
            ]
        )


def plan_of(diagram: Diagram, choice: ShownPart, left: float, width: float, least: float) -> Plan:
    """The plan, with lanes from `left` on that together are `width` wide, each at least `least` if
    there is room.
    """
    found: dict[tuple[int, int], list[int]] = {}
    metadata = diagram.lanes.index(METADATA) if METADATA in diagram.lanes else -1
    for at, event in enumerate(diagram.events):
        if choice.shows(diagram, at):
            lane = diagram.lanes.index(event.node)
            found.setdefault((event.time_us, lane), []).append(at)
            if event.kind in METADATA_KINDS and metadata >= 0:
                found.setdefault((event.time_us, metadata), []).append(at)
    times, rows, quiet = _rows(sorted({time for time, _ in found}), choice)
    dots = tuple(Dot(lane, rows[time], tuple(at)) for (time, lane), at in sorted(found.items()))
    row = {at: dot.row for dot in dots for at in dot.events}
    plan = Plan(diagram, choice, dots, times, (), (), row, quiet)
    wanted = [max(least, width_of(name, bold=True) + BESIDE) for name in diagram.lanes]
    for dot in dots:
        words = width_of(plan.label(dot, dot.events)) + BESIDE + 2
        wanted[dot.lane] = max(wanted[dot.lane], words)
    widths = _shared(wanted, width)
    x = tuple(rounded(left + sum(widths[:at]) + 14) for at in range(len(widths)))
    room = tuple(each - BESIDE for each in widths)
    return Plan(diagram, choice, dots, times, x, room, row, plan.quiet)


def _rows(
    moments: Sequence[int], choice: ShownPart
) -> tuple[tuple[int, ...], dict[int, int], dict[int, int]]:
    """The times of the rows, the row of each moment, and the rows after a long quiet time."""
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    median = max(sorted(gaps)[len(gaps) // 2], 1) if gaps else 1
    times, row, quiet = list(moments[:1]), dict.fromkeys(moments[:1], 0), dict[int, int]()
    for (earlier, later), gap in zip(pairwise(moments), gaps, strict=True):
        steps = min(max(round(gap / median), 1), FARTHEST) if choice.real_time else 1
        times += [earlier + gap * step // steps for step in range(1, steps + 1)]
        row[later] = len(times) - 1
        if gap > (FARTHEST + 0.5 if choice.real_time else LONG) * median:
            quiet[row[later]] = gap
    return tuple(times), row, quiet


def _shared(wanted: Sequence[float], width: float) -> list[float]:
    """The width of each lane: the wanted width and a share of the rest.  If there is too little
    room, the widest lanes get less.
    """
    shares, left = [0.0] * len(wanted), width
    ascending = sorted(range(len(wanted)), key=lambda at: wanted[at])
    for done, at in enumerate(ascending):
        shares[at] = min(wanted[at], left / (len(wanted) - done))
        left -= shares[at]
    return [share + left / len(wanted) for share in shares]


def chain_of(diagram: Diagram, entry: int) -> frozenset[int]:
    """The places of the entry's events and of all their causes."""
    place = {event.seq: at for at, event in enumerate(diagram.events)}
    chain = set[int]()
    for at, event in enumerate(diagram.events):
        if event.entry != entry or diagram.about[at] != entry:
            continue
        step = at
        while step >= 0 and step not in chain:
            chain.add(step)
            step = place.get(diagram.events[step].cause, -1)
    return frozenset(chain)


def leading_to(plan: Plan) -> dict[int, list[int]]:
    """For each shown event, by its place, the places of the shown events that it led to, including
    itself, through at most `CAUSES` causes.
    """
    events = plan.diagram.events
    place = {event.seq: at for at, event in enumerate(events)}
    found: dict[int, list[int]] = {}
    for at in sorted(plan.row):
        step, left = at, CAUSES
        while step >= 0 and left:
            if step in plan.row:
                found.setdefault(step, []).append(at)
                left -= 1
            step = place.get(events[step].cause, -1)
    return found
