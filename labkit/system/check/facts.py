"""What the events say about each ledger.  All checks read it, and only `Facts` writes it.

`Facts` gets each event before the checks do: when a check sees an `ensemble.set` or a
`ledger.closed`, the ensemble is already in force and the end is fixed.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import dropwhile, islice

from labkit.system.check.handlers import handlers_of, on
from labkit.system.check.segments import Segments, listed, names
from labkit.system.model.errors import PROVES_ABSENCE
from labkit.system.trace.answers import Answer
from labkit.system.trace.events import Event

EPILOGUE = "epilogue"
"""The node that ends a simulated run: when all faults are repaired, it opens each ledger with
recovery and asks every bookie of a write set for every entry."""

FENCE = -1
"""Among a bookie's durable entries of a ledger: the record of its fence."""

_PROVES_ABSENCE = tuple(kind.__name__ for kind in PROVES_ABSENCE)


def proves_absence(event: Event) -> bool:
    """Whether a `read.failed` proves that the bookie does not have the entry.

    Every other failure proves nothing: the entry may be there.
    """
    return event.note.startswith(_PROVES_ABSENCE)


class LedgerFacts:
    """One ledger.  Ids are -1, names "" and quorums 0 until an event names them.

    created, closed: the events; writer: the node that created it.
    segments: as the metadata has them; before: the ensemble that the latest change replaced.
    views: node -> segments as this writer or recoverer knows them.  A node may not know yet what
    another has stored, and a recoverer keeps its changes to itself until it closes the ledger.
    pushed: entry -> the content's checksum, as its writer pushed it; last_pushed: the highest.
    synced: bookie -> entries durable there; acked: bookie -> entries it acknowledged.
    formatted: bookie -> those of both that it had when an operator formatted it.
    confirmed: entries confirmed to the writer's caller before the ledger was deleted, and before
    the writer's node recovered it; secured: entries confirmed to any node, recoverers included.
    recovering: nodes that recover it now, and in how many recoveries: a broker that loses its
    session while it opens a topic may open it again meanwhile; overlapping: nodes of which two
    recoveries were under way at once; recoverers: all that ever recovered it, with their first
    start; readers: nodes that learned from bookies how far it is confirmed.
    end: its last entry, once it is closed.
    deleted: the first event that says so; from then on no client may rely on its entries.
    """

    __slots__ = (
        "ack_quorum",
        "acked",
        "before",
        "closed",
        "confirmed",
        "created",
        "deferred_sync",
        "deleted",
        "end",
        "ensemble_size",
        "formatted",
        "last_pushed",
        "ledger_id",
        "overlapping",
        "pushed",
        "readers",
        "recoverers",
        "recovering",
        "secured",
        "segments",
        "synced",
        "views",
        "write_quorum",
        "writer",
    )

    def __init__(self, ledger_id: int) -> None:
        self.ledger_id = ledger_id
        self.created: Event | None = None
        self.writer = ""
        self.ensemble_size = self.write_quorum = self.ack_quorum = 0
        self.deferred_sync = False
        self.segments = Segments()
        self.before: tuple[str, ...] = ()
        self.views: dict[str, Segments] = {}
        self.pushed: dict[int, str] = {}
        self.last_pushed = -1
        self.synced: defaultdict[str, set[int]] = defaultdict(set)
        self.acked: defaultdict[str, set[int]] = defaultdict(set)
        self.formatted: dict[str, set[int]] = {}
        self.confirmed = -1
        self.secured = -1
        self.recovering: dict[str, int] = {}
        self.overlapping: set[str] = set()
        self.recoverers: dict[str, Event] = {}
        self.readers: set[str] = set()
        self.closed: Event | None = None
        self.end = -1
        self.deleted: Event | None = None

    def write_set_of(self, node: str, entry: int) -> tuple[str, ...]:
        """The entry's write set as this node knows it; empty if the events do not say."""
        return self.views.get(node, self.segments).write_set(entry)

    def has(self, bookie: str, entry: int) -> bool:
        """Whether an event shows that the entry was once durable on the bookie."""
        return entry in self.synced[bookie] or entry in self.acked[bookie]

    def was_formatted_away(self, entry: int) -> bool:
        """Whether a bookie had the entry when it was formatted: that loss is its operator's."""
        return any(entry in entries for entries in self.formatted.values())

    def holders(self, entry: int) -> int:
        """How many bookies of the entry's write set once had it durable."""
        write_set = self.segments.write_set(entry)
        return sum(1 for bookie in write_set if self.has(bookie, entry))

    def is_writer(self, node: str) -> bool:
        """Whether this node surely acts as the ledger's writer.  One that has recovered the ledger
        may confirm what its recovery found, even after a recovery that failed.
        """
        return node == self.writer and node not in self.recoverers

    def has_two_views(self, node: str) -> bool:
        """Whether this node may know the ledger in two ways, as its writer and as its recoverer, or
        in two recoveries at once: the events do not say in which of the two it acts.
        """
        is_both = node == self.writer and node in self.recoverers
        return is_both or node in self.overlapping

    def recovers_and_reads(self, node: str) -> bool:
        """Whether this node has both recovered and read the ledger: the events do not say which of
        the two asked a bookie for an entry.
        """
        return node in self.recoverers and node in self.readers


class _Ledgers(dict[int, LedgerFacts]):
    def __missing__(self, ledger_id: int) -> LedgerFacts:
        ledger = self[ledger_id] = LedgerFacts(ledger_id)
        return ledger


class Facts:
    """All ledgers, and what the events say about nodes.

    caretakers: bookies, auditors and replication workers; no reader gets what they read.
    killed: nodes that were ever killed, with the last time; down: those that have not come back.
    bad_disks: bookies whose disk has ever failed, been damaged or been formatted.
    is_simulated: whether the trace is that of a whole simulated run, known at its end.  A live one
    need not hold all clients, and a live node may be slow.
    """

    def __init__(self, events: Sequence[Event], answers: Sequence[Answer] = ()) -> None:
        self.events = events
        self.answers = answers
        self.ledgers: dict[int, LedgerFacts] = _Ledgers()
        self.caretakers: dict[str, Event] = {}
        self.killed: dict[str, Event] = {}
        self.down: dict[str, Event] = {}
        self.bad_disks: set[str] = set()
        self.is_simulated = False
        self._fences: defaultdict[str, set[int]] = defaultdict(set)
        """Bookie -> ledgers whose fence it has appended to its journal since it was started."""
        self.handlers = handlers_of(type(self))

    @property
    def kept(self) -> list[LedgerFacts]:
        """The ledgers that can still be read, for the checks at the end."""
        return [ledger for ledger in self.ledgers.values() if ledger.deleted is None]

    def first(self, kind: str, ledger: int, entry: int, node: str = "") -> Event | None:
        """The first such event of the whole trace: a witness of what broke."""
        return next(
            (
                event
                for event in self.events
                if event.kind == kind
                and event.ledger == ledger
                and event.entry == entry
                and (not node or event.node == node)
            ),
            None,
        )

    def before(self, answer: Answer) -> Event:
        """The last event before an answer."""
        return self.events[answer.at - 1]

    def after(self, event: Event) -> Iterator[Event]:
        """The events that follow."""
        return islice(dropwhile(lambda each: each is not event, self.events), 1, None)

    @on("epilogue.started")
    def _epilogue(self, _: Event) -> None:
        self.is_simulated = True

    @on("disk.rotted", "disk.bad")
    def _disk_failed(self, event: Event) -> None:
        self.bad_disks.add(event.node)

    @on("bookie.formatted")
    def _formatted(self, event: Event) -> None:
        bookie = event.node
        self.bad_disks.add(bookie)
        for ledger in self.ledgers.values():
            had = ledger.synced[bookie] | ledger.acked[bookie]
            if had:
                ledger.formatted.setdefault(bookie, set()).update(had)

    @on("ledger.created")
    def _created(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        ledger.created, ledger.writer = event, event.node
        sizes = [int(number) for number in re.findall(r"\d+", event.note)]
        if len(sizes) == 3:
            ledger.ensemble_size, ledger.write_quorum, ledger.ack_quorum = sizes
        ledger.deferred_sync = "deferred sync" in event.note
        ledger.views[event.node] = Segments()

    @on("ensemble.set")
    def _ensemble_set(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        self._seen(ledger, event)
        if ledger.closed is None or event.node in self.caretakers:
            first, ensemble = max(event.entry, 0), names(event.note)
            ledger.before = ledger.segments.put(first, ensemble, ledger.write_quorum)
        # Else its writer hears late of a change that a recovery has built on.

    @on("ensemble.deferred")
    def _ensemble_deferred(self, event: Event) -> None:
        self._seen(self.ledgers[event.ledger], event)

    def _seen(self, ledger: LedgerFacts, event: Event) -> None:
        view = ledger.views.get(event.node)
        if view is not None:
            view.put(max(event.entry, 0), names(event.note), ledger.write_quorum)

    @on("add.pushed")
    def _pushed(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        # A recoverer pushes what it found again: the content is the writer's to say.
        # Where one node is both, what is new is the writer's.
        is_new = event.entry > ledger.last_pushed
        if ledger.is_writer(event.node) or (event.node == ledger.writer and is_new):
            ledger.pushed[event.entry] = event.note
            ledger.last_pushed = event.entry

    @on("journal.synced")
    def _synced(self, event: Event) -> None:
        # Any special record is entry -1 here; it counts as a fence only if one was appended.
        if event.entry >= 0 or event.ledger in self._fences[event.node]:
            self.ledgers[event.ledger].synced[event.node].add(event.entry)

    @on("journal.fence_appended")
    def _fence_appended(self, event: Event) -> None:
        self._fences[event.node].add(event.ledger)

    @on("add.acked", "entry.copied")
    def _acked(self, event: Event) -> None:
        self.ledgers[event.ledger].acked[event.peer].add(event.entry)

    @on("lac.advanced")
    def _advanced(self, event: Event) -> None:
        ledger, entry = self.ledgers[event.ledger], event.entry
        if entry > ledger.secured:
            ledger.secured = entry
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
        found = listed(event.note)
        if found:
            view = ledger.views[event.node] = Segments()
            for first, ensemble in found:
                view.put(first, ensemble, ledger.write_quorum)
            if ledger.closed is None:
                # It may find a last segment whose writer died before it reported it.
                ledger.segments.put(*found[-1], ledger.write_quorum)

    @on("recovery.ended", "recovery.failed")
    def _recovery_ended(self, event: Event) -> None:
        recovering = self.ledgers[event.ledger].recovering
        others = recovering.pop(event.node, 1) - 1
        if others:
            recovering[event.node] = others

    @on("lac.read", "replication.started")
    def _reads(self, event: Event) -> None:
        """It reads, or repairs, and mostly no longer recovers."""
        ledger = self.ledgers[event.ledger]
        ledger.recovering.pop(event.node, None)
        if event.kind == "lac.read":
            ledger.readers.add(event.node)

    @on("ledger.closed")
    def _closed(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        # The first close counts; `ClosedLedgerNeverChanges` judges later ones.
        if ledger.closed is None:
            ledger.closed, ledger.end = event, event.entry

    @on("ledger.deleted")
    def _deleted(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        ledger.deleted = ledger.deleted or event

    @on("auditor.elected", "replication.started", "bookie.registered")
    def _takes_care(self, event: Event) -> None:
        self.caretakers.setdefault(event.node, event)

    @on("node.killed")
    def _killed(self, event: Event) -> None:
        self.down[event.node] = self.killed[event.node] = event
        # What it had appended and not synced is gone with its memory.
        self._fences.pop(event.node, None)
        for ledger in self.ledgers.values():
            ledger.recovering.pop(event.node, None)

    @on("node.started", "read.served")
    def _started(self, event: Event) -> None:
        """A bookie serves what it has before it is through with starting."""
        self.down.pop(event.node, None)
