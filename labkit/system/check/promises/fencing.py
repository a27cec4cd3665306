"""Promises of fencing: durable before it is answered, kept across restarts, one writer at a time.

In BookKeeper: `bookie/LedgerDescriptorImpl.java#fenceAndLogInJournal`,
`client/LedgerRecoveryOp.java`.
"""

from collections import defaultdict

from labkit.system.check.answers import AnswerCheck
from labkit.system.check.facts import FENCE, Facts, proves_absence
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event


class FenceIsDurableBeforeItsAnswer(AnswerCheck):
    """A bookie answers a fencing read, with an entry or without, only when its fence is durable.

    Durable means that the bookie appended the fence to its journal and synced that.  What a bookie
    had fenced before it was killed may be missing from a live trace, so it is not judged then.
    All reads with which a recovery looks for the end must fence, those of entries too (BookKeeper
    #2614).  Reads of a node that is also a bookie are not judged: it may be checking copies while
    it recovers the ledger.  Nor are reads of a ledger that is closed by then: a node that recovers
    it twice at once reads it as its own, and no writer can add to it.  Nor are answers of a bookie
    that has collected the deleted ledger: it says that there is no such ledger, takes no more adds
    to it, and has nothing to fence.  Nor are answers over a link that copies messages: a second
    answer to an earlier read, which did not fence, may be taken for that of the fence.  Where
    one node both recovers and reads the ledger, a read of an entry may be one that does not fence.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._covered: dict[tuple[int, str], int] = {}
        self._collected: set[tuple[int, str]] = set()
        self._copied: set[tuple[str, str]] = set()

    @on("message.copied")
    def copied(self, event: Event) -> None:
        """Note that answers may come twice from one to the other: the question was copied, or the
        answer.
        """
        self._copied.update(((event.node, event.peer), (event.peer, event.node)))

    @on("ledger.collected")
    def collected(self, event: Event) -> None:
        """Its bookie fences it no more."""
        self._collected.add((event.ledger, event.node))

    @on("recovery.covered")
    def covered(self, event: Event) -> None:
        """Note that the node begins to look for the ledger's end."""
        self._covered[event.ledger, event.node] = event.entry

    @on("fence.answered")
    def answered(self, event: Event) -> None:
        """Judge an answer in the first phase of a recovery."""
        self._judge(event)

    @on("read.done", "read.failed")
    def read(self, event: Event) -> None:
        """Judge an answer in the second phase."""
        ledger = self.ledgers[event.ledger]
        if event.node not in ledger.recovering or ledger.closed is not None:
            return
        if event.entry <= self._covered.get((event.ledger, event.node), event.entry):
            return
        said = event.kind == "read.done" or proves_absence(event)
        if not said or event.node in self.facts.caretakers:
            return
        if ledger.recovers_and_reads(event.node):
            self.doubt(f"{event.node} both recovers and reads ledger {event.ledger}")
            return
        self._judge(event)

    def _judge(self, event: Event) -> None:
        bookie = event.peer
        ledger = self.ledgers[event.ledger]
        if FENCE in ledger.synced[bookie]:
            self.judged += 1
        elif (event.ledger, bookie) in self._collected:
            return
        elif ledger.created is None:
            self.begins_late(ledger)
        elif (bookie, event.node) in self._copied:
            self.doubt(f"{bookie}'s answers to {event.node} may have come twice")
        elif bookie in self.facts.killed:
            self.doubt(f"{bookie} may have fenced ledger {event.ledger} before it was killed")
        else:
            what = f"for entry {event.entry} " if event.kind != "fence.answered" else ""
            self.suspect(
                event,
                bookie,
                f"{bookie} answered {event.node}'s recovery of ledger {event.ledger} {what}before"
                " its fence was durable",
            )


class FencedBookieRefusesTheWriter(Check):
    """Once a bookie has fenced a ledger, it takes no more of its writer's adds, not even after a
    restart, unless it was formatted.

    A fence that was neither synced nor answered may die with its bookie, and so does the memory of
    a deleted ledger that the bookie has collected.  Judged for unconfirmed entries, and where
    writer and recoverer are two nodes: the bookie's event does not say who sent an add, and a
    fenced bookie accepts recovery's adds.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._fences: defaultdict[int, dict[str, Event]] = defaultdict(dict)
        self._answered: set[tuple[int, str]] = set()
        self._collected: set[tuple[int, str]] = set()
        self._welcome: set[tuple[int, int, str]] = set()

    @on("ledger.fenced")
    def fenced(self, event: Event) -> None:
        """Note the bookie's fence."""
        self._fences[event.ledger].setdefault(event.node, event)

    @on("fence.answered")
    def answered(self, event: Event) -> None:
        """Note a fence that must survive the bookie's process."""
        self._answered.add((event.ledger, event.peer))

    @on("node.killed")
    def killed(self, event: Event) -> None:
        """Forget the fences that were only in memory."""
        bookie = event.node
        for ledger, fences in self._fences.items():
            durable = FENCE in self.ledgers[ledger].synced[bookie]
            stays = durable or (ledger, bookie) in self._answered
            if not stays or (ledger, bookie) in self._collected:
                fences.pop(bookie, None)

    @on("bookie.formatted")
    def formatted(self, event: Event) -> None:
        """Forget its fences: the bookie cannot know them any more."""
        for ledger, fences in self._fences.items():
            fences.pop(event.node, None)
            self._answered.discard((ledger, event.node))

    @on("ledger.collected")
    def collected(self, event: Event) -> None:
        """From now on only the bookie's memory keeps the ledger's fence."""
        self._collected.add((event.ledger, event.node))

    @on("add.sent")
    def sent(self, event: Event) -> None:
        """Remember recovery's adds and copies."""
        if event.ledger in self._fences and event.node != self.ledgers[event.ledger].writer:
            self._welcome.add((event.ledger, event.entry, event.peer))

    @on("memtable.put")
    def put(self, event: Event) -> None:
        """Judge an add that a fenced bookie stored."""
        if event.ledger not in self._fences or event.node not in self._fences[event.ledger]:
            return
        ledger, entry, bookie = self.ledgers[event.ledger], event.entry, event.node
        self.judged += 1
        by_writer = entry in ledger.pushed and ledger.writer not in ledger.recoverers
        welcome = entry <= ledger.secured or (event.ledger, entry, bookie) in self._welcome
        if by_writer and not welcome:
            fence = self._fences[event.ledger][bookie]
            self.broke(
                event,
                f"{bookie} stored entry {entry} of ledger {event.ledger} for its writer"
                f" {ledger.writer}, although it had fenced the ledger in event {fence.seq}",
                fence,
            )


class OneWriter(Check):
    """Once recovery has closed a ledger its writer confirms nothing beyond the end, and only the
    writer and recoverers push entries.

    This also holds if the fenced bookies have forgotten the fence, because they were formatted or
    because the ledger was deleted and they have collected it.
    """

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        """Compare the confirmed entry with the ledger's end."""
        ledger = self.ledgers[event.ledger]
        if ledger.closed is None:
            self.judged += 1
        elif event.entry > ledger.end and ledger.is_writer(event.node):
            self.broke(
                event,
                f"{event.node} confirmed entry {event.entry} of ledger {event.ledger}, which"
                f" {ledger.closed.node} had closed at entry {ledger.end}",
                ledger.closed,
            )

    @on("add.pushed")
    def pushed(self, event: Event) -> None:
        """Judge which node pushed the entry."""
        ledger = self.ledgers[event.ledger]
        if event.node == ledger.writer or event.node in ledger.recoverers:
            return
        if ledger.created is None:
            self.begins_late(ledger)
        else:
            self.broke(
                event,
                f"{event.node} pushed entry {event.entry} of ledger {event.ledger}, which belongs"
                f" to {ledger.writer}",
                ledger.created,
            )
