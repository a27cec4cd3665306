"""What trials of a cluster share: the learner's code as a guest in the simulated world.

    guest = Guest(learner)
    with in_place_of(striping.write_set, guest):      the learner's function where labkit's was
        trace = guest.run(scenario)
    trace = guest.run(scenario, client=...)           or the learner's classes, as a variant

Inside the world an error ends only the task that it was raised in, so the guest keeps the first one
and `run` raises it.  `must_hold` judges runs by the checks of `labkit.system.check`.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from labkit.course.checking.exercise import Refused
from labkit.course.runs.timeline import RunCounterexample
from labkit.system.check import CHECKS, Outcome, Verdict, broken, check_all, explain
from labkit.system.check.promises.callers import StepsEnd
from labkit.system.client.bookkeeper import BookKeeper
from labkit.worlds.sim.machine.loop import SimulationError
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.variants.variants import VARIANTS, Variant

YOURS = "yours"
"""The variant's name in the scenarios that a guest runs."""
PROMISES = tuple(each for each in CHECKS if each is not StepsEnd)
"""What a trial holds the learner's code to; of a step that does not end it speaks in its own words.
"""
_USERS = ("labkit.system.client.", "labkit.system.topic.")


class Guest:
    """The learner's function; what it raises first, it raises from then on."""

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
            # A loop that was stopped raises what Python does not count as an exception.
            self.error = error
            raise

    def run(self, scenario: Scenario, **parts: Any) -> Trace:
        """What happens in the scenario; `parts` are those of a `Variant`: client, bookie, rules.

        Raises what the learner's function raised, and `Refused` when the run goes in circles.
        """
        try:
            trace = run_with(scenario, **parts)
        except SimulationError as error:
            raise Refused(f"With your code the run does not come to an end: {error}.") from None
        if self.error is not None:
            raise self.error
        return trace


def run_with(scenario: Scenario, **parts: Any) -> Trace:
    """What happens in the scenario with parts of one's own: those of a `Variant`."""
    with patch.dict(VARIANTS, {YOURS: Variant(YOURS, "with the learner's code", **parts)}):
        return run(replace(scenario, variant=YOURS))


def client_with(**classes: type) -> type[BookKeeper]:
    """A client with another `writer_class`, `reader_class`, `recovery_class` or `watcher_class`."""
    return type("LearnersClient", (BookKeeper,), classes)


@contextmanager
def in_place_of(function: Callable[..., Any], guest: Guest) -> Iterator[None]:
    """The guest takes the function's place wherever labkit's clients and topics use it."""
    name = function.__name__
    with ExitStack() as stack:
        for module_name, module in sorted(sys.modules.items()):
            if module_name.startswith(_USERS) and vars(module).get(name) is function:
                stack.enter_context(patch.object(module, name, guest))
        yield


def found(trace: Trace, seq: int, reason: str) -> RunCounterexample:
    """A run that is not as it should be from that event on, though no check of
    `labkit.system.check` says so.
    """
    verdict = Verdict("What happened", "", Outcome.INVALID, 1, reason, seq)
    return RunCounterexample(trace, explain(verdict, trace.events))


def must_hold(
    scenarios: Iterable[Scenario],
    run_one: Callable[[Scenario], Trace],
    rules: Mapping[str, str],
) -> list[Trace]:
    """Run the scenarios, and refuse the answer at the first that breaks a promise.

    `rules` say in the lesson's words what a broken promise means, by the check's name, the most
    telling first; the promise itself is said for the others.  Returns the runs.
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
    """The steps of the workload that did not do what they should, and why."""
    ended = (event.note for event in trace.events if event.kind == "step.ended")
    return [note for note in ended if not note.endswith(": done")]
