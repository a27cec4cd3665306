"""A table of how each node reacts to each message, filled in by real runs (`directed_world`).

Nodes interact only through messages, so a node's reaction depends only on its state and the
message. If a world's states and messages are already in this table, the world's next state can be
looked up here, so the world does not have to be run.
"""

from collections.abc import Iterable
from typing import NamedTuple

from labkit.worlds.sim.machine.loop import SimulationError
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.scenario.scenario import Scenario

Arrival = tuple[int, int]
"""A channel and a message on it, by number."""


class Reaction(NamedTuple):
    """A node's reaction to a message: the node's next state, and the messages that it sends, in
    order.
    """

    state: int
    sent: tuple[Arrival, ...]


class WorldState(NamedTuple):
    """A state of the world: the state of each node, and the messages on each channel, in order."""

    nodes: tuple[int, ...]
    channels: tuple[tuple[int, tuple[int, ...]], ...]


class TransitionTable:
    def __init__(self, scenario: Scenario) -> None:
        self.nodes = (*scenario.cluster.names, *scenario.clients, METADATA_SERVER)
        self.node_of: list[int] = []
        """The index of the node that receives from each channel."""
        self.is_metadata: list[bool] = []
        """Whether the metadata server sends or receives on each channel."""
        self.reactions: dict[int, dict[Arrival, Reaction]] = {}
        """The reaction to each message, by node state."""
        self.outcome_count = 0
        self._numbers: dict[object, int] = {}
        self._channels: dict[str, int] = {}

    def channel(self, name: str, target: str) -> int:
        number = self._channels.get(name)
        if number is None:
            number = self._channels[name] = len(self._channels)
            self.node_of.append(self.nodes.index(target))
            self.is_metadata.append(METADATA_SERVER in name.partition(" ")[0].split(">"))
        return number

    def number(self, *key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def learn(self, state: int, step: Arrival, outcome: Reaction) -> None:
        """Record a node's reaction. Raises `SimulationError` if the node reacted differently the
        last time.
        """
        reactions = self.reactions.setdefault(state, {})
        before = reactions.setdefault(step, outcome)
        if before is outcome:
            self.outcome_count += 1
        elif before != outcome:
            name = self.nodes[self.node_of[step[0]]]
            raise SimulationError(
                f"{name} reacted to the same message in the same state in two different ways: it"
                " depends on something other than its messages and its memory"
            )

    def after(self, world_state: WorldState, step: Arrival) -> WorldState:
        """Return the state of the world after this message, the first on its channel, has arrived.

        Raises `KeyError` if the message's effect is not known yet.
        """
        channel = step[0]
        node_index = self.node_of[channel]
        outcome = self.reactions[world_state.nodes[node_index]][step]
        nodes = (
            *world_state.nodes[:node_index],
            outcome.state,
            *world_state.nodes[node_index + 1 :],
        )
        channels = dict(world_state.channels)
        if remaining := channels.pop(channel)[1:]:
            channels[channel] = remaining
        return WorldState(nodes, _add_messages(channels, outcome.sent))

    def first(self, states: tuple[int, ...], sent: Iterable[Arrival]) -> WorldState:
        return WorldState(states, _add_messages({}, sent))

    def choices(self, world_state: WorldState) -> list[Arrival]:
        """Return the messages to try next: either all messages that can arrive next or, if that is
        sufficient, only the messages to one particular node.

        Messages to different nodes commute: both nodes react in the same way, no matter which
        message arrives first. This method therefore looks for a node to which some messages are
        already in flight, and which must receive one of these before a message can arrive on any of
        its empty channels. Every order is then equivalent to an order that starts with one of the
        messages to this node. (The literature calls such messages a persistent set.) The result
        depends on what nodes can send according to the table, so the search starts over whenever
        the table has grown.
        """
        heads = [(channel, messages[0]) for channel, messages in world_state.channels]
        by_node: dict[int, list[Arrival]] = {}
        for step in heads:
            by_node.setdefault(self.node_of[step[0]], []).append(step)
        for node_index, steps in sorted(by_node.items(), key=lambda item: (len(item[1]), item[0])):
            if len(by_node) == 1 or not self._others_can_send(world_state, node_index):
                return steps
        return heads

    def _others_can_send(self, world_state: WorldState, node_index: int) -> bool:
        """Return whether the next message that the node receives may be one that is not in flight
        yet.

        The result may be True even if no such message can arrive first. This method assumes that
        all messages that could ever be in flight can arrive in any order. It also assumes that each
        node can reach every state to which these messages lead.
        """
        non_empty = {channel for channel, _ in world_state.channels}
        in_flight = {
            (channel, message)
            for channel, messages in world_state.channels
            if self.node_of[channel] != node_index
            for message in messages
        }
        states = dict.fromkeys(
            state for index, state in enumerate(world_state.nodes) if index != node_index
        )
        count = -1
        while count != len(states) + len(in_flight):
            count = len(states) + len(in_flight)
            for state in list(states):
                for step, outcome in self.reactions.get(state, {}).items():
                    if step not in in_flight:
                        continue
                    states[outcome.state] = None
                    for sent in outcome.sent:
                        if self.node_of[sent[0]] != node_index:
                            in_flight.add(sent)
                        elif sent[0] not in non_empty:
                            return True
        return False


def _add_messages(
    channels: dict[int, tuple[int, ...]], sent: Iterable[Arrival]
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    for channel, message in sent:
        channels[channel] = (*channels.get(channel, ()), message)
    return tuple(sorted(channels.items()))
