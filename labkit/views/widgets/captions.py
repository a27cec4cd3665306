"""Explains the first event of each kind in a box next to it, so that readers need no legend."""

from collections.abc import Sequence
from math import inf

from labkit.system.trace.events import Event
from labkit.views.widgets.display_clock import READ_MS
from labkit.views.widgets.drawing.scene import Mark, group, rect, text
from labkit.views.widgets.drawing.text_metrics import lines_of, width_of
from labkit.views.widgets.run import EventPositions

ROOM, LINE = 200, 16


class Explainer:
    """Selects the event to explain: the latest event that is the first of its kind, until the
    reader has had time to read the explanation.

    event, words: the event and its explanation, or None and "".
    explained_until: the clock position at which the explanation disappears.
    """

    def __init__(self, positions: EventPositions) -> None:
        self._positions = positions
        self.event: Event | None = None
        self.words = ""
        self.explained_until: float | None = None

    def take(self, event: Event) -> None:
        if event.seq in self._positions.firsts:
            self.event, self.words = event, self._positions.firsts[event.seq]
            self.explained_until = self._positions.at(event.seq) + READ_MS - 1

    def hide(self) -> None:
        self.event, self.words, self.explained_until = None, "", None


def hide_explanations(explainers: Sequence[Explainer], at: float) -> float | None:
    """Hide the explanations if all of them end before the position `at`. Return the position at
    which they end, or None if nothing is hidden.
    """
    until = max((end for each in explainers if (end := each.explained_until)), default=inf)
    if until >= at:
        return None
    for each in explainers:
        each.hide()
    return until


def note(words: str, left: float, top: float, right: float, bottom: float) -> Mark:
    """Return a box with the text. The top left corner of the box is at (left, top), unless the box
    must be moved left or up so that it ends before (right, bottom).
    """
    lines = lines_of(words, ROOM)
    width = max(width_of(line) for line in lines) + 18
    height = LINE * len(lines) + 10
    return group(
        "note",
        rect("box", 0, 0, width, height, rx=5, fill="page", stroke="ink", thick=1.5),
        *(text(str(at), 9, 17 + LINE * at, line) for at, line in enumerate(lines)),
        x=min(left, right - width),
        y=min(top, bottom - height),
    )
