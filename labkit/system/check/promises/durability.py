"""The main promises: acknowledged entries survive every recovery, and every bookie keeps its
copies.

In BookKeeper: `client/LedgerRecoveryOp.java`, `bookie/Journal.java`, `bookie/SyncThread.java`.
"""

from collections import defaultdict
from functools import partial

from labkit.system.check.facts import EPILOGUE, Facts, LedgerFacts, proves_absence
from labkit.system.check.promise import Check, end_words
from labkit.system.model.errors import BKReadException
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on

_CANNOT_READ = BKReadException.__name__


class AcknowledgedIsDurable(Check):
    """An entry that was confirmed to its writer's caller survives every recovery and exists at the
    end of the run, with the content that was written.

    The epilogue requests each entry from every bookie of its write set. If all of these bookies
    respond that they do not have the entry, the entry is lost. If no bookie returns the entry, but
    at least one does not respond, the result is unknown. The result is also unknown if a bookie
    that had the entry has been formatted.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._found: defaultdict[int, dict[int, Event]] = defaultdict(dict)
        self._failed: defaultdict[int, dict[int, list[Event]]] = defaultdict(dict)

    @on("recovery.ended", "ledger.closed")
    def ended(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if ledger.confirmed < 0:
            return  # There is no entry that could have been lost.
        if event.entry >= ledger.confirmed:
            self.report_kept()
        elif not self.report_doubt_if_formatted(ledger, event.entry + 1):
            confirmation = self._confirmation_after(ledger, event.entry)
            lost = confirmation.entry if confirmation else event.entry + 1
            did = "closed" if event.kind == "ledger.closed" else "recovered"
            self.report_broken(
                event,
                f"{event.node} {did} ledger {event.ledger} {end_words(event.entry)}, although"
                f" entry {lost} had been confirmed to {ledger.writer}",
                confirmation,
                *self._denials(event.node, ledger.ledger_id, event.entry + 1),
            )

    @on("read.done", "read.failed")
    def read(self, event: Event) -> None:
        if event.node != EPILOGUE or event.entry < 0:
            return
        if event.kind == "read.failed":
            self._failed[event.ledger].setdefault(event.entry, []).append(event)
            return
        self._found[event.ledger][event.entry] = event
        written = self.ledgers[event.ledger].pushed.get(event.entry, "")
        if written and event.checksum and event.checksum != written:
            self.report_broken(
                event,
                f"{event.peer} returned entry {event.entry} of ledger {event.ledger} with checksum"
                f" {event.checksum}, but {self.ledgers[event.ledger].writer} wrote {written}",
                self.first("add.pushed", event.ledger, event.entry),
            )

    def finish(self) -> None:
        for ledger in self.ledgers.values():
            if ledger.closed is not None and ledger.confirmed > ledger.end:
                self._confirmed_too_late(ledger)
            elif ledger.deleted is not None:
                continue
            elif not self._found[ledger.ledger_id] and not self._failed[ledger.ledger_id]:
                if ledger.confirmed >= 0:
                    self.report_doubt(f"Ledger {ledger.ledger_id} was not read at the end")
            else:
                self._check_entries(ledger)
            if ledger.created is None:
                self.report_missing_creation(ledger)

    def _confirmed_too_late(self, ledger: LedgerFacts) -> None:
        event, closed = self._confirmation_after(ledger, ledger.end), ledger.closed
        if self.report_doubt_if_formatted(ledger, ledger.end + 1):
            return
        if event is not None and closed is not None:
            self.report_broken(
                event,
                f"entry {event.entry} of ledger {ledger.ledger_id} was confirmed to"
                f" {ledger.writer}, although {closed.node} had closed the ledger"
                f" {end_words(ledger.end)}",
                closed,
                *self._denials(closed.node, ledger.ledger_id, ledger.end + 1),
            )

    def _confirmation_after(self, ledger: LedgerFacts, end: int) -> Event | None:
        """Return the first event with which the ledger's writer confirmed an entry after `end`."""
        wanted = "lac.advanced", ledger.ledger_id, ledger.writer
        found = (e for e in self.facts.events if (e.kind, e.ledger, e.node) == wanted)
        return next((event for event in found if event.entry > end), None)

    def _denials(self, node: str, ledger_id: int, entry: int) -> list[Event]:
        """Return the events in which a recoverer was told that a bookie does not have the entry."""
        wanted = "read.failed", node, ledger_id, entry
        found = (e for e in self.facts.events if (e.kind, e.node, e.ledger, e.entry) == wanted)
        return [event for event in found if proves_absence(event)]

    def _check_entries(self, ledger: LedgerFacts) -> None:
        ledger_id = ledger.ledger_id
        found, failed = self._found[ledger_id], self._failed[ledger_id]
        for entry in range(ledger.confirmed + 1):
            if entry in found:
                self.report_kept()
                continue
            failures = failed.get(entry, [])
            denied = {event.peer for event in failures if proves_absence(event)}
            write_set = set(ledger.segments.write_set(entry))
            if self.report_doubt_if_formatted(ledger, entry):
                continue
            if write_set and write_set <= denied:
                self.report_broken(
                    failures[-1],
                    f"entry {entry} of ledger {ledger_id} had been confirmed to {ledger.writer},"
                    f" but at the end none of {', '.join(sorted(denied))} has it",
                    self.first("lac.advanced", ledger_id, entry, ledger.writer),
                )
            else:
                self.report_doubt(
                    f"At the end, not every bookie could be asked for entry {entry} of ledger"
                    f" {ledger_id}"
                )


class EveryCopyIsDurable(Check):
    """A bookie that has acknowledged an entry still has it at the end of the run.

    The epilogue requests each entry from every bookie of its write set. A bookie whose disk has not
    failed, but that cannot read an entry that it has acknowledged, has lost the entry, even if
    other copies exist. The check skips ledgers with deferred sync, and entries of bookies that were
    formatted.
    """

    @on("read.done", "read.failed")
    def read(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if event.node != EPILOGUE or event.entry not in ledger.acked[event.peer]:
            return
        if ledger.deferred_sync or event.entry in ledger.formatted.get(event.peer, ()):
            return
        if event.kind == "read.done":
            self.report_kept()
        elif proves_absence(event) or self._cannot_read(event):
            does = "does not have" if proves_absence(event) else "cannot read"
            self.report_broken(
                event,
                f"{event.peer} {does} entry {event.entry} of ledger {event.ledger},"
                " although it had acknowledged the entry",
                partial(self._acknowledgement, event),
            )

    @on("fence.failed")
    def fence_failed(self, event: Event) -> None:
        # A bookie that fences a ledger returns the ledger's last entry.
        ledger = self.ledgers[event.ledger]
        has_copies = ledger.acked[event.peer] and not ledger.deferred_sync
        if event.node == EPILOGUE and has_copies and self._cannot_read(event):
            self.report_broken(
                event,
                f"{event.peer} cannot read its last entry of ledger {event.ledger},"
                " although it had acknowledged entries of it",
            )

    def _cannot_read(self, event: Event) -> bool:
        return event.error == _CANNOT_READ and event.peer not in self.facts.bad_disks

    def _acknowledgement(self, event: Event) -> Event | None:
        copy = event.ledger, event.entry, event.peer
        acks = (e for e in self.facts.events if e.kind in ("add.acked", "entry.copied"))
        return next((ack for ack in acks if (ack.ledger, ack.entry, ack.peer) == copy), None)
