"""The interface through which faults affect the world."""

from collections.abc import Mapping
from typing import Protocol

from labkit.worlds.sim.machine.zookeeper import SimZooKeeper
from labkit.worlds.sim.nodes.bookie_node import BookieNode
from labkit.worlds.sim.nodes.broker_node import BrokerNode
from labkit.worlds.sim.nodes.environment import Environment
from labkit.worlds.sim.nodes.nodes import SimNode

EVERY_NODE = "*"
"""Wildcard for all nodes in a fault."""
EPILOGUE = "epilogue"
"""The name of the client that reads everything at the end of a run."""


class FaultyWorld(Environment, Protocol):
    @property
    def names(self) -> tuple[str, ...]:
        """The names of all nodes, including the metadata server."""

    @property
    def nodes(self) -> Mapping[str, SimNode]:
        """All nodes except the metadata server, by name."""

    @property
    def zookeeper(self) -> SimZooKeeper: ...

    @property
    def bookies(self) -> Mapping[str, BookieNode]: ...

    @property
    def brokers(self) -> Mapping[str, BrokerNode]: ...

    def cut(self, source: str, target: str, for_ms: float) -> None: ...

    def set_link_faults(self, source: str, target: str, for_ms: float, **fields: float) -> None:
        """Set attributes of the links for `for_ms` ms. Either node may be `EVERY_NODE`."""
