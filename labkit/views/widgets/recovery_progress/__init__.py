"""Recovery progress: the auditor, lost bookies, under-replicated ledgers and their re-replication.
The view needs only a trace.

A chart of the whole run is at the top. The chart has one column per step, that is, per event that
changed the picture. The current moment is shown in detail below the chart: the fragments of each
ledger, and how many copies each bookie has.

Read the modules in this order: `state` (the displayed values), `fold` (builds them from events),
`chart` (all steps as lanes), `picture` (the scene), and then `RecoveryProgress` below.
"""

from labkit.views.widgets.acts import Acts
from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.recovery_progress.picture import RecoveryPicture, summary
from labkit.views.widgets.run import DisplayedRun, RunSource


class RecoveryProgress(PlayingView):
    """Shows the recovery in a run; a simulated run is shown up to its epilogue.

    source: a run, a log, or a list of events.
    at: the `seq` of the event at which the view opens. By default, this is the end of the workload.
    """

    question = "How is the loss of a bookie noticed, and how are its copies replaced?"
    linked_as = "RecoveryProgress"

    def __init__(self, source: RunSource, at: int | None = None) -> None:
        self.opens_at = at
        super().__init__(source)

    def picture(self, run: DisplayedRun, acts: Acts) -> RecoveryPicture:
        return RecoveryPicture(run.events, acts)

    def __repr__(self) -> str:
        return summary(self.still_picture().state)
