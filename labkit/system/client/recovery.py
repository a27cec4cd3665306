"""Recovers a ledger: takes it over from its writer, finds its last entry, and closes it.

    1  `_mark_in_recovery`  metadata OPEN -> IN_RECOVERY: the writer can no longer change the
                            ensemble
    2  `fence`              fence the bookies of the last ensemble, until too few are left to
                            acknowledge an add. The highest LastAddConfirmed that the fenced
                            bookies report is a lower bound for the last entry.
    3  `_write_back`        read the entries after this lower bound, fencing with each read. If at
                            least one bookie has the entry, write it back to its write set. The
                            ledger ends before the first entry that cannot have been acknowledged.
    4  `close`              IN_RECOVERY -> CLOSED, with the last entry, the length, and the
                            ensembles that changed during step 3

If a bookie does not respond within `request_timeout_s`, the read fails with `BKTimeoutException`.
If the responses to a read do not show whether the entry could have been acknowledged, the recovery
fails, and the ledger remains IN_RECOVERY.

If the client crashes, the next client that opens the ledger recovers it. If two clients recover
a ledger at the same time, they write back the same entries, and the first client that stores CLOSED
determines the last entry.

In BookKeeper: `client/LedgerRecoveryOp.java`, `client/ReadOnlyLedgerHandle.java`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from labkit.system.client.context import ClientContext
from labkit.system.client.ensemble import with_ensemble
from labkit.system.client.ensemble_change import EnsembleChange
from labkit.system.client.fence_check import NoFenceCheck
from labkit.system.client.metadata_update import compare_and_set
from labkit.system.client.quorum import Verdict, judge, most_informative
from labkit.system.client.reads import BookieReads, SequenceRead, bookies_by_entry
from labkit.system.client.striping import write_set
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.entry import NO_ENTRY_ID, Entry, make_master_key
from labkit.system.model.errors import (
    PROVES_ABSENCE,
    BKException,
    BKLedgerClosedException,
    BKLedgerRecoveryException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    BKUnauthorizedAccessException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.model.wire import MAX_FRAME_SIZE, Flag, encode_add

_NOT_WRAPPED = (
    BKLedgerRecoveryException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    BKUnauthorizedAccessException,
)
"""Errors that `LedgerRecovery.run` does not wrap in a `BKLedgerRecoveryException`."""


class RecoveryEnsembleChange(EnsembleChange):
    """Lets the ensemble change any number of times, and stores the changes only on close."""

    def __init__(self, writer: LedgerWriter, context: ClientContext) -> None:
        super().__init__(writer, context)
        self.stored = writer.metadata
        """The metadata in the store, which does not contain the new ensembles."""
        self.new_ensembles: dict[int, tuple[str, ...]] = {}
        """The new ensembles, keyed by first entry (BookKeeper: `newEnsemblesFromRecovery`)."""

    async def store_ensemble(self, first_entry_id: int, ensemble: tuple[str, ...]) -> bool:
        first, writer = first_entry_id, self.writer
        writer.metadata = with_ensemble(writer.metadata, first, ensemble)
        self.new_ensembles[first] = ensemble
        self.recorder.record("ensemble.deferred", writer.ledger_id, first, ensemble=ensemble)
        return True


class RecoveryWriter(LedgerWriter):
    """Writes recovered entries back. Bookies accept these recovery adds despite the fence.

    New ensembles are stored only on close. If they were stored earlier, another recovery would ask
    bookies that never had the entries, and conclude from their denials that the ledger ends there.
    """

    max_payload_size = MAX_FRAME_SIZE
    """BookKeeper's clients may have stored entries larger than `MAX_PAYLOAD_SIZE`."""
    ensemble_change: RecoveryEnsembleChange
    ensemble_change_class = RecoveryEnsembleChange
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
        self._lac_before_recovery = last_add_confirmed

    def write_back(self, entry: Entry) -> None:
        """Write the next entry back. If this fails, `all_confirmed` and `drain` raise the error."""
        assert entry.entry_id == self.last_add_pushed + 1
        # Subtract the payload size, because `add` adds it again.
        self.length = entry.length - len(entry.payload)
        # Mark the exception as retrieved, so that asyncio does not log it.
        self.add(entry.payload).add_done_callback(asyncio.Future.exception)

    async def close(self) -> None:
        """Close the ledger. If another client has closed it, accept that client's last entry."""
        await self.stop(BKLedgerClosedException(f"ledger {self.ledger_id} was recovered"))
        # Compare-and-set needs the metadata in the store, which lacks the new ensembles.
        self.metadata = self.ensemble_change.stored
        while self.metadata.state is not LedgerState.CLOSED:
            metadata = self.metadata
            for first_entry_id, ensemble in self.ensemble_change.new_ensembles.items():
                metadata = with_ensemble(metadata, first_entry_id, ensemble)
            await self.update_metadata(
                metadata.closed(self.last_add_confirmed, self.length_confirmed)
            )

    def request_of(self, entry: bytes) -> bytes:
        return encode_add(self.master_key, entry, Flag.RECOVERY_ADD | Flag.HIGH_PRIORITY)

    def lac_to_piggyback(self) -> int:
        # Readers must not see the entries that this recovery finds, because another recovery may
        # still close the ledger before them. BookKeeper's recovery sends its own progress instead.
        return self._lac_before_recovery


class LedgerRecovery:
    writer_class: ClassVar[type[RecoveryWriter]] = RecoveryWriter

    def __init__(
        self, ledger_id: int, metadata: LedgerMetadata, version: int, context: ClientContext
    ) -> None:
        self.ledger_id = ledger_id
        self.metadata = metadata
        """Determines from which bookies entries are read. It does not change between the fence and
        the close.
        """
        self._version = version
        self._context = context
        self.recorder = context.recorder
        self.bookie_reads = BookieReads(ledger_id, metadata, context)
        self.master_key = make_master_key(metadata.password)

    async def run(self) -> LedgerMetadata:
        """Recover the ledger, unless it is already closed. Return the closed ledger's metadata.

        Raises `BKLedgerRecoveryException` if too few bookies respond, and
        `MetadataUnavailableError` if the metadata store does not respond; the ledger then remains
        IN_RECOVERY until the next attempt.
        """
        try:
            await self._mark_in_recovery()
            if self.metadata.state is not LedgerState.CLOSED:
                await self._recover()
        except BKException as error:
            self.recorder.record("recovery.failed", self.ledger_id, error=type(error).__name__)
            if isinstance(error, _NOT_WRAPPED):
                raise
            raise BKLedgerRecoveryException(
                f"ledger {self.ledger_id} could not be recovered: {error}"
            ) from error
        return self.metadata

    # Hooks: overridden by the course and `worlds/sim/variants`.

    async def fence(self) -> tuple[int, int]:
        """Fence the last ensemble.

        Returns the last entry that has certainly been confirmed, or -1. Also returns the length
        stored in the entry with the highest LastAddConfirmed.
        """
        key, reads = self.master_key, self.bookie_reads
        last_entries = await reads.last_entries(self.metadata, fence_key=key)
        best = max(last_entries, key=lambda entry: entry.last_add_confirmed, default=None)
        reported_lac = NO_ENTRY_ID if best is None else best.last_add_confirmed
        lower_bound = self.safe_lower_bound(reported_lac)
        self.recorder.record("recovery.covered", self.ledger_id, lower_bound)
        return lower_bound, 0 if best is None else best.length

    def safe_lower_bound(self, reported_lac: int) -> int:
        """Return the last entry that has certainly been confirmed, after which recovery starts
        reading.

        All entries before the last segment have been confirmed, even if no bookie of the last
        segment reports this.
        """
        return max(reported_lac, self.metadata.segments[-1].first_entry_id - 1)

    def fence_key_of_reads(self) -> bytes:
        """Return the key with which each read fences the ledger, or b"" if reads do not fence it.

        With b"", a bookie that `fence` did not reach could first deny having an entry, and later
        accept the same entry from the writer (BookKeeper issue 2614).
        """
        return self.master_key

    def judge(self, responses: Sequence[Entry | BKException]) -> Verdict:
        return judge(responses, self.metadata.write_quorum, self.metadata.ack_quorum)

    # The steps

    async def _mark_in_recovery(self) -> None:
        while self.metadata.state is LedgerState.OPEN:
            marked = replace(self.metadata, state=LedgerState.IN_RECOVERY, c_token=0)
            _, self.metadata, self._version = await compare_and_set(
                self.ledger_id, self.metadata, self._version, marked, self._context
            )

    async def _recover(self) -> None:
        segments = tuple((s.first_entry_id, s.ensemble) for s in self.metadata.segments)
        self.recorder.record("recovery.started", self.ledger_id, segments=segments)
        lower_bound, reported_length = await self.fence()
        writer = self.writer_class(
            self.ledger_id, self.metadata, self._version, self._context, lower_bound
        )
        try:
            await self._write_back(writer)
            # If no entry was written back, the writer has not computed the length.
            if writer.last_add_confirmed == lower_bound:
                writer.length_confirmed = await self._length_at(lower_bound, reported_length)
            await writer.close()
        finally:
            # If the recovery failed or was cancelled, replace no more bookies.
            writer.end(BKLedgerRecoveryException(f"recovery of ledger {self.ledger_id} ended"))
        self.metadata = writer.metadata
        self.recorder.record("recovery.ended", self.ledger_id, self.metadata.last_entry_id)

    async def _write_back(self, writer: RecoveryWriter) -> None:
        while (entry := await self._read(writer.last_add_pushed + 1)) is not None:
            writer.write_back(entry)
            # Limit the number of pending adds, because there may be millions of entries to write
            # back.
            await writer.drain()
        await writer.all_confirmed()

    async def _read(self, entry_id: int) -> Entry | None:
        """Return the entry, or None if it cannot have been acknowledged and the ledger ends before
        it.

        Raises `BKLedgerRecoveryException` if the responses do not show which of these is true.
        """
        metadata = self.metadata
        ensemble = metadata.ensemble_at(entry_id)
        indices = write_set(entry_id, metadata.ensemble_size, metadata.write_quorum)
        bookies = [ensemble[index] for index in indices]
        replies = self.bookie_reads.ask_all(
            bookies,
            entry_id,
            fence_key=self.fence_key_of_reads(),
            # A busy bookie must accept the request, because readers wait for the recovery.
            flags=Flag.HIGH_PRIORITY,
        )
        # Judge after each response, instead of waiting for a bookie that may be down.
        responses: dict[str, Entry | BKException] = {}
        for _ in bookies:
            index, response = await replies.get()
            responses[bookies[index]] = response
            if self.judge([*responses.values()]) is not Verdict.UNKNOWN:
                return next((each for each in responses.values() if isinstance(each, Entry)), None)
        errors = [each for each in responses.values() if isinstance(each, BKException)]
        unclear = ", ".join(b for b in bookies if not isinstance(responses[b], PROVES_ABSENCE))
        raise BKLedgerRecoveryException(
            f"ledger {self.ledger_id} could not be recovered: it is unknown whether entry"
            f" {entry_id} was stored; no valid response from {unclear}"
            f" ({most_informative(errors)}); start or repair these bookies, and open the ledger"
            " again"
        )

    async def _length_at(self, entry_id: int, reported_length: int) -> int:
        """Return the length stored in the ledger's last entry.

        If the entry cannot be read, return the length that the fenced bookies reported, as
        BookKeeper does. That length may include entries that were not recovered, and it may be 0.
        """
        if entry_id == NO_ENTRY_ID:
            return 0
        try:
            bookies = bookies_by_entry(self.metadata, entry_id, entry_id)
            [entry] = await SequenceRead(self.bookie_reads, bookies).run()
        except BKException:
            return reported_length
        return entry.length
