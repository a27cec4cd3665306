"""Chooses the position of each dot's label, so that arrows, dots and other labels do not cross it.

A label is beside its dot, above or below the middle of the row, on one line or on two. A label does
not move while the run plays, because its position depends on the whole diagram.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from labkit.views.widgets.drawing.text_metrics import fitted, width_of
from labkit.views.widgets.space_time.arrows import Point, y_of

LABEL_DISTANCE = 9
"""The distance between the centre of a dot and its label."""

_BASELINES = {"beside": (4.0,), "above": (-8.0,), "below": (16.0,), "two lines": (-3.0, 10.0)}
"""The baselines of each kind of label, relative to its dot."""
_STYLE_COSTS = {"beside": 0, "above": 1, "below": 1, "two lines": 2}
_LEFT, _ON_LANE, _ON_ARROW, _CUT, _ON_MARK = 1, 4, 10, 30, 50
"""The costs of a label on the left, on another lane, on an arrow, truncated, or on another mark."""
_CLICK_DISTANCE, _LABELLED_CLICK_DISTANCE = 12, 6
"""A click on a dot may miss the dot's centre by this distance, or by the second one if there is a
label.
"""
_MIN_WIDTH = 26
"""The smallest width for which a truncated label is worth showing."""


class LabelPlace(NamedTuple):
    style: str = "beside"
    is_left: bool = False
    room: float = 1000
    """The maximum length of a line."""

    def lines(self, label: str) -> tuple[tuple[float, str], ...]:
        """Return the baseline and the text of each line."""
        if self.style == "two lines" and width_of(label) <= self.room:
            return ((_BASELINES["beside"][0], label),)
        texts = split(label) if self.style == "two lines" else (label,)
        fitting = (fitted(text, self.room) for text in texts)
        return tuple(zip(_BASELINES[self.style], fitting, strict=False))


class Box(NamedTuple):
    left: float
    right: float
    top: float
    bottom: float

    def overlaps(self, other: "Box") -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def covered_by(self, begin: Point, end: Point) -> float:
        """Return the fraction of the box's width that a line covers, which is 0 for a vertical
        line.
        """
        (x1, y1), (x2, y2) = begin, end
        if max(y1, y2) <= self.top or min(y1, y2) >= self.bottom:
            return 0
        first, last = max(self.left, min(x1, x2)), min(self.right, max(x1, x2))
        if y1 != y2:
            inside = [x1 + (y - y1) * (x2 - x1) / (y2 - y1) for y in (self.top, self.bottom)]
            first, last = max(first, min(inside)), min(last, max(inside))
        return max(last - first, 0) / (self.right - self.left)


@lru_cache(4096)
def split(label: str) -> tuple[str, ...]:
    """Break a label into two lines of similar width, if possible after a comma."""
    for sign in (", ", " "):
        parts = label.split(sign)
        pairs = [
            (sign.join(parts[:at]) + sign.rstrip(), sign.join(parts[at:]))
            for at in range(1, len(parts))
        ]
        if pairs:
            return min(pairs, key=lambda lines: max(map(width_of, lines)))
    return (label,)


def min_width(label: str) -> float:
    return max(map(width_of, split(label)))


def reach_of(x: float, y: float, place: LabelPlace, label: str) -> Box:
    """Return the box of a dot and its label, in which a click chooses the dot."""
    dot = _dot_box(x, y, label)
    if not label:
        return dot
    box = label_box(x, y, place, label)
    ends = zip(dot, box, strict=True)
    left, right, top, bottom = (pick(pair) for pick, pair in zip((min, max) * 2, ends, strict=True))
    return Box(left, right, top, bottom)


def _dot_box(x: float, y: float, label: str) -> Box:
    across = _LABELLED_CLICK_DISTANCE if label else _CLICK_DISTANCE
    return Box(x - across, x + across, y - _CLICK_DISTANCE, y + _CLICK_DISTANCE)


def label_box(x: float, y: float, place: LabelPlace, label: str) -> Box:
    lines = place.lines(label)
    width = max(width_of(text) for _, text in lines)
    left = x - LABEL_DISTANCE - width if place.is_left else x + LABEL_DISTANCE
    return Box(left, left + width, y + lines[0][0] - 9, y + lines[-1][0] + 3)


def place_labels(
    row: int,
    labels: Sequence[tuple[int, str]],
    x: Sequence[float],
    arrows: Collection[tuple[Point, Point]],
    edges: tuple[float, float],
) -> dict[int, LabelPlace]:
    """Return the position of each label of a row, by lane.

    labels: the lane and the label of each dot, from left to right.
    arrows: the lines that cross the row, or start or end in it.
    edges: the left and right edges of the space for labels.
    """
    y = y_of(row)
    taken = {lane: _dot_box(x[lane], y, label) for lane, label in labels}
    places = dict[int, LabelPlace]()

    def cost(lane: int, label: str, place: LabelPlace) -> float:
        box = label_box(x[lane], y, place, label)
        covered = [box.covered_by(*arrow) for arrow in arrows]
        reach = reach_of(x[lane], y, place, label)
        others = [each for other, each in taken.items() if other != lane]
        return (
            _STYLE_COSTS[place.style]
            + _LEFT * place.is_left
            + _CUT * any(text.endswith("…") for _, text in place.lines(label))
            + _ON_LANE * sum(box.left < at < box.right for at in x)
            + _ON_ARROW * sum(1 + part for part in covered if part)
            + _ON_MARK * sum(map(reach.overlaps, others))
        )

    for lane, label in labels:
        if label:
            candidates = list(_candidates(lane, label, x, edges))
            costs = [cost(lane, label, place) for place in candidates]
            places[lane] = candidates[costs.index(min(costs))]
            taken[lane] = reach_of(x[lane], y, places[lane], label)
    return places


def _candidates(
    lane: int, label: str, x: Sequence[float], edges: tuple[float, float]
) -> Iterator[LabelPlace]:
    lines = split(label)
    for style in _BASELINES:
        if style == "two lines" and len(lines) < 2:
            continue
        wanted = min_width(label) if style == "two lines" else width_of(label)
        for is_left, neighbour, edge in ((False, lane + 1, edges[1]), (True, lane - 1, edges[0])):
            ends = [edge, x[neighbour]] if 0 <= neighbour < len(x) else [edge]
            for end in ends:
                beyond = 2 if end == edge else _LABELLED_CLICK_DISTANCE
                room = min(wanted, abs(end - x[lane]) - LABEL_DISTANCE - beyond)
                if room >= min(wanted, _MIN_WIDTH):
                    yield LabelPlace(style, is_left, room)
