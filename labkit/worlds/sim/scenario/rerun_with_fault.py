"""Forks a run: repeats everything up to one of the run's events, and injects a fault after this
event.
"""

from collections.abc import Callable, Sequence

from labkit.system.model.errors import BKIncorrectParameterException, LabkitError
from labkit.system.trace.events import Event
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE
from labkit.worlds.sim.scenario.faults import Crash, Fault, Partition, Pause
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import Moment, On

FAULTS: dict[str, Callable[[str, Moment], Fault]] = {
    "kill": lambda node, when: Crash(node, when=when),
    "pause": lambda node, when: Pause(node, when=when),
    "cut": lambda node, when: Partition((node,), when=when),
}
"""The faults that can be added to a node in the diagram of a run, by name."""


class CannotForkError(LabkitError):
    """A fault cannot be injected at this event. The error message explains why."""


def moment_of(scenario: Scenario, events: Sequence[Event], seq: int) -> On:
    """Return a trigger that injects a fault at that event of the run.

    Raises `CannotForkError` if the cluster is not up yet at that event, or if the epilogue has
    already started.
    """
    first, last = fork_range(scenario, events)
    if not first <= seq <= last:
        raise CannotForkError(
            "faults can only be added after the cluster is up and before the epilogue starts"
        )
    event = events[seq]
    nth = sum(
        each.kind == event.kind and each.node == event.node and event.entry in (-1, each.entry)
        for each in events[first : seq + 1]
    )
    return On(event.kind, nth, event.node, event.entry)


def fork_range(scenario: Scenario, events: Sequence[Event]) -> tuple[int, int]:
    """Return the numbers of the first and the last event at which a fault can be injected."""
    cluster = scenario.cluster
    clients = dict.fromkeys((*scenario.clients, EPILOGUE))
    node_count = len((*cluster.names, *cluster.broker_names, *clients))
    started = [event.seq for event in events if event.kind == "node.started"]
    first = started[node_count - 1] + 1 if len(started) >= node_count else len(events)
    over = next((e.seq for e in events if e.kind == "epilogue.started"), len(events))
    return first, over - 1


def forked(
    scenario: Scenario, events: Sequence[Event], seq: int, fault: str, node: str
) -> Scenario:
    """Return the scenario with one of `FAULTS` added just after that event, or as soon as the
    cluster is up.

    Raises `CannotForkError`, or `BKIncorrectParameterException` if the fault is unknown or if it
    cannot affect that node.
    """
    if fault not in FAULTS:
        raise BKIncorrectParameterException(
            f"unknown fault {fault!r}; valid faults: {', '.join(FAULTS)}"
        )
    first, _ = fork_range(scenario, events)
    when = moment_of(scenario, events, max(seq, first))
    return scenario.with_fault(FAULTS[fault](node, when))
