"""More faults of a bookie's machine.

`labkit.worlds.sim.scenario.faults` lists them together with all other faults.
"""

from dataclasses import dataclass

from labkit.worlds.sim.nodes.faulty_world import FaultyWorld
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment


@dataclass(frozen=True, slots=True, repr=False)
class ReplacedDisks(Value):
    """A bookie's machine loses power and comes back with empty directories: `all` of them, or only
    those of the `journal` or the `ledgers`.

    The bookie restarts after `down_ms` milliseconds; if that is 0, it stays down until a `Restart`
    or the epilogue. The cookie check then prevents it from serving.
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
    `bookieformat -deleteCookie` does. The bookie restarts with the same id after `down_ms`
    milliseconds; if that is 0, it stays down until a `Restart` or the epilogue. It has forgotten
    all entries and fences.
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
    """Every read of a file fails with EIO, as on a disk with bad sectors.

    Writes and syncs still work. If the bookie starts during this fault, it cannot read its files.
    """

    node: str
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookie(self.node).set_disk_faults("failing to read", self.for_ms, fails_to_read=True)


@dataclass(frozen=True, slots=True, repr=False)
class FullAtSync(Value):
    """A bookie's disks accept writes, but syncs fail with ENOSPC, as in file systems with delayed
    allocation. Reads and directory changes still work.
    """

    node: str
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookie(self.node).set_disk_faults("full at syncs", self.for_ms, is_full_at_sync=True)
