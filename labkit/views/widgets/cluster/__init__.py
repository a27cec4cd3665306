"""The cluster view: bookies as columns, entries as rows, and messages between them.

The view replays a run or follows a running cluster, whose bookies the reader can kill and restart.

Read the modules in this order: `cells` (an entry on a bookie), `heads` (the column headings),
`grid` (columns, rows and messages in flight), `picture` (the scene), and then `ClusterView` below.
"""

from typing import Any

from labkit.system.trace.cluster_state import fold
from labkit.views.widgets.acts import Acts
from labkit.views.widgets.cluster.picture import ClusterPicture
from labkit.views.widgets.controls import Control, choice
from labkit.views.widgets.follower import LiveCluster
from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.run import DisplayedRun, RunSource

MIN_ROWS, MAX_ROWS = 4, 16
"""The minimum and the maximum number of visible rows. A ledger with more entries scrolls."""
LIVE_ROWS = MIN_ROWS, 12
"""The number of visible rows at the start of a running cluster, and the maximum."""


class ClusterView(PlayingView):
    """Shows a log, a simulated run, or a running cluster.

    ledger: the id of the only ledger to show. By default, the view shows the newest ledger, and
    the reader can choose another.
    at: the `seq` of the event at which the view opens. By default, this is the end of the workload.
    """

    question = "Which bookies have which entries, and which of them are confirmed?"
    linked_as = "ClusterView"

    def __init__(
        self, source: RunSource | LiveCluster, ledger: int | None = None, at: int | None = None
    ) -> None:
        self._fixed = self._ledger = ledger
        self.opens_at = at
        super().__init__(source)

    def picture(self, run: DisplayedRun, acts: Acts) -> ClusterPicture:
        if self.is_live:
            return ClusterPicture(run, self._ledger, self.bookies(), acts, LIVE_ROWS)
        end = fold(run.events)
        last = max((each.last_add_pushed for each in end.ledgers.values()), default=0)
        rows = min(max(last + 1, MIN_ROWS), MAX_ROWS)
        return ClusterPicture(run, self._ledger, tuple(end.bookies), acts, (rows, rows))

    def choices(self) -> list[Control]:
        ledgers = sorted(self.current_picture.grid.fold.ledgers, reverse=True)
        if self._fixed is not None or len(ledgers) < 2:
            return super().choices()
        newest, *others = ledgers
        options = [("", f"Ledger {newest} (newest)"), *((str(i), f"Ledger {i}") for i in others)]
        value = "" if self._ledger is None else str(self._ledger)
        return [choice("ledger", "Shows", value, options), *super().choices()]

    def chosen(self, name: str, value: Any) -> None:
        """Show the chosen ledger. If this ledger is the newest one, the view switches to later
        ledgers as they are created.
        """
        self._ledger = int(value) if value else None

    def selection(self) -> dict[str, Any]:
        return {"ledger": self._ledger}

    def __repr__(self) -> str:
        return str(self.scene().attributes["aria-label"])
