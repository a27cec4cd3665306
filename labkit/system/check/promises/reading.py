"""Promises to readers: one content for all, nothing that can still be lost, closed means closed.

In BookKeeper: `client/ReadOnlyLedgerHandle.java`, `client/PendingReadOp.java`.
"""

from collections import defaultdict

from labkit.system.check.facts import Facts
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event


class ReadersAgree(Check):
    """All readers of an entry get the same content: the one that the writer gave it, from every
    bookie and for ever.

    Recoverers count as readers, and what they write back is compared as well.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._content: dict[tuple[int, int], str] = {}

    @on("add.pushed", "read.done")
    def seen(self, event: Event) -> None:
        """Compare with what was seen first."""
        if event.entry < 0:
            return
        content = event.note
        if not content:
            self.doubt("the trace does not hold the checksums of what was written and read")
            return
        first = self._content.setdefault((event.ledger, event.entry), content)
        if content == first:
            self.judged += 1
            return
        where = f" from {event.peer}" if event.peer else ""
        self.broke(
            event,
            f"{event.node} has entry {event.entry} of ledger {event.ledger}{where} with the"
            f" checksum {content}, and it was {first} before",
            self.facts.first("add.pushed", event.ledger, event.entry)
            or self.facts.first("read.done", event.ledger, event.entry),
        )


class NothingBeyondLacIsRead(Check):
    """A reader is given no entry that was not confirmed: nothing that recovery may still drop.

    Reads of recoverers, bookies, auditors and replication workers are not judged: they give the
    entries to no reader.  Where one node both recovers and reads a ledger, the events do not say
    for which of the two it got an entry.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._highest: dict[int, Event] = {}
        self._of_recovery: set[tuple[int, int, str, str]] = set()

    @on("read.sent")
    def asked(self, event: Event) -> None:
        """Note whether it is a recovery's read: its answer may come long after the recovery."""
        ledger = self.ledgers[event.ledger]
        if ledger.recoverers:
            key = event.ledger, event.entry, event.node, event.peer
            if event.node in ledger.recovering:
                self._of_recovery.add(key)
            else:
                self._of_recovery.discard(key)

    @on("read.done")
    def read(self, event: Event) -> None:
        """Compare the read entry with what was confirmed."""
        ledger, entry = self.ledgers[event.ledger], event.entry
        if entry < 0 or event.node in self.facts.caretakers:
            return
        if (event.ledger, entry, event.node, event.peer) in self._of_recovery:
            return
        readable = ledger.secured if ledger.closed is None else ledger.end
        if ledger.recovers_and_reads(event.node):
            if entry <= readable:
                self.judged += 1
            else:
                self.doubt(f"{event.node} both recovers and reads ledger {event.ledger}")
            return
        if event.ledger not in self._highest or entry > self._highest[event.ledger].entry:
            self._highest[event.ledger] = event
        if entry <= readable:
            self.judged += 1
        elif ledger.created is None:
            self.begins_late(ledger)
        else:
            self.broke(
                event,
                f"{event.node} was given entry {entry} of ledger {event.ledger} by {event.peer},"
                f" and readable were only entries up to {readable}",
                self.facts.first("add.pushed", event.ledger, entry),
            )

    @on("ledger.closed")
    def closed(self, event: Event) -> None:
        """Look whether everything that was read is still in the closed ledger."""
        read = self._highest.get(event.ledger)
        if read is not None and read.entry > event.entry:
            self.broke(
                event,
                f"{event.node} closed ledger {event.ledger} at entry {event.entry}, and"
                f" {read.node} had been given entry {read.entry}",
                read,
            )


class ClosedLedgerNeverChanges(Check):
    """A closed ledger keeps its last entry, its length and its segments; only the bookies of a
    segment may be replaced, by others that have its entries.

    `RepairIsComplete` judges whether those others have the entries.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._closed: dict[int, Event] = {}
        self._firsts: defaultdict[int, list[int]] = defaultdict(list)

    @on("ledger.closed")
    def closed(self, event: Event) -> None:
        """Compare with how the ledger was closed before."""
        before = self._closed.setdefault(event.ledger, event)
        if (before.entry, before.size) == (event.entry, event.size):
            self.judged += 1
            self._firsts[event.ledger] = list(self.ledgers[event.ledger].segments.firsts)
        else:
            self.broke(
                event,
                f"{event.node} closed ledger {event.ledger} at entry {event.entry}, length"
                f" {event.size}, and {before.node} had closed it at entry {before.entry}, length"
                f" {before.size}",
                before,
            )

    @on("ensemble.set")
    def ensemble_set(self, event: Event) -> None:
        """Judge a segment that was not there when the ledger was closed."""
        before = self._closed.get(event.ledger)
        if before is not None and max(event.entry, 0) not in self._firsts[event.ledger]:
            self.broke(
                event,
                f"{event.node} added a segment from entry {event.entry} on to ledger"
                f" {event.ledger}, which was closed",
                before,
            )

    @on("lac.read")
    def lac_read(self, event: Event) -> None:
        """Compare the LastAddConfirmed with the ledger's end."""
        before = self._closed.get(event.ledger)
        if before is not None and event.entry > before.entry:
            self.broke(
                event,
                f"{event.node} took {event.entry} for the LastAddConfirmed of ledger"
                f" {event.ledger}, which was closed at entry {before.entry}",
                before,
            )
