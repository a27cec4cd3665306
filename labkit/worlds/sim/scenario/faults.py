"""What can go wrong, as values: each says in its docstring what it does and what it does not do.

A fault strikes at its moment.  One that lasts ends after `for_ms`; 0: not before the epilogue, in
which all that is left ends.  Faults may overlap; the end of one ends what others of its kind do to
the same place, too.
"""

from dataclasses import dataclass

from labkit.worlds.sim.nodes.faulty_world import EVERY_NODE, FaultyWorld
from labkit.worlds.sim.scenario.machine_faults import (
    FailingRead,
    FullAtSync,
    Reformatted,
    ReplacedDisks,
)
from labkit.worlds.sim.scenario.metadata_faults import (
    HangingMetadata,
    LaggingMetadata,
    SessionLoss,
    SlowMetadata,
)
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment


@dataclass(frozen=True, slots=True, repr=False)
class Crash(Value):
    """A node stops between two of its steps, or between two of its disk operations.

    disk: what was not synced is `kept` (the process was killed; its connections are closed),
    `lost`, `torn` (half of each write), or decided for each operation alone (`lot`: later ones can
    survive earlier ones; decisions `lose disk b1 7`, the part that is lost).  Except with `kept`,
    the machine has lost power and its peers see no closed connection.  The node starts again after
    `down_ms` milliseconds; 0: in the epilogue or by a `Restart`.
    """

    node: str
    disk: str = "kept"
    down_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.nodes[self.node].crash(self.disk)
        if self.down_ms:
            world.after(self.down_ms, world.nodes[self.node].start)


@dataclass(frozen=True, slots=True, repr=False)
class CrashAtOperation(Value):
    """A bookie loses its power just before the `nth` disk operation (from 1) after the moment; what
    was not synced fares as in `Crash`.
    """

    node: str
    nth: int = 1
    disk: str = "lost"
    down_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookie(self.node).crash_at_operation(self.nth, self.disk, self.down_ms)


@dataclass(frozen=True, slots=True, repr=False)
class PowerCut(Value):
    """All bookies crash at once, as `Crash` does it."""

    disk: str = "lost"
    down_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        for name in world.cluster.names:
            Crash(name, self.disk, self.down_ms).strike(world)


@dataclass(frozen=True, slots=True, repr=False)
class Restart(Value):
    """A node that is down starts again, on what its disks kept."""

    node: str
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.nodes[self.node].start()


@dataclass(frozen=True, slots=True, repr=False)
class Pause(Value):
    """A process stops, as by SIGSTOP or a long garbage collection, and goes on where it was.  What
    is sent to it waits in its machine; its timers are overdue when it goes on.
    """

    node: str
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        node = world.nodes[self.node]
        node.pause()
        world.end_after(self.for_ms, node.resume)


@dataclass(frozen=True, slots=True, repr=False)
class SlowStart(Value):
    """A bookie that starts takes `extra_ms` longer from each step of its start to the next: to open
    its disks, to register, to serve.
    """

    node: str
    extra_ms: float = 20.0
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookie(self.node).start_slowly(self.extra_ms, self.for_ms)


@dataclass(frozen=True, slots=True, repr=False)
class SlowDisk(Value):
    """Every call to a bookie's disks takes `extra_ms` longer.  Nothing is lost."""

    node: str
    extra_ms: float = 20.0
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookie(self.node).trouble("slow", self.for_ms, extra_s=self.extra_ms / 1000)


@dataclass(frozen=True, slots=True, repr=False)
class FailingSync(Value):
    """Syncs fail with EIO; what they should have made durable may survive a crash or not, and no
    later sync makes it durable unless it is written again.  Writes and reads go on.
    """

    node: str
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookie(self.node).trouble("failing to sync", self.for_ms, fails_to_sync=True)


@dataclass(frozen=True, slots=True, repr=False)
class FullDisk(Value):
    """A bookie's disks take no new bytes and no new files: ENOSPC.  Syncs and reads go on."""

    node: str
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookie(self.node).trouble("full", self.for_ms, is_full=True)


@dataclass(frozen=True, slots=True, repr=False)
class BitRot(Value):
    """One bit flips in a file at rest: in the largest `journal`, `entry log` or `index` file, at
    that part of it (0 to 1); with `size`, one in each byte of a block of `size` bytes, as when a
    disk returns a damaged sector of 512.  Nothing happens where there is no such file.

    Entry logs and indexes say whose an entry is, twice, and its writer's digest covers it: the
    bookie or the reader notices.  A journal has no checksums, as in BookKeeper: what replay cannot
    make sense of ends it with an error, but damage to a length or to an id can make the bookie deny
    what it acknowledged.  So it is never drawn.
    """

    node: str
    file: str = "entry log"
    part: float = 0.5
    when: Moment = START
    size: int = 1

    def strike(self, world: FaultyWorld) -> None:
        world.bookie(self.node).rot(self.file, self.part, self.size)


@dataclass(frozen=True, slots=True, repr=False)
class Delay(Value):
    """Every message from `source` to `target` takes `extra_ms` longer; the order is kept."""

    source: str = EVERY_NODE
    target: str = EVERY_NODE
    extra_ms: float = 20.0
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.misbehave(self.source, self.target, self.for_ms, extra_s=self.extra_ms / 1000)


@dataclass(frozen=True, slots=True, repr=False)
class Loss(Value):
    """A `share` (0 to 1) of the messages is lost on the way, and the connection does not notice: no
    TCP does that, but a proxy may, and a bookie that forgets a request looks the same.  Lost are
    whole deliveries.  Decisions: `lose w>b0 2`.
    """

    source: str = EVERY_NODE
    target: str = EVERY_NODE
    share: float = 0.2
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.misbehave(self.source, self.target, self.for_ms, lose_share=self.share)


@dataclass(frozen=True, slots=True, repr=False)
class Duplication(Value):
    """A `share` (0 to 1) of the messages comes twice, the second time later, as when a client sends
    again what had arrived.  Decisions: `copy w>b0 2`, in milliseconds between the two.
    """

    source: str = EVERY_NODE
    target: str = EVERY_NODE
    share: float = 0.2
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.misbehave(self.source, self.target, self.for_ms, copy_share=self.share)


@dataclass(frozen=True, slots=True, repr=False)
class Reordering(Value):
    """A `share` (0 to 1) of the messages is held back, and later ones overtake it, as over several
    connections at once.  Decisions: `swap w>b0 2`, in milliseconds held back.
    """

    source: str = EVERY_NODE
    target: str = EVERY_NODE
    share: float = 0.2
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.misbehave(self.source, self.target, self.for_ms, swap_share=self.share)


@dataclass(frozen=True, slots=True, repr=False)
class Partition(Value):
    """The network is cut between the nodes of `side` and `others`.

    `others` () are all other nodes, the metadata server `zk` included.  direction: `both`, `out`
    (what `side` sends is held) or `in`.  Messages already in flight arrive; messages sent during
    the cut arrive when it ends, if their connection lasts.
    """

    side: tuple[str, ...]
    others: tuple[str, ...] = ()
    direction: str = "both"
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        others = self.others or tuple(name for name in world.names if name not in self.side)
        for one in self.side:
            for other in others:
                if self.direction != "in":
                    world.cut(one, other, self.for_ms)
                if self.direction != "out":
                    world.cut(other, one, self.for_ms)


@dataclass(frozen=True, slots=True, repr=False)
class Reset(Value):
    """All connections between two nodes break once; both ends notice.  Data under way is lost."""

    one: str
    other: str
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.network.reset(self.one, self.other)


@dataclass(frozen=True, slots=True, repr=False)
class ClockSkew(Value):
    """A node's seconds pass `rate` times as fast, so that its time-outs come early or late, and its
    wall clock is off by `offset_ms`.
    """

    node: str
    rate: float = 1.5
    offset_ms: int = 0
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        node = world.nodes[self.node]
        node.skew(self.rate, self.offset_ms)
        world.end_after(self.for_ms, node.repair)


@dataclass(frozen=True, slots=True, repr=False)
class Leave(Value):
    """A broker gives up all its topics in good order and ends; it comes back after `down_ms`; 0:
    by the epilogue or a `Restart`.
    """

    node: str
    down_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.broker(self.node).leave(self.down_ms)


@dataclass(frozen=True, slots=True, repr=False)
class Unload(Value):
    """An administrator has a topic unloaded from a broker: it is closed in good order, and opened
    again for the next client.  Nothing happens where the broker does not serve it.
    """

    node: str
    topic: str = "t"
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.broker(self.node).unload(self.topic)


Fault = (
    Crash
    | CrashAtOperation
    | PowerCut
    | Restart
    | Pause
    | SlowStart
    | SlowDisk
    | FailingSync
    | FullDisk
    | ReplacedDisks
    | Reformatted
    | FailingRead
    | FullAtSync
    | BitRot
    | Delay
    | Loss
    | Duplication
    | Reordering
    | Partition
    | Reset
    | ClockSkew
    | SessionLoss
    | Leave
    | Unload
    | SlowMetadata
    | HangingMetadata
    | LaggingMetadata
)
