"""The ensemble history: which bookies stored a ledger at each moment.

Each band of the picture is a moment. Each column is a range of entries, and lists the bookies of
the ensemble from top to bottom. A cell is drawn for each entry that a bookie should have, and is
filled once the entry is durable on that bookie. The last band shows the current state, and the
earlier bands no longer change.

Read in this order: `moments` (what changed, and when), `picture` (the scene), and `EnsembleHistory`
below.
"""

from typing import Any

from labkit.views.widgets.acts import NO_ACTS, Acts
from labkit.views.widgets.ensemble_history.moments import newest_ledger
from labkit.views.widgets.ensemble_history.picture import EnsemblePicture
from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.run import DisplayedRun, RunSource, events_of

ROWS, STILL_ROWS = 6, 20
"""The number of visible moments while the view plays, and in a stored picture."""


class EnsembleHistory(PlayingView):
    """Shows the history of one ledger.

    source: a run, a log, or a list of events; a simulated run is shown up to its epilogue.
    ledger: the ledger's id; by default, the newest ledger is shown.
    at: the `seq` of the event at which the view opens. By default, this is the end of the workload.
    """

    question = "Which bookies stored this ledger, and when did that change?"
    linked_as = "EnsembleHistory"

    def __init__(self, source: RunSource, ledger: int | None = None, at: int | None = None) -> None:
        """Raise `ValueError` if none of the events creates the ledger."""
        events = events_of(source)
        self.ledger_id = newest_ledger(events) if ledger is None else ledger
        if not any(e.kind == "ledger.created" and e.ledger == self.ledger_id for e in events):
            which = "a ledger" if self.ledger_id < 0 else f"ledger {self.ledger_id}"
            raise ValueError(f"no event creates {which}; the trace must include its creation")
        self.opens_at = at
        super().__init__(source)

    def picture(self, run: DisplayedRun, acts: Acts) -> EnsemblePicture:
        return EnsemblePicture(run.events, self.ledger_id, acts, ROWS)

    def selection(self) -> dict[str, Any]:
        return {"ledger": self.ledger_id}

    def __repr__(self) -> str:
        return self.still_picture().summary()

    def still_picture(self) -> EnsemblePicture:
        return self.at_opening(
            EnsemblePicture(self.run.events, self.ledger_id, NO_ACTS, STILL_ROWS)
        )
