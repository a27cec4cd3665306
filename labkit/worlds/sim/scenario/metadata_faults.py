"""Faults of the metadata store. The module `faults` lists them together with all other faults."""

from dataclasses import dataclass
from functools import partial

from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.nodes.faulty_world import EVERY_NODE, FaultyWorld
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment


@dataclass(frozen=True, slots=True, repr=False)
class SessionLoss(Value):
    """The metadata server expires a node's session, as if the node had been silent for too long,
    and deletes the session's ephemeral nodes.

    The node reconnects immediately, and then notices that its session has been lost.
    """

    node: str
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.zookeeper.expire(self.node)


@dataclass(frozen=True, slots=True, repr=False)
class SlowMetadata(Value):
    """Every message from the metadata server takes `extra_ms` longer: a `Delay` from `zk`."""

    extra_ms: float = 50.0
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.set_link_faults(
            METADATA_SERVER, EVERY_NODE, self.for_ms, extra_s=self.extra_ms / 1000
        )


@dataclass(frozen=True, slots=True, repr=False)
class HangingMetadata(Value):
    """The metadata server hangs, as ZooKeeper does during a long garbage collection or on a machine
    that is swapping, and resumes later. Meanwhile, requests wait, and the server's clock keeps
    running.

    If the hang lasts longer than the session timeout, the order of the subsequent events is random.
    An `expired_share` (0 to 1) of the overdue sessions expires before the server reads their
    requests. Decisions such as `expire b0 2` determine the delay in ms until the nodes of these
    sessions are deleted. A `late_share` of the connections is served late, by a delay in ms that is
    determined by decisions such as `thaw b0 1`.
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
    """A node's metadata server lags `lag_ms` behind the others, so reads that do not set a watch
    return old data.

    Once the node has received the response to any other request, or one of its watches has fired,
    it sees all changes up to that point.
    """

    node: str
    lag_ms: float = 50.0
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.zookeeper.lag(self.node, self.lag_ms / 1000)
        world.end_after(self.for_ms, partial(world.zookeeper.lag, self.node, 0.0))
