"""A table of what each node does with each message; real runs fill it (`directed_world`).

Nodes share nothing but messages, so what a node does depends only on its state and the message.  A
world whose states and messages are known can go on by this table, without being run.
"""

from collections.abc import Iterator
from typing import NamedTuple

from labkit.worlds.sim.machine.loop import SimulationError
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.scenario.scenario import Scenario

Arrival = tuple[int, int]
"""A channel and a message on it, by their numbers."""


class Reaction(NamedTuple):
    """A node's reaction to a message: its next state, and the messages that it sends, in order."""

    state: int
    sent: tuple[Arrival, ...]


class WorldState(NamedTuple):
    """A state of the world: the state of each node, and the messages on each channel, in order."""

    nodes: tuple[int, ...]
    channels: tuple[tuple[int, tuple[int, ...]], ...]


class TransitionTable:
    """Nodes, channels, messages and states by their numbers, and the outcomes known so far."""

    def __init__(self, scenario: Scenario) -> None:
        self.nodes = (*scenario.cluster.names, *scenario.clients, METADATA_SERVER)
        self.node_of: list[int] = []
        """For each channel the index of the node that receives from it."""
        self.known: dict[int, dict[Arrival, Reaction]] = {}
        """For each state its node's outcome for each message."""
        self.outcome_count = 0
        self._numbers: dict[object, int] = {}
        self._channels: dict[str, int] = {}

    def channel(self, name: str, target: str) -> int:
        number = self._channels.get(name)
        if number is None:
            number = self._channels[name] = len(self._channels)
            self.node_of.append(self.nodes.index(target))
        return number

    def number(self, *what: object) -> int:
        return self._numbers.setdefault(what, len(self._numbers))

    def learn(self, state: int, step: Arrival, outcome: Reaction) -> None:
        """Record what a node did.  Raises `SimulationError` if it did something else before."""
        known = self.known.setdefault(state, {})
        before = known.setdefault(step, outcome)
        if before is outcome:
            self.outcome_count += 1
        elif before != outcome:
            name = self.nodes[self.node_of[step[0]]]
            raise SimulationError(
                f"{name} does not always do the same in what looks like the same state: something"
                " that matters to it comes by no message and is not in its memory"
            )

    def after(self, moment: WorldState, step: Arrival) -> WorldState:
        """The moment after the message, the first of its channel, has arrived.

        Raises `KeyError` when its effect is not known yet.
        """
        channel = step[0]
        place = self.node_of[channel]
        outcome = self.known[moment.nodes[place]][step]
        nodes = (*moment.nodes[:place], outcome.state, *moment.nodes[place + 1 :])
        channels = dict(moment.channels)
        left = channels.pop(channel)[1:]
        if left:
            channels[channel] = left
        return WorldState(nodes, _sent(channels, outcome.sent))

    def first(self, states: tuple[int, ...], sent: list[Arrival]) -> WorldState:
        return WorldState(states, _sent({}, tuple(sent)))

    def choices(self, moment: WorldState) -> list[Arrival]:
        """The messages that may arrive next: all of them, or only those to one node if that is
        enough.

        Messages to different nodes commute: whichever comes first, both nodes do the same.  So look
        for a node to which no other can send anything on a channel that is empty now, before one of
        the messages in flight to it arrives.  Apart from such exchanges, every order then begins
        with one of these messages.  (In the literature: a persistent set.)  The table says which
        node can send what, so the search starts again as long as the table grows.
        """
        heads = [(channel, messages[0]) for channel, messages in moment.channels]
        by_node: dict[int, list[Arrival]] = {}
        for step in heads:
            by_node.setdefault(self.node_of[step[0]], []).append(step)
        for place, steps in sorted(by_node.items(), key=lambda item: (len(item[1]), item[0])):
            if len(by_node) == 1 or not self._others_can_send(moment, place):
                return steps
        return heads

    def _others_can_send(self, moment: WorldState, place: int) -> bool:
        """Whether the node may get something on an empty channel before it gets anything else.

        It assumes that each node may reach all states to which the messages that may ever be in
        flight can lead it, in any order: rather too many than too few.
        """
        full = {channel for channel, _ in moment.channels}
        under_way = {step for step in self._steps(moment) if self.node_of[step[0]] != place}
        states = dict.fromkeys(state for at, state in enumerate(moment.nodes) if at != place)
        count = -1
        while count != len(states) + len(under_way):
            count = len(states) + len(under_way)
            for state in list(states):
                for step, outcome in self.known.get(state, {}).items():
                    if step not in under_way:
                        continue
                    states[outcome.state] = None
                    for sent in outcome.sent:
                        if self.node_of[sent[0]] != place:
                            under_way.add(sent)
                        elif sent[0] not in full:
                            return True
        return False

    def _steps(self, moment: WorldState) -> Iterator[Arrival]:
        for channel, messages in moment.channels:
            for message in messages:
                yield channel, message


def _sent(
    channels: dict[int, tuple[int, ...]], sent: tuple[Arrival, ...]
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    for channel, message in sent:
        channels[channel] = (*channels.get(channel, ()), message)
    return tuple(sorted(channels.items()))
