"""Mistakes of a client, each one rule of the real code changed; `variants` gives them their names.

The docstring of each is its rule.
"""

from collections.abc import Sequence

from labkit.system.client.ensemble_change import EnsembleChange
from labkit.system.client.fence_check import NoFenceCheck
from labkit.system.client.pending_add import PendingAdd
from labkit.system.client.quorum import Verdict
from labkit.system.client.reader import LedgerReader
from labkit.system.client.reads import BookieReads
from labkit.system.client.recovery import DeferredEnsembleChange, LedgerRecovery, RecoveryWriter
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.entry import Entry
from labkit.system.model.errors import PROVES_ABSENCE, BKException

# The writer


class AckAfterOneBookie(LedgerWriter):
    """An entry counts as stored when the first bookie of its write set has it, not Qa."""

    def has_enough_acks(self, pending: PendingAdd) -> bool:
        return pending.acked != 0


class CountsEveryAck(LedgerWriter):
    """An acknowledgement counts whenever its connection was made, as in BookKeeper."""

    fence_check_class = NoFenceCheck


class LacOutOfOrder(LedgerWriter):
    """An entry is confirmed when Qa bookies have it, even if one before it is not."""

    def confirm(self) -> None:
        """Confirm each entry for itself."""
        if self.ensemble_change.task is not None:
            return
        for pending in [each for each in self.pending if self.has_enough_acks(each)]:
            self.pending.remove(pending)
            if not pending.confirmed.done():
                pending.confirmed.set_result(pending.entry_id)
            if pending.entry_id > self.last_add_confirmed:
                self.last_add_confirmed = pending.entry_id
                self.length_confirmed = pending.length
            self.recorder.record("lac.advanced", self.ledger_id, pending.entry_id)


class _SegmentFromNextAdd(EnsembleChange):
    """A new ensemble begins with the next entry that will be pushed, not behind the last one that
    is confirmed: the metadata looks for those under way where they were sent first.
    """

    def first_entry_id(self) -> int:
        return self.ledger.last_add_pushed + 1


class ChangesFromNextAdd(LedgerWriter):
    """A writer with such ensemble changes."""

    ensemble_change_class = _SegmentFromNextAdd


# Recovery


class NoFenceOnReads(LedgerRecovery):
    """Recovery fences the ledger where it asks for LastAddConfirmed, and its reads of entries do
    not fence: a bookie that was not asked first denies an entry, and then takes it.
    """

    def fence_key_of_reads(self) -> bytes:
        """No key: no fence."""
        return b""


class NoFence(NoFenceOnReads):
    """Recovery asks and reads without the FENCE flag, and the writer goes on."""

    async def fence(self) -> tuple[int, int]:
        """Ask without the key that fences."""
        self.master_key = b""
        return await super().fence()


class TrustsOneBookie(LedgerRecovery):
    """The first bookie that answers decides whether an entry was stored."""

    def judge(self, answers: Sequence[Entry | BKException]) -> Verdict:
        """Believe the first answer."""
        for answer in answers:
            if isinstance(answer, Entry):
                return Verdict.FOUND
            if isinstance(answer, PROVES_ABSENCE):
                return Verdict.LOST
        return Verdict.UNKNOWN


class _PublishesEarly(DeferredEnsembleChange):
    """An ensemble change of a recovery goes into the metadata at once: the next recovery looks for
    entries where only the first one, which died, would have put them.
    """

    async def store(self, first_entry_id: int, ensemble: tuple[str, ...]) -> bool:
        is_stored = await EnsembleChange.store(self, first_entry_id, ensemble)
        self.stored = self.ledger.metadata
        return is_stored


class _EarlyWriter(RecoveryWriter):
    ensemble_change_class = _PublishesEarly


class EarlyRecovery(LedgerRecovery):
    """A recovery with such ensemble changes."""

    writer_class = _EarlyWriter


# The reader


class _HastyReads(BookieReads):
    def is_answer(self, error: BKException) -> bool:
        return True


class UnreachableIsAnAnswer(LedgerReader):
    """A bookie that cannot be reached counts as one that has answered, when a reader asks how far
    the ledger is confirmed.
    """

    reads_class = _HastyReads
