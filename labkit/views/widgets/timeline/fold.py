"""The state of a run apart from its ledgers and bookies: what clients are doing, and which nodes
have a fault or are cut off.

The rest of the state is in `labkit.system.trace.cluster_state`.
"""

from dataclasses import dataclass, replace

from labkit.system.trace.cluster_state import ClusterFold
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import handlers_of, on
from labkit.system.trace.sentence import how_it_ended


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of one node, apart from whether it is up.

    doing: the node's current step, or its role in a recovery or repair.
    last_add_pushed, last_add_confirmed: of the ledger that the node writes, recovers or reads.
    faults: the faults of the node's machine.
    """

    doing: str = ""
    last_add_pushed: int = -1
    last_add_confirmed: int = -1
    faults: tuple[str, ...] = ()
    is_auditor: bool = False


class RunState:
    """Follows a run event by event; `cluster` must process each event first.

    nodes: the nodes by name, in the order in which events first mention them.
    cuts: the links that are cut, such as `w>b0`.
    """

    def __init__(self, cluster: ClusterFold) -> None:
        self.nodes: dict[str, NodeState] = {}
        self.cuts: dict[str, None] = {}
        self._cluster = cluster
        self._handlers = {kind: getattr(self, name) for kind, name in _HANDLERS}

    def take(self, event: Event) -> None:
        self.nodes.setdefault(event.node, NodeState())
        handle = self._handlers.get(event.kind)
        if handle is not None:
            handle(event)

    def _change(self, name: str, **fields: object) -> None:
        state = self.nodes.get(name, NodeState())
        self.nodes[name] = replace(state, **fields)  # type: ignore[arg-type]

    # Clients, recoveries and repairs

    @on("step.started")
    def _step_started(self, event: Event) -> None:
        self._change(event.node, doing=event.step)

    @on("step.ended")
    def _step_ended(self, event: Event) -> None:
        if self._cluster.nodes.get(event.node) != "down":
            self._change(event.node, doing=how_it_ended(event))

    @on("ledger.created")
    def _created(self, event: Event) -> None:
        self._change(event.node, last_add_pushed=-1, last_add_confirmed=-1)

    @on("add.pushed")
    def _pushed(self, event: Event) -> None:
        self._change(event.node, last_add_pushed=event.entry)

    @on("lac.advanced", "lac.read")
    def _advanced(self, event: Event) -> None:
        self._change(event.node, last_add_confirmed=event.entry)

    @on("recovery.started", "recovery.covered", "recovery.ended", "recovery.failed")
    def _recovery(self, event: Event) -> None:
        doing = {
            "recovery.started": f"is fencing ledger {event.ledger}",
            "recovery.covered": f"continues reading at entry {event.entry + 1}",
            "recovery.ended": f"recovered up to entry {event.entry}",
            "recovery.failed": "recovery failed",
        }[event.kind]
        self._change(event.node, doing=doing)

    @on("auditor.elected")
    def _elected(self, event: Event) -> None:
        for name in self.nodes:
            self._change(name, is_auditor=name == event.node)

    @on("replication.started", "replication.done", "replication.deferred")
    def _repairs(self, event: Event) -> None:
        begins = event.kind == "replication.started"
        self._change(event.node, doing=f"is repairing ledger {event.ledger}" if begins else "")

    @on("epilogue.started")
    def _epilogue(self, event: Event) -> None:
        # The epilogue ends these faults without recording an event.
        for name in self.nodes:
            self._remove_faults(name, "clock", "disk")
        self._change(event.node, doing="is reading everything back")

    @on("node.killed")
    def _killed(self, event: Event) -> None:
        self.nodes[event.node] = NodeState(faults=self.nodes[event.node].faults)

    # Faults

    @on("link.cut")
    def _cut(self, event: Event) -> None:
        self.cuts[f"{event.node}>{event.peer}"] = None

    @on("link.healed")
    def _healed(self, event: Event) -> None:
        # The link may not be in `cuts`, because the trace may start after the cut.
        self.cuts.pop(f"{event.node}>{event.peer}", None)

    @on(
        *("node.failed", "clock.skewed", "disk.bad", "disk.rotted", "session.lost"),
        *("bookie.read_only", "bookie.lost"),
    )
    def _fault_began(self, event: Event) -> None:
        name = event.peer if event.kind == "bookie.lost" else event.node
        what = {
            "node.failed": "uncaught exception",
            "clock.skewed": f"clock {event.fault}",
            "disk.bad": f"disk {event.fault}",
            "disk.rotted": "a bit flipped on disk",
            "session.lost": "session expired",
            "bookie.read_only": "read-only",
            "bookie.lost": "considered lost",
        }[event.kind]
        found = self.nodes.get(name, NodeState()).faults
        self._change(name, faults=(*(each for each in found if each != what), what))

    @on("disk.good")
    def _disk_good(self, event: Event) -> None:
        self._remove_faults(event.node, f"disk {event.fault}")

    @on("bookie.writable")
    def _writable(self, event: Event) -> None:
        self._remove_faults(event.node, "read-only")

    @on("bookie.registered")
    def _registered(self, event: Event) -> None:
        self._remove_faults(event.node, "session", "considered")

    def _remove_faults(self, name: str, *beginnings: str) -> None:
        found = self.nodes[name].faults
        self._change(name, faults=tuple(t for t in found if not t.startswith(beginnings)))


_HANDLERS = handlers_of(RunState)
