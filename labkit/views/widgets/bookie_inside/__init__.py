"""Bookie inside: one bookie's memtable, journal, entry log and index over time.

Blocks are entries.  A flush copies them from the memtable, in order, into the entry log, and their
locations into the index; LastLogMark moves past the journal records that are no longer needed.
After a crash, replay brings the records after the mark back into the memtable.

Read in this order: `bands` (what the picture consists of), `blocks` (one thing in a band),
`picture` (the scene), and `BookieInside` below.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from labkit.system.trace.bookie_fold import BOOKIE_KINDS, BookieState, fold_bookie
from labkit.system.trace.events import Event
from labkit.views.widgets.bookie_inside.blocks import legend
from labkit.views.widgets.bookie_inside.picture import BookiePicture, summary
from labkit.views.widgets.follower import LiveCluster
from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.run import DisplayedRun, RunSource
from labkit.views.widgets.scene import Mark
from labkit.views.widgets.scene_view import Message

DEFAULT_PAGE_SIZE = 8192
_SIGNS = {"journal.replayed": ("↺", "ink"), "mark.persisted": ("▼", "confirmed")}


class BookieInside(PlayingView):
    """Shows one bookie of a log, a simulated run, or a running cluster.

    bookie: its name; by default the first one that put an entry into its memtable, and the others
    on request.
    upto: the number of the log's events after which the view opens, and which the still picture
    shows.  By default the end of the workload.
    page_size: the index's page size in bytes (`StorageConfig.page_size`).
    """

    def __init__(
        self,
        source: RunSource | LiveCluster,
        bookie: str | None = None,
        upto: int | None = None,
        page_size: int = DEFAULT_PAGE_SIZE,
    ) -> None:
        self._fixed = self._chosen = bookie
        self._upto = upto
        self._page_size = page_size
        super().__init__(source)

    @property
    def bookie(self) -> str:
        """The name of the bookie that is shown; "" while there is none."""
        return self._bookie

    def picture(self, run: DisplayedRun) -> BookiePicture:
        """The bookie before its first event."""
        known = self._known(run.events)
        self._bookie = self._chosen or next(iter(known), "")
        events = [] if self.is_live else self._own(run.events)
        return BookiePicture(run, self._bookie, self._page_size, self.acts(), events)

    def legend(self) -> Mark:
        """What the blocks mean."""
        return legend()

    def choices(self) -> list[Message]:
        """A choice of the bookie, if there are several."""
        known = self._known(self.run.events)
        if self._fixed is not None or len(known) < 2:
            return super().choices()
        options = [[name, name] for name in sorted(known)]
        choice = {"name": "bookie", "label": "Shows", "kind": "choice", "options": options}
        return [{**choice, "value": self._bookie}, *super().choices()]

    def chosen(self, name: str, value: Any) -> None:
        """Called when the reader chooses another bookie."""
        self._chosen = str(value)

    def opening(self) -> float:
        """The moment `upto`, or the end of the workload."""
        if self._upto is None:
            return super().opening()
        seen = [event for event in self._own(self.run.events) if event.seq < self._upto]
        return self.run.at(seen[-1].seq) if seen else 0.0

    def beats(self, events: Sequence[Event]) -> Iterable[list[Event]]:
        """Each event of this bookie is a beat."""
        return [[event] for event in self._own(events)]

    def sign(self, event: Event) -> tuple[str, str] | None:
        """Replays and steps of LastLogMark."""
        return _SIGNS.get(event.kind) if event.offset > 0 else None

    def state(self) -> BookieState:
        """The moment that the still picture shows."""
        opening = self.opening()
        return fold_bookie(e for e in self._own(self.run.events) if self.run.at(e.seq) <= opening)

    def __repr__(self) -> str:
        return summary(self._bookie, self.state())

    def _own(self, events: Sequence[Event]) -> list[Event]:
        return [e for e in events if e.node == self._bookie and e.kind in BOOKIE_KINDS]

    def _known(self, events: Sequence[Event]) -> dict[str, None]:
        """Bookies in the order in which they first put an entry into a memtable."""
        found = dict.fromkeys(event.node for event in events if event.kind == "memtable.put")
        return found | dict.fromkeys(self.bookies())
