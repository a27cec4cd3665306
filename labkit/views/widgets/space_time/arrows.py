"""The messages of the space-time diagram: each as an arrow that crosses no words.

A row has a band for its dots and their words; arrows cross from lane to lane in the space between
two rows.  The arrow of a longer message crosses at once, and then goes down beside its target's
lane.
"""

from collections.abc import Sequence
from typing import NamedTuple

from labkit.views.widgets.display_clock import Hop
from labkit.views.widgets.run import in_ms
from labkit.views.widgets.scene import Mark, Move, circle, group, path
from labkit.views.widgets.space_time.model import Diagram, Exchange

ROW, BAND = 36, 9
"""The heights of a row, and of half the band with its words."""

LOOKS: dict[str, tuple[str, float, str]] = {
    "add": ("stored", 1.5, ""),
    "fence": ("confirmed", 2.2, ""),
    "read": ("faint", 1.4, "5 3"),
    "refused": ("lost", 1.5, ""),
    "lost": ("lost", 1.5, "2 3"),
    "metadata": ("well", 1.4, "1 3"),
    "faded": ("line", 1, ""),
}
"""Colour, thickness and dash."""


class ExchangeProgress(NamedTuple):
    """The state of a message at a moment: its rows, -1 for events that have not happened.

    lost: the message, or its answer, will not arrive.
    first: the first row in sight, or 0 if all of it is in sight.
    """

    sent: int
    arrived: int
    left: int
    answered: int
    lost: bool
    first: int


def y_of(row: int) -> float:
    """The middle of a row."""
    return ROW * row + ROW / 2


def message_marks(
    key: str,
    message: Exchange,
    seen: ExchangeProgress,
    x: Sequence[float],
    kin: str,
    title: str,
    faded: bool,
) -> Mark:
    """The message and its answer, up to the moment."""
    source, target = x[message.source], x[message.target]
    look = "faded" if faded else message.what
    back = "refused" if message.end == "refused" and not faded else look
    parts = list[Mark]()

    def wire(key: str, look: str, end: int, d: str) -> None:
        if end < seen.first:
            return
        stroke, thick, dash = LOOKS[look]
        parts.append(path(key, d, stroke=stroke, thick=thick, dash=dash, kin=kin, title=title))

    if seen.arrived >= 0:
        wire("there", look, seen.arrived, way(source, seen.sent, target, seen.arrived, seen.first))
        begin = max(seen.left, seen.arrived)
        if seen.answered >= 0:
            wire("back", back, seen.answered, way(target, begin, source, seen.answered, seen.first))
        elif seen.lost:
            wire("lost", "faded" if faded else "lost", begin, cross(target, begin, source))
    elif seen.answered >= 0 and not seen.lost:
        there, again = there_and_back(source, seen.sent, target, seen.answered, seen.first)
        wire("there", look, seen.answered, there)
        wire("back", back, seen.answered, again)
    elif seen.lost:
        wire("lost", "faded" if faded else "lost", seen.sent, cross(source, seen.sent, target))
    return group(key, *parts)


def way(x1: float, row1: int, x2: float, row2: int, first: int) -> str:
    """The path from a dot to a later one, without the part above the first visible row."""
    begin, end = y_of(row1), y_of(row2)
    if row1 == row2:
        up = f"M{x2 - 3.5:g} {end + 10:g}L{x2:g} {end + 5:g}L{x2 + 3.5:g} {end + 10:g}"
        return f"M{x1:g} {begin + 5:g}V{begin + BAND + 1:g}H{x2:g}V{end + 6:g}{up}"
    side = x2 if row2 == row1 + 1 else x2 - 7
    if row1 < first:
        start = f"M{side:g} {ROW * first + 2:g}"
    else:
        start = f"M{x1:g} {begin + 5:g}V{begin + BAND + 1:g}L{side:g} {y_of(row1 + 1) - BAND:g}"
    into = f"V{end - 6:g}" if side == x2 else f"V{end - 11:g}L{x2:g} {end - 6:g}"
    return start + into + _head(x2, end - 5)


def there_and_back(x1: float, row1: int, x2: float, row2: int, first: int) -> tuple[str, str]:
    """A message whose arrival is not in the trace: drawn late, since a refusal is quick."""
    end, bottom = y_of(row2), y_of(row2 - 1) + BAND + 1
    turn = end - ROW / 2
    if row1 >= row2 - 1:
        start = f"M{x1:g} {y_of(row1) + 5:g}V{bottom:g}"
    else:
        top = y_of(row1) + BAND + 1 if row1 >= first else ROW * first + 2
        start = f"M{x1 - 7:g} {top:g}V{bottom:g}"
    there = f"{start}L{x2:g} {turn:g}{_head(x2, turn)}"
    return there, f"M{x2:g} {turn:g}L{x1:g} {end - BAND:g}V{end - 6:g}{_head(x1, end - 5)}"


def cross(x1: float, row: int, x2: float) -> str:
    """A path that ends in a cross."""
    begin, x = y_of(row) + BAND + 1, x1 + (x2 - x1) * 0.55
    y = begin + (ROW - 2 * BAND) * 0.5
    sign = f"M{x - 4:g} {y - 4:g}l8 8M{x - 4:g} {y + 4:g}l8 -8"
    return f"M{x1:g} {begin - 4:g}V{begin:g}L{x:g} {y:g}{sign}"


def _head(x: float, y: float) -> str:
    return f"M{x - 3.5:g} {y - 5:g}L{x:g} {y:g}L{x + 3.5:g} {y - 5:g}"


def flight(key: str, look: str, start: tuple[float, int], end: tuple[float, int], hop: Hop) -> Mark:
    """A message in flight: drawn where it arrives, moved back by the rest of its way."""
    x, y = end[0], y_of(end[1])
    move = Move(round(hop.start, 1), round(hop.end, 1), start[0] - x, y_of(start[1]) - y)
    return group(key, circle("sign", x, y, 6, fill=LOOKS[look][0], stroke="page"), move=move)


def title_of(diagram: Diagram, message: Exchange) -> str:
    """A message in words, such as `add of entry 3, b1: sent 9.50 ms, there 10.75 ms`."""
    what = message.what if message.entry < 0 else f"{message.what} of entry {message.entry}"
    ends = {
        "sent": message.sent,
        "there": message.arrived,
        {"done": "answered", "refused": "refused"}.get(message.end, "given up"): message.answered,
    }
    words = [f"{word} {in_ms(diagram.events[at].time_us)}" for word, at in ends.items() if at >= 0]
    source, target = diagram.lanes[message.source], diagram.lanes[message.target]
    return f"{what}, {source} to {target}: {', '.join(words)}"
