"""Presents runs of a ledger in text and in views.

A run is shown as sentences or as a list of lost entries. If it broke a promise, it is shown in the
space-time diagram or in the recovery view.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from textwrap import wrap

from labkit.course.runs.open_run import FixedRun
from labkit.course.runs.timeline import RunCounterexample
from labkit.system.check.promises.durability import AcknowledgedIsDurable
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.views.widgets.recovery_progress import RecoveryProgress
from labkit.views.widgets.space_time import SpaceTime
from labkit.worlds.sim.explore.search import Finding, search
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace

LINE = 80
"""Number of characters that fit in a narrow window."""


# The views of these counterexamples cannot inject faults, because the learner's code is installed
# only during the check.


@dataclass(frozen=True, slots=True)
class SpaceTimeCounterexample(RunCounterexample):
    """A counterexample shown as lanes and messages, with the event that broke the promise
    marked.
    """

    def view(self) -> SpaceTime:
        return SpaceTime(FixedRun(self.trace), ledger=self._ledger, broken=self.verdict)

    def link(self, code: str = "") -> str:
        selection = {"ledger": self._ledger, "promise": self.verdict.name}
        return self.trace.link("SpaceTime", selection, at=self.verdict.seq, code=code)

    @property
    def _ledger(self) -> int | None:
        at = (event.ledger for event in self.trace.events if event.seq == self.verdict.seq)
        return next((each for each in at if each >= 0), None)


@dataclass(frozen=True, slots=True)
class RepairCounterexample(RunCounterexample):
    """A counterexample shown in the recovery view, opened at the event at which the recovery went
    wrong.
    """

    def view(self) -> RecoveryProgress:
        return RecoveryProgress(FixedRun(self.trace), at=self.verdict.seq)

    def link(self, code: str = "") -> str:
        return self.trace.link("RecoveryProgress", at=self.verdict.seq, code=code)


def lost_entries(trace: Trace) -> list[int]:
    """Return the lost entries of the run's ledger.

    An entry is lost if it was confirmed to the ledger's writer, but no bookie of its write set has
    it at the end, after all faults have been repaired.
    """
    writers = {event.node for event in trace.events if event.kind == "ledger.created"}
    confirmed = {e.entry for e in trace.events if e.kind == "lac.advanced" and e.node in writers}
    found = {e.entry for e in trace.events if e.kind == "read.done" and e.node == EPILOGUE}
    return sorted(confirmed - found)


def events_before_epilogue(trace: Trace) -> Iterator[Event]:
    return takewhile(lambda event: event.kind != "epilogue.started", trace.events)


def sentences(trace: Trace, *kinds: str) -> str:
    """Describe each event of these kinds that precedes the epilogue in one sentence that includes
    the time of the event.
    """
    lines = list[str]()
    for event in events_before_epilogue(trace):
        if event.kind in kinds:
            time = f"{event.time_us / 1000:8.2f} ms  "
            indent = " " * len(time)
            lines += wrap(describe(event), LINE, initial_indent=time, subsequent_indent=indent)
    return "\n".join(lines)


def first_loss(storms: Iterable[Scenario], variant: str) -> Finding | None:
    """Run the storms in order until one of them loses a confirmed entry, and return the finding."""
    durable = [AcknowledgedIsDurable]
    found = search(storms, variant=variant, checks=durable, jobs=1, on_progress=lambda *_: None)
    return found.first


def range_of_seed(found: Finding | None) -> str:
    """Return "below 10" or "10 or more" depending on the seed of the finding, or "none" if there is
    no finding.
    """
    seed = None if found is None else found.scenario.seed
    if seed is None:
        return "none"
    return "below 10" if seed < 10 else "10 or more"
