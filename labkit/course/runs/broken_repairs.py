"""A run in which a repair went wrong, shown in the recovery progress under a refused answer."""

from dataclasses import dataclass

from labkit.course.runs.timeline import RunFound
from labkit.system.check import Verdict
from labkit.views.widgets.recovery_progress import RecoveryProgress
from labkit.worlds.sim.trace import Trace


@dataclass(frozen=True, slots=True)
class InRecovery:
    """The counterexample of a refused answer: the repair, up to where it went wrong."""

    trace: Trace
    verdict: Verdict

    def __str__(self) -> str:
        return str(RunFound(self.trace, self.verdict))

    def view(self) -> RecoveryProgress:
        """The run's recovery, opened at the event at which it went wrong.

        It offers no faults: the learner's code is in the run's place only during the check.
        """
        return RecoveryProgress(self.trace.events, at=self.verdict.seq)
