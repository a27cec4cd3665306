"""The state of each ledger and node, derived from the events. All checks use this state.

`Facts` handles each event before the checks do. For example, when a check handles an
`ensemble.set`, the facts already contain the new ensemble.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeVar

from labkit.system.check.segments import Segments
from labkit.system.model.errors import PROVES_ABSENCE
from labkit.system.trace.answers import Answer
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import handlers_of, on

EPILOGUE = "epilogue"
"""The last node of a simulated run, which recovers all ledgers and reads every copy."""

T = TypeVar("T")

_PROVES_ABSENCE = frozenset(kind.__name__ for kind in PROVES_ABSENCE)


def proves_absence(event: Event) -> bool:
    """Return whether this `read.failed` event proves that the bookie does not have the entry."""
    return event.error in _PROVES_ABSENCE


@dataclass(slots=True, eq=False)
class LedgerFacts:
    """The state of a ledger according to the events.

    Until an event sets them, ids are -1, names are "" and quorums are 0.
    """

    ledger_id: int

    # Creation

    created: Event | None = None
    writer: str = ""
    """The node that created the ledger."""
    ensemble_size: int = 0
    write_quorum: int = 0
    ack_quorum: int = 0
    deferred_sync: bool = False

    # Location of entries

    segments: Segments = field(default_factory=Segments)
    """Segments in the metadata."""
    replaced_ensemble: tuple[str, ...] = ()
    """The ensemble that the latest `ensemble.set` replaced."""
    views: dict[str, Segments] = field(default_factory=dict)
    """The segments known to each writer or recoverer."""

    # Entries

    pushed: dict[int, str] = field(default_factory=dict)
    """For each entry, the checksum of the content that the writer pushed."""
    last_pushed: int = -1
    synced: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The entries that each bookie has stored durably."""
    acked: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The entries that each bookie has acknowledged."""
    durable_fences: set[str] = field(default_factory=set)
    """The bookies that have synced their fence of the ledger."""
    formatted: dict[str, set[int]] = field(default_factory=dict)
    """The entries that each bookie lost because an operator formatted it."""
    confirmed: int = -1
    """The last entry that the writer confirmed before its node recovered the ledger or anyone
    deleted it. (Promises about this entry use "acknowledged" in their names, because the entry's
    add was acknowledged to the caller.)
    """
    confirmed_by_any: int = -1
    """The last entry that any node confirmed, including recoverers."""

    # Recoverers and readers

    recovering: dict[str, int] = field(default_factory=dict)
    """How many recoveries each node is running."""
    overlapping: set[str] = field(default_factory=set)
    """Nodes that have run two recoveries simultaneously."""
    recoverers: dict[str, Event] = field(default_factory=dict)
    """The first `recovery.started` event of each recoverer."""
    covered: dict[str, int] = field(default_factory=dict)
    """For each recoverer that has fenced the ledger, the entry after which it searches for the end.
    """
    readers: set[str] = field(default_factory=set)
    """Nodes that have read LastAddConfirmed from bookies."""

    # Closing and deletion

    closed: Event | None = None
    end: int = -1
    """The last entry, once the ledger is closed."""
    deleting: Event | None = None
    """The first request to delete the ledger."""
    deleted: Event | None = None
    """The first event that reports the deletion; after it, entries may disappear."""
    collected: set[str] = field(default_factory=set)
    """Bookies that have collected the ledger as garbage."""

    def write_set_of(self, node: str, entry: int) -> tuple[str, ...]:
        """Return the entry's write set according to this node, or () if it is unknown."""
        return self.views.get(node, self.segments).write_set(entry)

    def has_copy(self, bookie: str, entry: int) -> bool:
        """Return whether the bookie has ever stored the entry durably."""
        return entry in self.synced[bookie] or entry in self.acked[bookie]

    def may_be_lost_by_formatting(self, entry: int) -> bool:
        """Return whether a bookie that had stored the entry has been formatted."""
        return any(entry in entries for entries in self.formatted.values())

    def copy_count(self, entry: int) -> int:
        """Return how many bookies of the entry's write set have ever stored the entry durably."""
        write_set = self.segments.write_set(entry)
        return sum(1 for bookie in write_set if self.has_copy(bookie, entry))

    def is_writer(self, node: str) -> bool:
        """Return whether this node is the ledger's writer and has never begun to recover it.

        Once a writer's node has begun to recover the ledger, it may push and confirm entries both
        as writer and as recoverer, even after a failed recovery. The events do not show in which
        role it did so.
        """
        return node == self.writer and node not in self.recoverers

    def has_two_views(self, node: str) -> bool:
        """Return whether this node may have two different lists of the ledger's segments, because
        it is both writer and recoverer, or because it runs two recoveries simultaneously.

        The events do not show which list the node has used.
        """
        is_writer_and_recoverer = node == self.writer and node in self.recoverers
        return is_writer_and_recoverer or node in self.overlapping

    def recovers_and_reads(self, node: str) -> bool:
        """Return whether this node has both recovered and read the ledger.

        The events do not show in which of the two roles the node has requested an entry.
        """
        return node in self.recoverers and node in self.readers


class _Ledgers(dict[int, LedgerFacts]):
    def __missing__(self, ledger_id: int) -> LedgerFacts:
        ledger = self[ledger_id] = LedgerFacts(ledger_id)
        return ledger


class Facts:
    """The state of all ledgers and nodes.

    maintenance_nodes   bookies, auditors and replication workers, each with the event that shows
                        its role; they may repair closed ledgers, and do not pass entries to readers
    killed              nodes that were ever killed, each with the time of the last kill
    down                nodes that were killed and have not been restarted
    bad_disks           bookies whose disk has ever failed, been damaged or been formatted
    skewed              nodes whose clock has ever differed from the trace's clock
    is_simulated        whether this is the trace of a complete simulated run; False before the
                        epilogue
    """

    def __init__(
        self, events: Sequence[Event], answers: Sequence[Answer] = (), *, is_complete: bool = False
    ) -> None:
        self.events = events
        self.answers = answers
        self.is_complete = is_complete
        self.ledgers: dict[int, LedgerFacts] = _Ledgers()
        self.maintenance_nodes: dict[str, Event] = {}
        self.killed: dict[str, Event] = {}
        self.down: dict[str, Event] = {}
        self.bad_disks: set[str] = set()
        self.skewed: set[str] = set()
        self.is_simulated = False
        self._fences: defaultdict[str, set[tuple[int, str, int]]] = defaultdict(set)
        """For each bookie, the fences that it has appended since it started, each as the ledger,
        the journal file and the offset.
        """
        self.handlers = handlers_of(type(self))

    @property
    def existing(self) -> list[LedgerFacts]:
        return [ledger for ledger in self.ledgers.values() if ledger.deleted is None]

    def first(self, kind: str, ledger: int, entry: int, node: str = "") -> Event | None:
        """Return the first matching event in the whole trace."""
        wanted = kind, ledger, entry
        found = (e for e in self.events if (e.kind, e.ledger, e.entry) == wanted)
        return next((event for event in found if node in ("", event.node)), None)

    def answers_of(self, kind: type[T]) -> Iterator[T]:
        return (answer for answer in self.answers if isinstance(answer, kind))

    def before(self, answer: Answer) -> Event:
        """Return the last event before the call returned, or the trace's first event if there is no
        such event.
        """
        count = bisect_left(self.events, answer.at, key=attrgetter("seq"))
        return self.events[max(count - 1, 0)]

    @on("epilogue.started")
    def _epilogue(self, _: Event) -> None:
        self.is_simulated = True

    @on("disk.rotted", "disk.bad")
    def _disk_failed(self, event: Event) -> None:
        self.bad_disks.add(event.node)

    @on("clock.skewed")
    def _skewed(self, event: Event) -> None:
        self.skewed.add(event.node)

    @on("bookie.formatted")
    def _formatted(self, event: Event) -> None:
        bookie = event.node
        self.bad_disks.add(bookie)
        self._fences.pop(bookie, None)
        for ledger in self.ledgers.values():
            ledger.durable_fences.discard(bookie)
            if had := ledger.synced[bookie] | ledger.acked[bookie]:
                ledger.formatted.setdefault(bookie, set()).update(had)

    @on("ledger.created")
    def _created(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        ledger.created, ledger.writer = event, event.node
        ledger.ensemble_size = event.ensemble_size
        ledger.write_quorum = event.write_quorum
        ledger.ack_quorum = event.ack_quorum
        ledger.deferred_sync = event.deferred_sync
        ledger.views[event.node] = Segments()

    @on("ensemble.set")
    def _ensemble_set(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        self._update_view(ledger, event)
        # Only repairs change a closed ledger. If any other node reports a segment, this is a late
        # report of a change that was made before the ledger was closed, and the reported ensemble
        # may have been replaced since.
        if ledger.closed is None or event.node in self.maintenance_nodes:
            ledger.replaced_ensemble = ledger.segments.put(
                event.entry, event.ensemble, ledger.write_quorum
            )

    @on("ensemble.deferred")
    def _ensemble_deferred(self, event: Event) -> None:
        self._update_view(self.ledgers[event.ledger], event)

    def _update_view(self, ledger: LedgerFacts, event: Event) -> None:
        view = ledger.views.get(event.node)
        if view is not None:
            view.put(event.entry, event.ensemble, ledger.write_quorum)

    @on("add.pushed")
    def _pushed(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        # A recoverer pushes existing entries again, so only the writer's pushes define the content.
        # If a node is both writer and recoverer, its new entries are treated as the writer's.
        is_new = event.entry > ledger.last_pushed
        if ledger.is_writer(event.node) or (event.node == ledger.writer and is_new):
            ledger.pushed[event.entry] = event.checksum
            ledger.last_pushed = event.entry

    @on("journal.synced")
    def _synced(self, event: Event) -> None:
        # Fences and explicit LACs both have entry id -1, so they are distinguished by their
        # positions.
        ledger, bookie = self.ledgers[event.ledger], event.node
        if event.entry >= 0:
            ledger.synced[bookie].add(event.entry)
        elif (event.ledger, event.file, event.offset) in self._fences[bookie]:
            ledger.durable_fences.add(bookie)

    @on("journal.fence_appended")
    def _fence_appended(self, event: Event) -> None:
        self._fences[event.node].add((event.ledger, event.file, event.offset))

    @on("add.acked", "entry.copied")
    def _acked(self, event: Event) -> None:
        self.ledgers[event.ledger].acked[event.peer].add(event.entry)

    @on("lac.advanced")
    def _advanced(self, event: Event) -> None:
        ledger, entry = self.ledgers[event.ledger], event.entry
        if entry > ledger.confirmed_by_any:
            ledger.confirmed_by_any = entry
        if entry > ledger.confirmed and ledger.is_writer(event.node) and ledger.deleted is None:
            ledger.confirmed = entry

    @on("recovery.started")
    def _recovery_started(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        under_way = ledger.recovering.get(event.node, 0)
        if under_way:
            ledger.overlapping.add(event.node)
        ledger.recovering[event.node] = under_way + 1
        ledger.recoverers.setdefault(event.node, event)
        if segments := event.segments:
            view = ledger.views[event.node] = Segments()
            for first, ensemble in segments:
                view.put(first, ensemble, ledger.write_quorum)
            if ledger.closed is None:
                # The writer may have died before it reported the last segment.
                ledger.segments.put(*segments[-1], ledger.write_quorum)

    @on("recovery.ended", "recovery.failed")
    def _recovery_ended(self, event: Event) -> None:
        recovering = self.ledgers[event.ledger].recovering
        others = recovering.pop(event.node, 1) - 1
        if others:
            recovering[event.node] = others

    @on("lac.read", "replication.started")
    def _reads(self, event: Event) -> None:
        # A node that reads or repairs the ledger has usually finished its recovery of the ledger.
        ledger = self.ledgers[event.ledger]
        ledger.recovering.pop(event.node, None)
        if event.kind == "lac.read":
            ledger.readers.add(event.node)

    @on("ledger.closed")
    def _closed(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        # Only the first close counts; later ones are checked by `ClosedLedgerNeverChanges`.
        if ledger.closed is None:
            ledger.closed, ledger.end = event, event.entry

    @on("recovery.covered")
    def _covered(self, event: Event) -> None:
        self.ledgers[event.ledger].covered[event.node] = event.entry

    @on("ledger.collected")
    def _collected(self, event: Event) -> None:
        self.ledgers[event.ledger].collected.add(event.node)

    @on("ledger.deleting")
    def _deleting(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        ledger.deleting = ledger.deleting or event

    @on("ledger.deleted")
    def _deleted(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        ledger.deleted = ledger.deleted or event

    @on("auditor.elected", "replication.started", "bookie.registered")
    def _maintains(self, event: Event) -> None:
        self.maintenance_nodes.setdefault(event.node, event)

    @on("node.killed")
    def _killed(self, event: Event) -> None:
        self.down[event.node] = self.killed[event.node] = event
        # Fences that were appended but not synced are lost.
        self._fences.pop(event.node, None)
        for ledger in self.ledgers.values():
            ledger.recovering.pop(event.node, None)

    @on("node.started", "read.served")
    def _started(self, event: Event) -> None:
        # A bookie may serve reads before it reports that it has started.
        self.down.pop(event.node, None)
