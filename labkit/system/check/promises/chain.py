"""Promises of a topic partition: its MessageIDs grow, and its chain of ledgers is in order.

The last three are invariants of `LedgerChaining.tla`, by their names there.

In BookKeeper's users: Pulsar's `ManagedLedgerImpl`.
"""

from collections import defaultdict

from labkit.system.check.facts import Facts, LedgerFacts
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event

_OPENED = ": opened"
"""How the note ends of the first ledger that an owner makes."""


def partition_of(rolled: Event) -> str:
    """The topic partition that a `ledger.rolled` is about."""
    return rolled.note.partition(": ")[0]


class MessageIdsGrow(Check):
    """In a topic partition each batch is stored at a higher ledger id, or at a higher entry id of
    the same ledger, than the batch of the same producer before.

    Batches are compared within one producer, since an owner that was replaced may hear late of its
    last batches.  Where a broker stores for others, they are compared within one broker, and the
    receipts of a producer across all brokers.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._last: dict[tuple[str, str], Event] = {}

    @on("batch.stored")
    def stored(self, event: Event) -> None:
        """Compare with the batch before."""
        before = self._follows(event.note, event)
        if before is not None and (event.ledger, event.entry) <= (before.ledger, before.entry):
            self.broke(
                event,
                f"{event.note} stored a batch as {event.ledger}:{event.entry}, after one as"
                f" {before.ledger}:{before.entry}",
                before,
            )

    @on("message.acked")
    def acked(self, event: Event) -> None:
        """Compare with the message before; those of a batch share an entry."""
        if event.ledger < 0:
            return  # A duplicate's receipt.
        producer = event.note.rpartition(" ")[0]
        before = self._follows(producer, event)
        if before is not None and (event.ledger, event.entry) < (before.ledger, before.entry):
            self.broke(
                event,
                f"{event.node} got the receipt {event.ledger}:{event.entry}, after"
                f" {before.ledger}:{before.entry}",
                before,
            )

    def _follows(self, what: str, event: Event) -> Event | None:
        """The event of the same kind before this one."""
        before = self._last.get((what, event.node))
        self._last[what, event.node] = event
        self.judged += 1
        return before


class _ChainCheck(Check):
    """Base of the checks on chains: keeps each partition's ledgers, in order."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.chains: defaultdict[str, list[int]] = defaultdict(list)

    @on("ledger.rolled")
    def rolled(self, event: Event) -> None:
        """Append the ledger to its partition's chain."""
        self.chains[partition_of(event)].append(event.ledger)


class AllNonEmptyLedgersInLedgerList(_ChainCheck):
    """Every ledger that holds a batch of a partition is in the partition's list of ledgers.

    The specification compares states; here the list is what `ledger.rolled` events have added, so a
    list that began before the trace cannot be judged.
    """

    @on("batch.stored")
    def stored(self, event: Event) -> None:
        """Look for the batch's ledger in the list."""
        chain = self.chains[event.note]
        if event.ledger in chain:
            self.judged += 1
        elif self.ledgers[event.ledger].created is None:
            self.begins_late(self.ledgers[event.ledger])
        else:
            self.broke(
                event,
                f"{event.note} stored a batch in ledger {event.ledger}, and its ledgers are"
                f" {', '.join(map(str, chain)) or 'none'}",
                self.ledgers[event.ledger].created,
            )


class EntryOrderMaintained(_ChainCheck):
    """A partition's entries are stored in the order of its list of ledgers, and within a ledger in
    the order of their ids.

    Stored means reported to the producer (`batch.stored`), where the specification reads the log
    back; so each producer is judged separately.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._last: dict[tuple[str, str], tuple[int, int, Event]] = {}

    @on("batch.stored")
    def stored(self, event: Event) -> None:
        """Compare the batch's place with that of the one before."""
        chain = self.chains[event.note]
        if event.ledger not in chain:
            self.doubt(f"the trace does not hold when {event.note} began ledger {event.ledger}")
            return
        self.judged += 1
        place = chain.index(event.ledger), event.entry
        *last, before = self._last.get((event.note, event.node), (-1, -1, None))
        self._last[event.note, event.node] = *place, event
        if list(place) <= last:
            self.broke(
                event,
                f"{event.note} stored entry {event.entry} of ledger {event.ledger} after what"
                " follows it",
                before,
            )


class OnlyOneLedgerOpenAtATime(_ChainCheck):
    """A partition goes on in a new ledger only when the ledger before it is closed.

    The trace shows a closed ledger when the metadata store's answer reaches the node that closed
    it; another node may have read the change before that.  So the order of events of two nodes is
    only a doubt, and so is a ledger that another node was about to close: the answer may be lost.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._early: list[tuple[Event, LedgerFacts, set[str]]] = []
        """A new ledger, the one before it, and the other nodes that may have closed that."""
        self._fenced: defaultdict[int, set[str]] = defaultdict(set)
        """By ledger the recoverers that have fenced it: only they can close it."""

    @on("recovery.covered")
    def covered(self, event: Event) -> None:
        """Note that the node may close the ledger."""
        self._fenced[event.ledger].add(event.node)

    @on("ledger.rolled")
    def rolled(self, event: Event) -> None:
        """Look whether the ledger before is closed."""
        chain = self.chains[partition_of(event)]
        chain.append(event.ledger)
        if len(chain) < 2:
            return
        before = self.ledgers[chain[-2]]
        self.judged += 1
        if before.created is None:
            self.begins_late(before)
        elif before.closed is None:
            others = self._fenced[before.ledger_id] - {event.node}
            self._early.append((event, before, others))

    def finish(self) -> None:
        """Look for the node that closed each ledger that seemed to be open."""
        for event, before, others in self._early:
            if before.closed is not None and before.closed.node != event.node:
                self.doubt(
                    f"the trace does not hold when ledger {before.ledger_id} was closed, only when"
                    f" {before.closed.node} heard of it"
                )
            elif event.ledger < before.ledger_id and event.node != before.writer:
                self.doubt(
                    f"the trace does not hold when ledger {event.ledger} joined the list, only when"
                    f" {event.node} heard of it, after ledger {before.ledger_id} had"
                )
            elif before.closed is None and before.writer in self.facts.killed:
                self.doubt(
                    f"{before.writer} was killed, and the run does not show whether it"
                    f" had closed ledger {before.ledger_id} by then"
                )
            elif before.closed is None and event.note.endswith(_OPENED):
                # Its connection may have broken before it got the answer.
                self.doubt(f"the run does not show ledger {before.ledger_id} being closed")
            elif before.closed is None and others:
                self.doubt(
                    f"{min(others)} may have closed ledger {before.ledger_id}, and not have heard"
                    " of it"
                )
            else:
                self.broke(
                    event,
                    f"{partition_of(event)} went on in ledger {event.ledger}, and ledger"
                    f" {before.ledger_id} was still open",
                    before.created,
                )
