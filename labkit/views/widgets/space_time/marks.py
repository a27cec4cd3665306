"""The marks of the space-time diagram: lanes, times, and dots with their labels."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from labkit.system.trace.events import Event
from labkit.views.widgets.acts import Acts
from labkit.views.widgets.cluster.heads import buttons
from labkit.views.widgets.drawing.kin import node_kin
from labkit.views.widgets.drawing.legend import Symbol, legend
from labkit.views.widgets.drawing.scene import (
    Anchor,
    Mark,
    Style,
    circle,
    group,
    path,
    rect,
    rounded,
    text,
)
from labkit.views.widgets.drawing.text_metrics import name_lines, width_of
from labkit.views.widgets.run import span
from labkit.views.widgets.space_time.arrows import LOOKS, ROW, y_of
from labkit.views.widgets.space_time.labels import LABEL_DISTANCE, LabelPlace, reach_of
from labkit.views.widgets.space_time.words import ABSENCE

WIDTH, NAMES = 860, 40
"""The minimum width of the picture, and the height reserved for the names above the lanes."""

WRITE = 10
"""The distance between a dot and the line of its write to the metadata store."""

BREAKS: dict[str, Style] = {
    "down": {"stroke": "lost", "thick": 2.4, "dash": "1.5 5"},
    "paused": {"stroke": "faint", "thick": 2.4, "dash": "2 7"},
    "cut off": {"stroke": "lost", "thick": 2.4, "dash": "10 5"},
}


class LaneState(NamedTuple):
    """A section of a lane, and the state of the node in that section ("" if it is up)."""

    top: float
    bottom: float
    state: str


@lru_cache(256)
def lane_mark(
    name: str,
    x: float,
    room: float,
    parts: tuple[LaneState, ...],
    top: float,
    state: str,
    acts: Acts,
) -> Mark:
    lines = []
    for at, part in enumerate(parts):
        look = BREAKS.get(part.state, {"stroke": "line", "thick": 2})
        d = f"M{x:g} {rounded(top + part.top):g}V{rounded(top + part.bottom):g}"
        title = f"{name} is {part.state}" if part.state else ""
        lines.append(path(f"line {at}", d, title=title, **look))
    fits = width_of(name, bold=True) <= room + 16
    lines_of_name = (name,) if fits else name_lines(name, room + 16)
    names = [
        text(f"name {at}", x - 6, 32 - 15 * (len(lines_of_name) - 1 - at), line, bold=True)
        for at, line in enumerate(lines_of_name)
    ]
    shown = group("acts", *buttons(name, state, acts, room + 20), x=x - 14, y=NAMES - 44)
    return group(
        name, *lines, group("name", *names, title=f"{name}: {state}", kin=node_kin(name)), shown
    )


@lru_cache(4096)
def time_mark(row: int, time: str, quiet_us: int, left: float, right: float) -> Mark:
    y = y_of(row)
    parts = [text("time", left - 8, y + 4, time, fill="faint", anchor="end")]
    if quiet_us:
        parts.append(
            text("quiet", left - 8, y - 13, f"⋮ {span(quiet_us)}", fill="faint", anchor="end")
        )
        d = f"M{left:g} {y - ROW / 2:g}H{right - 8:g}"
        parts.append(path("line", d, stroke="line", dash="1 4", thick=2))
    return group(str(row), *parts)


@lru_cache(256)
def now_mark(row: int, width: float) -> Mark:
    return rect("now", 2, y_of(row) - 10, width - 4, 20, rx=4, fill="box")


@lru_cache(1024)
def write_mark(at: int, x1: float, x2: float, row: int, faded: bool) -> Mark:
    d = f"M{x1:g} {y_of(row) + WRITE / 2:g}v{WRITE / 2:g}H{x2:g}v-4"
    return path(f"write {at}", d, **LOOKS["faded" if faded else "metadata"])


@lru_cache(8192)
def future_dot(x: float, row: int) -> Mark:
    return circle(f"{row}-{x:g}", x, y_of(row), 4.5, fill="page", stroke="line", thick=1.5)


def dot_marks(
    x: float, y: float, label: str, spot: LabelPlace, ink: str, is_broken: bool
) -> list[Mark]:
    """Return the dot for the simultaneous events on a lane, with its label."""
    left, right, top, bottom = reach_of(x, y, spot, label)
    parts = [
        rect("reach", left, top, right - left, bottom - top, fill="none"),
        circle("dot", x, y, 4.5 if label else 3, fill=ink),
    ]
    if is_broken:
        parts.append(circle("ring", x, y, 9, stroke="lost", thick=2.5))
    words = "ink" if ink == "stored" else "faint" if ink == "line" else ink
    start = x - LABEL_DISTANCE if spot.is_left else x + LABEL_DISTANCE
    anchor: Anchor = "end" if spot.is_left else "start"
    for at, (base, line) in enumerate(spot.lines(label) if label else ()):
        key_of = f"label {at}" if at else "label"
        parts.append(text(key_of, start, y + base, line, fill=words, anchor=anchor, halo=True))
    return parts


def ink_of(events: Sequence[Event], label: str) -> str:
    kinds = {event.kind for event in events}
    if kinds & {"node.killed", "link.cut", "session.lost", "disk.rotted"}:
        return "lost"
    if "lac.advanced" in kinds or "fenced" in label:
        return "confirmed"
    failed = (e for e in events if e.kind.endswith(".failed"))
    return "stored" if all(e.error in ABSENCE for e in failed) else "lost"


@lru_cache(64)
def legend_of(shown: frozenset[str]) -> Mark | None:
    """Return the legend of these arrows, lanes and dots."""
    words = {
        "add": "add and its response",
        "read": "read",
        "fence": "fencing request",
        "refused": "refused",
        "lost": "never answered",
        "metadata": "metadata write",
        **{state: state for state in BREAKS},
    }
    looks = LOOKS | BREAKS
    symbols = [
        Symbol(key, [path("line", "M0 8H28", **looks[key])], meaning)
        for key, meaning in words.items()
        if key in shown
    ]
    if "lac" in shown:
        dot = circle("dot", 14, 8, 4.5, fill="confirmed")
        symbols.append(Symbol("lac", [dot], "LAC: confirmed up to this entry"))
    return legend(symbols)
