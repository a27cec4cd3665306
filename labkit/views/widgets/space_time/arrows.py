"""Draws the messages of the space-time diagram as straight arrows, below the dots and their
labels.
"""

from collections.abc import Sequence
from math import atan2, cos, sin
from typing import NamedTuple

from labkit.views.widgets.display_clock import Hop
from labkit.views.widgets.run import time_words
from labkit.views.widgets.scene import Mark, Move, circle, group, path, rounded
from labkit.views.widgets.space_time.model import Diagram, Exchange

ROW, BAND = 36, 9
"""The height of a row, and half the height of the band for its labels."""
DOT = 6
"""The distance between the tip of an arrow and the centre of a dot."""
Point = tuple[float, float]

LOOKS: dict[str, tuple[str, float, str]] = {
    "add": ("stored", 1.5, ""),
    "fence": ("confirmed", 2.2, ""),
    "read": ("faint", 1.4, "5 3"),
    "refused": ("lost", 1.5, ""),
    "lost": ("lost", 1.5, "2 3"),
    "metadata": ("well", 1.4, "1 3"),
    "faded": ("line", 1, ""),
}
"""The colour, thickness and dash pattern of each kind of arrow."""


class ExchangeProgress(NamedTuple):
    """The state of a message at a moment: the row of each of its events, or -1 if the event has not
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


def message_marks(
    key: str,
    message: Exchange,
    progress: ExchangeProgress,
    x: Sequence[float],
    kin: str,
    title: str,
    faded: bool,
) -> Mark:
    source, target = x[message.source], x[message.target]
    look = "faded" if faded else message.what
    back = "refused" if message.end == "refused" and not faded else look
    parts = list[Mark]()

    def wire(key: str, look: str, end: int, d: str) -> None:
        if end < progress.first:
            return
        stroke, thick, dash = LOOKS[look]
        parts.append(path(key, d, stroke=stroke, thick=thick, dash=dash, kin=kin, title=title))

    if progress.arrived >= 0:
        wire(
            "there",
            look,
            progress.arrived,
            arrow(source, progress.sent, target, progress.arrived, progress.first),
        )
        begin = max(progress.left, progress.arrived)
        if progress.answered >= 0:
            wire(
                "back",
                back,
                progress.answered,
                arrow(target, begin, source, progress.answered, progress.first),
            )
        elif progress.lost:
            wire("lost", "faded" if faded else "lost", begin, cross(target, begin, source))
    elif progress.answered >= 0 and not progress.lost:
        there, back_path = round_trip(
            source, progress.sent, target, progress.answered, progress.first
        )
        wire("there", look, progress.answered, there)
        wire("back", back, progress.answered, back_path)
    elif progress.lost:
        wire(
            "lost",
            "faded" if faded else "lost",
            progress.sent,
            cross(source, progress.sent, target),
        )
    return group(key, *parts)


def arrow(x1: float, row1: int, x2: float, row2: int, first: int) -> str:
    """Return the path between two dots, without the part above the first visible row."""
    if row1 == row2:
        y = y_of(row1)
        up = f"M{x2 - 3.5:g} {y + 10:g}L{x2:g} {y + 5:g}L{x2 + 3.5:g} {y + 10:g}"
        return f"M{x1:g} {y + 5:g}V{y + BAND + 1:g}H{x2:g}V{y + 6:g}{up}"
    return _straight((x1, y_of(row1)), (x2, y_of(row2)), ROW * first + 2 if row1 < first else 0)


def round_trip(x1: float, row1: int, x2: float, row2: int, first: int) -> tuple[str, str]:
    """Return the paths of a request and its response if the trace does not contain the arrival of
    the request.  The arrival is drawn shortly before the response, because bookies refuse requests
    quickly.
    """
    end = y_of(row2)
    turn = x2, end - ROW / 2
    top = ROW * first + 2 if row1 < first else 0
    return _straight((x1, y_of(row1)), turn, top), _straight(turn, (x1, end))


def cross(x1: float, row: int, x2: float) -> str:
    x, y = x1 + (x2 - x1) * 0.55, y_of(row) + ROW * 0.55
    sign = f"M{x - 4:g} {y - 4:g}l8 8M{x - 4:g} {y + 4:g}l8 -8"
    return _line((x1, y_of(row)), (x, y)) + sign


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


def flight(key: str, look: str, start: tuple[float, int], end: tuple[float, int], hop: Hop) -> Mark:
    """Return a message in flight. It is drawn at its destination and shifted back by the remaining
    distance.
    """
    x, y = end[0], y_of(end[1])
    move = Move(round(hop.start, 1), round(hop.end, 1), start[0] - x, y_of(start[1]) - y)
    return group(key, circle("sign", x, y, 6, fill=LOOKS[look][0], stroke="page"), move=move)


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
