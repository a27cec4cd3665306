"""Promises about fencing: a fence is durable before the bookie responds and survives restarts, and
a ledger has only one writer.

In BookKeeper: `bookie/LedgerDescriptorImpl.java#fenceAndLogInJournal`,
`client/LedgerRecoveryOp.java`.
"""

from collections import defaultdict

from labkit.system.check.facts import Facts, proves_absence
from labkit.system.check.promise import Check, end_words
from labkit.system.check.response_check import ResponseCheck
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on


class FenceIsDurableBeforeTheResponse(ResponseCheck):
    """A bookie responds to a fencing read, with or without an entry, only after its fence is
    durable.

    A fence is durable once the bookie has appended it to its journal and synced the journal. Every
    read with which a recovery looks for the end of the ledger must fence the ledger, including
    reads of entries (BookKeeper #2614). The check excludes:

    - bookies that were killed earlier, because a live trace may lack the events of their fences
    - reads by a node that is also a bookie, because it may be checking copies
    - reads of a closed ledger, because no writer can add to it, although a second recovery may
      still read it
    - responses of a bookie that has collected the deleted ledger, because it rejects all adds
    - responses over a link that duplicates messages, because a second response to an earlier read
      may look like the response to the fencing read
    - entry reads by a node that both recovers and reads the ledger, because they may be ordinary
      reads
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._copied: set[tuple[str, str]] = set()
        self._fenced: set[tuple[str, int]] = set()

    @on("ledger.fenced")
    def fenced(self, event: Event) -> None:
        self._fenced.add((event.node, event.ledger))

    @on("message.copied")
    def copied(self, event: Event) -> None:
        # Either the request or the response was duplicated, so a response may arrive twice.
        self._copied.update(((event.node, event.peer), (event.peer, event.node)))

    @on("read.done", "read.failed")
    def read(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if event.node not in ledger.recovering or ledger.closed is not None:
            return
        if event.entry <= ledger.covered.get(event.node, event.entry):
            return
        is_conclusive = event.kind == "read.done" or proves_absence(event)
        if not is_conclusive or event.node in self.facts.maintenance_nodes:
            return
        if ledger.recovers_and_reads(event.node):
            self.report_doubt(f"{event.node} both recovers and reads ledger {event.ledger}")
            return
        self.responded(event)

    @on("fence.answered")
    def responded(self, event: Event) -> None:
        bookie = event.peer
        ledger = self.ledgers[event.ledger]
        if bookie in ledger.durable_fences:
            self.report_kept()
        elif bookie in ledger.collected:
            return
        elif ledger.created is None:
            self.report_missing_creation(ledger)
        elif (bookie, event.node) in self._copied:
            self.report_doubt(f"{bookie}'s responses to {event.node} may have arrived twice")
        elif bookie in self.facts.killed:
            self.report_doubt(
                f"{bookie} may have fenced ledger {event.ledger} before it was killed"
            )
        else:
            phase = f" for entry {event.entry}" if event.kind != "fence.answered" else ""
            is_fenced = (bookie, event.ledger) in self._fenced
            fault = "before its fence was durable" if is_fenced else "without having fenced it"
            self.suspect(
                event,
                f"{bookie} responded to {event.node}'s recovery of ledger {event.ledger}{phase}"
                f" {fault}",
            )


class FencedBookieRejectsTheWriter(Check):
    """Once a bookie has fenced a ledger, it rejects all further adds from the ledger's writer, even
    after a restart, unless the bookie has been formatted.

    A killed bookie may lose fences that it has neither synced nor reported, and fences of deleted
    ledgers that it has collected. The check covers only unconfirmed entries, and only if the writer
    and the recoverer are different nodes, because a fenced bookie accepts adds from a recovery, and
    the bookie's events do not show who sent an add.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._fences: defaultdict[int, dict[str, Event]] = defaultdict(dict)
        self._responded: set[tuple[int, str]] = set()
        self._from_recovery: set[tuple[int, int, str]] = set()

    @on("ledger.fenced")
    def fenced(self, event: Event) -> None:
        self._fences[event.ledger].setdefault(event.node, event)

    @on("fence.answered")
    def responded(self, event: Event) -> None:
        self._responded.add((event.ledger, event.peer))

    @on("node.killed")
    def killed(self, event: Event) -> None:
        bookie = event.node
        for ledger, fences in self._fences.items():
            is_durable = bookie in self.ledgers[ledger].durable_fences
            survives = is_durable or (ledger, bookie) in self._responded
            # The fence of a collected ledger exists only in the bookie's memory.
            if not survives or bookie in self.ledgers[ledger].collected:
                fences.pop(bookie, None)

    @on("bookie.formatted")
    def formatted(self, event: Event) -> None:
        for ledger, fences in self._fences.items():
            fences.pop(event.node, None)
            self._responded.discard((ledger, event.node))

    @on("add.sent")
    def sent(self, event: Event) -> None:
        if event.ledger in self._fences and event.node != self.ledgers[event.ledger].writer:
            self._from_recovery.add((event.ledger, event.entry, event.peer))

    @on("memtable.put")
    def put(self, event: Event) -> None:
        if event.ledger not in self._fences or event.node not in self._fences[event.ledger]:
            return
        ledger, entry, bookie = self.ledgers[event.ledger], event.entry, event.node
        by_writer = entry in ledger.pushed and ledger.writer not in ledger.recoverers
        is_allowed = (
            entry <= ledger.confirmed_by_any or (event.ledger, entry, bookie) in self._from_recovery
        )
        if is_allowed or not by_writer:
            self.report_kept()
        else:
            fence = self._fences[event.ledger][bookie]
            self.report_broken(
                event,
                f"{bookie} stored entry {entry} of ledger {event.ledger} for its writer"
                f" {ledger.writer}, although it had already fenced the ledger",
                fence,
            )


class OneWriter(Check):
    """Once recovery has closed a ledger, its writer confirms nothing beyond the last entry, and
    only the writer and recoverers push entries.

    This is true even if bookies have lost the fence because they were formatted or because they
    have collected the deleted ledger.
    """

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if ledger.closed is None or event.entry <= ledger.end:
            self.report_kept()
        elif ledger.is_writer(event.node):
            self.report_broken(
                event,
                f"{event.node} confirmed entry {event.entry} of ledger {event.ledger}, which"
                f" {ledger.closed.node} had closed {end_words(ledger.end)}",
                ledger.closed,
            )

    @on("add.pushed")
    def pushed(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if event.node == ledger.writer or event.node in ledger.recoverers:
            self.report_kept()
        elif ledger.created is None:
            self.report_missing_creation(ledger)
        else:
            self.report_broken(
                event,
                f"{event.node} pushed entry {event.entry} of ledger {event.ledger}, which belongs"
                f" to {ledger.writer}",
                ledger.created,
            )
