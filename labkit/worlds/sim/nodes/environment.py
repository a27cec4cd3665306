"""Gives a node access to its world, that is, to time, the network, random decisions and the trace.

The world depends on its nodes, so a node depends on the world only through this interface.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, Unpack

from labkit.system.trace.events import Event, Fields
from labkit.worlds.sim.machine.decisions import Decisions
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.network import SimNetwork
from labkit.worlds.sim.nodes.results import ResultRecorder
from labkit.worlds.sim.settings.bookie_script import Machine
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.variants.variants import Variant


class Environment(Protocol):
    @property
    def loop(self) -> SimLoop: ...

    @property
    def network(self) -> SimNetwork: ...

    @property
    def decisions(self) -> Decisions: ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def variant(self) -> Variant:
        """The version of the system that the nodes run, which may contain a deliberate bug."""

    @property
    def results(self) -> ResultRecorder: ...

    @property
    def tokens(self) -> Iterator[int]:
        """The creation tokens of ledgers, shared by all clients."""

    @property
    def machines(self) -> Mapping[str, Machine]:
        """The current disks of each bookie, keyed by bookie name."""

    def receive_events(self, rows: list[Event]) -> None: ...

    def report(self, kind: str, node: str, **fields: Unpack[Fields]) -> None:
        """Report an event that is caused by the world itself."""

    def after(self, ms: float, action: Callable[[], None]) -> None: ...

    def end_after(self, ms: float, action: Callable[[], None]) -> None:
        """Call `action`, which ends a fault or restarts a node, after `ms` milliseconds. If `ms` is
        0, leave this to the epilogue.
        """
