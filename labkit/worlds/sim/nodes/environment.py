"""A world as its nodes see it: time, network, random decisions, and where their events go.

The world is built from nodes, so a node knows it only through this interface.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from labkit.system.trace.recorder import Row
from labkit.worlds.sim.machine.decisions import Decisions
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.network import SimNetwork
from labkit.worlds.sim.nodes.results import ClientAnswers
from labkit.worlds.sim.settings.bookie_script import Machine
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.variants.variants import Variant


class Environment(Protocol):
    """A world, as its nodes see it."""

    @property
    def loop(self) -> SimLoop:
        """The event loop, whose clock is the world's time."""

    @property
    def network(self) -> SimNetwork:
        """The links between all nodes."""

    @property
    def decisions(self) -> Decisions:
        """The random decisions of the run, by name."""

    @property
    def cluster(self) -> Cluster:
        """The settings of all servers."""

    @property
    def variant(self) -> Variant:
        """The protocol's classes, one of them perhaps with a mistake."""

    @property
    def answers(self) -> ClientAnswers:
        """What the workload's calls returned so far."""

    @property
    def tokens(self) -> Iterator[int]:
        """Numbers that tell clients apart."""

    @property
    def machines(self) -> Mapping[str, Machine]:
        """The disks of each bookie as they are now, by its name."""

    def take(self, rows: list[Row]) -> None:
        """Add a node's events to the run."""

    def report(
        self,
        kind: str,
        node: str,
        *,
        peer: str = "",
        file: str = "",
        offset: int = -1,
        size: int = -1,
        note: str = "",
    ) -> None:
        """Add an event that the world itself brings about."""

    def after(self, ms: float, action: Callable[[], None]) -> None:
        """Call `action` in `ms` milliseconds of the world's time."""

    def end_after(self, ms: float, action: Callable[[], None]) -> None:
        """Call `action`, which ends a fault, in `ms` milliseconds; 0: only in the epilogue."""
