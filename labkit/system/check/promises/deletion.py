"""The promises about deleted ledgers: only they are collected, and they stay deleted.

In BookKeeper: `bookie/HandleFactoryImpl.java`, pull request 4462.
"""

from labkit.system.check.facts import Facts
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event


class OnlyDeletedLedgersAreCollected(Check):
    """No bookie collects a ledger that no client has asked to delete.

    Judged for ledgers whose creation is in the trace, in simulated runs: the trace of a live
    cluster need not hold the client that deleted the ledger.  A bookie that drops a ledger of which
    the metadata name other bookies does not collect it: that is another event.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._deleting: set[int] = set()
        self._too_early: list[Event] = []

    @on("ledger.deleting")
    def deleting(self, event: Event) -> None:
        """From now on bookies may collect the ledger."""
        self._deleting.add(event.ledger)

    @on("ledger.collected")
    def collected(self, event: Event) -> None:
        """Note whether the ledger can be gone."""
        if self.ledgers[event.ledger].created is None:
            return
        self.judged += 1
        if event.ledger not in self._deleting:
            self._too_early.append(event)

    def finish(self) -> None:
        """Judge what was collected without a request in the trace."""
        for event in self._too_early:
            if not self.facts.is_simulated:
                self.doubt(f"a client outside the trace may have deleted ledger {event.ledger}")
                continue
            self.broke(
                event,
                f"{event.node} collected ledger {event.ledger}, and no client had asked to delete"
                " it",
                self.ledgers[event.ledger].created,
            )


class DeletedLedgerTakesNoAdd(Check):
    """No add is acknowledged by a bookie that has collected its ledger, which was deleted.

    Judged where the bookie takes the add.  A bookie hears of a deletion with its next garbage
    collection, so until then it may take adds to a ledger that is not fenced.  It forgets what
    it has collected when its process ends, and seven days after the last request for the ledger;
    a bookie that stored nothing of the ledger before it was deleted never knew.  Then only the
    other bookies stop the writer.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._collected: dict[str, dict[int, Event]] = {}

    @on("ledger.collected")
    def collected(self, event: Event) -> None:
        """From now on the bookie must refuse adds to the ledger."""
        self._collected.setdefault(event.node, {})[event.ledger] = event

    @on("node.killed", "node.started")
    def forgotten(self, event: Event) -> None:
        """The bookie's next process does not know what the last one has collected."""
        self._collected.pop(event.node, None)

    @on("add.sent")
    def sent(self, event: Event) -> None:
        """Count the adds that the bookie must refuse."""
        if event.ledger in self._collected.get(event.peer, ()):
            self.judged += 1

    @on("memtable.put")
    def put(self, event: Event) -> None:
        """Judge whether the bookie should have refused the add."""
        collected = self._collected.get(event.node, {}).get(event.ledger)
        if collected is not None:
            self.broke(
                event,
                f"{event.node} took entry {event.entry} of ledger {event.ledger}, which it had"
                f" collected in event {collected.seq} because the ledger was deleted",
                collected,
                self.ledgers[event.ledger].deleted,
            )
