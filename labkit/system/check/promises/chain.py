"""Promises about a topic partition: MessageIDs increase, and the chain of ledgers is in order.

The last three checks are invariants of `LedgerChaining.tla`, and have the same names as in that
specification.

In Pulsar: `ManagedLedgerImpl`.
"""

from collections import defaultdict

from labkit.system.check.facts import Facts, LedgerFacts
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on


class MessageIdsGrow(Check):
    """In a topic partition, each batch of a producer is stored after the producer's previous batch:
    in a later ledger, or at a higher entry id of the same ledger.

    The check compares only batches that the same node reports as stored, because a node that has
    lost the topic may learn late that its last batches were stored. The node is the producer or, if
    producers send their messages to brokers, the broker. In the latter case, the check also
    compares the MessageIDs in each producer's receipts, regardless of which broker sent them.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._last: dict[tuple[str, str], Event] = {}

    @on("batch.stored")
    def stored(self, event: Event) -> None:
        before = self._previous(event.topic, event)
        if before is None or (event.ledger, event.entry) > (before.ledger, before.entry):
            self.report_kept()
        else:
            self.report_broken(
                event,
                f"{event.topic} stored a batch as {event.ledger}:{event.entry}, after the previous"
                f" batch was stored as {before.ledger}:{before.entry}",
                before,
            )

    @on("message.acked")
    def acked(self, event: Event) -> None:
        if event.ledger < 0:
            return  # The receipt for a duplicate has no MessageID.
        before = self._previous(f"{event.topic} {event.producer}", event)
        # All messages of a batch are stored in the same entry, so their positions are equal.
        if before is None or (event.ledger, event.entry) >= (before.ledger, before.entry):
            self.report_kept()
        else:
            self.report_broken(
                event,
                f"{event.node} got the receipt {event.ledger}:{event.entry} after"
                f" {before.ledger}:{before.entry}",
                before,
            )

    def _previous(self, stream: str, event: Event) -> Event | None:
        before = self._last.get((stream, event.node))
        self._last[stream, event.node] = event
        return before


class _ChainCheck(Check):
    """Base class of the chain checks. Records the ledgers of each partition, in order."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.chains: defaultdict[str, list[int]] = defaultdict(list)

    @on("ledger.rolled")
    def rolled(self, event: Event) -> None:
        self.chains[event.topic].append(event.ledger)


class AllNonEmptyLedgersInLedgerList(_ChainCheck):
    """Every ledger that contains a batch of a partition is in the partition's list of ledgers.

    The check builds the list from `ledger.rolled` events, so ledgers from before the start of the
    trace are missing from the list.
    """

    @on("batch.stored")
    def stored(self, event: Event) -> None:
        chain = self.chains[event.topic]
        if event.ledger in chain:
            self.report_kept()
        elif self.ledgers[event.ledger].created is None:
            self.report_missing_creation(self.ledgers[event.ledger])
        else:
            self.report_broken(
                event,
                f"{event.topic} stored a batch in ledger {event.ledger}, but its ledgers are"
                f" {', '.join(map(str, chain)) or 'none'}",
                self.ledgers[event.ledger].created,
            )


class EntryOrderMaintained(_ChainCheck):
    """A partition's entries are stored in the order of its list of ledgers, and within a ledger in
    the order of their ids.

    The specification compares all entries of the log. The events show only when each node learned
    that a batch had been stored (`batch.stored`), so the check compares only batches of the same
    node.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._last: dict[tuple[str, str], tuple[int, int, Event]] = {}

    @on("batch.stored")
    def stored(self, event: Event) -> None:
        chain = self.chains[event.topic]
        if event.ledger not in chain:
            self.report_doubt(
                f"The trace does not show when {event.topic} started ledger {event.ledger}"
            )
            return
        position = chain.index(event.ledger), event.entry
        *last, before = self._last.get((event.topic, event.node), (-1, -1, None))
        self._last[event.topic, event.node] = *position, event
        if list(position) > last:
            self.report_kept()
        else:
            self.report_broken(
                event,
                f"{event.topic} stored entry {event.entry} of ledger {event.ledger} after a batch"
                " that should follow it",
                before,
            )


class OnlyOneLedgerOpenAtATime(_ChainCheck):
    """A partition continues in a new ledger only after the previous ledger has been closed.

    A node reports that it has closed a ledger when it receives the metadata store's response, but
    another node may have read the change earlier. So if one node closes the previous ledger and
    another node starts the new one, the order of the two events proves nothing. The order also
    proves nothing if yet another node was about to close the ledger, because the response to that
    node may have been lost.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._early: list[tuple[Event, LedgerFacts, set[str]]] = []
        """For each ledger that seems to have started too early: the event that reports its start,
        the previous ledger, and the recoverers of the previous ledger.
        """

    @on("ledger.rolled")
    def continued(self, event: Event) -> None:
        chain = self.chains[event.topic]
        if len(chain) < 2:
            return
        before = self.ledgers[chain[-2]]
        if before.created is None:
            self.report_missing_creation(before)
        elif before.closed is None:
            # Only recoverers that have fenced the ledger may close it.
            others = before.covered.keys() - {event.node}
            self._early.append((event, before, others))
        else:
            self.report_kept()

    def finish(self) -> None:
        for event, before, others in self._early:
            if before.closed is not None and before.closed.node != event.node:
                self.report_doubt(
                    f"The trace does not show when ledger {before.ledger_id} was closed, only when"
                    f" {before.closed.node} learned of it"
                )
            elif event.ledger < before.ledger_id and event.node != before.writer:
                self.report_doubt(
                    f"Ledger {event.ledger} may have joined the list before ledger"
                    f" {before.ledger_id}, because {event.node} learned of it late"
                )
            elif before.closed is None and before.writer in self.facts.killed:
                self.report_doubt(
                    f"{before.writer} was killed, and the trace does not show whether it had closed"
                    f" ledger {before.ledger_id} by then"
                )
            elif before.closed is None and self.facts.is_simulated:
                # The epilogue would have closed an open ledger, so a response was lost.
                self.report_doubt(f"The trace does not show who closed ledger {before.ledger_id}")
            elif before.closed is None and event.detail == "opened":
                # The connection may have broken before the response arrived.
                self.report_doubt(
                    f"The trace does not show whether ledger {before.ledger_id} was closed"
                )
            elif before.closed is None and others:
                self.report_doubt(
                    f"{min(others)} may have closed ledger {before.ledger_id} without receiving a"
                    " response"
                )
            else:
                self.report_broken(
                    event,
                    f"{event.topic} continued in ledger {event.ledger} while ledger"
                    f" {before.ledger_id} was still open",
                    before.created,
                )
