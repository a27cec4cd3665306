"""Bookies as rows of chips: the state of each, and buttons for its faults."""

from collections.abc import Collection, Mapping
from functools import lru_cache

from labkit.views.widgets.cluster.heads import ACTS, GLYPHS, HEAD, buttons
from labkit.views.widgets.scene import Mark, group, rect, text
from labkit.views.widgets.text_metrics import fitted, width_of

HEIGHT = 32
MOST_PITCH = 190
_NAME = 24
_BUTTONS = 3 * 26 + 4
_INKS = {"up": "well", "down": "lost"}


class Chips:
    """The places of the chips: as many in a line as have room for their names and buttons.

    names: all bookies of the run, from its beginning on.  Without acts there are no chips.
    """

    def __init__(self, names: Collection[str], acts: tuple[str, ...], width: float) -> None:
        widest = max((width_of(name, bold=True) for name in names), default=0)
        room = int(width // (_NAME + widest + _BUTTONS + 6))
        self._per_line = max(min(len(names), room), 1)
        self._pitch = min(MOST_PITCH, width / self._per_line)
        self._acts = acts
        self.height = HEIGHT * -(-len(names) // self._per_line) if acts else 0

    def marks(self, states: Mapping[str, str], x: float, y: float) -> list[Mark]:
        """A chip for each bookie and its state, in lines that begin at (x, y)."""
        if not self._acts:
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
def _chip(name: str, state: str, acts: tuple[str, ...], pitch: float, x: float, y: float) -> Mark:
    room = pitch - 6 - _BUTTONS - _NAME
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
    return group(name, about, beside, x=x, y=y)
