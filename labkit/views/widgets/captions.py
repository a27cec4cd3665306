"""Words beside the first event of each kind, instead of a legend of all signs."""

from labkit.system.trace.events import Event
from labkit.views.widgets.display_clock import READ_MS
from labkit.views.widgets.run import Places
from labkit.views.widgets.scene import Mark, group, rect, text
from labkit.views.widgets.text_metrics import lines_of, width_of

ROOM, LINE = 200, 16


class FirstTimes:
    """Keeps an event that is the first of its kind until there was time to read about it.

    event, words: the event and its words; None and "" without one.  hush_at: the position on the
    clock at which the words end.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self.event: Event | None = None
        self.words = ""
        self.hush_at: float | None = None

    def take(self, event: Event) -> None:
        if event.seq in self._places.firsts:
            self.event, self.words = event, self._places.firsts[event.seq]
            self.hush_at = self._places.at(event.seq) + READ_MS - 1

    def hush(self) -> None:
        """End the words: there was time to read them."""
        self.event, self.words, self.hush_at = None, "", None


def note(words: str, left: float, top: float, right: float, bottom: float) -> Mark:
    """A box with these words at (left, top), shifted until it ends at (right, bottom)."""
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
