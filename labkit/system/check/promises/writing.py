"""Promises about writing: the write set, the sync before each acknowledgement, the ack quorum, and
the order of confirmations.

In BookKeeper: `client/LedgerHandle.java`, `client/PendingAddOp.java`, `bookie/Journal.java`.
"""

from collections import defaultdict
from collections.abc import Sequence

from labkit.system.check.facts import Facts, LedgerFacts
from labkit.system.check.promise import Check
from labkit.system.check.response_check import ResponseCheck
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on


def two_views(event: Event) -> str:
    return f"{event.node} may have two views of ledger {event.ledger}"


class WriteSetIsRight(Check):
    """An entry is sent to each of the Qw bookies of its write set, and to no others.

    The write set is determined by the sender's view of the ledger. Until its next confirmation, the
    sender may also use an ensemble that it has just replaced, because adds continue while bookies
    are being replaced. By the time an entry is confirmed, it must have been sent to every bookie of
    its write set. `RepairIsComplete` checks the copies sent by replication workers. If a node is
    both writer and recoverer, or runs two recoveries simultaneously, its two views may differ.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._sent: defaultdict[tuple[int, str], set[int]] = defaultdict(set)
        self._in_force: dict[tuple[int, str], tuple[str, ...]] = {}
        self._replaced: defaultdict[tuple[int, str], list[tuple[str, ...]]] = defaultdict(list)
        self._ever_listed: defaultdict[tuple[int, str], set[str]] = defaultdict(set)
        """For each ledger and sender, the bookies of all ensembles that the sender has used."""

    @on("ensemble.set", "ensemble.deferred", "recovery.started")
    def ensemble_set(self, event: Event) -> None:
        key, view = (event.ledger, event.node), self.ledgers[event.ledger].views.get(event.node)
        if view is not None and view.ensembles:
            if key in self._in_force:
                self._replaced[key].append(self._in_force[key])
            self._in_force[key] = view.ensembles[-1]
            self._ever_listed[key].update(view.ensembles[-1])

    @on("add.sent")
    def sent(self, event: Event) -> None:
        ledger, entry, bookie = self.ledgers[event.ledger], event.entry, event.peer
        write_set = ledger.write_set_of(event.node, entry)
        if bookie in write_set:
            self.report_kept()
            self._sent[event.ledger, bookie].add(entry)
        elif not write_set:
            self.report_missing_creation(ledger)
        elif self._has_stopped_or_changes_ensemble(ledger, event):
            return
        elif self._may_use_another_view(ledger, event):
            self.report_doubt(two_views(event))
        else:
            self.report_broken(
                event,
                f"{event.node} sent entry {entry} of ledger {event.ledger} to {bookie},"
                f" but its write set is {', '.join(write_set)}",
            )

    def _has_stopped_or_changes_ensemble(self, ledger: LedgerFacts, event: Event) -> bool:
        """Return whether the sender is no longer recovering the ledger, or has just replaced an
        ensemble that contains this bookie.
        """
        is_active = event.node == ledger.writer or event.node in ledger.recovering
        replaced = self._replaced[event.ledger, event.node]
        return not is_active or any(event.peer in ensemble for ensemble in replaced)

    def _may_use_another_view(self, ledger: LedgerFacts, event: Event) -> bool:
        listed = self._ever_listed[event.ledger, event.node]
        return ledger.has_two_views(event.node) and event.peer in listed

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        ledger, entry = event.ledger, event.entry
        if self._replaced:
            self._replaced.pop((ledger, event.node), None)
        for bookie in self.ledgers[ledger].write_set_of(event.node, entry):
            if entry in self._sent[ledger, bookie]:
                continue
            if self.ledgers[ledger].has_two_views(event.node):
                self.report_doubt(two_views(event))
            else:
                self.report_broken(
                    event,
                    f"entry {entry} of ledger {ledger} was confirmed,"
                    f" although it had not been sent to {bookie} of its write set",
                )


class AckFollowsSync(ResponseCheck):
    """A bookie acknowledges an entry only after syncing the journal record that contains it.

    The check skips ledgers with deferred sync. If a bookie receives an entry several times, the
    first sync of the entry counts for all of the bookie's acknowledgements, so the check may miss a
    violation.
    """

    @on("add.acked")
    def acked(self, event: Event) -> None:
        ledger, entry, bookie = self.ledgers[event.ledger], event.entry, event.peer
        if entry in ledger.synced[bookie]:
            self.report_kept()
        elif ledger.created is None:
            self.report_missing_creation(ledger)
        elif not ledger.deferred_sync:
            self.suspect(
                event,
                f"{bookie} acknowledged entry {entry} of ledger {event.ledger}"
                " before it had synced its journal",
            )


class AckQuorumIsReached(Check):
    """An entry is confirmed only after Qa bookies of its write set have acknowledged it.

    Acknowledgements from replaced bookies do not count. Unlike the client, the check adds up the
    acknowledgements that the writer and the recoverers received. If a node is both writer and
    recoverer, or runs two recoveries simultaneously, its two views of the ensemble may differ.
    """

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        ledger, entry = self.ledgers[event.ledger], event.entry
        write_set = ledger.write_set_of(event.node, entry)
        acked_by = [bookie for bookie in write_set if entry in ledger.acked[bookie]]
        if not write_set:
            self.report_missing_creation(ledger)
        elif len(acked_by) >= ledger.ack_quorum:
            self.report_kept()
        elif ledger.has_two_views(event.node):
            self.report_doubt(two_views(event))
        else:
            self.report_broken(
                event,
                f"{event.node} confirmed entry {entry} of ledger {event.ledger}"
                f" {self._too_few(ledger, entry, write_set, acked_by)}",
                self.first("add.pushed", event.ledger, entry),
            )

    def _too_few(
        self, ledger: LedgerFacts, entry: int, write_set: Sequence[str], acked_by: Sequence[str]
    ) -> str:
        named = ", ".join(write_set)
        others = [bookie for bookie, entries in ledger.acked.items() if entry in entries]
        if others and not acked_by:
            return (
                f"although only {', '.join(others)} had acknowledged it: the metadata says that the"
                f" entry is on {named}"
            )
        return (
            f"with the acknowledgement of {', '.join(acked_by) or 'no bookie'}, but the ack quorum"
            f" is {ledger.ack_quorum} of {named}"
        )


class LacAdvancesInOrder(Check):
    """LastAddConfirmed advances one entry at a time, without gaps, and never moves back.

    A writer begins at entry 0, and a recoverer begins after the LastAddConfirmed that the fenced
    bookies report. If a node both writes and recovers the ledger, or runs two recoveries of it
    simultaneously, the result is unknown, because the trace does not show in which role it
    confirmed an entry.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._last: dict[tuple[int, str], int] = {}

    @on("recovery.covered")
    def covered(self, event: Event) -> None:
        self._last[event.ledger, event.node] = event.entry

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        key, entry = (event.ledger, event.node), event.entry
        ledger = self.ledgers[event.ledger]
        last = self._last.get(key, -1 if event.node == ledger.writer else None)
        self._last[key] = entry
        if last is None:
            self.report_missing_creation(ledger)
        elif entry == last + 1:
            self.report_kept()
        elif ledger.has_two_views(event.node):
            self.report_doubt(two_views(event))
        else:
            self.report_broken(
                event,
                f"{event.node} confirmed entry {entry} of ledger {event.ledger}, but it had"
                + (
                    f" not confirmed entry {last + 1} yet"
                    if entry > last
                    else f" already confirmed entry {last}"
                ),
                self.first("lac.advanced", event.ledger, last, event.node),
            )
