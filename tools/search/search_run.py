"""Runs the scenarios of a long search, and reports broken promises and situations reached."""

import gc
import time
from dataclasses import dataclass, field

from labkit.worlds.sim.explore.search import Finding, run_and_check
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection
from labkit.worlds.sim.scenario.scenario import Scenario
from tools.search.branches import Taken, measure
from tools.search.covered_situations import SITUATIONS
from tools.search.situations_reached import Meetings

_MEETINGS = Meetings(SITUATIONS)


@dataclass(frozen=True, slots=True)
class Trial:
    """A scenario to run and its seed, which is None for an aimed scenario.

    If `is_watched`, the branches that the run takes are recorded.
    """

    scenario: Scenario
    seed: int | None = None
    is_watched: bool = False


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result of a trial; `processor_s` is the processor time that it took."""

    trial: Trial
    findings: list[Finding]
    situations: list[str]
    processor_s: float
    taken: Taken = field(default_factory=dict)


def run_trials(trials: list[Trial]) -> list[TrialResult]:
    with without_garbage_collection():
        found = [_run_trial(trial) for trial in trials]
    # The run has left only young garbage. A full collection would take as long as half a run.
    gc.collect(1)
    return found


def _run_trial(trial: Trial) -> TrialResult:
    began = time.thread_time()
    taken: Taken = {}
    if trial.is_watched:
        (findings, trace), taken = measure(lambda: run_and_check(trial.scenario))
    else:
        findings, trace = run_and_check(trial.scenario)
    situations = [] if trace is None else _MEETINGS.reached(trace)
    return TrialResult(trial, findings, situations, time.thread_time() - began, taken)
