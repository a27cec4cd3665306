"""The ensemble history: the bookies that store a ledger, moment by moment.

A band of the picture is a moment, a column is a range of entries with the places of the ensemble
one below the other.  Each entry that a bookie should have is a cell, which is filled when the entry
is durable there.  The last moment shows the present state; the others stay as they were.

Read in this order: `moments` (what changed, and when), `picture` (the scene), and
`EnsembleHistory` below.
"""

from labkit.views.widgets.ensemble_history.moments import newest_ledger
from labkit.views.widgets.ensemble_history.picture import EnsemblePicture, legend
from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.run import DisplayedRun, RunSource, events_of
from labkit.views.widgets.scene import Mark

ROWS, STILL_ROWS = 6, 20
"""The number of visible moments, while the view plays and in a stored picture."""


class EnsembleHistory(PlayingView):
    """Shows the history of one ledger.

    source: a run, a log, or a list of events; a simulated run is shown up to its epilogue.
    ledger: the ledger's id, the newest by default.
    """

    def __init__(self, source: RunSource, ledger: int | None = None) -> None:
        """Raises `ValueError` for a ledger whose creation is not among the events."""
        events = events_of(source)
        self.ledger_id = newest_ledger(events) if ledger is None else ledger
        if not any(e.kind == "ledger.created" and e.ledger == self.ledger_id for e in events):
            which = "a ledger" if self.ledger_id < 0 else f"ledger {self.ledger_id}"
            raise ValueError(f"no event creates {which}: show a trace from its creation on")
        super().__init__(source)

    def picture(self, run: DisplayedRun) -> EnsemblePicture:
        """The history before the first event."""
        return self._picture_of(run, ROWS)

    def legend(self) -> Mark:
        """The legend of boxes and cells."""
        return legend()

    def svg(self) -> str:
        """The history up to the epilogue, with more moments than fit on a screen."""
        return self.still(self._end().scene())

    def __repr__(self) -> str:
        return self._end().summary()

    def _end(self) -> EnsemblePicture:
        picture = self._picture_of(self.run, STILL_ROWS)
        for event in self.run.events:
            picture.take(event)
        return picture

    def _picture_of(self, run: DisplayedRun, rows: int) -> EnsemblePicture:
        return EnsemblePicture(run.events, self.ledger_id, self.acts(), rows)
