"""Draws bookies as rows of chips. Each chip shows a bookie's state, with buttons for its faults."""

from collections.abc import Collection, Mapping
from functools import lru_cache

from labkit.views.widgets.acts import Acts
from labkit.views.widgets.cluster.heads import (
    ACTS,
    GLYPH_INKS,
    GLYPHS,
    HEAD,
    MIN_WORDED_WIDTH,
    acts_width,
    buttons,
)
from labkit.views.widgets.drawing.kin import node_kin
from labkit.views.widgets.drawing.scene import Mark, group, rect, text
from labkit.views.widgets.drawing.text_metrics import fitted, width_of

HEIGHT = 32
MAX_PITCH = 300
_NAME = 24


class Chips:
    """Lays out the chips: each line contains as many as fit with their names and buttons.

    names: all bookies that appear at any time during the run. acts: the buttons; if there are none,
    no chips are drawn.
    """

    def __init__(self, names: Collection[str], acts: Acts, width: float) -> None:
        widest = max((width_of(name, bold=True) for name in names), default=0)
        room = int(width // (_NAME + widest + acts_width(acts) + 6))
        self._per_line = max(min(len(names), room), 1)
        self._pitch = min(MAX_PITCH, width / self._per_line)
        self._acts = acts
        self.height = HEIGHT * -(-len(names) // self._per_line) if acts.offered else 0

    def marks(self, states: Mapping[str, str], x: float, y: float) -> list[Mark]:
        if not self._acts.offered:
            return []
        shown = (
            _chip(
                *(name, state, self._acts, self._pitch),
                *(self._pitch * (at % self._per_line), float(HEIGHT * (at // self._per_line))),
            )
            for at, (name, state) in enumerate(states.items())
        )
        return [group("bookies", *shown, x=x, y=y)]


@lru_cache(512)
def _chip(name: str, state: str, acts: Acts, pitch: float, x: float, y: float) -> Mark:
    wide = acts_width(acts)
    room = pitch - 6 - wide - _NAME
    ink = "lost" if state == "down" else "ink"
    about = group(
        "about",
        rect("box", 0, 0, pitch - 6, ACTS, rx=6, fill="box", stroke="line"),
        text("glyph", 8, 20, GLYPHS[state], fill=GLYPH_INKS.get(state, "faint"), bold=True),
        text("name", _NAME, 20, fitted(name, room, bold=True), fill=ink, bold=True),
        title=f"{name}: {state}",
        kin=node_kin(name),
    )
    # Shift the buttons up, so that they are next to the name instead of below it as in a cluster
    # view.
    beside = group(
        "acts",
        *buttons(name, state, acts, max(wide, MIN_WORDED_WIDTH)),
        x=pitch - 6 - wide,
        y=3 - HEAD,
    )
    return group(name, about, beside, x=x, y=y)
