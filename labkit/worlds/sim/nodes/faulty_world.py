"""A world as the faults that strike it see it."""

from collections.abc import Callable, Mapping
from typing import Protocol

from labkit.worlds.sim.machine.network import SimNetwork
from labkit.worlds.sim.machine.zookeeper import SimZooKeeper
from labkit.worlds.sim.nodes.bookie_node import BookieNode
from labkit.worlds.sim.nodes.broker_node import BrokerNode
from labkit.worlds.sim.nodes.nodes import SimNode
from labkit.worlds.sim.settings.cluster import Cluster

EVERY_NODE = "*"
"""Stands for all nodes where a fault names one."""
EPILOGUE = "epilogue"
"""The node that looks everything up at the end."""


class FaultyWorld(Protocol):
    """A world, as faults see it."""

    @property
    def cluster(self) -> Cluster:
        """The names and settings of all servers."""

    @property
    def names(self) -> tuple[str, ...]:
        """All nodes, the metadata server included."""

    @property
    def nodes(self) -> Mapping[str, SimNode]:
        """All nodes but the metadata server, by name."""

    @property
    def network(self) -> SimNetwork:
        """The links between all nodes."""

    @property
    def zookeeper(self) -> SimZooKeeper:
        """The metadata server."""

    def bookie(self, name: str) -> BookieNode:
        """The bookie of that name.  Raises `BKIncorrectParameterException` if there is none."""

    def broker(self, name: str) -> BrokerNode:
        """The broker of that name.  Raises `BKIncorrectParameterException` if there is none."""

    def after(self, ms: float, action: Callable[[], None]) -> None:
        """Call `action` in `ms` milliseconds of the world's time."""

    def end_after(self, ms: float, action: Callable[[], None]) -> None:
        """Call `action`, which ends a fault, in `ms` milliseconds; 0: only in the epilogue."""

    def cut(self, source: str, target: str, for_ms: float) -> None:
        """Cut the link from `source` to `target`."""

    def misbehave(self, source: str, target: str, for_ms: float, **fields: float) -> None:
        """Set these fields of the links from `source` to `target`, which may be `EVERY_NODE`."""
