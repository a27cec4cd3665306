"""Where in a run a fault can be put, so that the same run happens again with it: a fork."""

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
"""The faults that a picture of a run offers for a node, by name."""


class CannotForkError(LabkitError):
    """This fault cannot be put there; the message says why."""


def moment_of(scenario: Scenario, events: Sequence[Event], seq: int) -> On:
    """The moment of that event of the scenario's run, as faults have it.

    Raises `CannotForkError` for one before the cluster is up, or after the epilogue began.
    """
    first, last = reach(scenario, events)
    if not first <= seq <= last:
        raise CannotForkError(
            "faults strike from when the cluster is up to when the epilogue begins"
        )
    event = events[seq]
    nth = sum(
        each.kind == event.kind and each.node == event.node and event.entry in (-1, each.entry)
        for each in events[first : seq + 1]
    )
    return On(event.kind, nth, event.node, event.entry)


def reach(scenario: Scenario, events: Sequence[Event]) -> tuple[int, int]:
    """The first and the last event at which a fault can strike."""
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
    """The scenario with one of `FAULTS` just after that event; at once, if the cluster is not up
    yet.

    Raises `CannotForkError`, and `BKIncorrectParameterException` for a fault that is not one of
    them or that cannot strike the node.
    """
    if fault not in FAULTS:
        raise BKIncorrectParameterException(
            f"{fault!r} is not a fault of a fork; these are: {', '.join(FAULTS)}"
        )
    first, _ = reach(scenario, events)
    when = moment_of(scenario, events, max(seq, first))
    return scenario.with_fault(FAULTS[fault](node, when))
