"""Runs of a ledger in lessons: as sentences, searched for lost entries, and, where a promise broke,
under a refused answer: in the space-time diagram, or a repair in the recovery progress.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

from labkit.course.runs.timeline import RunCounterexample
from labkit.system.check import Verdict
from labkit.system.trace.sentence import describe
from labkit.views.widgets.recovery_progress import RecoveryProgress
from labkit.views.widgets.space_time import SpaceTime
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE
from labkit.worlds.sim.trace import Trace

LINE = 80
"""Characters that a narrow window shows side by side."""


@dataclass(frozen=True, slots=True)
class SpaceTimeCounterexample:
    """The counterexample of a refused answer: the messages up to the broken promise."""

    trace: Trace
    verdict: Verdict

    def __str__(self) -> str:
        return str(RunCounterexample(self.trace, self.verdict))

    def view(self) -> SpaceTime:
        """The run as lanes and messages, the event at which the promise broke marked.

        It offers no faults: the learner's code is in the run's place only during the check.
        """
        at = (event.ledger for event in self.trace.events if event.seq == self.verdict.seq)
        ledger = next((each for each in at if each >= 0), None)
        return SpaceTime(self.trace.events, ledger=ledger, broken=self.verdict)


@dataclass(frozen=True, slots=True)
class RepairCounterexample:
    """The counterexample of a refused answer: the repair, up to where it went wrong."""

    trace: Trace
    verdict: Verdict

    def __str__(self) -> str:
        return str(RunCounterexample(self.trace, self.verdict))

    def view(self) -> RecoveryProgress:
        """The run's recovery, opened at the event at which it went wrong.

        It offers no faults: the learner's code is in the run's place only during the check.
        """
        return RecoveryProgress(self.trace.events, at=self.verdict.seq)


def lost_entries(trace: Trace) -> list[int]:
    """Entries of the run's ledger that were confirmed to its writer and that no bookie of their
    write sets has at the end, when all faults are repaired.
    """
    writers = {event.node for event in trace.events if event.kind == "ledger.created"}
    confirmed = {e.entry for e in trace.events if e.kind == "lac.advanced" and e.node in writers}
    found = {e.entry for e in trace.events if e.kind == "read.done" and e.node == EPILOGUE}
    return sorted(confirmed - found)


def sentences(trace: Trace, *kinds: str, nodes: Sequence[str] = ()) -> str:
    """The events of these kinds before the epilogue as sentences, each with its time."""
    lines = list[str]()
    for event in trace.events:
        if event.kind == "epilogue.started":
            break
        if event.kind in kinds and (not nodes or event.node in nodes):
            time = f"{event.time_us / 1000:8.2f} ms  "
            indent = " " * len(time)
            lines += wrap(describe(event), LINE, initial_indent=time, subsequent_indent=indent)
    return "\n".join(lines)
