"""Faults of a bookie's machine beside those of `faults`, as values in the same way.

`labkit.worlds.sim.scenario.faults` lists them with all others.
"""

from dataclasses import dataclass

from labkit.worlds.sim.nodes.faulty_world import FaultyWorld
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment


@dataclass(frozen=True, slots=True, repr=False)
class ReplacedDisks(Value):
    """A bookie's machine loses its power, and comes back with empty directories: all of them, or
    only those of its `journal` or of its `ledgers`.  The bookie starts again after `down_ms`
    milliseconds; 0: in the epilogue or by a `Restart`.  Its cookie then keeps it from serving.
    """

    node: str
    which: str = "all"
    down_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookie(self.node).replace_disks(self.which)
        if self.down_ms:
            world.after(self.down_ms, world.nodes[self.node].start)


@dataclass(frozen=True, slots=True, repr=False)
class Reformatted(Value):
    """An operator stops a bookie, empties its directories and deletes its cookie, as BookKeeper's
    `bookieformat -deleteCookie` does.  The bookie starts again under its id after `down_ms`
    milliseconds; 0: in the epilogue or by a `Restart`.  It has forgotten all entries and fences.
    """

    node: str
    down_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookie(self.node).format()
        world.zookeeper.delete_cookie(self.node)
        if self.down_ms:
            world.after(self.down_ms, world.nodes[self.node].start)


@dataclass(frozen=True, slots=True, repr=False)
class FailingRead(Value):
    """Every read of a file fails with EIO, as when a disk meets damaged sectors.  Writes and syncs
    go on.  A bookie that starts meanwhile cannot read its files.
    """

    node: str
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookie(self.node).trouble("failing to read", self.for_ms, fails_to_read=True)


@dataclass(frozen=True, slots=True, repr=False)
class FullAtSync(Value):
    """A bookie's disks take writes, and find at the sync that there is no space for them: ENOSPC,
    as file systems with delayed allocation do.  Reads and changes of names go on.
    """

    node: str
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookie(self.node).trouble("full at syncs", self.for_ms, is_full_at_sync=True)
