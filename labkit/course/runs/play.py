"""Opens a scenario for interactive play, in which you choose what arrives next, what is lost, and
which nodes lose power.

Play(Scenario(workload=(Write(entries=1), Recover(when=On("add.pushed")))))     in a notebook
"""

from dataclasses import replace

from labkit.course.runs.recorded import recorded
from labkit.course.runs.timeline import played as in_timeline
from labkit.views.widgets.drawing.plurals import counted
from labkit.views.widgets.play import PlayView, moment_words
from labkit.views.widgets.timeline import PlayedRun, TimelineView
from labkit.views.widgets.verdict_words import failure_of
from labkit.worlds.sim.play.played import Played, play
from labkit.worlds.sim.scenario.scenario import Scenario


class Play(PlayView):
    """Play a scenario in which you are the network.

    Click a message to deliver it, lose it or copy it, or cut a bookie's power. Each move runs the
    real code again. When no message is left, all bookies lose power once, and every entry is read
    back. `labkit.run(view.scenario)` repeats your play.

    metadata: whether you also deliver the messages to and from the metadata server; otherwise,
        these messages are delivered automatically.
    at: the `seq` of the event at which the view opens; by default, this is the last event.
    """

    played: Played

    def __init__(
        self, scenario: Scenario, *, metadata: bool = False, at: int | None = None
    ) -> None:
        super().__init__(play(scenario, is_quick=not metadata), at)

    @property
    def scenario(self) -> Scenario:
        """The scenario that repeats the moves made so far."""
        return self.played.scenario

    def recorded(self) -> str:
        """Return your play as Python code, namely as a scenario whose run has the same digest.
        After the last move, the run continues to its end, always delivering the oldest message
        next.
        """
        broken = "; ".join(failure_of(each.name) for each in self.played.broken)
        moves = counted(len(self.played.moves), "move")
        return recorded(self.continued(), f"{moves}: {broken or 'no promise is broken so far'}")

    def side_by_side(self, number: int) -> TimelineView:
        """Return a timeline that shows this play next to the branch with this index, both continued
        to the end.
        """
        return two_plays(self.played, self.branches[number])


class TwoPlays(TimelineView):
    """Shows a play and a branch of it side by side."""

    question = "Two plays of the same scenario: what did your moves change?"
    linked_as = "TwoPlays"
    names = ("play", "branch")


def two_plays(this: Played, branch: Played) -> TwoPlays:
    """Return a timeline of two plays, both continued to the end."""
    return TwoPlays(_in_timeline("This play", this), _in_timeline("Branch", branch))


def _in_timeline(title: str, played: Played) -> PlayedRun:
    whole = played.whole()
    run = in_timeline(whole, f"{title}: {counted(len(played.moves), 'move')}")
    broken = [replace(each, moment=moment_words(played, whole, each.seq)) for each in run.broken]
    return replace(run, broken=broken, late_syncs=played.whole_late_syncs())
