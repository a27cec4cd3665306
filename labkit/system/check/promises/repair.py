"""The promise of re-replication: the metadata lists a bookie only if it has the entries.

In BookKeeper: `client/LedgerFragmentReplicator.java`, `replication/ReplicationWorker.java`.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from labkit.system.check.facts import EPILOGUE, Facts, LedgerFacts, proves_absence
from labkit.system.check.promise import Check
from labkit.system.check.promises.outage import NOTICE_DELAY_US
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on


@dataclass(slots=True)
class _Attempt:
    """A worker's attempt to repair a ledger. `marked` reports the first under-replication mark that
    was written during the attempt.
    """

    begun: Event
    asked_for_lac: set[str] = field(default_factory=set)
    marked: Event | None = None
    has_read_since: bool = False


@dataclass(slots=True)
class _Repairs:
    """The actions of workers and recoverers on a ledger.

    attempts      each worker's current attempt
    copying       workers that have copied entries but not yet reported a new ensemble
    died_copying  workers that started again while `copying`, so they must have died
    listed        for each bookie and entry, the first repair that listed the bookie for the entry
    deferred      for each recoverer, the segments that it stores when it closes the ledger; it
                  does not report them if the metadata store's response is lost
    found_end     the last entry that a recovery has reported; the client that closes the ledger
                  may die before it reports the end
    """

    attempts: dict[str, _Attempt] = field(default_factory=dict)
    copying: set[str] = field(default_factory=set)
    died_copying: set[str] = field(default_factory=set)
    listed: dict[tuple[str, int], Event] = field(default_factory=dict)
    deferred: dict[str, list[tuple[int, tuple[str, ...]]]] = field(default_factory=dict)
    found_end: int | None = None


class RepairIsComplete(Check):
    """A repair lists a bookie only after the bookie has every entry of its share, and completes
    only when no bookie that was down when the repair began is still listed for an entry.

    As in BookKeeper, a repair tests only the first and the last entry of a fragment, so it may fail
    to notice that a remaining bookie has lost other entries. A dead bookie may remain listed for a
    segment in which it stores no entries. It may also remain listed for the segment to which a
    writer is adding entries, because no node knows that the bookie is dead until its session
    expires. After that, there are two more rules for each attempt.

    If the last ensemble of an open ledger contains a lost bookie, the worker must give the writer
    some time and then recover the ledger. Until then, the worker must not report the repair as
    done, and must not defer it because of missing copies. This is checked only in simulated runs,
    because a worker of a live cluster may learn late that a bookie is lost.

    If the ledger is marked again during an attempt, the attempt must not delete the mark. This is
    checked only if the audit began after the worker had locked the ledger, and if the worker read
    copies after the mark had been written.

    These two rules skip nodes that have also been the auditor, because they read copies both as
    auditors and as workers.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._repairs: defaultdict[int, _Repairs] = defaultdict(_Repairs)
        self._lost: dict[str, Event] = {}
        self._last_lost: dict[str, Event] = {}
        """The most recent `bookie.lost` event of each auditor."""
        self._auditors: set[str] = set()
        self._may_be_late: set[str] = set()
        self._left_open: list[tuple[Event, str, Event]] = []
        """For each suspect attempt: the event that ended it, a description of the problem, and the
        event that declared the bookie lost.
        """

    @on("auditor.elected")
    def became_auditor(self, event: Event) -> None:
        self._auditors.add(event.node)

    @on("bookie.lost")
    def bookie_lost(self, event: Event) -> None:
        self._lost[event.peer] = self._last_lost[event.node] = event

    @on("message.lost", "message.swapped", "message.copied")
    def connection_disturbed(self, event: Event) -> None:
        self._may_be_late.add(event.peer)

    @on("replication.started")
    def started(self, event: Event) -> None:
        repairs = self._repairs[event.ledger]
        repairs.attempts[event.node] = _Attempt(event)
        if event.node in repairs.copying:
            repairs.copying.discard(event.node)
            repairs.died_copying.add(event.node)

    @on("read.sent")
    def worker_reads(self, event: Event) -> None:
        repairs = self._repairs.get(event.ledger)
        attempt = repairs.attempts.get(event.node) if repairs else None
        if attempt is not None:
            attempt.has_read_since = attempt.marked is not None
            if event.entry < 0:
                attempt.asked_for_lac.add(event.peer)

    @on("ledger.underreplicated")
    def marked(self, event: Event) -> None:
        # The mark is certainly newer than the lock only if the audit began after the ledger was
        # locked.
        audit = self._last_lost.get(event.node)
        for attempt in self._repairs[event.ledger].attempts.values():
            if audit is not None and audit.seq > attempt.begun.seq:
                attempt.marked = attempt.marked or event

    @on("entry.copied")
    def copied(self, event: Event) -> None:
        self._repairs[event.ledger].copying.add(event.node)

    @on("replication.deferred")
    def deferred(self, event: Event) -> None:
        attempt = self._repairs[event.ledger].attempts.pop(event.node, None)
        self._stop_copying(event)
        if attempt is not None and event.detail == "short":
            self._judge_open(event, attempt, "only deferred the repair")

    @on("ensemble.deferred")
    def ensemble_deferred(self, event: Event) -> None:
        deferred = self._repairs[event.ledger].deferred.setdefault(event.node, [])
        deferred.append((event.entry, event.ensemble))

    @on("recovery.ended")
    def recovery_ended(self, event: Event) -> None:
        self._repairs[event.ledger].deferred.pop(event.node, None)
        self._repairs[event.ledger].found_end = event.entry

    @on("ensemble.set")
    def ensemble_set(self, event: Event) -> None:
        self._stop_copying(event)
        ledger = self.ledgers[event.ledger]
        is_repair = (
            event.node in self.facts.maintenance_nodes and event.node not in ledger.recovering
        )
        if is_repair and ledger.replaced_ensemble:
            new = [bookie for bookie in event.ensemble if bookie not in ledger.replaced_ensemble]
            self._check_listed(event, ledger, new)

    @on("fragment.replicated")
    def replicated(self, event: Event) -> None:
        self._stop_copying(event)
        ledger = self.ledgers[event.ledger]
        ensembles = ledger.segments.ensembles
        new = [name for name in event.bookies if any(name in each for each in ensembles)]
        self._check_listed(event, ledger, new)

    def _stop_copying(self, event: Event) -> None:
        self._repairs[event.ledger].copying.discard(event.node)

    def _check_listed(self, event: Event, ledger: LedgerFacts, new: list[str]) -> None:
        first, last = event.entry, self._last_certain_entry(ledger)
        for bookie in new:
            for entry in ledger.segments.entry_ids(first, last):
                if bookie not in ledger.segments.write_set(entry):
                    continue
                if self._may_be_listed_by_recoverer(ledger, bookie, first, entry):
                    continue
                self._repairs[event.ledger].listed.setdefault((bookie, entry), event)
                if ledger.has_copy(bookie, entry):
                    self.report_kept()
                else:
                    self.report_broken(
                        event,
                        f"{event.node} listed {bookie} in the metadata of ledger {event.ledger},"
                        f" but {bookie} does not have entry {entry}",
                    )
                    return

    def _last_certain_entry(self, ledger: LedgerFacts) -> int:
        """Return the last entry that the ledger will certainly contain when it is closed."""
        if ledger.closed is not None:
            return ledger.end
        found = self._repairs[ledger.ledger_id].found_end
        return ledger.confirmed if found is None else found

    def _may_be_listed_by_recoverer(
        self, ledger: LedgerFacts, bookie: str, first: int, entry: int
    ) -> bool:
        """Return whether a recoverer may have listed either this bookie or another one for the
        entry.

        This is possible if a recoverer has deferred a segment that contains the entry, and has not
        yet reported the end of its recovery. The deferred segment may list the bookie. If the
        deferred segment begins after the segment that the repair has changed, the entry may not
        even belong to the changed segment.
        """
        return any(
            start <= entry and (bookie in ensemble or first < start)
            for deferred in self._repairs[ledger.ledger_id].deferred.values()
            for start, ensemble in deferred
        )

    @on("replication.done")
    def done(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        repairs = self._repairs[event.ledger]
        attempt = repairs.attempts.pop(event.node, None)
        if attempt is not None:
            self._judge_open(event, attempt, "considered it repaired")
            self._judge_mark(event, attempt)
        begun = attempt.begun if attempt else None
        repairs.copying.discard(event.node)
        unreported = (*repairs.attempts, *sorted(repairs.died_copying))
        if unreported:
            self.report_doubt(
                f"{unreported[0]} may have changed ledger {event.ledger} without reporting it"
            )
            return
        if ledger.deleted is not None:
            return
        down = {bookie: self.facts.down.get(bookie) for bookie in _holders(ledger, begun)}
        for bookie, killed in down.items():
            # A bookie that died during the repair may have died after the worker's last check.
            if killed is not None and (begun is None or killed.seq < begun.seq):
                self.report_broken(
                    event,
                    f"{event.node} considered ledger {event.ledger} repaired, but its metadata"
                    f" lists {bookie}, which was already down",
                    killed,
                )
                return
        if ledger.closed is None:
            self.report_doubt(f"Ledger {event.ledger} is not closed when {event.node} repairs it")
            return
        for entry in range(ledger.end + 1):
            for bookie in ledger.segments.write_set(entry):
                if not ledger.has_copy(bookie, entry):
                    self.report_doubt(
                        f"{bookie} never had entry {entry} of ledger {event.ledger}, which a repair"
                        " that tests only first and last entries need not notice"
                    )
        self.report_kept()

    def _judge_open(self, event: Event, attempt: _Attempt, did: str) -> None:
        # A worker that asks for LastAddConfirmed has found the ledger open.
        if self.ledgers[event.ledger].deleted is not None:
            return
        if event.node in self._auditors or event.node in self._may_be_late:
            return
        for bookie in sorted(attempt.asked_for_lac & self._lost.keys()):
            lost, down = self._lost[bookie], self.facts.down.get(bookie)
            if down is None or down.seq > lost.seq:
                continue
            if lost.time_us + NOTICE_DELAY_US < attempt.begun.time_us:
                wrong = (
                    f"{event.node} found ledger {event.ledger} open, with the lost bookie {bookie}"
                    f" in its last ensemble, and {did}"
                )
                self._left_open.append((event, wrong, lost))

    def _judge_mark(self, event: Event, attempt: _Attempt) -> None:
        is_alone = not self._repairs[event.ledger].attempts
        if event.node in self._auditors or not is_alone:
            return
        if attempt.marked is not None and attempt.has_read_since:
            self.report_broken(
                event,
                f"{event.node} removed the mark of ledger {event.ledger}, although"
                f" {attempt.marked.node} had written it during the repair",
                attempt.marked,
            )

    @on("read.failed")
    def read_failed(self, event: Event) -> None:
        # Skip entries for which no repair has listed the bookie, because a writer may send them
        # later.
        repaired = self._repairs[event.ledger].listed.get((event.peer, event.entry))
        if event.node != EPILOGUE or repaired is None:
            return
        ledger = self.ledgers[event.ledger]
        is_listed = event.peer in ledger.segments.write_set(event.entry)
        if is_listed and event.entry <= ledger.end and proves_absence(event):
            self.report_broken(
                event,
                f"{event.peer} does not have entry {event.entry} of ledger {event.ledger},"
                f" although {repaired.node} had listed it in a repair",
                repaired,
            )

    def finish(self) -> None:
        for event, wrong, lost in self._left_open:
            if self.facts.is_simulated:
                self.report_broken(event, wrong, lost)
            else:
                self.report_doubt(f"{event.node} may not have known that {lost.peer} was lost")


def _holders(ledger: LedgerFacts, begun: Event | None) -> dict[str, None]:
    """Return the bookies listed for the segments that were closed when the repair began."""
    last, closed = ledger.end, ledger.closed
    if closed is None or (begun is not None and closed.seq > begun.seq):
        last = ledger.segments.firsts[-1] - 1 if ledger.segments.firsts else -1
    entries = range(last + 1)
    return dict.fromkeys(name for entry in entries for name in ledger.segments.write_set(entry))
