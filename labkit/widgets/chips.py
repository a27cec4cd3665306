"""Bookies as a row of chips: the state of each, and buttons for its faults."""

from collections.abc import Mapping
from functools import lru_cache

from labkit.widgets.cluster.heads import ACTS, GLYPHS, HEAD, buttons
from labkit.widgets.letters import fitted
from labkit.widgets.scene import Mark, group, rect, text

HEIGHT = 32
MOST_PITCH = 190
_NAME = 24
_INKS = {"up": "well", "down": "lost"}


def chips(
    states: Mapping[str, str], acts: tuple[str, ...], x: float, y: float, width: float
) -> Mark:
    """A chip for each bookie and its state, in a row of the given width that begins at (x, y)."""
    pitch = min(MOST_PITCH, width / max(len(states), 1))
    shown = (
        _chip(name, state, acts, pitch, pitch * at)
        for at, (name, state) in enumerate(states.items())
    )
    return group("bookies", *shown, x=x, y=y)


@lru_cache(512)
def _chip(name: str, state: str, acts: tuple[str, ...], pitch: float, x: float) -> Mark:
    room = pitch - 6 - (3 * 26 + 4 if acts else 0) - _NAME
    ink = "lost" if state == "down" else "ink"
    about = group(
        "about",
        rect("box", 0, 0, pitch - 6, ACTS, rx=6, fill="box", stroke="line"),
        text("glyph", 8, 20, GLYPHS[state], fill=_INKS.get(state, "faint"), bold=True),
        text("name", _NAME, 20, fitted(name, room, bold=True), fill=ink, bold=True),
        title=f"{name}: {state}",
        kin=f"n-{name}",
    )
    # Beside the name; in a column of the cluster view they are below it.
    beside = group("acts", *buttons(name, state, acts, name, 90), x=pitch - 90, y=3 - HEAD)
    return group(name, about, beside, x=x)
