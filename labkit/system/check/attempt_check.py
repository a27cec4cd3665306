"""Base class of the repair check. It follows each replication worker while the worker holds a lock.

In BookKeeper: `replication/ReplicationWorker.java`.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from labkit.system.check.facts import Facts
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on

NOTICE_DELAY_US = 200_000
"""The maximum time that a node needs to notice that a bookie has registered or left."""


@dataclass(slots=True)
class _Attempt:
    """A worker's attempt to repair a ledger. `marked` reports the first under-replication mark that
    was written during the attempt.
    """

    begun: Event
    asked_for_lac: set[str] = field(default_factory=set)
    marked: Event | None = None
    has_read_since: bool = False


class AttemptCheck(Check):
    """Checks each repair attempt against two rules.

    If the last ensemble of an open ledger contains a lost bookie, the worker must give the writer
    some time and then recover the ledger. Until then, the worker must not report the repair as
    done, and must not defer it because of missing copies. This is checked only in simulated runs,
    because a worker of a live cluster may learn late that a bookie is lost.

    If the ledger is marked again during an attempt, the attempt must not delete the mark. This is
    checked only if the audit began after the worker had locked the ledger, and if the worker read
    copies after the mark had been written.

    Nodes that have also been the auditor are skipped, because they read copies both as auditors and
    as workers.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._attempts: defaultdict[int, dict[str, _Attempt]] = defaultdict(dict)
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
    def attempt_begins(self, event: Event) -> None:
        self._attempts[event.ledger][event.node] = _Attempt(event)

    @on("read.sent")
    def worker_reads(self, event: Event) -> None:
        attempt = self._attempts[event.ledger].get(event.node) if self._attempts else None
        if attempt is not None:
            attempt.has_read_since = attempt.marked is not None
            if event.entry < 0:
                attempt.asked_for_lac.add(event.peer)

    @on("ledger.underreplicated")
    def marked(self, event: Event) -> None:
        # The mark is certainly newer than the lock only if the audit began after the ledger was
        # locked.
        audit = self._last_lost.get(event.node)
        for attempt in self._attempts[event.ledger].values():
            if audit is not None and audit.seq > attempt.begun.seq:
                attempt.marked = attempt.marked or event

    @on("replication.done")
    def attempt_ends_well(self, event: Event) -> None:
        is_alone = len(self._attempts[event.ledger]) == 1
        attempt = self._attempts[event.ledger].pop(event.node, None)
        if attempt is None or event.node in self._auditors:
            return
        self._judge_open(event, attempt, "considered it repaired")
        if is_alone and attempt.marked is not None and attempt.has_read_since:
            self.report_broken(
                event,
                f"{event.node} removed the mark of ledger {event.ledger}, although"
                f" {attempt.marked.node} had written it during the repair",
                attempt.marked,
            )

    @on("replication.deferred")
    def attempt_ends_for_now(self, event: Event) -> None:
        attempt = self._attempts[event.ledger].pop(event.node, None)
        is_short = event.detail == "short"
        if attempt is not None and is_short and event.node not in self._auditors:
            self._judge_open(event, attempt, "only deferred the repair")

    def _judge_open(self, event: Event, attempt: _Attempt, did: str) -> None:
        # A worker that asks for LastAddConfirmed has found the ledger open.
        if self.ledgers[event.ledger].deleted is not None or event.node in self._may_be_late:
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

    def finish(self) -> None:
        for event, wrong, lost in self._left_open:
            if self.facts.is_simulated:
                self.report_broken(event, wrong, lost)
            else:
                self.report_doubt(f"{event.node} may not have known that {lost.peer} was lost")
