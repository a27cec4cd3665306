"""Runs the learner's parts in the simulated cluster, with every order of a few messages and in
storms of random faults.

`parts` contains fields of `labkit.worlds.sim.variants.variants.Variant`: a store or a client. If a
run breaks a promise, the step is rejected, and the timeline shows the run at the event that broke
the promise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from labkit.course.checking.refused import Refused
from labkit.course.runs.cluster_trial import LEARNERS_VARIANT, run_with
from labkit.course.runs.timeline import RunCounterexample
from labkit.course.workshop.files import error_with_line
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
"""Time limit for shrinking a storm that breaks a promise."""


def check_seeds(learner: Learner, scenarios: Iterable[Scenario], **parts: Any) -> str:
    """Run the scenarios, and reject the step at the first run that breaks a promise.

    The rejection message shows a smaller run that breaks the same promise.
    """
    count = events = 0
    for scenario in scenarios:
        trace = run_with_learner(learner, scenario, parts)
        for verdict in broken(check_all(trace)):
            check_promises(learner, _smaller(learner, trace, verdict.name, parts), parts)
        count, events = count + 1, events + len(trace.events)
    return f"No promise broke in {count} storms of the simulated cluster ({events:,} events)."


def _smaller(learner: Learner, trace: Trace, promise: str, parts: dict[str, Any]) -> Trace:
    with _in_place(parts):
        scenario = shrink(trace.scenario, promise, patience_s=PATIENCE_S).scenario
    # Clear the error, which may come from a run that broke no promise.
    learner.error = None
    smaller = run_with_learner(learner, scenario, parts)
    return smaller if broken(check_all(smaller)) else trace


def check_every_order(
    learner: Learner, scenario: Scenario, *, crashes: int = 0, **parts: Any
) -> str:
    """Reject the step if any order of the scenario's messages breaks a promise.

    `crashes` has the same meaning as in `every_order`.
    """
    try:
        with _in_place(parts):
            explored = every_order(
                replace(scenario, variant=LEARNERS_VARIANT),
                crashes=crashes,
                stop_at=1,
                on_progress=lambda _states, _broken: None,
            )
    except SimulationError as error:
        if learner.error is None:
            raise Refused(f"The orders of the messages cannot be tried: {error}.") from None
    if learner.error is not None:
        raise learner.error
    for finding in explored.findings:
        check_promises(learner, run_with_learner(learner, finding.scenario, parts), parts)
        raise Refused(f"{finding.promise} breaks in some order of the messages.")
    failures = explored.failure_combinations - 1
    mishaps = f"of a small scenario's messages, with {failures} crashes and losses."
    if not explored.complete:
        return f"No promise broke in {explored.runs:,} runs, which is not every order {mishaps}"
    return f"No promise broke in any of the {explored.orders:,} orders {mishaps}"


def _in_place(parts: dict[str, Any]) -> Any:
    return patch.dict(
        VARIANTS, {LEARNERS_VARIANT: Variant(LEARNERS_VARIANT, "with the learner's code", **parts)}
    )


def run_with_learner(learner: Learner, scenario: Scenario, parts: dict[str, Any]) -> Trace:
    """Run the scenario with the learner's parts.

    Raises `Refused`, or the exception that the learner's code raised.
    """
    try:
        trace = run_with(scenario, **parts)
    except SimulationError as error:
        raise Refused(f"With your code, the run does not come to an end: {error}.") from None
    if learner.error is not None:
        raise learner.error
    return trace


def check_promises(
    learner: Learner,
    trace: Trace,
    parts: dict[str, Any],
    checks: Sequence[type[Check]] = CHECKS,
) -> None:
    """If the run breaks a promise, reject the step and show the run at the event that breaks the
    promise.
    """
    for verdict in broken(check_all(trace, checks)):

        def again(scenario: Scenario) -> Trace:
            learner.error = None  # Clear the error of an earlier fork.
            fork = run_with(scenario, **parts)
            _raise_error_of_fork(learner)
            return fork

        raise Refused(verdict.promise, RunCounterexample(trace, verdict, again))


def _raise_error_of_fork(learner: Learner) -> None:
    if isinstance(learner.error, Refused):
        raise CannotForkError(learner.error.message)
    if learner.error is not None:
        raised = error_with_line(learner.file, learner.error)
        raise CannotForkError(f"Your code raised {raised}.")
