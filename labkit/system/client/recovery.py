"""Ledger recovery: take a ledger from its writer, find where it ends, and close it there.

    1  metadata OPEN -> IN_RECOVERY     the writer can change its ensemble no more
    2  fence the last ensemble          too few bookies are left to acknowledge an add; the highest
                                        LastAddConfirmed that they report is a lower bound of the
                                        end
    3  read on from there, fencing      an entry found once is written back to its write set; one
                                        that cannot have been acknowledged is behind the end
    4  IN_RECOVERY -> CLOSED            with the last entry, the length, and the ensembles of 3

A crash anywhere leaves the ledger to the next client that opens it; two clients that recover it at
once write back the same entries, and the first to close decides.

In BookKeeper: `client/LedgerRecoveryOp.java`, `client/ReadOnlyLedgerHandle.java`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from labkit.system.client.context import ClientContext
from labkit.system.client.ensemble import with_ensemble
from labkit.system.client.ensemble_change import ChangingLedger, EnsembleChange
from labkit.system.client.fence_check import NoFenceCheck
from labkit.system.client.metadata_update import publish
from labkit.system.client.quorum import Verdict, judge, most_telling
from labkit.system.client.reads import BookieReads, SequenceRead, write_sets
from labkit.system.client.striping import write_set
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.entry import NO_ENTRY_ID, Entry, make_master_key
from labkit.system.model.errors import (
    BKException,
    BKLedgerClosedException,
    BKLedgerRecoveryException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    BKTimeoutException,
    BKUnauthorizedAccessException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.model.wire import Flag, encode_add

_TOLD_AS_THEY_ARE = (
    BKLedgerRecoveryException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    BKTimeoutException,
    BKUnauthorizedAccessException,
)


class DeferredEnsembleChange(EnsembleChange):
    """Ensemble changes that are stored in the metadata only when the ledger is closed."""

    def __init__(self, ledger: ChangingLedger, context: ClientContext) -> None:
        super().__init__(ledger, context)
        self.stored = ledger.metadata
        """What the metadata store has."""
        self.deferred: dict[int, tuple[str, ...]] = {}
        """The ensembles that it does not have yet, by the first entry of each."""

    async def store(self, first_entry_id: int, ensemble: tuple[str, ...]) -> bool:
        """Keep it until the ledger is closed."""
        ledger = self.ledger
        ledger.metadata = with_ensemble(ledger.metadata, first_entry_id, ensemble)
        self.deferred[first_entry_id] = ensemble
        names = ",".join(ensemble)
        self.recorder.record("ensemble.deferred", ledger.ledger_id, first_entry_id, note=names)
        return True


class RecoveryWriter(LedgerWriter):
    """Writes recovered entries back, past the fence.

    A bookie that fails is replaced as for any writer, but the metadata learns of it only when the
    ledger is closed: another recovery must still find the ensembles that the lost writer used, or
    it would ask bookies that never had the entries and take their denial for the end.
    """

    ensemble_change: DeferredEnsembleChange
    ensemble_change_class = DeferredEnsembleChange
    fence_check_class = NoFenceCheck

    def __init__(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        version: int,
        context: ClientContext,
        last_add_confirmed: int,
    ) -> None:
        super().__init__(ledger_id, metadata, version, context)
        self.last_add_pushed = self.last_add_confirmed = last_add_confirmed
        self._confirmed_before = last_add_confirmed

    def write_back(self, entry: Entry) -> None:
        """Push the next entry again; `confirmed` and `drain` raise what becomes of it."""
        assert entry.entry_id == self.last_add_pushed + 1
        # `add` counts the payload again: the entry keeps the length that its writer gave it.
        self.length = entry.length - len(entry.payload)
        self.add(entry.payload).add_done_callback(_retrieve_exception)

    async def close(self) -> None:
        """Fix the ledger's end, unless another client has: then that one holds."""
        await self.stop(BKLedgerClosedException(f"ledger {self.ledger_id} was recovered"))
        # The store knows nothing of the deferred ensembles: compare-and-set begins without them.
        self.metadata = self.ensemble_change.stored
        while self.metadata.state is not LedgerState.CLOSED:
            metadata = self.metadata
            for first_entry_id, ensemble in self.ensemble_change.deferred.items():
                metadata = with_ensemble(metadata, first_entry_id, ensemble)
            await self.publish(metadata.closed(self.last_add_confirmed, self.length_confirmed))

    def request_of(self, entry: bytes) -> bytes:
        """An add that passes the fence."""
        return encode_add(self.master_key, entry, Flag.RECOVERY_ADD | Flag.HIGH_PRIORITY)

    def lac_to_piggyback(self) -> int:
        """Only what was confirmed before: another recovery may close the ledger in front of the
        entries that this one found, and no reader may have seen them then.  BookKeeper reports its
        own progress here.
        """
        return self._confirmed_before


class LedgerRecovery:
    """One client's attempt to recover one ledger."""

    writer_class: ClassVar[type[RecoveryWriter]] = RecoveryWriter

    def __init__(
        self, ledger_id: int, metadata: LedgerMetadata, version: int, context: ClientContext
    ) -> None:
        self.ledger_id = ledger_id
        self.metadata = metadata
        """Entries are read where this says; it stays as it was when the ledger was fenced."""
        self._version = version
        self._context = context
        self.recorder = context.recorder
        self.reads = BookieReads(ledger_id, metadata, context)
        self.master_key = make_master_key(metadata.password)

    async def run(self) -> LedgerMetadata:
        """Recover the ledger unless it is closed; returns its metadata, closed.

        Raises `BKLedgerRecoveryException` when too few bookies answer: nothing is known then, and
        the ledger stays IN_RECOVERY for the next attempt.
        """
        try:
            await self._mark_in_recovery()
            if self.metadata.state is not LedgerState.CLOSED:
                await self._recover()
        except BKException as error:
            self.recorder.record("recovery.failed", self.ledger_id, note=type(error).__name__)
            if isinstance(error, _TOLD_AS_THEY_ARE):
                raise
            raise BKLedgerRecoveryException(
                f"ledger {self.ledger_id} could not be recovered: {error}"
            ) from error
        return self.metadata

    # Rules, which a subclass may change

    async def fence(self) -> tuple[int, int]:
        """Fence the last ensemble.  Returns a lower bound of LastAddConfirmed and the length that
        the bookie reporting it knows.
        """
        last_entries = await self.reads.last_entries(self.metadata, fence_key=self.master_key)
        told = max(last_entries, key=lambda entry: entry.last_add_confirmed, default=None)
        start = self.start_of_reading(NO_ENTRY_ID if told is None else told.last_add_confirmed)
        self.recorder.record("recovery.covered", self.ledger_id, start)
        return start, 0 if told is None else told.length

    def start_of_reading(self, last_add_confirmed: int) -> int:
        """The last segment began behind confirmed entries, whatever its bookies know of them."""
        return max(last_add_confirmed, self.metadata.segments[-1].first_entry_id - 1)

    def fence_key_of_reads(self) -> bytes:
        """Each read fences, too: a bookie that was not asked for its last entry, or did not answer
        then, must not take the writer's add after it has denied the entry here (BookKeeper issue
        2614).
        """
        return self.master_key

    def judge(self, answers: Sequence[Entry | BKException]) -> Verdict:
        """Whether the entry was stored, by the answers that came so far."""
        return judge(answers, self.metadata.write_quorum, self.metadata.ack_quorum)

    # The steps

    async def _mark_in_recovery(self) -> None:
        while self.metadata.state is LedgerState.OPEN:
            marked = replace(self.metadata, state=LedgerState.IN_RECOVERY, c_token=0)
            _, self.metadata, self._version = await publish(
                self.ledger_id, self.metadata, self._version, marked, self._context
            )

    async def _recover(self) -> None:
        segments = (f"{s.first_entry_id}:{','.join(s.ensemble)}" for s in self.metadata.segments)
        self.recorder.record("recovery.started", self.ledger_id, note=" ".join(segments))
        start, length = await self.fence()
        writer = self.writer_class(
            self.ledger_id, self.metadata, self._version, self._context, start
        )
        try:
            await self._write_back(writer)
        except BKException as error:
            writer.end(error)
            raise
        # Nothing was written back, so no entry has given the writer the length.
        if writer.last_add_confirmed == start:
            writer.length_confirmed = await self._length_at(start, length)
        await writer.close()
        self.metadata = writer.metadata
        self.recorder.record("recovery.ended", self.ledger_id, self.metadata.last_entry_id)

    async def _write_back(self, writer: RecoveryWriter) -> None:
        """Read on and write back, up to the first entry that cannot have been acknowledged."""
        while (entry := await self._read(writer.last_add_pushed + 1)) is not None:
            writer.write_back(entry)
            # Bounded as for any writer: a ledger may have millions of entries to write back.
            await writer.drain()
        await writer.confirmed()

    async def _read(self, entry_id: int) -> Entry | None:
        """The entry, or None if it cannot have been acknowledged.

        Raises `BKLedgerRecoveryException` when the answers decide neither.
        """
        metadata = self.metadata
        ensemble = metadata.ensemble_at(entry_id)
        places = write_set(entry_id, metadata.ensemble_size, metadata.write_quorum)
        replies = self.reads.ask_all(
            [ensemble[place] for place in places],
            entry_id,
            fence_key=self.fence_key_of_reads(),
            # So that a busy bookie serves it, too: until then the ledger has no end.
            flags=Flag.HIGH_PRIORITY,
        )
        # Judged after each answer: a bookie that is down must not hold up what the others decide.
        answers: list[Entry | BKException] = []
        for _ in places:
            answers.append((await replies.get())[1])
            if self.judge(answers) is not Verdict.UNKNOWN:
                return next((each for each in answers if isinstance(each, Entry)), None)
        reason = most_telling([each for each in answers if isinstance(each, BKException)])
        raise BKLedgerRecoveryException(
            f"ledger {self.ledger_id} could not be recovered: whether entry {entry_id} was stored"
            f" is not known yet ({reason})"
        )

    async def _length_at(self, entry_id: int, told: int) -> int:
        """The ledger's length if it ends there.

        The entry carries it.  Where it cannot be read now, the length is the one the fenced bookies
        reported, as in BookKeeper: it may include entries that were not recovered, and is 0 where
        the last ensemble has no entry.
        """
        if entry_id == NO_ENTRY_ID:
            return 0
        try:
            bookies = write_sets(self.metadata, entry_id, entry_id)
            [entry] = await SequenceRead(self.reads, bookies).run()
        except BKException:
            return told
        return entry.length


def _retrieve_exception(added: asyncio.Future[int]) -> None:
    """Retrieve the outcome, which `confirmed` raises, so that asyncio does not complain of it."""
    if not added.cancelled():
        added.exception()
