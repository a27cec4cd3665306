"""Client bugs, each of which changes one rule of the real code. `variants` lists their names.

The docstring of each class describes the bug.
"""

from collections.abc import Sequence

from labkit.system.client.ensemble_change import EnsembleChange
from labkit.system.client.fence_check import NoFenceCheck
from labkit.system.client.pending_add import PendingAdd
from labkit.system.client.quorum import Verdict
from labkit.system.client.reader import LedgerReader
from labkit.system.client.reads import BookieReads
from labkit.system.client.recovery import LedgerRecovery, RecoveryEnsembleChange, RecoveryWriter
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.entry import Entry
from labkit.system.model.errors import PROVES_ABSENCE, BKException

# The writer


class AckAfterOneBookie(LedgerWriter):
    """An entry counts as stored once a single bookie of its write set has it, instead of Qa
    bookies.
    """

    def has_enough_acks(self, pending: PendingAdd) -> bool:
        return pending.acked != 0


class CountsEveryAck(LedgerWriter):
    """The writer counts every acknowledgement, as BookKeeper does.

    This includes acknowledgements from a bookie that may have lost its fence before the connection
    was opened.
    """

    fence_check_class = NoFenceCheck


class LacOutOfOrder(LedgerWriter):
    """An entry is confirmed when Qa bookies have it, even if an earlier entry is not confirmed."""

    def complete_adds(self) -> None:
        if self.ensemble_change.is_running:
            return
        for pending in [each for each in self.pending if self.has_enough_acks(each)]:
            self.pending.remove(pending)
            if not pending.future.done():
                pending.future.set_result(pending.entry_id)
            if pending.entry_id > self.last_add_confirmed:
                self.last_add_confirmed = pending.entry_id
                self.length_confirmed = pending.length
            self.recorder.record("lac.advanced", self.ledger_id, pending.entry_id)


class _SegmentFromNextAdd(EnsembleChange):
    """The segment of a new ensemble starts at the next entry to be sent, instead of right after the
    last confirmed entry. The metadata therefore still refers to the old ensemble for pending
    entries.
    """

    def first_of_new_segment(self) -> int:
        return self.writer.last_add_pushed + 1


class ChangesFromNextAdd(LedgerWriter):
    """A writer with the bug described in `_SegmentFromNextAdd`."""

    ensemble_change_class = _SegmentFromNextAdd


# Recovery


class NoFenceOnReads(LedgerRecovery):
    """Recovery fences when it reads LastAddConfirmed, but not when it reads entries.

    A bookie that was not asked for LastAddConfirmed can therefore first report that it does not
    have an entry, and then accept that entry later.
    """

    def fence_key_of_reads(self) -> bytes:
        return b""


class NoFence(NoFenceOnReads):
    """Recovery reads without the FENCE flag, so the writer can continue."""

    async def fence(self) -> tuple[int, int]:
        self.master_key = b""
        return await super().fence()


class TrustsOneBookie(LedgerRecovery):
    """The first response from a bookie decides whether an entry was stored."""

    def judge(self, answers: Sequence[Entry | BKException]) -> Verdict:
        for response in answers:
            if isinstance(response, Entry):
                return Verdict.FOUND
            if isinstance(response, PROVES_ABSENCE):
                return Verdict.NEVER_ACKNOWLEDGED
        return Verdict.UNKNOWN


class _PublishesEarly(RecoveryEnsembleChange):
    """Ensemble changes during recovery are stored in the metadata immediately.

    If that recovery fails, the next one looks for entries on bookies to which they were never
    written.
    """

    async def store_ensemble(self, first_entry_id: int, ensemble: tuple[str, ...]) -> bool:
        is_stored = await EnsembleChange.store_ensemble(self, first_entry_id, ensemble)
        self.stored = self.writer.metadata
        return is_stored


class _EarlyWriter(RecoveryWriter):
    ensemble_change_class = _PublishesEarly


class EarlyRecovery(LedgerRecovery):
    """A recovery with the bug described in `_PublishesEarly`."""

    writer_class = _EarlyWriter


# The reader


class _CountsEveryError(BookieReads):
    def is_denial(self, error: BKException) -> bool:
        return True


class CountsUnreachableBookies(LedgerReader):
    """A read of LastAddConfirmed treats an unreachable bookie as if it had responded."""

    reads_class = _CountsEveryError
