"""Promises about deletion: bookies collect only deleted ledgers, and deleted ledgers stay deleted.

In BookKeeper: `bookie/HandleFactoryImpl.java`, pull request 4462.
"""

from labkit.system.check.facts import Facts
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on


class OnlyDeletedLedgersAreCollected(Check):
    """A bookie collects a ledger only after a client has requested its deletion.

    The check covers only simulated runs and ledgers whose creation is in the trace, because a live
    trace may not include the client that deleted the ledger. If a bookie drops a ledger because the
    metadata lists other bookies, it reports a different event, which this check ignores.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._unrequested: list[Event] = []

    @on("ledger.collected")
    def collected(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if ledger.created is None:
            return
        if ledger.deleting is None:
            self._unrequested.append(event)
        else:
            self.report_kept()

    def finish(self) -> None:
        for event in self._unrequested:
            if not self.facts.is_simulated:
                self.report_doubt(
                    f"A client outside the trace may have deleted ledger {event.ledger}"
                )
                continue
            self.report_broken(
                event,
                f"{event.node} collected ledger {event.ledger}, but no client had requested its"
                " deletion",
                self.ledgers[event.ledger].created,
            )


class DeletedLedgerTakesNoAdd(Check):
    """A bookie that has collected a deleted ledger acknowledges no more adds to it.

    The check runs when the bookie stores the add. A bookie may still acknowledge adds if it has not
    collected garbage since the deletion, had no entry of the ledger, has restarted, or has received
    no request for the ledger for seven days. In these cases, other bookies must stop the writer.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._collected: dict[str, dict[int, Event]] = {}

    @on("ledger.collected")
    def collected(self, event: Event) -> None:
        self._collected.setdefault(event.node, {})[event.ledger] = event

    @on("node.killed", "node.started")
    def forgotten(self, event: Event) -> None:
        # Bookies keep the list of collected ledgers only in memory.
        self._collected.pop(event.node, None)

    @on("add.sent")
    def sent(self, event: Event) -> None:
        if event.ledger in self._collected.get(event.peer, ()):
            self.report_kept()

    @on("memtable.put")
    def put(self, event: Event) -> None:
        collected = self._collected.get(event.node, {}).get(event.ledger)
        if collected is not None:
            self.report_broken(
                event,
                f"{event.node} stored entry {event.entry} of ledger {event.ledger}, which it had"
                " already collected because the ledger was deleted",
                collected,
                self.ledgers[event.ledger].deleted,
            )
