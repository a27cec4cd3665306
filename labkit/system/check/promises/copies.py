"""The promise of each single bookie: what it has acknowledged is on its disks.

In BookKeeper: `bookie/Journal.java`, `bookie/SyncThread.java`.
"""

from labkit.system.check.facts import EPILOGUE, proves_absence
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event

_CANNOT_READ = "BKReadException"


class EveryCopyIsDurable(Check):
    """A bookie that has acknowledged an entry still has it at the end of the run.

    The epilogue asks every bookie of the write set.  When this breaks the entry may still have
    other copies.  A bookie that cannot read an entry has lost it, unless its disk has failed: after
    a crash all that it had acknowledged can be read.  Ledgers with deferred sync are not judged,
    nor what an operator has removed by formatting the bookie.
    """

    @on("read.done", "read.failed")
    def read(self, event: Event) -> None:
        """Judge a bookie that denies an entry it had acknowledged."""
        ledger = self.ledgers[event.ledger]
        if event.node != EPILOGUE or event.entry not in ledger.acked[event.peer]:
            return
        if event.entry in ledger.formatted.get(event.peer, ()):
            return
        self.judged += 1
        if event.kind == "read.done" or ledger.deferred_sync:
            return
        if proves_absence(event) or self._cannot_read(event):
            does = "does not have" if proves_absence(event) else "cannot read"
            self.broke(
                event,
                f"{event.peer} {does} entry {event.entry} of ledger {event.ledger},"
                " and it had acknowledged it",
                self._acknowledgement(event),
            )

    @on("fence.failed")
    def fence_failed(self, event: Event) -> None:
        """Judge a bookie that cannot read the ledger's last entry, its answer to a fence."""
        ledger = self.ledgers[event.ledger]
        has_copies = ledger.acked[event.peer] and not ledger.deferred_sync
        if event.node == EPILOGUE and has_copies and self._cannot_read(event):
            self.broke(
                event,
                f"{event.peer} cannot read its last entry of ledger {event.ledger},"
                " and it had acknowledged entries of it",
            )

    def _cannot_read(self, event: Event) -> bool:
        return event.note == _CANNOT_READ and event.peer not in self.facts.bad_disks

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
