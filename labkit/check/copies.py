"""The promise of each single bookie: what it has acknowledged is on its disks.

In BookKeeper: `bookie/Journal.java`, `bookie/SyncThread.java`.
"""

from labkit.check.facts import EPILOGUE, proves_absence
from labkit.check.handlers import on
from labkit.check.promise import Check
from labkit.trace.events import Event


class EveryCopyIsDurable(Check):
    """A bookie that has acknowledged an entry still has it at the end of the run.

    The epilogue asks every bookie of the write set.  When this breaks the entry may still have
    other copies.  Ledgers with deferred sync are not judged.
    """

    @on("read.done", "read.failed")
    def read(self, event: Event) -> None:
        """Judge a bookie that denies an entry it had acknowledged."""
        ledger = self.ledgers[event.ledger]
        if event.node != EPILOGUE or event.entry not in ledger.acked[event.peer]:
            return
        self.judged += 1
        if proves_absence(event) and event.kind == "read.failed" and not ledger.deferred_sync:
            self.broke(
                event,
                f"{event.peer} does not have entry {event.entry} of ledger {event.ledger},"
                " and it had acknowledged it",
                self._acknowledgement(event),
            )

    def _acknowledgement(self, event: Event) -> Event | None:
        return next(
            (
                each
                for each in self.facts.events
                if each.kind in ("add.acked", "entry.copied")
                and (each.ledger, each.entry, each.peer) == (event.ledger, event.entry, event.peer)
            ),
            None,
        )
