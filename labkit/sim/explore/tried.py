"""One run of a long search: what broke, what was reached, and what it cost."""

import gc
import time
from dataclasses import dataclass, field

from labkit.sim.explore.branches import Taken, watched
from labkit.sim.explore.meetings import Meetings
from labkit.sim.explore.protocol_situations import SITUATIONS
from labkit.sim.explore.search import Finding, judged_run
from labkit.sim.loop import without_garbage_collection
from labkit.sim.scenario import Scenario

_MEETINGS = Meetings(SITUATIONS)


@dataclass(frozen=True, slots=True)
class Trial:
    """What is to be tried: the scenario, and the seed that it was drawn from; None of an aimed one.
    With `is_watched` the branches that it takes are noted.
    """

    scenario: Scenario
    seed: int | None = None
    is_watched: bool = False


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a trial.  `processor_s`: what it took, in seconds of one processor."""

    trial: Trial
    findings: list[Finding]
    situations: list[str]
    processor_s: float
    taken: Taken = field(default_factory=dict)


def tried(trials: list[Trial]) -> list[Tried]:
    """What comes of each."""
    with without_garbage_collection():
        found = [_tried(trial) for trial in trials]
    gc.collect()
    return found


def _tried(trial: Trial) -> Tried:
    began = time.thread_time()
    taken: Taken = {}
    if trial.is_watched:
        (findings, trace), taken = watched(lambda: judged_run(trial.scenario))
    else:
        findings, trace = judged_run(trial.scenario)
    situations = [] if trace is None else _MEETINGS.reached(trace)
    return Tried(trial, findings, situations, time.thread_time() - began, taken)
