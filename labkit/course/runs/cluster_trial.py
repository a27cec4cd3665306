"""Code shared by cluster trials: runs the learner's code inside the simulated cluster.

    trial = ClusterTrial(learner)
    with replacing(striping.write_set, trial):      replace labkit's function with the learner's
        trace = trial.run(scenario)
    trace = trial.run(scenario, client=...)           use the learner's classes, as a variant

Inside the simulation, an exception ends only the task that raised it, so the trial records the
first exception and `run` re-raises it. `must_hold` applies the checks of `labkit.system.check`.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, ParamSpec
from unittest.mock import patch

from labkit.course.checking.refused import Refused
from labkit.course.runs.timeline import RunCounterexample
from labkit.system.check import CHECKS, Outcome, Verdict, broken, check_all, explain
from labkit.system.check.promises.callers import StepsEnd
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import how_it_ended
from labkit.worlds.sim.machine.loop import SimulationError
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.variants.variants import VARIANTS, Variant

P = ParamSpec("P")

LEARNERS_VARIANT = "yours"
"""Name of the variant in the scenarios that a trial runs."""
PROMISES = tuple(each for each in CHECKS if each is not StepsEnd)
"""The promises that a trial checks. `StepsEnd` is not among them, because trials have their own
messages for steps that do not end.
"""
_USERS = ("labkit.system.client.", "labkit.system.topic.")


class ClusterTrial:
    """Calls the learner's function. Once the function has raised an exception, every later call
    re-raises that exception.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.call_count = 0
        self.error: BaseException | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self.error is not None:
            raise self.error
        self.call_count += 1
        try:
            return self._function(*arguments)
        except BaseException as error:
            # Stopping an endless loop raises a BaseException that is not an Exception.
            self.error = error
            raise

    def run(self, scenario: Scenario, **parts: Any) -> Trace:
        """Run the scenario and return its trace; `parts` contains fields of `Variant`, namely
        client, bookie or rules.

        If the learner's function raised an exception, raises that exception. Raises `Refused` if
        the run does not end.
        """
        try:
            trace = run_with(scenario, **parts)
        except SimulationError as error:
            raise Refused(f"With your code, the run does not end: {error}.") from None
        if self.error is not None:
            raise self.error
        return trace


def run_with(scenario: Scenario, **parts: Any) -> Trace:
    """Run the scenario with custom parts, given as fields of `Variant`, and return its trace. Forks
    and alternative continuations of the trace use the same parts.
    """
    variant = Variant(LEARNERS_VARIANT, "with the learner's code", **parts)

    def with_parts(runs: Callable[P, Trace]) -> Callable[P, Trace]:
        def call(*arguments: P.args, **named: P.kwargs) -> Trace:
            with patch.dict(VARIANTS, {LEARNERS_VARIANT: variant}):
                return runs(*arguments, **named)

        return call

    # The scenario names the learner's variant, so it is valid only while `VARIANTS` contains it.
    trace = with_parts(lambda: run(replace(scenario, variant=LEARNERS_VARIANT)))()
    return replace(trace, rerun=with_parts(trace.rerun), run_future=with_parts(trace.run_future))


def client_with(**classes: type) -> type[BookKeeper]:
    """Return a client class with another `writer_class`, `reader_class` or `recovery_class`."""
    return type("LearnersClient", (BookKeeper,), classes)


@contextmanager
def replacing(function: Callable[..., Any], trial: ClusterTrial) -> Iterator[None]:
    """Replace the function with the trial wherever labkit's clients and topics use the function."""
    name = function.__name__
    with ExitStack() as stack:
        for module_name, module in sorted(sys.modules.items()):
            if module_name.startswith(_USERS) and vars(module).get(name) is function:
                stack.enter_context(patch.object(module, name, trial))
        yield


def counterexample_at(trace: Trace, seq: int, reason: str) -> RunCounterexample:
    """Return a counterexample that shows a run going wrong at this event, for the given reason.

    Use this if no check of `labkit.system.check` reports the problem.
    """
    verdict = Verdict("What happened", "", Outcome.INVALID, 1, reason, seq)
    return RunCounterexample(trace, explain(verdict, trace.events))


def must_hold(
    scenarios: Iterable[Scenario],
    run_one: Callable[[Scenario], Trace],
    rules: Mapping[str, str],
) -> list[Trace]:
    """Run the scenarios and return their traces; reject the answer at the first broken promise.

    `rules` maps a check's name to the lesson's explanation of that promise, most informative first.
    For a promise without a rule, the text of the promise is reported.
    """
    traces = []
    for scenario in scenarios:
        trace = run_one(scenario)
        verdicts = {verdict.name: verdict for verdict in broken(check_all(trace, PROMISES))}
        for name in (*rules, *verdicts):
            if name in verdicts:
                rule = rules.get(name, verdicts[name].promise)
                raise Refused(rule, RunCounterexample(trace, verdicts[name]))
        traces.append(trace)
    return traces


def failures(trace: Trace) -> list[str]:
    return [f"{event.step}: {how_it_ended(event)}" for event in failed_steps(trace)]


def failed_steps(trace: Trace) -> list[Event]:
    ended = (event for event in trace.events if event.kind == "step.ended")
    return [event for event in ended if event.detail != "done"]
