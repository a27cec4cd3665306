"""Draws the messages of the space-time diagram as straight arrows, below the dots and their
labels.
"""

from collections.abc import Iterator
from math import atan2, cos, sin
from typing import NamedTuple

from labkit.views.widgets.drawing.scene import Mark, Move, Style, circle, group, rounded
from labkit.views.widgets.run import time_words
from labkit.views.widgets.space_time.model import Diagram, Exchange

ROW, BAND = 40, 9
"""The height of a row, and half the height of the band for its labels."""
DOT = 6
"""The distance between the tip of an arrow and the centre of a dot."""
Point = tuple[float, float]

LOOKS: dict[str, Style] = {
    "add": {"stroke": "stored", "thick": 1.5},
    "fence": {"stroke": "confirmed", "thick": 2.2},
    "read": {"stroke": "faint", "thick": 1.4, "dash": "5 3"},
    "refused": {"stroke": "lost", "thick": 1.5},
    "lost": {"stroke": "lost", "thick": 1.5, "dash": "2 3"},
    "metadata": {"stroke": "well", "thick": 1.4, "dash": "1 3"},
    "faded": {"stroke": "line"},
}
"""How to draw each kind of arrow."""


class ExchangeProgress(NamedTuple):
    """How far a message has travelled: the row of each of its events, or -1 if the event has not
    happened yet.

    lost: whether either the request or its response will never arrive.
    first: the first visible row, or 0 if the whole message is visible.
    """

    sent: int
    arrived: int
    left: int
    answered: int
    lost: bool
    first: int


def y_of(row: int) -> float:
    return ROW * row + ROW / 2


class PathPart(NamedTuple):
    """One straight part of a message's path.

    key: "there", "back", or "lost" for a part that ends in a cross.
    row: the row in which the part ends.
    """

    key: str
    begin: Point
    end: Point
    row: int


def path_parts(progress: ExchangeProgress, source: float, target: float) -> Iterator[PathPart]:
    """Yield the parts of a message's path between two lanes.

    If the trace does not contain the arrival of a rejected request, the arrival is drawn shortly
    before the response, because bookies reject requests quickly.
    """
    sent = source, y_of(progress.sent)
    answered = source, y_of(progress.answered)
    if progress.arrived >= 0:
        yield PathPart("there", sent, (target, y_of(progress.arrived)), progress.arrived)
        left = max(progress.left, progress.arrived)
        begin = target, y_of(left)
        if progress.answered >= 0:
            yield PathPart("back", begin, answered, progress.answered)
        elif progress.lost:
            yield PathPart("lost", begin, _cross(begin, source), left)
    elif progress.answered >= 0 and not progress.lost:
        turn = target, answered[1] - ROW / 2
        yield PathPart("there", sent, turn, progress.answered)
        yield PathPart("back", turn, answered, progress.answered)
    elif progress.lost:
        yield PathPart("lost", sent, _cross(sent, target), progress.sent)


def look_of(way: PathPart, message: Exchange, faded: bool) -> str:
    """Return the look, as in `LOOKS`, of a part of a message's path."""
    if faded:
        return "faded"
    if way.key == "lost":
        return "lost"
    return "refused" if way.key == "back" and message.end == "refused" else message.what


def path_of(way: PathPart, top: float) -> str:
    """Return the path data of an arrow, without its part above `top`."""
    (x1, y1), (x2, y2) = way.begin, way.end
    if way.key == "lost":
        sign = f"M{x2 - 4:g} {y2 - 4:g}l8 8M{x2 - 4:g} {y2 + 4:g}l8 -8"
        return _line(way.begin, way.end) + sign
    if y1 == y2:
        up = f"M{x2 - 3.5:g} {y2 + 10:g}L{x2:g} {y2 + 5:g}L{x2 + 3.5:g} {y2 + 10:g}"
        return f"M{x1:g} {y1 + 5:g}V{y1 + BAND + 1:g}H{x2:g}V{y2 + 6:g}{up}"
    return _straight(way.begin, way.end, top + 2 if y1 < top else 0)


def _cross(begin: Point, towards: float) -> Point:
    """Return where a message that starts at `begin` is lost."""
    return begin[0] + (towards - begin[0]) * 0.55, begin[1] + ROW * 0.55


def _straight(begin: Point, end: Point, top: float = 0) -> str:
    """Return an arrow, without its part above `top`."""
    (x1, y1), (x2, y2) = begin, end
    if y1 < top:
        x1, y1 = x1 + (x2 - x1) * (top - y1) / (y2 - y1), top
    back = atan2(y1 - y2, x1 - x2)
    tip = x2 + DOT * cos(back), y2 + DOT * sin(back)
    barbs = [
        f"L{rounded(tip[0] + 7 * cos(back + turn)):g} {rounded(tip[1] + 7 * sin(back + turn)):g}"
        for turn in (-0.4, 0.4)
    ]
    at = f"M{rounded(tip[0]):g} {rounded(tip[1]):g}"
    return f"{_line((x1, y1), tip)}{at}{barbs[0]}{at}{barbs[1]}"


def _line(begin: Point, end: Point) -> str:
    (x1, y1), (x2, y2) = begin, end
    return f"M{rounded(x1):g} {rounded(y1):g}L{rounded(x2):g} {rounded(y2):g}"


def flight(
    key: str,
    look: str,
    ends: tuple[tuple[float, int], tuple[float, int]],
    times: tuple[float, float],
) -> Mark:
    """Return a message in flight. The message is drawn at its destination and shifted back by the
    remaining distance.

    ends: the x coordinate and the row of the start and of the destination.
    times: the positions on the clock at which the message is there.
    """
    (from_x, from_row), (x, row) = ends
    y = y_of(row)
    move = Move(round(times[0], 1), round(times[1], 1), from_x - x, y_of(from_row) - y)
    return group(key, circle("sign", x, y, 6, fill=LOOKS[look]["stroke"], stroke="page"), move=move)


def title_of(diagram: Diagram, message: Exchange) -> str:
    """Describe a message, for example `add of entry 3, w to b1: sent 9.50 ms, arrived 10.75 ms`."""
    what = message.what if message.entry < 0 else f"{message.what} of entry {message.entry}"
    ends = {
        "sent": message.sent,
        "arrived": message.arrived,
        {"done": "answered", "refused": "refused"}.get(message.end, "timed out"): message.answered,
    }
    words = [
        f"{word} {time_words(diagram.events[at].time_us)}" for word, at in ends.items() if at >= 0
    ]
    source, target = diagram.lanes[message.source], diagram.lanes[message.target]
    return f"{what}, {source} to {target}: {', '.join(words)}"
