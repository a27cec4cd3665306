"""The first promise: what was acknowledged is there after every recovery and at the end.

In BookKeeper: `client/LedgerRecoveryOp.java`.
"""

from collections import defaultdict

from labkit.system.check.facts import EPILOGUE, Facts, LedgerFacts, proves_absence
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event


class AcknowledgedIsDurable(Check):
    """Every entry that was confirmed to its writer's caller is there after every recovery and at
    the end of the run, with the content that was written.

    At the end the epilogue asks every bookie of the write set.  An entry that all of them deny is
    lost; one that none gives, but that some bookie could not be asked for, stays open, and so does
    one that a bookie had when an operator formatted it.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._given: defaultdict[int, dict[int, Event]] = defaultdict(dict)
        self._refused: defaultdict[int, dict[int, list[Event]]] = defaultdict(dict)

    @on("recovery.ended", "ledger.closed")
    def ended(self, event: Event) -> None:
        """Compare the ledger's end with what was confirmed."""
        ledger = self.ledgers[event.ledger]
        self.judged += 1
        if event.entry < ledger.confirmed:
            if self._is_the_operators(ledger, event.entry + 1):
                return
            did = "closed" if event.kind == "ledger.closed" else "recovered"
            lost = event.entry + 1
            self.broke(
                event,
                f"{event.node} {did} ledger {event.ledger} at entry {event.entry}, and entry"
                f" {lost} had been confirmed to {ledger.writer}",
                self.facts.first("lac.advanced", event.ledger, lost, ledger.writer),
            )

    @on("read.done", "read.failed")
    def read(self, event: Event) -> None:
        """Only the epilogue's reads count: they come last, from every bookie."""
        if event.node != EPILOGUE or event.entry < 0:
            return
        if event.kind == "read.failed":
            self._refused[event.ledger].setdefault(event.entry, []).append(event)
            return
        self._given[event.ledger][event.entry] = event
        written = self.ledgers[event.ledger].pushed.get(event.entry, "")
        if written and event.note and event.note != written:
            self.broke(
                event,
                f"{event.peer} gave entry {event.entry} of ledger {event.ledger} with the checksum"
                f" {event.note}, and {self.ledgers[event.ledger].writer} had written {written}",
                self.facts.first("add.pushed", event.ledger, event.entry),
            )

    def finish(self) -> None:
        """Look up each confirmed entry at the end."""
        for ledger in self.ledgers.values():
            if ledger.closed is not None and ledger.confirmed > ledger.end:
                self._confirmed_too_late(ledger)
            elif ledger.deleted is not None:
                continue
            elif not self._given[ledger.ledger_id] and not self._refused[ledger.ledger_id]:
                if ledger.confirmed >= 0:
                    self.doubt(f"ledger {ledger.ledger_id} was not read again at the end")
            else:
                self._look_for_each(ledger)
            if ledger.created is None:
                self.begins_late(ledger)

    def _confirmed_too_late(self, ledger: LedgerFacts) -> None:
        number, lost = ledger.ledger_id, ledger.end + 1
        event = self.facts.first("lac.advanced", number, lost, ledger.writer)
        if self._is_the_operators(ledger, lost):
            return
        if event is not None and ledger.closed is not None:
            self.broke(
                event,
                f"entry {lost} of ledger {number} was confirmed to {ledger.writer}, and"
                f" {ledger.closed.node} had closed the ledger at entry {ledger.end}",
                ledger.closed,
            )

    def _look_for_each(self, ledger: LedgerFacts) -> None:
        number = ledger.ledger_id
        given, refused = self._given[number], self._refused[number]
        for entry in range(ledger.confirmed + 1):
            if entry in given:
                self.judged += 1
                continue
            answers = refused.get(entry, [])
            denied = {event.peer for event in answers if proves_absence(event)}
            asked = set(ledger.segments.write_set(entry))
            if self._is_the_operators(ledger, entry):
                continue
            if asked and asked <= denied:
                self.broke(
                    answers[-1],
                    f"entry {entry} of ledger {number} had been confirmed to {ledger.writer}, and"
                    f" at the end none of {', '.join(sorted(denied))} has it",
                    self.facts.first("lac.advanced", number, entry, ledger.writer),
                )
            else:
                self.doubt(f"no bookie could be asked in the end for entry {entry} of {number}")

    def _is_the_operators(self, ledger: LedgerFacts, entry: int) -> bool:
        is_formatted = ledger.was_formatted_away(entry)
        if is_formatted:
            self.doubt(
                f"bookies that had entry {entry} of ledger {ledger.ledger_id} were formatted"
            )
        return is_formatted
