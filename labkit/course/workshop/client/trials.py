"""What the steps of the track share: runs that must end well, reads that must fail, and counts."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from labkit.course.checking.exercise import Refused
from labkit.course.runs.cluster_trial import PROMISES, found, run_with
from labkit.course.workshop.client.inside import client_of
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.step import RedTest, Trial
from labkit.course.workshop.worlds import in_every_order, judge, run_yours, under_seeds
from labkit.system.check import CHECKS, Check
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace

Nodes = tuple[str, ...]


def red(words: str, scenario: Scenario, nodes: Nodes, reads: bool = True) -> RedTest:
    """A first test: one small run that must end well."""
    return RedTest(words, lambda learner: _all_well(learner, scenario, nodes, reads, words))


def ends_well(scenarios: Iterable[Scenario], nodes: Nodes, rule: str, reads: bool = True) -> Trial:
    """No promise breaks in these runs, and each step of each workload does its work; where one does
    not, `rule` says why it can.
    """
    runs = tuple(scenarios)

    def trial(learner: Learner) -> str:
        for scenario in runs:
            _all_well(learner, scenario, nodes, reads, rule)
        return f"{len(runs)} small runs with slow, silent and dead bookies ended as they should."

    return trial


def every_order_of(scenario: Scenario, nodes: Nodes, reads: bool = True, **mishaps: int) -> Trial:
    """No promise breaks, whatever the order of the messages."""

    def trial(learner: Learner) -> str:
        client = client_of(learner, nodes, reads)
        return in_every_order(learner, scenario, client=client, **mishaps)

    return trial


def in_storms(
    scenarios_of: Callable[[int], Iterable[Scenario]], nodes: Nodes, reads: bool = True
) -> Trial:
    """No promise breaks under as many seeds as the learner asked for."""

    def trial(learner: Learner) -> str:
        client = client_of(learner, nodes, reads)
        return under_seeds(learner, scenarios_of(learner.seeds), client=client)

    return trial


def holds(scenarios: Iterable[Scenario], nodes: Nodes) -> Trial:
    """No promise breaks in these runs."""
    runs = tuple(scenarios)

    def trial(learner: Learner) -> str:
        for scenario in runs:
            run_of(learner, scenario, nodes)
        return f"Small runs made for this step in which no promise broke: {len(runs)}."

    return trial


def must_fail(scenario: Scenario, nodes: Nodes, error: str, rule: str, reads: bool = True) -> Trial:
    """The last step of the workload ends with that error: anything else breaks `rule`."""

    def trial(learner: Learner) -> str:
        trace = run_of(learner, scenario, nodes, reads)
        ended = [event for event in trace.events if event.kind == "step.ended"]
        last = next((e for e in reversed(ended) if e.node == nodes[-1]), trace.events[-1])
        if f": {error}" not in last.note:
            raise Refused(rule, found(trace, last.seq, f"{last.node}: {last.note}."))
        return f"{nodes[-1]} failed with {error}, as it must."

    return trial


def count_of(
    scenario: Scenario, nodes: Nodes, *kinds: str, per: int = 1, reads: bool = True
) -> Callable[[Learner | None], float]:
    """How many events of these kinds the nodes report, divided by `per`."""

    def measure(learner: Learner | None) -> float:
        trace = run_of(learner, scenario, nodes, reads) if learner else run_with(scenario)
        return sum(event.kind in kinds and event.node in nodes for event in trace.events) / per

    return measure


def metadata_requests(scenario: Scenario, node: str) -> Callable[[Learner | None], float]:
    """How many messages that node sends to the metadata server."""

    def measure(learner: Learner | None) -> float:
        trace = run_of(learner, scenario, (node,)) if learner else run_with(scenario)
        link = f"{node}>{METADATA_SERVER}"
        return sum(name == link for name, *_ in trace.parcels)

    return measure


def time_between(
    scenario: Scenario, nodes: Nodes, first: str, last: str, reads: bool = True
) -> Callable[[Learner | None], float]:
    """Simulated milliseconds from the first event of one kind to the last of another."""

    def measure(learner: Learner | None) -> float:
        trace = run_of(learner, scenario, nodes, reads) if learner else run_with(scenario)
        mine = [event for event in trace.events if event.node in nodes]
        begin = min(event.time_us for event in mine if event.kind == first)
        return (max(event.time_us for event in mine if event.kind == last) - begin) / 1000

    return measure


def run_of(
    learner: Learner,
    scenario: Scenario,
    nodes: Nodes,
    reads: bool = True,
    checks: Sequence[type[Check]] = CHECKS,
) -> Trace:
    """The run with the learner's client on these nodes, no promise broken."""
    parts: dict[str, Any] = {"client": client_of(learner, nodes, reads)}
    trace = run_yours(learner, scenario, parts)
    judge(learner, trace, parts, checks)
    return trace


def _all_well(learner: Learner, scenario: Scenario, nodes: Nodes, reads: bool, rule: str) -> None:
    trace = run_of(learner, scenario, nodes, reads, PROMISES)
    ended = [event for event in trace.events if event.kind == "step.ended"]
    killed = [event.node for event in trace.events if event.kind == "node.killed"]
    for step in scenario.workload:
        mine = [event for event in ended if event.node == step.client]
        if step.client in killed or (mine and mine[-1].note.endswith(": done")):
            continue
        if mine:
            raise Refused(rule, found(trace, mine[-1].seq, f"{step.client}: {mine[-1].note}."))
        last = next(e for e in reversed(trace.events) if e.kind == "epilogue.started")
        raise Refused(rule, found(trace, last.seq, f"{step.client} waits for ever: {step}."))
