"""Promises to readers: all readers see the same entries, they read only confirmed entries, and a
closed ledger is final.

In BookKeeper: `client/ReadOnlyLedgerHandle.java`, `client/PendingReadOp.java`.
"""

from collections import defaultdict

from labkit.system.check.facts import Facts
from labkit.system.check.promise import Check, end_words
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on


class ReadersAgree(Check):
    """All readers of an entry get the content that the writer gave it, from every bookie and at any
    time.

    Recoverers count as readers, too, and the check also compares the entries that they write back.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._first: dict[tuple[int, int], Event] = {}
        """For each ledger and entry, the first event that reports the content."""

    @on("add.pushed", "read.done")
    def content_reported(self, event: Event) -> None:
        if event.entry < 0:
            return
        if not event.checksum:
            self.report_doubt("The trace does not include the checksums of all entries")
            return
        first = self._first.setdefault((event.ledger, event.entry), event)
        if event.checksum == first.checksum:
            self.report_kept()
            return
        source = f" from {event.peer}" if event.peer else ""
        self.report_broken(
            event,
            f"{event.node} has entry {event.entry} of ledger {event.ledger}{source} with"
            f" checksum {event.checksum}, but earlier the checksum was {first.checksum}",
            first,
        )


class NothingBeyondLacIsRead(Check):
    """A reader never receives an unconfirmed entry, which a recovery could still drop.

    The check skips recoverers, bookies, auditors and replication workers, because they do not pass
    entries to a reader. If a node both recovers and reads a ledger, the trace does not show in
    which of the two roles it received an entry.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._highest: dict[int, Event] = {}
        self._of_recovery: set[tuple[int, int, str, str]] = set()

    @on("read.sent")
    def asked(self, event: Event) -> None:
        # The response to a recovery read may arrive long after the recovery has ended.
        ledger = self.ledgers[event.ledger]
        if ledger.recoverers:
            key = event.ledger, event.entry, event.node, event.peer
            if event.node in ledger.recovering:
                self._of_recovery.add(key)
            else:
                self._of_recovery.discard(key)

    @on("read.done")
    def read(self, event: Event) -> None:
        ledger, entry = self.ledgers[event.ledger], event.entry
        if entry < 0 or event.node in self.facts.maintenance_nodes:
            return
        if (event.ledger, entry, event.node, event.peer) in self._of_recovery:
            return
        readable = ledger.confirmed_by_any if ledger.closed is None else ledger.end
        if ledger.recovers_and_reads(event.node):
            if entry <= readable:
                self.report_kept()
            else:
                self.report_doubt(f"{event.node} both recovers and reads ledger {event.ledger}")
            return
        if event.ledger not in self._highest or entry > self._highest[event.ledger].entry:
            self._highest[event.ledger] = event
        if entry <= readable:
            self.report_kept()
        elif ledger.created is None:
            self.report_missing_creation(ledger)
        else:
            self.report_broken(
                event,
                f"{event.node} received entry {entry} of ledger {event.ledger} from {event.peer},"
                f" although only entries up to {readable} were readable",
                self.first("add.pushed", event.ledger, entry),
            )

    @on("ledger.closed")
    def closed(self, event: Event) -> None:
        ledger, read = self.ledgers[event.ledger], self._highest.get(event.ledger)
        if read is None or read.entry <= event.entry:
            return
        if ledger.created is None:
            self.report_missing_creation(ledger)
        else:
            self.report_broken(
                event,
                f"{event.node} closed ledger {event.ledger} {end_words(event.entry)}, although"
                f" {read.node} had received entry {read.entry}",
                read,
            )


class ClosedLedgerNeverChanges(Check):
    """A closed ledger keeps its last entry, its length and its segments, except that bookies of a
    segment may be replaced by others that have the segment's entries.

    `RepairIsComplete` checks whether the replacements have the entries.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._closed: dict[int, Event] = {}
        self._firsts: defaultdict[int, list[int]] = defaultdict(list)

    @on("ledger.closed")
    def closed(self, event: Event) -> None:
        before = self._closed.setdefault(event.ledger, event)
        if (before.entry, before.size) == (event.entry, event.size):
            self.report_kept()
            self._firsts[event.ledger] = list(self.ledgers[event.ledger].segments.firsts)
        else:
            self.report_broken(
                event,
                f"{event.node} closed ledger {event.ledger} {end_words(event.entry)}, length"
                f" {event.size}, but {before.node} had closed it {end_words(before.entry)}, length"
                f" {before.size}",
                before,
            )

    @on("ensemble.set")
    def ensemble_set(self, event: Event) -> None:
        before = self._closed.get(event.ledger)
        if before is None or event.entry in self._firsts[event.ledger]:
            return
        if self.ledgers[event.ledger].created is None:
            self.report_missing_creation(self.ledgers[event.ledger])
        else:
            self.report_broken(
                event,
                f"{event.node} added a segment that starts at entry {event.entry} to ledger"
                f" {event.ledger}, which was already closed",
                before,
            )

    @on("lac.read")
    def lac_read(self, event: Event) -> None:
        before = self._closed.get(event.ledger)
        if before is not None and event.entry > before.entry:
            self.report_broken(
                event,
                f"{event.node} read LastAddConfirmed {event.entry} of ledger"
                f" {event.ledger}, which was closed {end_words(before.entry)}",
                before,
            )
