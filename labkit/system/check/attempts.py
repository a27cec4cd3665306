"""What a replication worker does with a ledger that it has locked: base of the check on repairs.

In BookKeeper: `replication/ReplicationWorker.java`.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from labkit.system.check.facts import Facts
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event

_NEWS_US = 200_000
"""How long the list of registered bookies may take to arrive."""
_COPIES_ARE_MISSING = "; again in "
"""Part of the note with which a worker gives up for now, other than for an error or a writer."""


@dataclass(slots=True)
class _Attempt:
    """A worker's attempt; marked: the first new mark of the ledger during it."""

    begun: Event
    asked_for_lac: set[str] = field(default_factory=set)
    marked: Event | None = None
    has_read_since: bool = False


class AttemptCheck(Check):
    """Judges each attempt by two rules.

    A worker that finds a ledger open, with a bookie in its last ensemble that has been taken for
    lost, gives the writer time and then recovers the ledger: the attempt neither ends well nor as
    one that lacks copies.  Judged in simulated runs: a live worker may hear late of a lost bookie.

    A mark that is written during the attempt outlives it.  Judged if an audit that began after the
    worker took the ledger wrote it, and the worker read copies after that.

    A node that was the auditor, too, is not judged: it reads for both.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._attempts: defaultdict[int, dict[str, _Attempt]] = defaultdict(dict)
        self._taken_for_lost: dict[str, Event] = {}
        self._last_lost: dict[str, Event] = {}
        """By auditor: the last bookie that it took for lost."""
        self._auditors: set[str] = set()
        self._misled: set[str] = set()
        self._left_open: list[tuple[Event, str, Event]] = []
        """The end of an attempt, what was wrong with it, and the loss of the bookie."""

    @on("auditor.elected")
    def became_auditor(self, event: Event) -> None:
        """Note that it reads copies as the auditor, too."""
        self._auditors.add(event.node)

    @on("bookie.lost")
    def taken_for_lost(self, event: Event) -> None:
        """Note that the auditor begins to mark ledgers."""
        self._taken_for_lost[event.peer] = self._last_lost[event.node] = event

    @on("message.lost", "message.swapped", "message.copied")
    def misled(self, event: Event) -> None:
        """The node may hear late of bookies that go."""
        self._misled.add(event.peer)

    @on("replication.started")
    def attempt_begins(self, event: Event) -> None:
        """Note that the worker has the lock."""
        self._attempts[event.ledger][event.node] = _Attempt(event)

    @on("read.sent")
    def worker_reads(self, event: Event) -> None:
        """Note which ensemble it knows, and whether it still reads."""
        attempt = self._attempts[event.ledger].get(event.node) if self._attempts else None
        if attempt is not None:
            attempt.has_read_since = attempt.marked is not None
            if event.entry < 0:
                attempt.asked_for_lac.add(event.peer)

    @on("ledger.underreplicated")
    def marked(self, event: Event) -> None:
        """Note a mark that is certainly newer than the worker's lock."""
        audit = self._last_lost.get(event.node)
        for attempt in self._attempts[event.ledger].values():
            if audit is not None and audit.seq > attempt.begun.seq:
                attempt.marked = attempt.marked or event

    @on("replication.done")
    def attempt_ends_well(self, event: Event) -> None:
        """Judge an attempt that has removed the ledger's mark."""
        is_alone = len(self._attempts[event.ledger]) == 1
        attempt = self._attempts[event.ledger].pop(event.node, None)
        if attempt is None or event.node in self._auditors:
            return
        self._judge_open(event, attempt, "took it for repaired")
        if is_alone and attempt.marked is not None and attempt.has_read_since:
            self.broke(
                event,
                f"{event.node} removed the mark of ledger {event.ledger}, which"
                f" {attempt.marked.node} had written during the repair",
                attempt.marked,
            )

    @on("replication.deferred")
    def attempt_ends_for_now(self, event: Event) -> None:
        """Judge an attempt after which copies are missing."""
        attempt = self._attempts[event.ledger].pop(event.node, None)
        is_short = _COPIES_ARE_MISSING in event.note
        if attempt is not None and is_short and event.node not in self._auditors:
            self._judge_open(event, attempt, "only tries again later")

    def _judge_open(self, event: Event, attempt: _Attempt, did: str) -> None:
        """Only an open ledger's bookies are asked for LastAddConfirmed."""
        if self.ledgers[event.ledger].deleted is not None or event.node in self._misled:
            return
        for bookie in sorted(attempt.asked_for_lac & self._taken_for_lost.keys()):
            lost, down = self._taken_for_lost[bookie], self.facts.down.get(bookie)
            if down is None or down.seq > lost.seq:
                continue
            if lost.time_us + _NEWS_US < attempt.begun.time_us:
                wrong = (
                    f"{event.node} found ledger {event.ledger} open and {bookie}, to which its"
                    f" writer adds, lost, and {did}"
                )
                self._left_open.append((event, wrong, lost))

    def finish(self) -> None:
        """Judge the ledgers that were left open."""
        for event, wrong, lost in self._left_open:
            if self.facts.is_simulated:
                self.broke(event, wrong, lost)
            else:
                self.doubt(f"{event.node} may not have heard that {lost.peer} was lost")
