"""The faults of a scenario, as immutable objects. The docstring of each fault describes what the
fault affects and what it does not affect.

A fault begins at the moment `when`. A fault with a duration ends after `for_ms` milliseconds. If
`for_ms` is 0, the fault lasts until the epilogue, which ends all faults. Faults may overlap. When
one of them ends, all faults of the same kind on the same target end with it.
"""

from dataclasses import Field, dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar, Protocol

from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.nodes.faulty_world import EVERY_NODE, FaultyWorld
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment


class Fault(Protocol):
    """Something that goes wrong. You can use labkit's faults or define your own as a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def when(self) -> Moment: ...

    def strike(self, world: FaultyWorld) -> None: ...


@dataclass(frozen=True, slots=True, repr=False)
class Crash(Value):
    """A node stops between two of its steps, or between two of its disk operations.

    disk: unsynced data is `kept` (the process was killed; its connections are closed), `lost`, or
    `torn` (half of each write survives). With `lot`, the fate of each operation is random, so a
    later operation may survive although an earlier one is lost. Decisions such as `lose disk b1 7`
    determine how much of an operation is lost. In all cases except `kept`, the machine loses power,
    even if its process is already dead, and the connections of its peers are not closed. Only the
    death of a process is reported as an event. The node restarts after `down_ms` milliseconds. If
    `down_ms` is 0, the node stays down until a `Restart` or the epilogue.
    """

    node: str
    disk: str = "kept"
    down_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        node = world.nodes[self.node]
        node.crash(self.disk)
        world.end_after(self.down_ms, node.start)


@dataclass(frozen=True, slots=True, repr=False)
class BookieFault(Value):
    """Base class of faults that can affect only a bookie."""

    node: str


@dataclass(frozen=True, slots=True, repr=False)
class CrashAtOperation(BookieFault):
    """A bookie loses power just before its `nth` disk operation (counted from 1) after the moment
    `when`. Unsynced data is treated as in `Crash`.
    """

    nth: int = 1
    disk: str = "lost"
    down_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookies[self.node].crash_at_operation(self.nth, self.disk, self.down_ms)


@dataclass(frozen=True, slots=True, repr=False)
class PowerCut(Value):
    """All bookies crash at the same time, as in `Crash`."""

    disk: str = "lost"
    down_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        for name in world.cluster.names:
            Crash(name, self.disk, self.down_ms).strike(world)


@dataclass(frozen=True, slots=True, repr=False)
class Restart(Value):
    """A node that is down restarts with the data that survived."""

    node: str
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.nodes[self.node].start()


@dataclass(frozen=True, slots=True, repr=False)
class Pause(Value):
    """A process is suspended, as by SIGSTOP or a long garbage collection, and resumes later.
    Meanwhile, messages to the process are queued on its machine, and its timers become overdue.
    """

    node: str
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        node = world.nodes[self.node]
        node.pause()
        world.end_after(self.for_ms, node.resume)


@dataclass(frozen=True, slots=True, repr=False)
class SlowStart(BookieFault):
    """When a bookie starts, it pauses for `extra_ms` before each of three steps: opening its disks,
    registering, and serving.
    """

    extra_ms: float = 20.0
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookies[self.node].start_slowly(self.extra_ms, self.for_ms)


@dataclass(frozen=True, slots=True, repr=False)
class SlowDisk(BookieFault):
    """Every disk call of a bookie takes `extra_ms` longer. No data is lost."""

    extra_ms: float = 20.0
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.bookies[self.node].set_disk_faults("slow", self.for_ms, extra_s=self.extra_ms / 1000)


@dataclass(frozen=True, slots=True, repr=False)
class _DiskFault(BookieFault):
    """A fault during which an attribute of the bookie's `DiskFaults` is True."""

    attribute: ClassVar[str]
    description: ClassVar[str]
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        bookie = world.bookies[self.node]
        bookie.set_disk_faults(self.description, self.for_ms, **{self.attribute: True})


@dataclass(frozen=True, slots=True, repr=False)
class FailingSync(_DiskFault):
    """Syncs fail with EIO. The data that a failed sync should have made durable may or may not
    survive a crash, and no later sync makes it durable unless the data is written again. Writes and
    reads still work.
    """

    attribute = "fails_to_sync"
    description = "failing to sync"


@dataclass(frozen=True, slots=True, repr=False)
class FailingRead(_DiskFault):
    """Every read of a file fails with EIO, as on a disk with bad sectors.

    Writes and syncs still work. If the bookie starts during this fault, it cannot read its files.
    """

    attribute = "fails_to_read"
    description = "failing to read"


@dataclass(frozen=True, slots=True, repr=False)
class FullDisk(_DiskFault):
    """A bookie's disks reject writes and new files with ENOSPC. Syncs and reads still work."""

    attribute = "is_full"
    description = "full"


@dataclass(frozen=True, slots=True, repr=False)
class FullAtSync(_DiskFault):
    """A bookie's disks accept writes, but syncs fail with ENOSPC, as can happen on file systems
    with delayed allocation. Reads and directory changes still work.
    """

    attribute = "is_full_at_sync"
    description = "full at syncs"


@dataclass(frozen=True, slots=True, repr=False)
class BitRot(BookieFault):
    """One bit flips in a file at rest: in the bookie's largest `journal`, `entry log` or `index`
    file, at the relative position `part` (0 to 1). With `size`, one bit flips in each byte of a
    block of `size` bytes, as when a disk returns a damaged sector of 512 bytes. Nothing happens if
    the bookie has no such file.

    Both the entry log and the index record the entry to which the data belongs, and the writer's
    digest covers the entry, so the bookie or the reader notices the damage. As in BookKeeper, a
    journal has no checksums. Replay stops with an error at a record that it cannot parse. But if a
    length or an id is damaged, the bookie may report that it does not have an entry that it has
    acknowledged. Random scenarios therefore never damage a journal.
    """

    file: str = "entry log"
    part: float = 0.5
    when: Moment = START
    size: int = 1

    def strike(self, world: FaultyWorld) -> None:
        world.bookies[self.node].corrupt(self.file, self.part, self.size)


@dataclass(frozen=True, slots=True, repr=False)
class ReplacedDisks(BookieFault):
    """A bookie's machine loses power, and its directories are empty afterwards: `all` of them, or
    only the `journal` or the `ledgers` directories.

    The bookie restarts after `down_ms` milliseconds. If `down_ms` is 0, the bookie stays down until
    a `Restart` or the epilogue. The cookie check then prevents it from serving.
    """

    which: str = "all"
    down_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        bookie = world.bookies[self.node]
        bookie.replace_disks(self.which)
        world.end_after(self.down_ms, bookie.start)


@dataclass(frozen=True, slots=True, repr=False)
class Reformatted(BookieFault):
    """An operator stops a bookie, empties its directories and deletes its cookie, as BookKeeper's
    `bookieformat -deleteCookie` does. The bookie restarts with the same id after `down_ms`
    milliseconds, and has forgotten all entries and fences. If `down_ms` is 0, the bookie stays down
    until a `Restart` or the epilogue.
    """

    down_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        bookie = world.bookies[self.node]
        bookie.format()
        world.zookeeper.delete_cookie(self.node)
        world.end_after(self.down_ms, bookie.start)


@dataclass(frozen=True, slots=True, repr=False)
class Delay(Value):
    """Every message from `source` to `target` takes `extra_ms` longer. The order of the messages is
    preserved.
    """

    source: str = EVERY_NODE
    target: str = EVERY_NODE
    extra_ms: float = 20.0
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.set_link_faults(self.source, self.target, self.for_ms, extra_s=self.extra_ms / 1000)


@dataclass(frozen=True, slots=True, repr=False)
class _LinkShare(Value):
    """A fault that affects a `share` (0 to 1) of the messages from `source` to `target`."""

    attribute: ClassVar[str]
    source: str = EVERY_NODE
    target: str = EVERY_NODE
    share: float = 0.2
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.set_link_faults(self.source, self.target, self.for_ms, **{self.attribute: self.share})


@dataclass(frozen=True, slots=True, repr=False)
class Loss(_LinkShare):
    """A `share` (0 to 1) of the messages is lost in transit without the connection noticing.

    TCP never loses messages in this way, but a proxy may, and a bookie that forgets a request has
    the same effect. Frames that were sent together are lost together. The corresponding decisions
    are called `lose w>b0 2`.
    """

    attribute = "lose_share"


@dataclass(frozen=True, slots=True, repr=False)
class Duplication(_LinkShare):
    """A `share` (0 to 1) of the messages arrives again later, as if a client had resent a request
    that had already arrived.

    The value of a decision such as `copy w>b0 2` is the interval in milliseconds.
    """

    attribute = "copy_share"


@dataclass(frozen=True, slots=True, repr=False)
class Reordering(_LinkShare):
    """A `share` (0 to 1) of the messages is held back and overtaken by later ones, as if sent over
    several connections. The value of a decision such as `swap w>b0 2` is the delay in milliseconds.
    """

    attribute = "swap_share"


@dataclass(frozen=True, slots=True, repr=False)
class Partition(Value):
    """The network between the nodes in `side` and the nodes in `others` is cut.

    An empty `others` stands for all other nodes, including the metadata server `zk`.
    direction: `both`, `out` (messages sent by `side` are held back) or `in`. Messages that are
    already in flight arrive. Messages sent during the cut arrive when it ends, if their connection
    survives.
    """

    side: tuple[str, ...]
    others: tuple[str, ...] = ()
    direction: str = "both"
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        others = self.others or tuple(name for name in world.names if name not in self.side)
        for node, other in product(self.side, others):
            if self.direction != "in":
                world.cut(node, other, self.for_ms)
            if self.direction != "out":
                world.cut(other, node, self.for_ms)


@dataclass(frozen=True, slots=True, repr=False)
class Reset(Value):
    """All connections between two nodes break once, and both ends notice this.

    Data in flight is lost.
    """

    one: str
    other: str
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.network.reset(self.one, self.other)


@dataclass(frozen=True, slots=True, repr=False)
class ClockSkew(Value):
    """A node's clock runs at `rate` times the normal speed, so its timeouts fire early or late. The
    node's wall clock is off by `offset_ms`.
    """

    node: str
    rate: float = 1.5
    offset_ms: int = 0
    for_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        node = world.nodes[self.node]
        node.skew(self.rate, self.offset_ms)
        world.end_after(self.for_ms, node.end_skew)


@dataclass(frozen=True, slots=True, repr=False)
class Leave(Value):
    """A broker shuts down gracefully after unloading all its topics, and restarts after `down_ms`
    milliseconds. If `down_ms` is 0, the broker stays down until a `Restart` or the epilogue.
    """

    node: str
    down_ms: float = 0.0
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.brokers[self.node].leave(self.down_ms)


@dataclass(frozen=True, slots=True, repr=False)
class Unload(Value):
    """An administrator unloads a topic from a broker: the topic is closed gracefully and reopened
    for the next client. Nothing happens if the broker does not own the topic.
    """

    node: str
    topic: str = "t"
    when: Moment = START

    def strike(self, world: FaultyWorld) -> None:
        world.brokers[self.node].unload(self.topic)


# Faults of the metadata store


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
        Delay(METADATA_SERVER, EVERY_NODE, self.extra_ms, self.for_ms).strike(world)


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
