"""Faults of the metadata store, as values in the same way as those of `faults`, which lists them
with all others.
"""

from dataclasses import dataclass
from functools import partial

from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.nodes.faulty_world import EVERY_NODE, FaultyWorld
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment


@dataclass(frozen=True, slots=True, repr=False)
class SessionLoss(Value):
    """The metadata server gives up a node's session, as if it had heard nothing for too long: its
    ephemeral nodes go.  The node hears of it when it connects again, at once.
    """

    node: str
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.zookeeper.expire(self.node)


@dataclass(frozen=True, slots=True, repr=False)
class SlowMetadata(Value):
    """The metadata server answers every client `extra_ms` later."""

    extra_ms: float = 50.0
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.misbehave(METADATA_SERVER, EVERY_NODE, self.for_ms, extra_s=self.extra_ms / 1000)


@dataclass(frozen=True, slots=True, repr=False)
class HangingMetadata(Value):
    """The metadata server stops, as ZooKeeper does in a long garbage collection or on a machine
    that swaps, and goes on; what is sent to it waits, and its clock runs on.

    When that lasted longer than a session's time-out, chance decides what the server comes to
    first: an `expired_share` (0 to 1) of the overdue sessions is over before it hears of them
    (decisions `expire b0 2`: when their nodes go, in ms), and a `late_share` of the connections is
    served later (decisions `thaw b0 1`, in ms).
    """

    for_ms: float = 0.0
    expired_share: float = 0.5
    late_share: float = 0.5
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.zookeeper.hang(self.expired_share, self.late_share)
        world.end_after(self.for_ms, world.zookeeper.resume)


@dataclass(frozen=True, slots=True, repr=False)
class LaggingMetadata(Value):
    """The server of the metadata store that answers a node is `lag_ms` behind the others: a read
    that sets no watch says what was there then.  After an answer to any other request, or a watch
    that goes off, the node sees all up to that.
    """

    node: str
    lag_ms: float = 50.0
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.zookeeper.lag(self.node, self.lag_ms / 1000)
        world.end_after(self.for_ms, partial(world.zookeeper.lag, self.node, 0.0))
