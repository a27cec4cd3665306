"""Invariants of BookKeeper's public TLA+ specification, with the same names as in the
specification.

TLC checks runs against the specification itself (`tests/tla`), but it does not check the runs of
learners' own clients and bookies. Only the checks in this module cover those runs. Invariants that
are equivalent to another promise are omitted.

The specification checks states, but a trace consists of events, so all checks are weaker. A copy
that was once synced is assumed to have been kept. The content of a message is known only from its
receiver. Ledgers that were created before the trace started are skipped. The invariants of
`LedgerChaining.tla` are in `chain`.
"""

from collections import defaultdict

from labkit.system.check.facts import EPILOGUE, Facts, LedgerFacts, proves_absence
from labkit.system.check.promise import Check, end_words, entry_words
from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on

_NO_RESPONSE = "MetadataUnavailableError"
_NO_LEDGER = BKNoSuchLedgerExistsOnMetadataServerException.__name__


class TypeOK(Check):
    """Every value has its type: E >= Qw >= Qa >= 1, an ensemble consists of E different bookies,
    and a ledger's last entry is one that was pushed, or -1.

    The check covers events about metadata, but no messages.
    """

    @on("ledger.created")
    def created(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if ledger.ensemble_size >= ledger.write_quorum >= ledger.ack_quorum >= 1:
            self.report_kept()
        else:
            sizes = f"E={event.ensemble_size} Qw={event.write_quorum} Qa={event.ack_quorum}"
            self.report_broken(event, f"ledger {event.ledger} was created with {sizes}")

    @on("ensemble.set", "ensemble.deferred")
    def ensemble_set(self, event: Event) -> None:
        ledger, ensemble = self.ledgers[event.ledger], event.ensemble
        if ledger.created is None:
            self.report_missing_creation(ledger)
        elif len(ensemble) != len(set(ensemble)) or len(ensemble) != ledger.ensemble_size:
            self.report_broken(
                event,
                f"the ensemble of ledger {event.ledger} that starts at entry {event.entry} is"
                f" {', '.join(ensemble)}, expected {ledger.ensemble_size} different bookies",
                ledger.created,
            )
        else:
            self.report_kept()

    @on("ledger.closed")
    def closed(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if ledger.created is None:
            self.report_missing_creation(ledger)
        elif -1 <= event.entry <= ledger.last_pushed:
            self.report_kept()
        else:
            self.report_broken(
                event,
                f"{event.node} closed ledger {event.ledger} {end_words(event.entry)}, but the last"
                f" entry that {ledger.writer} pushed is {entry_words(ledger.last_pushed)}",
            )


class NoDivergenceBetweenClientAndMetaData(Check):
    """Once a ledger is closed, its writer's LastAddConfirmed is not beyond the last entry in the
    metadata, and exactly one client has closed the ledger.

    The check runs when the ledger is closed, and when its writer confirms an entry afterwards.
    """

    @on("ledger.closed")
    def closed(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if ledger.closed is not event:
            self.report_broken(
                event, f"ledger {event.ledger} was closed a second time", ledger.closed
            )
        elif ledger.confirmed > event.entry:
            self._diverged(event, ledger)
        else:
            self.report_kept()

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if ledger.closed is not None and ledger.confirmed > ledger.end:
            self._diverged(event, ledger)

    def _diverged(self, event: Event, ledger: LedgerFacts) -> None:
        if self.report_doubt_if_formatted(ledger, ledger.end + 1):
            return
        self.report_broken(
            event,
            f"{ledger.writer} has confirmed entry {ledger.confirmed} of ledger {event.ledger}, but"
            f" the last entry in the metadata is {entry_words(ledger.end)}",
            ledger.closed,
        )


class AllCommittedEntriesReachAckQuorum(Check):
    """Every entry of a closed ledger is stored on at least Qa bookies of its write set.

    The check runs when the ledger is closed, and when an ensemble of the closed ledger changes.
    """

    @on("ledger.closed", "ensemble.set", "fragment.replicated")
    def changed(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if ledger.closed is None:
            return
        if ledger.created is None:
            self.report_missing_creation(ledger)
            return
        for entry in range(ledger.end + 1):
            copies = ledger.copy_count(entry)
            if copies >= ledger.ack_quorum:
                self.report_kept()
            else:
                self.report_broken(
                    event,
                    f"entry {entry} of the closed ledger {event.ledger} is stored on {copies} of"
                    f" {', '.join(ledger.segments.write_set(entry))},"
                    f" expected at least {ledger.ack_quorum}",
                    ledger.closed,
                    self.first("add.pushed", event.ledger, entry),
                )
                return


class OnlyValidFragments(Check):
    """A new segment never starts before an existing one.

    A recoverer's new ensembles are checked when they are stored in the metadata.
    """

    @on("ensemble.set")
    def ensemble_set(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if ledger.closed is not None and event.node not in self.facts.maintenance_nodes:
            # This node has learned late of a change that was made before the ledger was closed.
            return
        highest = ledger.segments.firsts[-1]
        if event.entry == highest or ledger.replaced_ensemble:
            self.report_kept()
        elif ledger.created is None:
            self.report_missing_creation(ledger)
        else:
            self.report_broken(
                event,
                f"{event.node} added a segment that starts at entry {event.entry} to ledger"
                f" {event.ledger}, which already has one that starts at entry {highest}",
                self.first("ensemble.set", event.ledger, highest),
            )


class NoDirtyReads(Check):
    """Every LastAddConfirmed that a bookie reports has actually been confirmed.

    The check runs when a reader (`lac.read`) or a recoverer (`fence.answered`) receives a
    LastAddConfirmed.
    """

    @on("lac.read", "fence.answered")
    def lac_reported(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if ledger.created is None:
            self.report_missing_creation(ledger)
        elif event.entry <= max(ledger.confirmed_by_any, ledger.end):
            self.report_kept()
        else:
            source = f" from {event.peer}" if event.peer else ""
            self.report_broken(
                event,
                f"{event.node} learned{source} that ledger {event.ledger} is confirmed up to entry"
                f" {event.entry}, but it is confirmed only up to {ledger.confirmed_by_any}",
                self.first("add.pushed", event.ledger, event.entry),
            )


class LedgerIsClosed(Check):
    """Every ledger is eventually closed.

    This is the specification's liveness property. The check requires an epilogue that recovers
    every ledger. The result is unknown in these cases:

    - a bookie could not be queried
    - the metadata store did not respond to the request to close the ledger
    - another recoverer may have closed the ledger without receiving the response
    - the ledger no longer exists after a request to delete it
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._unasked: dict[int, Event] = {}
        self._no_response: dict[int, Event] = {}
        """For each ledger, the epilogue's last recovery, if the metadata store did not respond."""
        self._gone: set[int] = set()
        """Ledgers that a client was deleting and that the epilogue did not find."""
        self._begun: defaultdict[int, set[str]] = defaultdict(set)
        """For each ledger, the recoverers that have not reported closing it."""

    @on("recovery.failed")
    def recovery_failed(self, event: Event) -> None:
        if event.node != EPILOGUE:
            return
        if event.error == _NO_RESPONSE:  # The ledger may have been closed.
            self._no_response[event.ledger] = event
        if event.error == _NO_LEDGER and self.ledgers[event.ledger].deleting:
            self._gone.add(event.ledger)

    @on("recovery.started", "ledger.unreadable")
    def tried_again(self, event: Event) -> None:
        self._no_response.pop(event.ledger, None)

    @on("recovery.started")
    def started(self, event: Event) -> None:
        self._gone.discard(event.ledger)
        self._begun[event.ledger].add(event.node)

    @on("recovery.ended")
    def ended(self, event: Event) -> None:
        self._begun[event.ledger].discard(event.node)

    @on("read.failed", "fence.failed")
    def failed(self, event: Event) -> None:
        if event.node == EPILOGUE and not proves_absence(event):
            self._unasked[event.ledger] = event

    def finish(self) -> None:
        for ledger in self.facts.existing:
            ledger_id = ledger.ledger_id
            if ledger.closed is not None:
                self.report_kept()
            elif ledger_id in self._unasked:
                bookie = self._unasked[ledger_id].peer
                self.report_doubt(f"At the end, {bookie} could not be asked for ledger {ledger_id}")
            elif ledger_id in self._no_response:
                self.report_doubt(
                    "The metadata store did not respond, so it is unknown whether ledger"
                    f" {ledger_id} is closed"
                )
            elif ledger_id in self._gone and (request := ledger.deleting):
                self.report_doubt(
                    f"{request.node} may have deleted ledger {ledger_id} without receiving a"
                    " response"
                )
            elif EPILOGUE in ledger.recoverers:
                self._judge(ledger_id, ledger.recoverers[EPILOGUE])
            elif ledger.created is not None:
                self.report_doubt(f"At the end, ledger {ledger_id} was not opened with recovery")

    def _judge(self, ledger_id: int, start: Event) -> None:
        unfinished = self._begun[ledger_id]
        if unfinished and EPILOGUE not in unfinished:
            self.report_doubt(
                f"{min(unfinished)} may have closed ledger {ledger_id} without receiving a response"
            )
        else:
            self.report_broken(
                start, f"ledger {ledger_id} was opened with recovery, but it is not closed"
            )
