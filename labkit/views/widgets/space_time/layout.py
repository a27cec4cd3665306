"""The layout of the space-time diagram: which events are shown (`ShownPart`), which of them share a
dot, and how wide each lane is.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from labkit.views.widgets.drawing.scene import rounded
from labkit.views.widgets.drawing.text_metrics import width_of
from labkit.views.widgets.space_time.labels import min_width
from labkit.views.widgets.space_time.model import ALWAYS, METADATA, Diagram
from labkit.views.widgets.space_time.words import METADATA_KINDS, label_of

BETWEEN = 20
"""The part of each lane's width that is not available for labels."""
MIN_QUIET_GAP = 6
"""A gap between rows is marked as a quiet period if it is more than this many times the median
gap.
"""
MAX_CAUSES = 12
"""The maximum length of the causal chain that is highlighted together with an event."""
MAX_ROW_GAP = 4
"""The maximum distance in rows between two moments if rows are spaced by time. The median gap is
one row, and gaps longer than the maximum are marked as quiet periods.
"""


@dataclass(frozen=True, slots=True)
class ShownPart:
    """The part of a diagram to show.

    entries: the first and the last entry.
    window_ms: the start and end of a period of the run.
    follow: the entry whose causal chain is emphasized, or -1.
    real_time: whether rows are spaced according to time.
    """

    entries: tuple[int, int]
    window_ms: tuple[float, float]
    follow: int = -1
    real_time: bool = False

    def shows(self, diagram: Diagram, at: int) -> bool:
        first, last = self.entries
        ms, about = diagram.events[at].time_us / 1000, diagram.about[at]
        in_time = self.window_ms[0] <= ms <= self.window_ms[1]
        return in_time and (about == ALWAYS or first <= about <= last)


@dataclass(frozen=True, slots=True)
class Dot:
    """The simultaneous events on one lane, as indices into the list of events."""

    lane: int
    row: int
    events: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows and lanes of a diagram.

    times: the time of each row in microseconds. Each moment has a row; if rows are spaced by time,
        there are also empty rows.
    row: the row of each displayed event, by the event's index.
    x, room: for each lane, the position of its line, and the space for its labels.
    quiet: the length of the quiet period before a row, in microseconds.
    """

    diagram: Diagram
    dots: tuple[Dot, ...]
    times: tuple[int, ...]
    x: tuple[float, ...]
    room: tuple[float, ...]
    row: dict[int, int] = field(repr=False)
    quiet: dict[int, int] = field(repr=False)

    def row_near(self, place: int) -> int:
        """Return the row of an event or, if the event is not shown, of the next event that is
        shown.
        """
        return bisect_left(self.times, self.diagram.events[place].time_us)

    def label(self, dot: Dot, places: Sequence[int]) -> str:
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
    """Return the plan with lanes that start at `left` and have this total width, each at least
    `least` wide.
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
    plan = Plan(diagram, dots, times, (), (), row, quiet)
    # The arrows of the first lane are on its right, so put the labels of a client on its left.
    begins_with_client = all(message.target for message in diagram.messages)
    outside = 0.0
    whole = [max(least - BETWEEN, width_of(name, bold=True)) for name in diagram.lanes]
    split = list(whole)
    for dot in dots:
        label = plan.label(dot, dot.events)
        if dot.lane == 0 and begins_with_client:
            outside = max(outside, min_width(label) + 2)
        else:
            whole[dot.lane] = max(whole[dot.lane], width_of(label))
            split[dot.lane] = max(split[dot.lane], min_width(label))
    widths = _shared(whole, split, width - outside - BETWEEN * len(whole))
    starts = (sum(widths[:at]) + BETWEEN * at for at in range(len(widths)))
    x = tuple(rounded(left + outside + start + 14) for start in starts)
    return replace(plan, x=x, room=tuple(widths))


def _rows(
    moments: Sequence[int], choice: ShownPart
) -> tuple[tuple[int, ...], dict[int, int], dict[int, int]]:
    """Return the times of the rows, the row of each moment, and the length of each quiet period by
    the row after it.
    """
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    median = max(sorted(gaps)[len(gaps) // 2], 1) if gaps else 1
    times, row, quiet = list(moments[:1]), dict.fromkeys(moments[:1], 0), dict[int, int]()
    for (earlier, later), gap in zip(pairwise(moments), gaps, strict=True):
        steps = min(max(round(gap / median), 1), MAX_ROW_GAP) if choice.real_time else 1
        times += [earlier + gap * step // steps for step in range(1, steps + 1)]
        row[later] = len(times) - 1
        if gap > (MAX_ROW_GAP + 0.5 if choice.real_time else MIN_QUIET_GAP) * median:
            quiet[row[later]] = gap
    return tuple(times), row, quiet


def _shared(wanted: Sequence[float], least: Sequence[float], width: float) -> list[float]:
    """Return the width of each lane: between `least` and `wanted` if there is not enough space;
    otherwise, the wanted width plus an equal share of the remaining space.
    """
    if sum(least) > width:
        return _up_to(least, width)
    more = [most - low for most, low in zip(wanted, least, strict=True)]
    given = _up_to(more, width - sum(least))
    rest = (width - sum(least) - sum(given)) / len(least)
    return [low + extra + rest for low, extra in zip(least, given, strict=True)]


def _up_to(wanted: Sequence[float], width: float) -> list[float]:
    """Shrink the largest of these widths until their sum fits."""
    shares, left = [0.0] * len(wanted), width
    ascending = sorted(range(len(wanted)), key=lambda at: wanted[at])
    for done, at in enumerate(ascending):
        shares[at] = min(wanted[at], left / (len(wanted) - done))
        left -= shares[at]
    return shares


def causal_chain(diagram: Diagram, entry: int) -> frozenset[int]:
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


def effects_of(plan: Plan) -> dict[int, list[int]]:
    """For each displayed event, return the displayed events that it led to, including the event
    itself.

    Events are given by index. Chains of causes are followed for at most `MAX_CAUSES` events.
    """
    events = plan.diagram.events
    place = {event.seq: at for at, event in enumerate(events)}
    found: dict[int, list[int]] = {}
    for at in sorted(plan.row):
        step, left = at, MAX_CAUSES
        while step >= 0 and left:
            if step in plan.row:
                found.setdefault(step, []).append(at)
                left -= 1
            step = place.get(events[step].cause, -1)
    return found
