"""The writer of a ledger: assigns entry ids, sends entries to their write sets, and confirms them.

`ensemble_change` replaces failed bookies; `fence_check` decides which acknowledgements count.

In BookKeeper: `client/LedgerHandle.java`.
"""

import asyncio
import zlib
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from labkit.system.client.context import ClientContext
from labkit.system.client.ensemble_change import EnsembleChange
from labkit.system.client.fence_check import FenceCheck
from labkit.system.client.metadata_update import compare_and_set
from labkit.system.client.pending_add import PendingAdd
from labkit.system.client.protocol.per_channel_bookie_client import PerChannelBookieClient
from labkit.system.client.protocol.protocol_v2 import OnAdded, PerChannelBookieClientV2
from labkit.system.client.striping import write_set
from labkit.system.model.entry import NO_ENTRY_ID, make_digest, make_master_key, pack_entry
from labkit.system.model.errors import (
    BKClientClosedException,
    BKException,
    BKIncorrectParameterException,
    BKLedgerClosedException,
    BKLedgerFencedException,
    BKMetadataVersionException,
    BKUnauthorizedAccessException,
    LabkitError,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.model.wire import MAX_FRAME_SIZE, add_header

_OVERHEAD = 128
"""An upper bound for the total size of the lengths, headers, key and digest in a frame."""
MAX_PAYLOAD_SIZE = MAX_FRAME_SIZE - _OVERHEAD

_FATAL = (BKLedgerFencedException, BKUnauthorizedAccessException, BKClientClosedException)
"""Errors that end the writer immediately, because replacing the bookie would not help."""


class LedgerWriter:
    """Adds entries to a ledger that it created.

    Invariants: Entries are confirmed in the order of their ids, and only once they are on the disks
    of `ack_quorum` bookies of their write sets. An acknowledgement counts only if the bookie cannot
    have forgotten a fence (`fence_check`).

    If another client has fenced or closed the ledger, the writer ends without closing it. The
    writer notices this when a bookie responds to an add with `BKLedgerFencedException`, when the
    compare-and-set of an ensemble change fails, or when `fence_check` reads metadata that is not
    OPEN.
    """

    max_payload_size: ClassVar[int] = MAX_PAYLOAD_SIZE
    ensemble_change_class: ClassVar[type[EnsembleChange]] = EnsembleChange
    fence_check_class: ClassVar[type[FenceCheck]] = FenceCheck

    def __init__(
        self, ledger_id: int, metadata: LedgerMetadata, version: int, context: ClientContext
    ) -> None:
        self.ledger_id = ledger_id
        self.metadata = metadata
        self.last_add_pushed = NO_ENTRY_ID
        self.last_add_confirmed = NO_ENTRY_ID
        self.piggybacked_lac = NO_ENTRY_ID
        """The LastAddConfirmed that the newest entry contains."""
        self.length = 0
        """The number of payload bytes pushed."""
        self.length_confirmed = 0
        """The number of payload bytes up to and including LastAddConfirmed."""
        self.recorder = context.recorder
        self.master_key = make_master_key(metadata.password)
        self.pending: deque[PendingAdd] = deque()
        """Unconfirmed entries, oldest first."""
        self.ended_by: LabkitError | None = None
        """The error that ended this writer; `add` raises it."""
        self._version = version
        self._context = context
        self._add_header = add_header(self.master_key)
        self._digest = make_digest(metadata.digest_type, metadata.password)
        self.connect_to_last_ensemble()
        # Look up the loop only once, because each lookup costs a system call.
        self._loop = asyncio.get_running_loop()
        self.ensemble_change = self.ensemble_change_class(self, context)
        self.fence_check = self.fence_check_class(self, context.manager)

    def add(self, payload: bytes) -> asyncio.Future[int]:
        """Append an entry. The returned future resolves to its id once the entry is confirmed.

        This never waits for earlier adds; await `drain` to limit how many are pending. The future
        fails with a `LabkitError` if this writer can no longer confirm the entry, but a recovery
        may still keep the entry. Raises `BKIncorrectParameterException` if the payload exceeds
        `MAX_PAYLOAD_SIZE` bytes, and the error that ended this writer.
        """
        if self.ensemble_change.failed and self.ended_by is None:
            # Replace bookies that failed an add for which there were enough other acknowledgements.
            self.ensemble_change.start()
        # With deferred sync, `start` ends the writer.
        if self.ended_by is not None:
            raise self.ended_by
        if len(payload) > self.max_payload_size:
            raise BKIncorrectParameterException(
                f"payload is {len(payload)} bytes; it must be at most {self.max_payload_size}"
            )
        self.last_add_pushed += 1
        self.length += len(payload)
        entry_id = self.last_add_pushed
        lac = self.piggybacked_lac = self.lac_to_piggyback()
        entry = pack_entry(self.ledger_id, entry_id, lac, self.length, payload, self._digest)
        future = self._loop.create_future()
        pending = PendingAdd(entry_id, self.length, self.request_of(entry), future)
        # Append the entry before sending it, because an ensemble change resends everything in
        # `pending`.
        self.pending.append(pending)
        if self.recorder.listening:
            checksum = f"{zlib.crc32(payload):08x}"
            self.recorder.record(
                "add.pushed", self.ledger_id, entry_id, size=len(payload), checksum=checksum
            )
        sizes = self.metadata.ensemble_size, self.metadata.write_quorum
        for index in write_set(entry_id, *sizes):
            self.send(pending, index)
        return future

    async def drain(self) -> None:
        """Wait until fewer than `max_pending_adds` adds are unconfirmed. If an add fails, raises
        its error.

        Await this before each add, unless something else limits the number of pending adds.
        """
        excess = len(self.pending) - self._context.config.max_pending_adds
        if excess >= 0:
            await self._wait_for(self.pending[excess])

    async def all_confirmed(self) -> None:
        """Wait until all entries pushed so far are confirmed. If an add fails, raises its error."""
        if self.pending:
            await self._wait_for(self.pending[-1])
        elif self.ended_by is not None and self.last_add_confirmed < self.last_add_pushed:
            raise self.ended_by

    async def _wait_for(self, pending: PendingAdd) -> None:
        # The caller of `add` may have cancelled the future, but the entry is still pending.
        if pending.future.cancelled():
            pending.future = self._loop.create_future()
        # Shield the add: a caller that stops waiting must not cancel it.
        await asyncio.shield(pending.future)

    @property
    def is_ended(self) -> bool:
        return self.ended_by is not None

    async def force(self) -> None:
        """Make all acknowledged entries durable. Without deferred sync, they already are."""

    async def close(self) -> None:
        """Close the ledger, with LastAddConfirmed as its last entry. This works even if another
        client is recovering the ledger; the recovery then accepts this last entry.

        Unconfirmed adds fail with `BKLedgerClosedException`, so await them first. Raises
        `BKMetadataVersionException` if another client has closed the ledger at a different entry.
        """
        closed = f"ledger {self.ledger_id} was closed by its writer"
        # No further add may be confirmed while the metadata is being stored.
        await self.stop(BKLedgerClosedException(closed))
        last = self.last_add_confirmed
        # After a conflict, retry with the metadata that another client has stored.
        while self.metadata.state is not LedgerState.CLOSED:
            await self.update_metadata(self.metadata.closed(last, self.length_confirmed))
        if self.metadata.last_entry_id != last:
            raise BKMetadataVersionException(
                f"ledger {self.ledger_id} was closed by another client at entry"
                f" {self.metadata.last_entry_id}, but this writer had confirmed up to {last}"
            )

    @property
    def ensemble(self) -> tuple[str, ...]:
        return self.metadata.segments[-1].ensemble

    # Hooks: overridden by recovery, deferred sync and `worlds/sim/variants`.

    def lac_to_piggyback(self) -> int:
        """Return the LastAddConfirmed to store in the next entry."""
        return self.last_add_confirmed

    def request_of(self, entry: bytes) -> bytes:
        """Return the request that stores a packed entry. All bookies get the same request."""
        return self._add_header + entry

    def send(self, pending: PendingAdd, index: int) -> None:
        """Send an entry to the bookie at this ensemble index; `on_responses` handles the reply."""
        channel, entry_id = self.channels[index], pending.entry_id
        if channel.connection is None:
            self.fence_check.check_when_connected(channel)
        if self.recorder.listening:
            self.recorder.record("add.sent", self.ledger_id, entry_id, peer=channel.bookie_id)
        channel.add(self.ledger_id, entry_id, pending.request, self._on_added[index], pending)

    def has_enough_acks(self, pending: PendingAdd) -> bool:
        return pending.acked.bit_count() >= self.metadata.ack_quorum

    def complete_adds(self) -> None:
        """Confirm entries in order, up to the first one with too few acknowledgements.

        In BookKeeper: `LedgerHandle.sendAddSuccessCallbacks`.
        """
        # During a change, the stored metadata does not list every bookie that has the entries.
        if self.ensemble_change.is_running:
            return
        lac_before, pending_adds = self.last_add_confirmed, self.pending
        while pending_adds and self.has_enough_acks(pending_adds[0]):
            pending = pending_adds.popleft()
            self.last_add_confirmed = pending.entry_id
            self.length_confirmed = pending.length
            # The entry is confirmed even if the caller has cancelled the future.
            if not pending.future.done():
                pending.future.set_result(pending.entry_id)
        if self.recorder.listening:
            for entry_id in range(lac_before + 1, self.last_add_confirmed + 1):
                self.recorder.record("lac.advanced", self.ledger_id, entry_id)

    # Responses and state changes

    def on_responses(
        self,
        index: int,
        channel: PerChannelBookieClientV2,
        adds: Sequence[PendingAdd],
        error: BKException | None,
    ) -> None:
        """Handle a bookie's response to adds. If `error` is None, it has stored the entries."""
        if error is not None:
            for pending in adds:
                self._record_response(channel.bookie_id, pending, error)
                # Ignore failures reported by a bookie that has been replaced.
                if self.channels[index] is not channel:
                    continue
                if isinstance(error, _FATAL):
                    self.end(error)
                else:
                    self.ensemble_change.add_failed(pending, index, channel.bookie_id, error)
        elif not self.fence_check.passed(acking_channel := self.acking_channel(index)):
            for pending in adds:
                self._record_response(channel.bookie_id, pending, None)
            self.fence_check.hold(acking_channel, partial(self._count_acks, index, channel, adds))
        elif self.recorder.listening:
            # Count the responses one at a time, so that the trace lists each response before the
            # entries that it confirms.
            for pending in adds:
                self._record_response(channel.bookie_id, pending, None)
                self._count_acks(index, channel, (pending,))
        else:
            self._count_acks(index, channel, adds)

    def acking_channel(self, index: int) -> PerChannelBookieClient:
        """Return the channel on which this bookie acknowledges adds (a hook for deferred sync)."""
        return self.channels[index]

    def _count_acks(
        self, index: int, channel: PerChannelBookieClientV2, adds: Sequence[PendingAdd]
    ) -> None:
        # Ignore acknowledgements from a bookie that has been replaced.
        if self.channels[index] is channel:
            for pending in adds:
                pending.acked |= 1 << index
        self.complete_adds()

    def _record_response(
        self, bookie_id: str, pending: PendingAdd, error: BKException | None
    ) -> None:
        if self.recorder.listening:
            kind, why = ("add.failed", type(error).__name__) if error else ("add.acked", "")
            self.recorder.record(kind, self.ledger_id, pending.entry_id, peer=bookie_id, error=why)

    def connect_to_last_ensemble(self) -> None:
        """Start sending adds to the bookies of the last segment, and count only their responses."""
        self.channels = [self._context.bookie_client.get(bookie_id) for bookie_id in self.ensemble]
        self._on_added: list[OnAdded[PendingAdd]] = [
            partial(self.on_responses, index, channel)
            for index, channel in enumerate(self.channels)
        ]

    async def update_metadata(self, metadata: LedgerMetadata) -> bool:
        """Replace the metadata by compare-and-set. Return whether it was stored.

        If it was not, `self.metadata` is now the metadata that another client has stored.
        """
        # The ledger was OPEN at some moment after the request was sent.
        requested_at = self._loop.time()
        stored, self.metadata, self._version = await compare_and_set(
            self.ledger_id, self.metadata, self._version, metadata, self._context
        )
        if stored and metadata.state is LedgerState.OPEN:
            self.fence_check.saw_open(requested_at)
        return stored

    def end(self, error: LabkitError) -> None:
        """Reject further adds with this error and fail the pending ones. The ledger stays open."""
        if self.ended_by is None:
            self.ended_by = error
        # Clear `pending` first, because the caller of a failed add may use this writer immediately.
        abandoned, self.pending = self.pending, deque()
        for pending in abandoned:
            if pending.future.done():
                continue
            pending.future.set_exception(error)
            # asyncio logs exceptions that nobody retrieves. To log this error at most once, mark
            # the exceptions of all adds except the last one as retrieved. If the caller closed the
            # client, mark the exception of the last add as well.
            if pending is not abandoned[-1] or isinstance(error, BKClientClosedException):
                pending.future.exception()

    async def stop(self, error: LabkitError) -> None:
        """End this writer. Wait for a running ensemble change, which may write the metadata."""
        self.end(error)
        await self.ensemble_change.wait()
