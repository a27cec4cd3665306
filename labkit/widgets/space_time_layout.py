"""Where the space-time diagram's parts lie: which events are shown (`Choice`), which share a dot,
and how far apart the moments are.  `space_time_draw.js` decides by the same rules.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from labkit.trace.events import Event
from labkit.trace.sentence import describe
from labkit.widgets.space_time_model import ALWAYS, METADATA, Diagram
from labkit.widgets.space_time_words import METADATA_KINDS

TOP = 82
ROW = 26
LEAST_GAP, MOST_GAP = 7, 5 * ROW


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a diagram is shown, and up to which moment.

    `entries`: the first and the last to show; `window_ms`: times of the run.  `upto` counts events
    of the diagram.  `follow`: the entry whose chain of causes stands out, -1: none.  `spacing`:
    `order` gives each moment its row, `time` keeps short and long times apart.
    """

    entries: tuple[int, int]
    window_ms: tuple[float, float]
    upto: int
    follow: int = -1
    spacing: str = "order"

    def shows(self, diagram: Diagram, at: int) -> bool:
        """Whether the event at that place belongs to what was chosen, be it past or not."""
        first, last = self.entries
        ms, about = diagram.events[at].time_us / 1000, diagram.about[at]
        in_time = self.window_ms[0] <= ms <= self.window_ms[1]
        return in_time and (about == ALWAYS or first <= about <= last)


@dataclass(frozen=True, slots=True)
class Dot:
    """What happened on one lane at one moment: places in the list of events."""

    lane: int
    time_us: int
    events: tuple[int, ...]


def dots_of(diagram: Diagram, choice: Choice) -> list[Dot]:
    """The dots, from the first moment on; what went to the metadata has one more there."""
    found: dict[tuple[int, int], list[int]] = {}
    metadata = diagram.lanes.index(METADATA) if METADATA in diagram.lanes else -1
    for at, event in enumerate(diagram.events):
        if choice.shows(diagram, at):
            lane = diagram.lanes.index(event.node)
            found.setdefault((event.time_us, lane), []).append(at)
            if event.kind in METADATA_KINDS and metadata >= 0:
                found.setdefault((event.time_us, metadata), []).append(at)
    return [Dot(lane, time, tuple(places)) for (time, lane), places in sorted(found.items())]


def rows_of(times: Sequence[int], spacing: str) -> dict[int, float]:
    """How far down each moment lies."""
    gaps = [later - earlier for earlier, later in pairwise(times)]
    median = median_of(gaps)
    y, rows = float(TOP), dict[int, float]()
    for at, time in enumerate(times):
        if at:
            gap = ROW * gaps[at - 1] / median
            y += ROW if spacing == "order" else min(max(gap, LEAST_GAP), MOST_GAP)
        rows[time] = y
    return rows


def median_of(gaps: Sequence[int]) -> int:
    """The middle one, at least 1."""
    return max(sorted(gaps)[len(gaps) // 2], 1) if gaps else 1


def chain_of(diagram: Diagram, entry: int) -> set[int]:
    """Places of the entry's events and of all that led to them."""
    place = {event.seq: at for at, event in enumerate(diagram.events)}
    chain = set[int]()
    for at, event in enumerate(diagram.events):
        if event.entry != entry or diagram.about[at] != entry:
            continue
        step = at
        while step >= 0 and step not in chain:
            chain.add(step)
            step = place.get(diagram.events[step].cause, -1)
    return chain


def summary(diagram: Diagram, choice: Choice) -> str:
    """The picture in one line of words."""
    past = past_of(diagram, choice)
    lanes = ", ".join(name for name in diagram.lanes if name != METADATA)
    head = f"Space-time diagram of ledger {diagram.ledger}: {len(past)} events on {lanes}"
    return f"{head}; at last {describe(past[-1])}" if past else head


def past_of(diagram: Diagram, choice: Choice) -> list[Event]:
    """The events that are shown at this moment."""
    count = min(choice.upto, len(diagram.events))
    return [diagram.events[at] for at in range(count) if choice.shows(diagram, at)]
