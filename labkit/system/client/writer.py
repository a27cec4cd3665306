"""The one writer of a ledger.

What it does when a bookie fails is in `ensemble_change`.

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
from labkit.system.client.metadata_update import publish
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
    BKMetadataVersionException,
    LabkitError,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.model.wire import MAX_FRAME_SIZE, add_header

_OVERHEAD = 128
"""At most this much of a frame goes to lengths, headers, key and digest."""
MAX_PAYLOAD_SIZE = MAX_FRAME_SIZE - _OVERHEAD


class LedgerWriter:
    """Adds entries to a ledger that it created.

    Invariants: `last_add_confirmed` <= `last_add_pushed`; entries are confirmed in order of their
    ids; an entry is confirmed once `ack_quorum` bookies of its write set have it durable; nothing
    is confirmed while the ensemble changes, so a new segment begins behind all that is; an
    acknowledgement counts only from a bookie that honours every fence (`fence_check`).

    A bookie that fails is replaced at once.  Where no other takes writes, the writer goes on
    without it while Qa acknowledgements are possible; BookKeeper's then ends with
    `BKNotEnoughBookiesException`, unless `delayEnsembleChange` is set.
    """

    ensemble_change_class: ClassVar[type[EnsembleChange]] = EnsembleChange
    fence_check_class: ClassVar[type[FenceCheck]] = FenceCheck

    def __init__(
        self, ledger_id: int, metadata: LedgerMetadata, version: int, context: ClientContext
    ) -> None:
        self.ledger_id = ledger_id
        self.metadata = metadata
        self.last_add_pushed = NO_ENTRY_ID
        self.last_add_confirmed = NO_ENTRY_ID
        self.length = 0
        """Payload bytes pushed."""
        self.length_confirmed = 0
        """Payload bytes up to LastAddConfirmed."""
        self.recorder = context.recorder
        self.master_key = make_master_key(metadata.password)
        self.pending: deque[PendingAdd] = deque()
        """Entries that are not confirmed, oldest first."""
        self.ended_by: LabkitError | None = None
        """Why nothing can be added any more."""
        self._version = version
        self._context = context
        self._add_header = add_header(self.master_key)
        self._digest = make_digest(metadata.digest_type, metadata.password)
        self.use_last_ensemble()
        # Kept: looking for it is a system call, and this is done for each add.
        self._loop = asyncio.get_running_loop()
        self.ensemble_change = self.ensemble_change_class(self, context)
        self.fence_check = self.fence_check_class(
            ledger_id, context.manager, self.end, lambda: self.is_ended
        )

    def add(self, payload: bytes) -> asyncio.Future[int]:
        """Push an entry; the future gives its entry id once it is confirmed.

        Adds may be pushed without waiting for earlier ones; `drain` keeps them within bounds.  The
        future fails with a `LabkitError` when the entry can no longer be confirmed; the bookies may
        still have it.  Raises `BKIncorrectParameterException` for a payload above
        `MAX_PAYLOAD_SIZE` bytes, and `BKLedgerClosedException` or the error that ended this writer.
        """
        if self.ensemble_change.failed and self.ended_by is None:
            # What failed after its entry had Qa acknowledgements waits for the next add.
            self.ensemble_change.start()
        # After that: where no bookie can be replaced, it ends this writer.
        if self.ended_by is not None:
            raise self.ended_by
        if len(payload) > MAX_PAYLOAD_SIZE:
            raise BKIncorrectParameterException(
                f"a payload of {len(payload)} bytes; at most {MAX_PAYLOAD_SIZE} fit into a frame"
            )
        # Before it is packed: the digest covers the entry id and the length.
        self.last_add_pushed += 1
        self.length += len(payload)
        entry_id = self.last_add_pushed
        lac = self.lac_to_piggyback()
        entry = pack_entry(self.ledger_id, entry_id, lac, self.length, payload, self._digest)
        confirmed = self._loop.create_future()
        pending = PendingAdd(entry_id, self.length, self.request_of(entry), confirmed)
        # Before it is sent: an ensemble change sends again what stands here.
        self.pending.append(pending)
        if self.recorder.listening:
            note = f"{zlib.crc32(payload):08x}"
            self.recorder.record(
                "add.pushed", self.ledger_id, entry_id, size=len(payload), note=note
            )
        sizes = self.metadata.ensemble_size, self.metadata.write_quorum
        for place in write_set(entry_id, *sizes):
            self.send(pending, place)
        return confirmed

    async def drain(self) -> None:
        """Wait until fewer than `max_pending_adds` adds are unconfirmed.  Raises what they raise.

        A writer that pushes without end awaits this before each add.
        """
        beyond = len(self.pending) - self._context.config.max_pending_adds
        if beyond >= 0:
            # Shielded: a caller that stops waiting must not cancel the add.
            await asyncio.shield(self.pending[beyond].confirmed)

    async def confirmed(self) -> None:
        """Wait until everything pushed so far is confirmed.  Raises what the adds raise."""
        if self.pending:
            await asyncio.shield(self.pending[-1].confirmed)
        elif self.ended_by is not None and self.last_add_confirmed < self.last_add_pushed:
            raise self.ended_by

    @property
    def is_ended(self) -> bool:
        """Whether nothing can be added any more."""
        return self.ended_by is not None

    def oldest_unacknowledged(self) -> PendingAdd | None:
        """The first add that has fewer than Qa acknowledgements."""
        return next((add for add in self.pending if not self.has_enough_acks(add)), None)

    async def force(self) -> None:
        """Make durable what is acknowledged by now.  Nothing to do here, as all that is confirmed
        is durable; the writer of a ledger with deferred sync overrides it.
        """

    async def close(self) -> None:
        """Fix the ledger's end at LastAddConfirmed.

        Adds not confirmed by now fail with `BKLedgerClosedException`; await them first.  A client
        that recovers the ledger at the same time takes over this end.  Raises
        `BKMetadataVersionException` when another client closed the ledger at another entry.
        """
        closed = f"ledger {self.ledger_id} was closed by its writer"
        # First: while the metadata is written, no add may be confirmed beyond this end.
        await self.stop(BKLedgerClosedException(closed))
        last = self.last_add_confirmed
        # Another client may change the metadata first: then again, on top of its change.
        while self.metadata.state is not LedgerState.CLOSED:
            await self.publish(self.metadata.closed(last, self.length_confirmed))
        if self.metadata.last_entry_id != last:
            raise BKMetadataVersionException(
                f"ledger {self.ledger_id} was closed by another client at entry"
                f" {self.metadata.last_entry_id}; this writer had confirmed up to {last}"
            )

    @property
    def ensemble(self) -> tuple[str, ...]:
        """The bookies of the last segment, which new entries go to."""
        return self.metadata.segments[-1].ensemble

    # Rules, which a subclass may change

    def lac_to_piggyback(self) -> int:
        """The LastAddConfirmed that goes along with an entry: readers may read up to there."""
        return self.last_add_confirmed

    def request_of(self, entry: bytes) -> bytes:
        """The request that each bookie of the write set gets for a packed entry."""
        return self._add_header + entry

    def send(self, pending: PendingAdd, place: int) -> None:
        """Send an entry to the bookie at that place; its answer goes to `answered`."""
        bookie, entry_id = self.bookies[place], pending.entry_id
        if bookie.connection is None:
            self.fence_check.expect(bookie)
        if self.recorder.listening:
            self.recorder.record("add.sent", self.ledger_id, entry_id, peer=bookie.bookie)
        bookie.add(self.ledger_id, entry_id, pending.request, self._on_added[place], pending)

    def has_enough_acks(self, pending: PendingAdd) -> bool:
        """Whether Qa bookies have it."""
        return pending.acked.bit_count() >= self.metadata.ack_quorum

    def confirm(self) -> None:
        """Confirm from the head of the queue as far as Qa acknowledgements go without a gap."""
        # During a change the metadata does not name the bookies that have an entry.
        if self.ensemble_change.task is not None:
            return
        confirmed_before, waiting = self.last_add_confirmed, self.pending
        while waiting and self.has_enough_acks(waiting[0]):
            pending = waiting.popleft()
            self.last_add_confirmed = pending.entry_id
            self.length_confirmed = pending.length
            # A caller may have cancelled it; the entry is confirmed all the same.
            if not pending.confirmed.done():
                pending.confirmed.set_result(pending.entry_id)
        if self.recorder.listening:
            for entry_id in range(confirmed_before + 1, self.last_add_confirmed + 1):
                self.recorder.record("lac.advanced", self.ledger_id, entry_id)

    # For these rules, and for the ensemble change

    def answered(
        self,
        place: int,
        bookie: PerChannelBookieClientV2,
        answered: Sequence[PendingAdd],
        error: BKException | None,
    ) -> None:
        """A bookie has stored entries, or has failed to."""
        if error is not None:
            for pending in answered:
                self._record_answer(bookie.bookie, pending, error)
                # Otherwise it was replaced: its failures no longer matter.
                if self.bookies[place] is bookie:
                    self.ensemble_change.add_failed(pending, place, bookie.bookie, error)
        elif not self.fence_check.passed(connection := self.connection_at(place)):
            for pending in answered:
                self._record_answer(bookie.bookie, pending, None)
            self.fence_check.hold(connection, partial(self._count, place, bookie, answered))
        elif self.recorder.listening:
            # One by one: in the trace each answer stands before what it confirms.
            for pending in answered:
                self._record_answer(bookie.bookie, pending, None)
                self._count(place, bookie, (pending,))
        else:
            self._count(place, bookie, answered)

    def connection_at(self, place: int) -> PerChannelBookieClient:
        """The connection over which the bookie at that place acknowledges adds."""
        return self.bookies[place]

    def _count(
        self, place: int, bookie: PerChannelBookieClientV2, acknowledged: Sequence[PendingAdd]
    ) -> None:
        # Otherwise it was replaced: its copies no longer count.
        if self.bookies[place] is bookie:
            for pending in acknowledged:
                pending.acked |= 1 << place
        self.confirm()

    def _record_answer(self, bookie: str, pending: PendingAdd, error: BKException | None) -> None:
        if self.recorder.listening:
            kind, note = ("add.failed", type(error).__name__) if error else ("add.acked", "")
            self.recorder.record(kind, self.ledger_id, pending.entry_id, peer=bookie, note=note)

    def use_last_ensemble(self) -> None:
        """From now on adds go to the bookies of the last segment, and only their answers count."""
        self.bookies = [self._context.bookies.get(name) for name in self.ensemble]
        self._on_added: list[OnAdded[PendingAdd]] = [
            partial(self.answered, place, bookie) for place, bookie in enumerate(self.bookies)
        ]

    async def publish(self, metadata: LedgerMetadata) -> bool:
        """Compare-and-set; after a conflict this writer knows what the other one stored."""
        asked_at = self._loop.time()
        stored, self.metadata, self._version = await publish(
            self.ledger_id, self.metadata, self._version, metadata, self._context
        )
        if stored and metadata.state is LedgerState.OPEN:
            self.fence_check.found_open(asked_at)
        return stored

    def end(self, error: LabkitError) -> None:
        """Nothing more can be added, and what is not confirmed by now never will be."""
        if self.ended_by is None:
            self.ended_by = error
        # Taken away first: a caller whose add fails may look at this writer at once.
        abandoned, self.pending = self.pending, deque()
        for pending in abandoned:
            if pending.confirmed.done():
                continue
            pending.confirmed.set_exception(error)
            # asyncio complains about an error that nothing takes: of those that are one, once, and
            # never to a caller that closed the client itself.
            if pending is not abandoned[-1] or isinstance(error, BKClientClosedException):
                pending.confirmed.exception()

    async def stop(self, error: LabkitError) -> None:
        """`end`, and the metadata are the caller's from now on."""
        self.end(error)
        # It may be writing the metadata: the caller's own change must come after that.
        if self.ensemble_change.task is not None:
            await asyncio.shield(self.ensemble_change.task)
