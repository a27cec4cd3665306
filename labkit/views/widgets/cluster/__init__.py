"""The cluster view: bookies as columns, entries as rows, and what happens to them.

It replays a log or a simulated run; it follows a running cluster, where its buttons kill, pause and
restart bookies.

Read in this order: `cells` (an entry on a bookie), `heads` (the headings over the rows), `grid`
(both together, and messages in flight), `picture` (the scene), and `ClusterView` below.
"""

from typing import Any

from labkit.system.trace.fold import ClusterState, fold
from labkit.views.widgets.cluster.cells import legend
from labkit.views.widgets.cluster.picture import ClusterPicture
from labkit.views.widgets.follower import LiveCluster
from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.run import DisplayedRun, RunSource
from labkit.views.widgets.scene import Mark
from labkit.views.widgets.scene_view import Message

FEWEST_ROWS, LIVE_ROWS, MOST_ROWS = 4, 12, 16
"""Rows in sight; a longer ledger scrolls."""


class ClusterView(PlayingView):
    """Shows a log, a simulated run, or a running cluster.

    ledger: the id of the one ledger to show.  By default the newest, and the others on request.
    """

    def __init__(self, source: RunSource | LiveCluster, ledger: int | None = None) -> None:
        self._fixed = self._ledger = ledger
        super().__init__(source)

    def picture(self, run: DisplayedRun) -> ClusterPicture:
        """The cluster before the first event."""
        if self.is_live:
            return ClusterPicture(run, self._ledger, self.bookies(), self.acts(), LIVE_ROWS)
        end = fold(run.events)
        last = max((each.last_add_pushed for each in end.ledgers.values()), default=0)
        rows = min(max(last + 1, FEWEST_ROWS), MOST_ROWS)
        return ClusterPicture(run, self._ledger, tuple(end.bookies), self.acts(), rows)

    def legend(self) -> Mark:
        """The legend of the signs."""
        return legend()

    def choices(self) -> list[Message]:
        """A choice of the ledger, if there are several."""
        known = sorted(self.current_picture.grid.fold.ledgers, reverse=True)
        if self._fixed is not None or len(known) < 2:
            return super().choices()
        options = [
            ["", f"Ledger {known[0]} (newest)"],
            *([str(i), f"Ledger {i}"] for i in known[1:]),
        ]
        value = "" if self._ledger is None else str(self._ledger)
        choice = {"name": "ledger", "label": "Shows", "kind": "choice", "options": options}
        return [{**choice, "value": value}, *super().choices()]

    def chosen(self, name: str, value: Any) -> None:
        """Show the chosen ledger; with the newest one, the view follows the run to later
        ledgers.
        """
        self._ledger = int(value) if value else None

    def state(self) -> ClusterState:
        """The last moment of the view's events."""
        return self.current_picture.grid.fold.state()

    def __repr__(self) -> str:
        return str(self.scene().attributes["aria-label"])
