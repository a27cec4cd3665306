"""The inside of a bookie: its memtable, journal, entry log and index over time.

Blocks are entries. A flush writes the entries in the memtable to the entry log, sorted, and their
locations to the index. LastLogMark then advances past the journal records that are no longer
needed. After a crash, replay reads the records after the mark back into the memtable.

Read in this order: `bands` (the contents of the picture), `blocks` (one item in a band), `picture`
(the scene), and `BookieInside` below.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from labkit.system.trace.bookie_state import BOOKIE_HANDLERS
from labkit.system.trace.cluster_state import by_number, fold_bookie
from labkit.system.trace.events import Event
from labkit.views.widgets.acts import Acts
from labkit.views.widgets.bookie_inside.picture import BookiePicture, summary
from labkit.views.widgets.controls import Control, choice
from labkit.views.widgets.follower import LiveCluster
from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.run import DisplayedRun, RunSource

DEFAULT_PAGE_SIZE = 8192
_KINDS = {"node.paused", "node.resumed", "bookie.formatted", *(kind for kind, _ in BOOKIE_HANDLERS)}
_SIGNS = {"journal.replayed": ("↺", "ink"), "mark.persisted": ("▼", "confirmed")}


class BookieInside(PlayingView):
    """Shows one bookie from a log, a simulated run or a running cluster.

    bookie: the bookie's name. By default, the view shows the first bookie that put an entry into
        its memtable, and the reader can choose another.
    upto: the number of the log's events after which the view opens; the still picture shows the
        same moment. The default is the end of the workload.
    page_size: the index's page size in bytes (`StorageConfig.page_size`).
    """

    question = "Where is each entry inside this bookie, and what would survive a crash?"
    linked_as = "BookieInside"

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
        """The name of the bookie that is shown, or "" if there is none."""
        return self._bookie

    def picture(self, run: DisplayedRun, acts: Acts) -> BookiePicture:
        names = self._known(run.events)
        self._bookie = self._chosen or next(iter(names), "")
        # Do not reserve space for items that only the final check adds.
        end = math.inf if run.check_at is None else run.check_at
        events = [e for e in self._own(run.events) if run.at(e.seq) <= end]
        reserved = [] if self.is_live else events
        return BookiePicture(run, self._bookie, self._page_size, acts, reserved)

    def choices(self) -> list[Control]:
        names = self._known(self.run.events)
        if self._fixed is not None or len(names) < 2:
            return super().choices()
        options = ((name, name) for name in sorted(names, key=by_number))
        return [choice("bookie", "Shows", self._bookie, options), *super().choices()]

    def chosen(self, name: str, value: Any) -> None:
        self._chosen = str(value)

    def opening(self) -> float:
        if self._upto is None:
            return super().opening()
        earlier = [event for event in self._own(self.run.events) if event.seq < self._upto]
        return self.run.at(earlier[-1].seq) if earlier else 0.0

    def beats(self, events: Sequence[Event]) -> Iterable[list[Event]]:
        return [[event] for event in self._own(events)]

    def sign(self, event: Event) -> tuple[str, str] | None:
        return _SIGNS.get(event.kind) if event.offset > 0 else None

    def selection(self) -> dict[str, Any]:
        return {"bookie": self._bookie}

    def __repr__(self) -> str:
        opening = self.opening()
        events = [e for e in self._own(self.run.events) if self.run.at(e.seq) <= opening]
        return summary(self._bookie, fold_bookie(events, self._bookie))

    def _own(self, events: Sequence[Event]) -> list[Event]:
        return [e for e in events if e.node == self._bookie and e.kind in _KINDS]

    def _known(self, events: Sequence[Event]) -> dict[str, None]:
        """Return the bookies in the order in which they first put an entry into a memtable."""
        found = dict.fromkeys(event.node for event in events if event.kind == "memtable.put")
        return found | dict.fromkeys(self.bookies())
