"""Code shared by the steps, for runs that must succeed, reads that must fail, and measuring
costs.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from labkit.course.checking.refused import Refused
from labkit.course.runs.cluster_trial import PROMISES, counterexample_at, run_with
from labkit.course.runs.timeline import RunCounterexample
from labkit.course.workshop.client.adapter import client_of
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.simulated_cluster import (
    check_every_order,
    check_promises,
    check_seeds,
    run_with_learner,
)
from labkit.course.workshop.tracks import FirstTest, Measure, Trial
from labkit.system.check import CHECKS, Check
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import how_it_ended
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Step

Nodes = tuple[str, ...]


def first_test(
    words: str,
    scenario: Scenario,
    nodes: Nodes,
    reads: bool = True,
    line: str = "",
    checks: Sequence[type[Check]] = PROMISES,
) -> FirstTest:
    """Return a first test, which is a small run that must succeed. If one of the run's steps fails,
    the contract's `line` has been violated.
    """
    rule = f"{line} {words}".strip()
    return FirstTest(
        words, lambda learner: _all_well(learner, scenario, nodes, reads, rule, checks)
    )


def ends_well(scenarios: Iterable[Scenario], nodes: Nodes, rule: str, reads: bool = True) -> Trial:
    """Return a trial in which these runs must not break a promise, and all of their steps must
    succeed.

    If a step fails, the refusal quotes `rule`, which explains why the step could have succeeded.
    """
    runs = tuple(scenarios)

    def trial(learner: Learner) -> str:
        for scenario in runs:
            _all_well(learner, scenario, nodes, reads, rule)
        return f"{len(runs)} small runs with slow, silent or dead bookies ended correctly."

    return trial


def every_order_of(scenario: Scenario, nodes: Nodes, reads: bool = True, crashes: int = 0) -> Trial:
    """Return a trial in which no order of the messages may break a promise."""

    def trial(learner: Learner) -> str:
        client = client_of(learner, nodes, reads)
        return check_every_order(learner, scenario, crashes=crashes, client=client)

    return trial


def in_storms(
    scenarios_of: Callable[[int], Iterable[Scenario]], nodes: Nodes, reads: bool = True
) -> Trial:
    """Return a trial in which storms, one for each of the learner's seeds, must not break a
    promise.
    """

    def trial(learner: Learner) -> str:
        client = client_of(learner, nodes, reads)
        return check_seeds(learner, scenarios_of(learner.seeds), client=client)

    return trial


def holds(scenarios: Iterable[Scenario], nodes: Nodes) -> Trial:
    """Return a trial in which these runs must not break a promise."""
    runs = tuple(scenarios)

    def trial(learner: Learner) -> str:
        for scenario in runs:
            run_of(learner, scenario, nodes)
        return f"No promise broke in {len(runs)} small runs made for this step."

    return trial


def must_fail(scenario: Scenario, nodes: Nodes, error: str, rule: str, reads: bool = True) -> Trial:
    """Return a trial in which the last step must fail with an error whose name starts with `error`.

    Any other outcome breaks `rule`.
    """

    def trial(learner: Learner) -> str:
        # First check how the step ended, because this explains more than a broken promise would.
        trace = run_of(learner, scenario, nodes, reads, ())
        mine = [e for e in trace.events if (e.kind, e.node) == ("step.ended", nodes[-1])]
        if not mine:
            step = next(each for each in scenario.workload if each.client == nodes[-1])
            raise Refused(rule, _waits_for_ever(trace, step))
        last = mine[-1]
        if not last.error.startswith(error):
            raise Refused(rule, counterexample_at(trace, last.seq, _told(last)))
        check_promises(learner, trace, {"client": client_of(learner, nodes, reads)})
        return f"{nodes[-1]} got the error {last.error}, because no other result would be right."

    return trial


def count_of(
    scenario: Scenario, nodes: Nodes, *kinds: str, per: int = 1, reads: bool = True
) -> Measure:
    """Return a function that counts the events of these kinds on the given nodes, and divides the
    count by `per`.
    """

    def count(trace: Trace) -> float:
        return sum(event.kind in kinds and event.node in nodes for event in trace.events) / per

    return _measure(count, scenario, nodes, reads)


def metadata_requests(scenario: Scenario, node: str) -> Measure:
    """Return a function that counts the messages from that node to the metadata server."""
    link = f"{node}>{METADATA_SERVER}"
    return _measure(
        lambda trace: sum(name == link for name, *_ in trace.parcels), scenario, (node,)
    )


def time_between(
    scenario: Scenario, nodes: Nodes, first: str, last: str, reads: bool = True
) -> Measure:
    """Return a function that measures the simulated time, in milliseconds, from the first event of
    kind `first` to the last event of kind `last`.
    """

    def time_ms(trace: Trace) -> float:
        mine = [event for event in trace.events if event.node in nodes]
        begin = min(event.time_us for event in mine if event.kind == first)
        return (max(event.time_us for event in mine if event.kind == last) - begin) / 1000

    return _measure(time_ms, scenario, nodes, reads)


def _measure(
    cost_of: Callable[[Trace], float], scenario: Scenario, nodes: Nodes, reads: bool = True
) -> Measure:
    return lambda learner: cost_of(
        run_of(learner, scenario, nodes, reads) if learner else run_with(scenario)
    )


def run_of(
    learner: Learner,
    scenario: Scenario,
    nodes: Nodes,
    reads: bool = True,
    checks: Sequence[type[Check]] = CHECKS,
) -> Trace:
    parts: dict[str, Any] = {"client": client_of(learner, nodes, reads)}
    trace = run_with_learner(learner, scenario, parts)
    check_promises(learner, trace, parts, checks)
    return trace


def _all_well(
    learner: Learner,
    scenario: Scenario,
    nodes: Nodes,
    reads: bool,
    rule: str,
    checks: Sequence[type[Check]] = PROMISES,
) -> None:
    trace = run_of(learner, scenario, nodes, reads, checks)
    ended = [event for event in trace.events if event.kind == "step.ended"]
    killed = [event.node for event in trace.events if event.kind == "node.killed"]
    for step in scenario.workload:
        mine = [event for event in ended if event.node == step.client]
        if step.client in killed or (mine and mine[-1].detail == "done"):
            continue
        if mine:
            raise Refused(rule, counterexample_at(trace, mine[-1].seq, _told(mine[-1])))
        raise Refused(rule, _waits_for_ever(trace, step))


def _waits_for_ever(trace: Trace, step: Step) -> RunCounterexample:
    last = next(e for e in reversed(trace.events) if e.kind == "epilogue.started")
    return counterexample_at(trace, last.seq, f"{step.client} waits for ever: {step}.")


def _told(end: Event) -> str:
    return f"{end.node}: {end.step}: {how_it_ended(end)}."
