"""The learner's parts in the simulated cluster: in every order of a few messages, and in storms.

`parts` are those of `labkit.worlds.sim.variants.variants.Variant`: a store, a client.  A run that
breaks a promise refuses the step, and opens in the timeline where the promise broke.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from labkit.course.checking.exercise import Refused
from labkit.course.runs.cluster_trial import YOURS, run_with
from labkit.course.runs.timeline import RunCounterexample
from labkit.course.workshop.files import place_in, words_of
from labkit.course.workshop.learner import Learner
from labkit.system.check import CHECKS, Check, broken, check_all
from labkit.worlds.sim.explore.orders.every_order import every_order
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.machine.loop import SimulationError
from labkit.worlds.sim.scenario.rerun_with_fault import CannotForkError
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.variants.variants import VARIANTS, Variant

PATIENCE_S = 10.0
"""How long a storm that breaks a promise is made smaller."""


def under_seeds(learner: Learner, scenarios: Iterable[Scenario], **parts: Any) -> str:
    """Run the scenarios, and refuse the step at the first run that breaks a promise; what is shown
    is a smaller run that breaks the same one.
    """
    count = events = 0
    for scenario in scenarios:
        trace = run_yours(learner, scenario, parts)
        for verdict in broken(check_all(trace)):
            judge(learner, _smaller(learner, trace, verdict.name, parts), parts)
        count, events = count + 1, events + len(trace.events)
    return f"No promise broke in {count} storms of the simulated cluster ({events:,} events)."


def _smaller(learner: Learner, trace: Trace, promise: str, parts: dict[str, Any]) -> Trace:
    """A run in which the promise still breaks, with as little as possible in it."""
    with _in_place(parts):
        scenario = shrink(trace.scenario, promise, patience_s=PATIENCE_S).scenario
    # In a run that shows no broken promise the learner's code may have failed otherwise.
    learner.error = None
    smaller = run_yours(learner, scenario, parts)
    return smaller if broken(check_all(smaller)) else trace


def in_every_order(
    learner: Learner, scenario: Scenario, *, crashes: int = 0, losses: int = 0, **parts: Any
) -> str:
    """Try every order in which the scenario's messages can arrive, and refuse the step at the first
    that breaks a promise.  `crashes` and `losses` are those of `every_order`.
    """
    with _in_place(parts):
        found = every_order(
            _yours(scenario), crashes=crashes, losses=losses, stop_at=1, on_progress=_quietly
        )
    if learner.error is not None:
        raise learner.error
    for finding in found.findings:
        judge(learner, run_yours(learner, finding.scenario, parts), parts)
        raise Refused(f"In some order of the messages {finding.promise} breaks.")
    mishaps = f"of a small scenario's messages, with {found.mishaps - 1} crashes and losses."
    if not found.complete:
        return f"No promise broke in {found.runs:,} runs, which is not every order {mishaps}"
    return f"No promise broke in all {found.orders:,} orders {mishaps}"


def _in_place(parts: dict[str, Any]) -> Any:
    return patch.dict(VARIANTS, {YOURS: Variant(YOURS, "with the learner's code", **parts)})


def _yours(scenario: Scenario) -> Scenario:
    return replace(scenario, variant=YOURS)


def _quietly(states: int, broken_count: int) -> None:
    """A check shows no progress."""


def run_yours(learner: Learner, scenario: Scenario, parts: dict[str, Any]) -> Trace:
    """The run with the learner's parts.  Raises `Refused`, and what the learner's code raised."""
    try:
        trace = run_with(scenario, **parts)
    except SimulationError as error:
        raise Refused(f"With your code the run does not come to an end: {error}.") from None
    if learner.error is not None:
        raise learner.error
    return trace


def judge(
    learner: Learner,
    trace: Trace,
    parts: dict[str, Any],
    checks: Sequence[type[Check]] = CHECKS,
) -> None:
    """Refuse the step if a promise breaks in the run, which opens where it does."""
    for verdict in broken(check_all(trace, checks)):

        def again(scenario: Scenario) -> Trace:
            learner.error = None  # of a fork before this one
            return run_fork(learner, scenario, parts)

        raise Refused(verdict.promise, RunCounterexample(trace, verdict, again))


def run_fork(learner: Learner, scenario: Scenario, parts: dict[str, Any]) -> Trace:
    """A fork of a run with the learner's parts, for the timeline.

    Raises `CannotForkError` with what the learner's code raised, and `SimulationError`.
    """
    trace = run_with(scenario, **parts)
    if learner.error is None:
        return trace
    if isinstance(learner.error, Refused):
        raise CannotForkError(learner.error.message)
    where = place_in(learner.file, learner.error.__traceback__)
    there = f" in {where}" if where else ""
    raise CannotForkError(f"Your code raised {words_of(learner.error)}{there}.")
