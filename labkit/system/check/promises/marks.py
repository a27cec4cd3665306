"""Promises of autorecovery about marks: what is lost is marked, and what is marked is repaired.

In BookKeeper: `replication/Auditor.java`, `replication/ReplicationWorker.java`.
"""

from collections import defaultdict

from labkit.system.check.facts import EPILOGUE, Facts
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.check.segments import names
from labkit.system.trace.answers import MarksFound
from labkit.system.trace.events import Event

_LONG_NAMED_US = 1_000_000
"""An auditor reads the metadata some time before it reports a loss: this long at most."""
_MARKED_WITHIN_US = 5_000_000


class LostBookiesLedgersAreMarked(Check):
    """When an auditor takes a bookie for lost, it marks each ledger that names the bookie within
    five seconds, unless the mark is there already.

    Judged for the first auditor of a run, as another may have left marks that it did not report,
    and only if nothing happens to it meanwhile.  Ledgers count if they have named the bookie for a
    second, and if the epilogue has read them: they were not deleted.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._auditors: list[Event] = []
        self._named: dict[tuple[int, int], Event] = {}
        """By ledger and first entry: when the segment got its bookies."""
        self._marked: defaultdict[int, set[str]] = defaultdict(set)
        self._due: dict[tuple[int, str], Event] = {}
        """By ledger and bookie: the loss for which there is no mark yet."""
        self._unmarked: list[tuple[int, Event]] = []
        self._read: set[int] = set()

    @on("auditor.elected", "autorecovery.restarted")
    def began(self, event: Event) -> None:
        """Note the auditor."""
        self._auditors.append(event)
        self.disturbed(event)

    @on("ensemble.set")
    def named(self, event: Event) -> None:
        """Note since when the segment names these bookies."""
        self._named[event.ledger, max(event.entry, 0)] = event

    @on("bookie.lost")
    def lost(self, event: Event) -> None:
        """Expect a mark for each ledger of the bookie."""
        if len(self._auditors) != 1:
            self.doubt(f"{event.node} was not the only auditor")
            return
        for ledger in self.facts.kept:
            firsts = zip(ledger.segments.firsts, ledger.segments.ensembles, strict=True)
            since = [
                self._named[ledger.ledger_id, first].time_us
                for first, ensemble in firsts
                if event.peer in ensemble and (ledger.ledger_id, first) in self._named
            ]
            if not since or min(since) > event.time_us - _LONG_NAMED_US:
                continue
            if event.peer in self._marked[ledger.ledger_id]:
                self.judged += 1
            else:
                self._due.setdefault((ledger.ledger_id, event.peer), event)

    @on("ledger.underreplicated")
    def marked(self, event: Event) -> None:
        """Take the mark."""
        for bookie in names(event.note):
            self._marked[event.ledger].add(bookie)
            if self._due.pop((event.ledger, bookie), None) is not None:
                self.judged += 1

    @on("replication.done")
    def repaired(self, event: Event) -> None:
        """The mark is gone."""
        self._marked.pop(event.ledger, None)

    @on("read.done")
    def read(self, event: Event) -> None:
        """Note that the ledger was there at the end."""
        if event.node == EPILOGUE:
            self._read.add(event.ledger)

    @on("node.killed", "node.paused", "session.lost", "metadata.hung", "link.cut", "message.lost")
    def disturbed(self, event: Event) -> None:
        """Settle what was due before, and expect nothing more of it."""
        for (ledger, bookie), loss in [*self._due.items()]:
            is_over = event.time_us > loss.time_us + _MARKED_WITHIN_US
            if is_over:
                self._unmarked.append((ledger, loss))
            elif loss.node in (event.node, event.peer) or event.kind == "metadata.hung":
                self.doubt(f"{loss.node} was disturbed when it marked the ledgers of {bookie}")
            else:
                continue
            del self._due[ledger, bookie]

    def finish(self) -> None:
        """Judge the losses without a mark."""
        if self._due:
            self.disturbed(self.facts.events[-1])
        for ledger, loss in self._unmarked:
            if ledger in self._read:
                self.broke(
                    loss,
                    f"{loss.node} took {loss.peer} for lost, and did not mark ledger {ledger},"
                    f" which {loss.peer} is named for",
                )


class MarkedLedgersAreRepaired(Check):
    """Once all faults are repaired, no ledger stays marked as short of copies.

    Not judged where a disk was damaged or formatted, or a bookie does not start: copies may be lost
    for good.
    """

    def finish(self) -> None:
        """Judge the marks that were left."""
        for answer in self.facts.answers:
            if not isinstance(answer, MarksFound):
                continue
            if answer.ledgers and (self.facts.bad_disks or self.facts.down):
                self.doubt("a disk was damaged or a bookie did not start")
                continue
            self.judged += 1
            if answer.ledgers:
                self.broke(
                    self.facts.events[answer.at - 1],
                    f"ledger {answer.ledgers[0]} is still marked {answer.waited_s:g} s after all"
                    " faults were repaired",
                )
