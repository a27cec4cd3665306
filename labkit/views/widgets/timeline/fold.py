"""The state of a run besides its entries: what clients do, what is fenced or cut off.

The entries themselves are `labkit.system.trace.fold`'s.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from labkit.system.trace.events import Event


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node.

    state: up, down, paused or unknown.  doing: its step, or its part in a recovery or a repair.
    ledger: the ledger that it writes, recovers or reads, with its own LastAddPushed and
    LastAddConfirmed.  fenced: the fenced ledgers.  troubles: the faults of its machine.
    """

    state: str = "unknown"
    doing: str = ""
    ledger: int = -1
    last_add_pushed: int = -1
    last_add_confirmed: int = -1
    fenced: tuple[int, ...] = ()
    troubles: tuple[str, ...] = ()
    is_auditor: bool = False


@dataclass(slots=True)
class Surroundings:
    """Takes events one by one.

    nodes: by name, in the order in which events name them.  cuts: links (`w>b0`) that are cut.
    ledgers: open, in recovery, or closed at an entry.
    """

    nodes: dict[str, NodeState] = field(default_factory=dict)
    cuts: dict[str, None] = field(default_factory=dict)
    ledgers: dict[int, str] = field(default_factory=dict)
    durable_fences: set[tuple[str, int]] = field(default_factory=set)

    def take(self, event: Event) -> None:
        """Take the next event."""
        self.node(event)
        if event.kind in _APPLY:
            _APPLY[event.kind](self, event)

    def node(self, event: Event) -> NodeState:
        """The event's node; it exists from now on."""
        return self.nodes.setdefault(event.node, NodeState())

    def change(self, name: str, **fields: object) -> None:
        """Replace fields of the node."""
        state = self.nodes.get(name, NodeState())
        self.nodes[name] = replace(state, **fields)  # type: ignore[arg-type]

    def trouble(self, name: str, what: str) -> None:
        """Add a fault of the node's machine."""
        found = self.nodes.get(name, NodeState()).troubles
        self.change(name, troubles=(*(each for each in found if each != what), what))

    def no_trouble(self, name: str, *beginnings: str) -> None:
        """Remove the faults that begin with one of these."""
        found = self.nodes.get(name, NodeState()).troubles
        self.change(name, troubles=tuple(t for t in found if not t.startswith(beginnings)))


_SLOW_TO_END = ("clock", "disk")
"""Faults without an event for their end: the epilogue ends them."""


def _up(moment: Surroundings, event: Event) -> None:
    moment.change(event.node, state="up")


def _paused(moment: Surroundings, event: Event) -> None:
    moment.change(event.node, state="paused")


def _killed(moment: Surroundings, event: Event) -> None:
    """A fence only in memory is lost, unless only the process died and its files are kept."""
    fenced = moment.node(event).fenced
    if not event.note.endswith("kept"):
        fenced = tuple(f for f in fenced if (event.node, f) in moment.durable_fences)
    moment.nodes[event.node] = NodeState(
        "down", fenced=fenced, troubles=moment.node(event).troubles
    )


def _step_started(moment: Surroundings, event: Event) -> None:
    moment.change(event.node, doing=event.note)


def _step_ended(moment: Surroundings, event: Event) -> None:
    if moment.node(event).state != "down":
        moment.change(event.node, doing=event.note.partition(": ")[2])


def _created(moment: Surroundings, event: Event) -> None:
    moment.ledgers[event.ledger] = "open"
    moment.change(event.node, ledger=event.ledger, last_add_pushed=-1, last_add_confirmed=-1)


def _pushed(moment: Surroundings, event: Event) -> None:
    moment.change(event.node, ledger=event.ledger, last_add_pushed=event.entry)


def _advanced(moment: Surroundings, event: Event) -> None:
    moment.change(event.node, ledger=event.ledger, last_add_confirmed=event.entry)


def _closed(moment: Surroundings, event: Event) -> None:
    end = f"closed at entry {event.entry}" if event.entry >= 0 else "closed, empty"
    moment.ledgers[event.ledger] = end


def _recovery(moment: Surroundings, event: Event) -> None:
    if event.kind == "recovery.started":
        moment.ledgers[event.ledger] = "in recovery"
    doing = {
        "recovery.started": f"fences ledger {event.ledger}",
        "recovery.covered": f"looks for entries from {event.entry + 1} on",
        "recovery.ended": f"recovered up to entry {event.entry}",
        "recovery.failed": "its recovery failed",
    }[event.kind]
    moment.change(event.node, doing=doing, ledger=event.ledger)


def _fenced(moment: Surroundings, event: Event) -> None:
    fenced = moment.node(event).fenced
    if event.ledger not in fenced:
        moment.change(event.node, fenced=(*fenced, event.ledger))


def _synced(moment: Surroundings, event: Event) -> None:
    if event.entry < 0:
        moment.durable_fences.add((event.node, event.ledger))


def _flushed(moment: Surroundings, event: Event) -> None:
    moment.durable_fences |= {(event.node, ledger) for ledger in moment.node(event).fenced}


def _disk_good(moment: Surroundings, event: Event) -> None:
    moment.no_trouble(event.node, f"disk {event.note.removeprefix('no longer ')}")


def _registered(moment: Surroundings, event: Event) -> None:
    moment.change(event.node, state="up")
    moment.no_trouble(event.node, "session", "taken")


def _cut(moment: Surroundings, event: Event) -> None:
    moment.cuts[f"{event.node}>{event.peer}"] = None


def _healed(moment: Surroundings, event: Event) -> None:
    # The events may start after the cut.
    moment.cuts.pop(f"{event.node}>{event.peer}", None)


def _elected(moment: Surroundings, event: Event) -> None:
    for name in moment.nodes:
        moment.change(name, is_auditor=name == event.node)


def _repairs(moment: Surroundings, event: Event) -> None:
    begins = event.kind == "replication.started"
    moment.change(event.node, doing=f"repairs ledger {event.ledger}" if begins else "")


def _epilogue(moment: Surroundings, event: Event) -> None:
    for name in moment.nodes:
        moment.no_trouble(name, *_SLOW_TO_END)
    moment.change(event.node, doing="looks everything up")


_APPLY: dict[str, Callable[[Surroundings, Event], None]] = {
    "node.started": _up,
    "node.resumed": _up,
    "node.paused": _paused,
    "node.killed": _killed,
    "node.failed": lambda moment, event: moment.trouble(event.node, "its code failed"),
    "clock.skewed": lambda moment, event: moment.trouble(event.node, f"clock {event.note}"),
    "disk.bad": lambda moment, event: moment.trouble(event.node, f"disk {event.note}"),
    "disk.good": _disk_good,
    "disk.rotted": lambda moment, event: moment.trouble(event.node, "a bit flipped on disk"),
    "session.lost": lambda moment, event: moment.trouble(event.node, "session lost"),
    "bookie.read_only": lambda moment, event: moment.trouble(event.node, "read-only"),
    "bookie.writable": lambda moment, event: moment.no_trouble(event.node, "read-only"),
    "bookie.registered": _registered,
    "bookie.lost": lambda moment, event: moment.trouble(event.peer, "taken for lost"),
    "link.cut": _cut,
    "link.healed": _healed,
    "step.started": _step_started,
    "step.ended": _step_ended,
    "ledger.created": _created,
    "add.pushed": _pushed,
    "lac.advanced": _advanced,
    "lac.read": _advanced,
    "ledger.closed": _closed,
    "recovery.started": _recovery,
    "recovery.covered": _recovery,
    "recovery.ended": _recovery,
    "recovery.failed": _recovery,
    "ledger.fenced": _fenced,
    "journal.synced": _synced,
    "memtable.flushed": _flushed,
    "auditor.elected": _elected,
    "replication.started": _repairs,
    "replication.done": _repairs,
    "replication.deferred": _repairs,
    "epilogue.started": _epilogue,
}
