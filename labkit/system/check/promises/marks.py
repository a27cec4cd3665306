"""Promises of autorecovery about marks: under-replicated ledgers are marked, and marked ledgers are
repaired.

In BookKeeper: `replication/Auditor.java`, `replication/ReplicationWorker.java`.
"""

from collections import defaultdict

from labkit.system.check.facts import EPILOGUE, Facts
from labkit.system.check.promise import Check
from labkit.system.trace.answers import MarksFound
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on

_LISTED_FOR_US = 1_000_000
"""The metadata that an auditor reads before it declares a bookie lost is at most this old."""
_MARKED_WITHIN_US = 5_000_000


class LostBookiesLedgersAreMarked(Check):
    """Within five seconds after an auditor has declared a bookie lost, every ledger whose metadata
    lists the bookie is marked as under-replicated.

    The check covers only the first auditor of a run, because a later auditor may find marks that
    its predecessor wrote but did not report. If a fault disturbs the auditor during the five
    seconds, the result is unknown. The check skips ledgers whose metadata has listed the bookie for
    less than a second. It also skips ledgers that the epilogue does not read, such as deleted
    ledgers.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._auditors: list[Event] = []
        self._listed: dict[tuple[int, int], Event] = {}
        """For each ledger and first entry of a segment, the event that set the segment's bookies.
        """
        self._marked: defaultdict[int, set[str]] = defaultdict(set)
        self._due: dict[tuple[int, str], Event] = {}
        """For each ledger and bookie, the `bookie.lost` event that requires the ledger to be
        marked.
        """
        self._unmarked: list[tuple[int, Event]] = []
        self._read: set[int] = set()

    @on("auditor.elected", "autorecovery.restarted")
    def began(self, event: Event) -> None:
        self._auditors.append(event)
        self.disturbed(event)

    @on("ensemble.set")
    def ensemble_set(self, event: Event) -> None:
        self._listed[event.ledger, event.entry] = event

    @on("bookie.lost")
    def lost(self, event: Event) -> None:
        if len(self._auditors) != 1:
            self.report_doubt(f"{event.node} was not the only auditor")
            return
        for ledger in self.facts.existing:
            firsts = zip(ledger.segments.firsts, ledger.segments.ensembles, strict=True)
            since = [
                self._listed[ledger.ledger_id, first].time_us
                for first, ensemble in firsts
                if event.peer in ensemble and (ledger.ledger_id, first) in self._listed
            ]
            if not since or min(since) > event.time_us - _LISTED_FOR_US:
                continue
            if event.peer in self._marked[ledger.ledger_id]:
                self.report_kept()
            else:
                self._due.setdefault((ledger.ledger_id, event.peer), event)

    @on("ledger.underreplicated")
    def marked(self, event: Event) -> None:
        for bookie in event.bookies:
            self._marked[event.ledger].add(bookie)
            if self._due.pop((event.ledger, bookie), None) is not None:
                self.report_kept()

    @on("replication.done")
    def repaired(self, event: Event) -> None:
        self._marked.pop(event.ledger, None)

    @on("read.done")
    def read(self, event: Event) -> None:
        if event.node == EPILOGUE:
            self._read.add(event.ledger)

    @on("node.killed", "node.paused", "session.lost", "metadata.hung", "link.cut", "message.lost")
    def disturbed(self, event: Event) -> None:
        self._note_overdue_marks(event.time_us)
        for (ledger, bookie), loss in [*self._due.items()]:
            if loss.node in (event.node, event.peer) or event.kind == "metadata.hung":
                self.report_doubt(
                    f"{loss.node} was disturbed while it marked the ledgers of {bookie}"
                )
                del self._due[ledger, bookie]

    def _note_overdue_marks(self, now_us: int) -> None:
        for key, loss in [*self._due.items()]:
            if now_us > loss.time_us + _MARKED_WITHIN_US:
                self._unmarked.append((key[0], loss))
                del self._due[key]

    def finish(self) -> None:
        if self._due:
            self._note_overdue_marks(self.facts.events[-1].time_us)
        for ledger, loss in self._unmarked:
            if ledger in self._read:
                self.report_broken(
                    loss,
                    f"{loss.node} declared {loss.peer} lost, but did not mark ledger {ledger},"
                    f" whose metadata lists {loss.peer}",
                )


class MarkedLedgersAreRepaired(Check):
    """Once all faults are repaired, no ledger remains marked as under-replicated.

    The result is unknown if a disk was damaged or formatted, because copies may be lost for good.
    The result is also unknown if a bookie, auditor or replication worker does not restart, because
    the ledgers may then never be repaired.
    """

    def finish(self) -> None:
        for answer in self.facts.answers_of(MarksFound):
            down = self.facts.down.keys() & self.facts.maintenance_nodes.keys()
            if not answer.ledgers:
                self.report_kept()
            elif self.facts.bad_disks:
                self.report_doubt(
                    f"The disk of {min(self.facts.bad_disks)} was damaged or formatted"
                )
            elif down:
                self.report_doubt(f"{min(down)} did not start again")
            else:
                self.report_broken(
                    answer,
                    f"ledger {answer.ledgers[0]} is still marked {answer.waited_s:g} s after all"
                    " faults were repaired",
                )
