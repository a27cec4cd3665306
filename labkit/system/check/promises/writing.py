"""Promises of the write path: write set, synced before acknowledged, ack quorum, order.

In BookKeeper: `client/LedgerHandle.java`, `client/PendingAddOp.java`, `bookie/Journal.java`.
"""

from collections import defaultdict

from labkit.system.check.answers import AnswerCheck
from labkit.system.check.facts import Facts, LedgerFacts
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event


def two_views(event: Event) -> str:
    """The reason to doubt what a node did that knows the ledger in two ways."""
    return f"{event.node} may know ledger {event.ledger} in two ways"


class WriteSetIsRight(Check):
    """An entry is sent to each of the Qw bookies of its write set, and to no other.

    The ensemble is the one in force for the entry as its sender knows the ledger, or one that this
    ensemble has replaced since the sender's last confirmation: a change is made bookie by bookie,
    while adds go on.  Whether each bookie was sent the entry is judged when it is confirmed.
    `RepairIsComplete` judges copies that a replication worker sends.  Where one node is writer and
    recoverer, or recovers twice at once, an ensemble that one of the two has changed may not be the
    one that the other has.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._sent: defaultdict[tuple[int, str], set[int]] = defaultdict(set)
        self._in_force: dict[tuple[int, str], tuple[str, ...]] = {}
        self._replaced: defaultdict[tuple[int, str], list[tuple[str, ...]]] = defaultdict(list)
        self._named: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
        """By ledger and sender: the bookies of all ensembles that the sender has known."""

    @on("ensemble.set", "ensemble.deferred", "recovery.started")
    def ensemble_set(self, event: Event) -> None:
        """Remember the ensemble that this one replaces."""
        key, view = (event.ledger, event.node), self.ledgers[event.ledger].views.get(event.node)
        if view is not None and view.ensembles:
            if key in self._in_force:
                self._replaced[key].append(self._in_force[key])
            self._in_force[key] = view.ensembles[-1]
            self._named[key].update(view.ensembles[-1])

    @on("add.sent")
    def sent(self, event: Event) -> None:
        """Judge whether the receiver is in the write set."""
        ledger, entry, bookie = self.ledgers[event.ledger], event.entry, event.peer
        write_set = ledger.write_set_of(event.node, entry)
        if bookie in write_set:
            self.judged += 1
            self._sent[event.ledger, bookie].add(entry)
        elif not write_set:
            self.begins_late(ledger)
        elif not self._is_excused(ledger, event):
            self.broke(
                event,
                f"{event.node} sent entry {entry} of ledger {event.ledger} to {bookie},"
                f" and its write set is {', '.join(write_set)}",
            )

    def _is_excused(self, ledger: LedgerFacts, event: Event) -> bool:
        """Whether its sender has ended, or may take the bookie for one of the write set."""
        if event.node != ledger.writer and event.node not in ledger.recovering:
            return True
        key, bookie = (event.ledger, event.node), event.peer
        if any(bookie in each for each in self._replaced[key]):
            return True
        is_doubtful = ledger.has_two_views(event.node) and bookie in self._named[key]
        if is_doubtful:
            self.doubt(two_views(event))
        return is_doubtful

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        """Judge whether the entry was sent to its whole write set."""
        ledger, entry = event.ledger, event.entry
        if self._replaced:
            self._replaced.pop((ledger, event.node), None)
        for bookie in self.ledgers[ledger].write_set_of(event.node, entry):
            if entry in self._sent[ledger, bookie]:
                continue
            if self.ledgers[ledger].has_two_views(event.node):
                self.doubt(two_views(event))
            else:
                self.broke(
                    event,
                    f"entry {entry} of ledger {ledger} was confirmed,"
                    f" and it had not been sent to {bookie} of its write set",
                )


class AckFollowsSync(AnswerCheck):
    """A bookie acknowledges an entry only after the sync of the journal record that holds it.

    Ledgers with deferred sync are left out.  Weaker than on the bookie's own disk: one sync of an
    entry stands for all later adds of the same entry to the same bookie.
    """

    @on("add.acked")
    def acked(self, event: Event) -> None:
        """Judge whether the bookie had reported the sync."""
        ledger, entry, bookie = self.ledgers[event.ledger], event.entry, event.peer
        if entry in ledger.synced[bookie]:
            self.judged += 1
        elif not ledger.deferred_sync:
            self.suspect(
                event,
                bookie,
                f"{bookie} acknowledged entry {entry} of ledger {event.ledger}"
                " before a sync of its journal had made it durable",
            )


class AckQuorumIsReached(Check):
    """An entry is confirmed only after Qa bookies of its write set have acknowledged it.

    The write set is that of the ensemble in force at the confirmation, so acknowledgements of
    bookies that were replaced do not count.  Weaker than the client's own count: the check does not
    ask whether the writer or a recoverer requested an acknowledgement.  Where one node is both, or
    recovers twice at once, an ensemble that one of the two has changed may not be the one that the
    other has.
    """

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        """Count the acknowledgements."""
        ledger, entry = self.ledgers[event.ledger], event.entry
        count, acked = 0, ledger.acked
        write_set = ledger.write_set_of(event.node, entry)
        for bookie in write_set:
            if entry in acked[bookie]:
                count += 1
        if not write_set:
            self.begins_late(ledger)
        elif count < ledger.ack_quorum and ledger.has_two_views(event.node):
            self.doubt(two_views(event))
        elif count < ledger.ack_quorum:
            who = ", ".join(bookie for bookie in write_set if entry in acked[bookie]) or "none"
            self.broke(
                event,
                f"{event.node} confirmed entry {entry} of ledger {event.ledger} with the"
                f" acknowledgement of {who}, and the ack quorum is {ledger.ack_quorum}"
                f" of {', '.join(write_set)}",
                self.facts.first("add.pushed", event.ledger, entry),
            )
        else:
            self.judged += 1


class LacAdvancesInOrder(Check):
    """LastAddConfirmed moves from each entry to the next, without a gap and never back.

    A writer begins at entry 0, a recoverer after the LastAddConfirmed that the fenced bookies
    reported.  Where one node is both for a ledger, or recovers it twice at once, the check judges
    nothing: the events do not say which of the two confirmed.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._last: dict[tuple[int, str], int] = {}

    @on("recovery.covered")
    def covered(self, event: Event) -> None:
        """Note where a recoverer begins."""
        self._last[event.ledger, event.node] = event.entry

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        """Judge whether it is the next entry."""
        key, entry = (event.ledger, event.node), event.entry
        ledger = self.ledgers[event.ledger]
        last = self._last.get(key, -1 if event.node == ledger.writer else None)
        self._last[key] = entry
        if last is None:
            self.begins_late(ledger)
        elif entry == last + 1:
            self.judged += 1
        elif ledger.has_two_views(event.node):
            self.doubt(two_views(event))
        else:
            self.broke(
                event,
                f"{event.node} confirmed entry {entry} of ledger {event.ledger},"
                f" and the last that it had confirmed was {last}",
                self.facts.first("lac.advanced", event.ledger, last, event.node),
            )
