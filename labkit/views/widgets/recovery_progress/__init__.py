"""Recovery progress: the auditor, lost bookies, marked ledgers, their repairs, and the copies that
come back; drawn only from a trace.

At the top is a chart of the whole run: a column is a step, that is, an event that changed
something.  Below it is one moment in full: the ledgers' fragments, and the copies on each bookie.

Read in this order: `state` (what is shown, as values), `fold` (made of events), `chart` (all steps
as lanes), `picture` (the scene), and `RecoveryProgress` below.
"""

from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.recovery_progress.picture import RecoveryPicture, legend, summary
from labkit.views.widgets.recovery_progress.state import RecoveryState
from labkit.views.widgets.run import DisplayedRun, RunSource
from labkit.views.widgets.scene import Mark


class RecoveryProgress(PlayingView):
    """Shows a run's recovery; a simulated run is shown up to its epilogue.

    source: a run, a log, or a list of events.
    at: the `seq` of the event after which the view opens; the still picture shows this moment in
    full.  By default the last event.
    """

    def __init__(self, source: RunSource, at: int | None = None) -> None:
        self._at = at
        super().__init__(source)

    def picture(self, run: DisplayedRun) -> RecoveryPicture:
        """The recovery before the first event."""
        return RecoveryPicture(run.events, self.acts())

    def legend(self) -> Mark:
        """The legend of signs without words in the picture."""
        return legend()

    def opening(self) -> float:
        """The position at which the view opens, and to which it plays."""
        if self._at is None:
            return super().opening()
        past = [event.seq for event in self.run.events if event.seq <= self._at]
        return self.run.at(past[-1]) if past else 0

    def state(self) -> RecoveryState:
        """The moment at which the view opens."""
        picture = self.picture(self.run)
        for event in self.run.events:
            if self.run.at(event.seq) <= self.opening():
                picture.take(event)
        return picture.state

    def __repr__(self) -> str:
        return summary(self.state())
