"""The promise of re-replication: metadata names a bookie only when it has the entries.

In BookKeeper: `client/LedgerFragmentReplicator.java`, `replication/ReplicationWorker.java`.
"""

from collections import defaultdict

from labkit.system.check.attempts import AttemptCheck
from labkit.system.check.facts import EPILOGUE, Facts, LedgerFacts, proves_absence
from labkit.system.check.handlers import on
from labkit.system.check.segments import names
from labkit.system.trace.events import Event

_Deferred = tuple[int, tuple[str, ...]]
"""The first entry of an ensemble, and its bookies."""


class RepairIsComplete(AttemptCheck):
    """A repair names a new bookie in the metadata only after it has every entry of its share, and
    ends only when no bookie that was down when it began is named for an entry any more.

    A repair tests only the first and the last entry of a fragment, as BookKeeper's does, so another
    gap in a bookie that stays may survive it: the check does not judge that.  Nor does it judge a
    dead bookie that is named where it has no entry to store, or in the segment that a writer still
    adds to: until its session has ended, no node can know that it is dead.  Then the worker must
    recover the ledger, and a mark that is written during a repair must outlive it (`AttemptCheck`).
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._repaired: defaultdict[int, dict[tuple[str, int], Event]] = defaultdict(dict)
        """By ledger: the first repair that named a bookie for an entry."""
        self._begun: defaultdict[int, dict[str, Event]] = defaultdict(dict)
        self._copying: defaultdict[int, set[str]] = defaultdict(set)
        """By ledger: the workers that copied entries and have not reported a new ensemble since."""
        self._died_copying: defaultdict[int, set[str]] = defaultdict(set)
        """By ledger: those of them that began again, and so died in the attempt before."""
        self._deferred: defaultdict[int, dict[str, list[_Deferred]]] = defaultdict(dict)
        """By ledger and recoverer: the ensembles that it stores when it closes the ledger.  If the
        answer of the metadata store is lost, it does not report that it did.
        """
        self._found_ends: dict[int, int] = {}
        """By ledger: its last entry, as a recovery reports it.  A client that closes the ledger and
        dies before it reports so leaves no other event that tells the end.
        """

    @on("replication.started")
    def started(self, event: Event) -> None:
        """Note that the worker has the ledger, and how its attempt before ended."""
        self._begun[event.ledger][event.node] = event
        if event.node in self._copying[event.ledger]:
            self._stop_copying(event)
            self._died_copying[event.ledger].add(event.node)

    @on("entry.copied")
    def copied(self, event: Event) -> None:
        """Note that the worker may go on and name the bookie."""
        self._copying[event.ledger].add(event.node)

    @on("replication.deferred")
    def deferred(self, event: Event) -> None:
        """Note that the worker releases the ledger."""
        self._begun[event.ledger].pop(event.node, None)
        self._stop_copying(event)

    @on("ensemble.deferred")
    def ensemble_deferred(self, event: Event) -> None:
        """Note which bookies a recoverer is going to name, and from which entry on."""
        deferred = self._deferred[event.ledger].setdefault(event.node, [])
        deferred.append((max(event.entry, 0), names(event.note)))

    @on("recovery.ended")
    def recovery_ended(self, event: Event) -> None:
        """Note where the ledger ends; the recoverer has reported what it stored."""
        self._deferred[event.ledger].pop(event.node, None)
        self._found_ends[event.ledger] = event.entry

    @on("ensemble.set")
    def ensemble_set(self, event: Event) -> None:
        """Judge an ensemble that a repair stores: neither the writer nor a recoverer stored it."""
        self._stop_copying(event)
        ledger = self.ledgers[event.ledger]
        if event.node in self.facts.caretakers and event.node not in ledger.recovering:
            ensemble = names(event.note)
            if ledger.before:
                fresh = [bookie for bookie in ensemble if bookie not in ledger.before]
                self._named(event, ledger, fresh)

    @on("fragment.replicated")
    def replicated(self, event: Event) -> None:
        """Judge the end of a fragment's repair, which names the bookies."""
        self._stop_copying(event)
        ledger = self.ledgers[event.ledger]
        known = ledger.segments.ensembles
        fresh = [name for name in names(event.note) if any(name in each for each in known)]
        self._named(event, ledger, fresh)

    def _stop_copying(self, event: Event) -> None:
        self._copying[event.ledger].discard(event.node)

    def _named(self, event: Event, ledger: LedgerFacts, fresh: list[str]) -> None:
        first, last = max(event.entry, 0), self._last_for_sure(ledger)
        for bookie in fresh:
            for entry in ledger.segments.reach(first, last):
                if bookie not in ledger.segments.write_set(entry):
                    continue
                if self._may_be_named(ledger, bookie, first, entry):
                    continue
                self._repaired[event.ledger].setdefault((bookie, entry), event)
                self.judged += 1
                if not ledger.has(bookie, entry):
                    self.broke(
                        event,
                        f"{event.node} named {bookie} in the metadata of ledger {event.ledger},"
                        f" and {bookie} does not have entry {entry}",
                    )
                    return

    def _last_for_sure(self, ledger: LedgerFacts) -> int:
        """The last entry that the ledger surely has.  One that only a recoverer has at full quorum
        need not be in it: another may have closed the ledger before that entry.
        """
        if ledger.closed is not None:
            return ledger.end
        return self._found_ends.get(ledger.ledger_id, ledger.confirmed)

    def _may_be_named(self, ledger: LedgerFacts, bookie: str, first: int, entry: int) -> bool:
        """Whether a recoverer may have named the bookie for the entry and not reported it, or may
        have begun another segment between `first`, where the repaired one begins, and the entry.
        """
        return any(
            start <= entry and (bookie in ensemble or first < start)
            for deferred in self._deferred[ledger.ledger_id].values()
            for start, ensemble in deferred
        )

    @on("replication.done")
    def done(self, event: Event) -> None:
        """Look whether every named bookie is up and has its entries."""
        ledger = self.ledgers[event.ledger]
        begun = self._begun[event.ledger].pop(event.node, None)
        self._stop_copying(event)
        silent = (*self._begun[event.ledger], *sorted(self._died_copying[event.ledger]))
        if silent:
            self.doubt(f"{silent[0]} may have changed ledger {event.ledger} without reporting it")
            return
        if ledger.deleted is not None:
            return
        for bookie in _holders(ledger, begun):
            killed = self.facts.down.get(bookie)
            # One that died meanwhile may have done so after the last look at it.
            if killed is not None and (begun is None or killed.seq < begun.seq):
                self.broke(
                    event,
                    f"{event.node} took ledger {event.ledger} for repaired, and its metadata"
                    f" names {bookie}, which is down since event {killed.seq}",
                    killed,
                )
        if ledger.closed is None:
            self.doubt(f"ledger {event.ledger} is not closed in this trace")
            return
        for entry in range(ledger.end + 1):
            for bookie in ledger.segments.write_set(entry):
                if not ledger.has(bookie, entry):
                    self.doubt(
                        f"{bookie} never had entry {entry} of ledger {event.ledger}: a gap that"
                        " a repair by first and last entries need not see"
                    )
        self.judged += 1

    @on("read.failed")
    def read_failed(self, event: Event) -> None:
        """Look whether every new bookie still has its entries at the end: those that a writer sent
        it since are the writer's.
        """
        repaired = self._repaired[event.ledger].get((event.peer, event.entry))
        if event.node != EPILOGUE or repaired is None:
            return
        ledger = self.ledgers[event.ledger]
        named = event.peer in ledger.segments.write_set(event.entry)
        if named and event.entry <= ledger.end and proves_absence(event):
            self.broke(
                event,
                f"{event.peer} does not have entry {event.entry} of ledger {event.ledger},"
                f" and {repaired.node} had named it in a repair",
                repaired,
            )


def _holders(ledger: LedgerFacts, begun: Event | None) -> dict[str, None]:
    """The bookies that must have an entry of a segment that was closed when a repair began."""
    last, closed = ledger.end, ledger.closed
    if closed is None or (begun is not None and closed.seq > begun.seq):
        last = ledger.segments.firsts[-1] - 1 if ledger.segments.firsts else -1
    entries = range(last + 1)
    return dict.fromkeys(name for entry in entries for name in ledger.segments.write_set(entry))
