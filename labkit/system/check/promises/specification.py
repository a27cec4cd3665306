"""The invariants of BookKeeper's public TLA+ specification, by their names there.

The specification judges every state; a trace has events.  So all checks are weaker in three ways:
from the sync that made it durable, a copy counts as kept, whatever the disk does later; what a
message carried is known only from its receiver's report; and where the trace begins after the
ledger was created, the check judges nothing.  Each docstring says what else is weaker.

`EntryOrderMaintained`, `AllNonEmptyLedgersInLedgerList` and `OnlyOneLedgerOpenAtATime` of
`LedgerChaining.tla` are in `chain`.
"""

from labkit.system.check.facts import Facts, LedgerFacts
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.check.segments import names
from labkit.system.trace.events import Event


class TypeOK(Check):
    """Every value is of its type: E >= Qw >= Qa >= 1, an ensemble is E different bookies, and a
    ledger's last entry is one that was pushed, or -1.

    Judges only the events of a ledger's metadata, not the messages.
    """

    @on("ledger.created")
    def created(self, event: Event) -> None:
        """Judge the three numbers."""
        ledger = self.ledgers[event.ledger]
        self.judged += 1
        if not ledger.ensemble_size >= ledger.write_quorum >= ledger.ack_quorum >= 1:
            self.broke(event, f"ledger {event.ledger} was created with {event.note or 'no sizes'}")

    @on("ensemble.set", "ensemble.deferred")
    def ensemble_set(self, event: Event) -> None:
        """Judge whether E different bookies are named."""
        ledger, ensemble = self.ledgers[event.ledger], names(event.note)
        if ledger.created is None:
            self.begins_late(ledger)
        elif len(ensemble) != len(set(ensemble)) or len(ensemble) != ledger.ensemble_size:
            self.broke(
                event,
                f"the ensemble of ledger {event.ledger} from entry {event.entry} on is"
                f" {', '.join(ensemble)}, and {ledger.ensemble_size} different bookies are wanted",
                ledger.created,
            )

    @on("ledger.closed")
    def closed(self, event: Event) -> None:
        """Judge whether the last entry was pushed."""
        ledger = self.ledgers[event.ledger]
        if ledger.created is not None and not -1 <= event.entry <= ledger.last_pushed:
            self.broke(
                event,
                f"{event.node} closed ledger {event.ledger} at entry {event.entry}, and the last"
                f" that {ledger.writer} pushed is {ledger.last_pushed}",
            )


class NoDivergenceBetweenClientAndMetaData(Check):
    """Once a ledger is closed its writer has no LastAddConfirmed beyond the last entry in the
    metadata, and exactly one client closed it.

    Judged when the ledger is closed and whenever its writer confirms afterwards.
    """

    @on("ledger.closed")
    def closed(self, event: Event) -> None:
        """Judge who closed the ledger, and at which entry."""
        ledger = self.ledgers[event.ledger]
        self.judged += 1
        if ledger.closed is not event:
            self.broke(event, f"ledger {event.ledger} was closed a second time", ledger.closed)
        elif ledger.confirmed > event.entry:
            self._diverged(event, ledger)

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        """Judge a confirmation after the close."""
        ledger = self.ledgers[event.ledger]
        if ledger.closed is not None and ledger.confirmed > ledger.end:
            self._diverged(event, ledger)

    def _diverged(self, event: Event, ledger: LedgerFacts) -> None:
        if ledger.was_formatted_away(ledger.end + 1):
            self.doubt(
                f"bookies that had entry {ledger.end + 1} of ledger {event.ledger} were formatted"
            )
            return
        self.broke(
            event,
            f"{ledger.writer} has confirmed entry {ledger.confirmed} of ledger {event.ledger}, and"
            f" the metadata has {ledger.end} as the last entry",
            ledger.closed,
        )


class AllAckedEntriesAreReadable(Check):
    """Each entry that was confirmed to its writer is on at least one bookie of its segment.

    Judged where that can change: when a ledger is closed, and when a segment gets other bookies.
    """

    @on("ledger.closed", "ensemble.set")
    def changed(self, event: Event) -> None:
        """Look at each confirmed entry."""
        ledger = self.ledgers[event.ledger]
        if ledger.created is None:
            self.begins_late(ledger)
            return
        first = max(event.entry, 0) if event.kind == "ensemble.set" else 0
        reach = ledger.segments.reach(first, ledger.confirmed)
        for entry in reach if event.kind == "ensemble.set" else range(ledger.confirmed + 1):
            self.judged += 1
            if not ledger.holders(entry):
                self.broke(
                    event,
                    f"entry {entry} of ledger {event.ledger} was confirmed, and none of"
                    f" {', '.join(ledger.segments.write_set(entry))} has it",
                    self.facts.first("lac.advanced", event.ledger, entry),
                )
                return


class _ClosedLedgerCheck(Check):
    """Base: in a closed ledger every entry has `wanted` copies in its segment."""

    @on("ledger.closed", "ensemble.set", "fragment.replicated")
    def changed(self, event: Event) -> None:
        """Count the copies of each entry."""
        ledger = self.ledgers[event.ledger]
        if ledger.closed is None:
            return
        if ledger.created is None:
            self.begins_late(ledger)
            return
        for entry in range(ledger.end + 1):
            self.judged += 1
            copies = ledger.holders(entry)
            if copies < self.wanted(ledger):
                self.broke(
                    event,
                    f"entry {entry} of the closed ledger {event.ledger} is on {copies} of"
                    f" {', '.join(ledger.segments.write_set(entry))},"
                    f" and {self.wanted(ledger)} are wanted",
                    ledger.closed,
                    self.facts.first("add.pushed", event.ledger, entry),
                )
                return

    def wanted(self, ledger: LedgerFacts) -> int:
        """The number of copies that an entry needs."""
        raise NotImplementedError


class AllCommittedEntriesReachAckQuorum(_ClosedLedgerCheck):
    """In a closed ledger every entry is on at least Qa bookies of its segment.

    Judged when it is closed, and when a segment of the closed ledger gets other bookies.
    """

    def wanted(self, ledger: LedgerFacts) -> int:
        """The ack quorum."""
        return ledger.ack_quorum


class AllEntriesOfClosedLedgerReachedWriteQuorum(_ClosedLedgerCheck):
    """In a closed ledger every entry is on all Qw bookies of its segment.

    The specification has this for a proposed protocol that BookKeeper does not follow: a bookie
    that fails after the ack quorum leaves fewer copies.  So this check is not among `CHECKS`.
    """

    def wanted(self, ledger: LedgerFacts) -> int:
        """The write quorum."""
        return ledger.write_quorum


class TailFragmentsReachWriteQuorum(Check):
    """When a ledger goes on in a new segment, every entry before it is on all Qw bookies of its
    segment.

    Part of the same proposed protocol, and not among `CHECKS` either.
    """

    @on("ensemble.set")
    def ensemble_set(self, event: Event) -> None:
        """Look at the entries of the segment before."""
        ledger = self.ledgers[event.ledger]
        before = [first for first in ledger.segments.firsts if first < event.entry]
        for entry in range(max(before, default=event.entry), event.entry):
            self.judged += 1
            copies = ledger.holders(entry)
            if copies < ledger.write_quorum:
                self.broke(
                    event,
                    f"ledger {event.ledger} went on from entry {event.entry} on, and entry {entry}"
                    f" was on {copies} of {', '.join(ledger.segments.write_set(entry))}",
                    self.facts.first("add.pushed", event.ledger, entry),
                )
                return


class NoOutOfOrderEntries(Check):
    """Entries lie in the order in which the writer pushed them: ids grow one by one, and under each
    id a reader finds the content that was pushed under it.

    Contents are compared by their checksums.  Where the writer's node also recovers the ledger, an
    id that was pushed before counts as pushed again by the recovery.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._last: dict[int, int] = {}

    @on("add.pushed")
    def pushed(self, event: Event) -> None:
        """Judge whether it is the next id."""
        ledger = self.ledgers[event.ledger]
        if event.node != ledger.writer:
            return
        last = self._last.get(event.ledger, -1)
        if event.entry <= last and event.node in ledger.recoverers:
            return
        self._last[event.ledger] = event.entry
        self.judged += 1
        if event.entry != last + 1:
            self.broke(
                event,
                f"{event.node} pushed entry {event.entry} of ledger {event.ledger} after {last}",
                self.facts.first("add.pushed", event.ledger, last, event.node),
            )

    @on("read.done")
    def read(self, event: Event) -> None:
        """Compare the content with what was pushed under this id."""
        pushed = self.ledgers[event.ledger].pushed
        content, written = event.note, pushed.get(event.entry, "")
        if content and written and content != written:
            other = next((str(entry) for entry, note in pushed.items() if note == content), "no")
            self.broke(
                event,
                f"{event.node} read under entry {event.entry} of ledger {event.ledger} what was"
                f" pushed as entry {other}",
                self.facts.first("add.pushed", event.ledger, event.entry),
            )


class OnlyValidFragments(Check):
    """A new segment never begins before one that is already there.

    Recoverers' own ensembles are judged when they come into the metadata.
    """

    @on("ensemble.set")
    def ensemble_set(self, event: Event) -> None:
        """Judge whether it is the last segment, or an existing one."""
        ledger = self.ledgers[event.ledger]
        first, highest = max(event.entry, 0), ledger.segments.firsts[-1]
        self.judged += 1
        is_late = ledger.closed is not None and event.node not in self.facts.caretakers
        if first < highest and not ledger.before and not is_late:
            self.broke(
                event,
                f"{event.node} made a fragment from entry {first} on in ledger {event.ledger},"
                f" which has one from entry {highest} on",
                self.facts.first("ensemble.set", event.ledger, highest),
            )


class NoDirtyReads(Check):
    """A LastAddConfirmed that a bookie reports has really been confirmed.

    Judged where it arrives: at a reader (`lac.read`) and at a recoverer (`fence.answered`).
    """

    @on("lac.read", "fence.answered")
    def told(self, event: Event) -> None:
        """Compare it with what was confirmed."""
        ledger = self.ledgers[event.ledger]
        if ledger.created is None:
            self.begins_late(ledger)
        elif event.entry <= max(ledger.secured, ledger.end):
            self.judged += 1
        else:
            told_by = f" from {event.peer}" if event.peer else ""
            self.broke(
                event,
                f"{event.node} learned{told_by} that ledger {event.ledger} is confirmed to entry"
                f" {event.entry}, and it is confirmed to {ledger.secured}",
                self.facts.first("add.pushed", event.ledger, event.entry),
            )
