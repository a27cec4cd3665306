"""The one writer of a ledger.

In BookKeeper: `client/LedgerHandle.java`, `client/PendingAddOp.java`.
"""

import asyncio
import zlib
from collections import deque
from dataclasses import dataclass
from functools import partial

from labkit.client.context import ClientContext
from labkit.client.ensemble import (
    first_of_new_segment,
    still_placed,
    with_ensemble,
    with_replacements,
)
from labkit.client.metadata_update import publish
from labkit.client.protocol_v2 import OnAdded, PerChannelBookieClientV2
from labkit.client.striping import write_set
from labkit.metadata.store import MetadataUnavailableError
from labkit.model.entry import (
    NO_ENTRY_ID,
    make_digest,
    make_master_key,
    pack_entry,
)
from labkit.model.errors import (
    BKClientClosedException,
    BKException,
    BKIncorrectParameterException,
    BKLedgerClosedException,
    BKLedgerFencedException,
    BKMetadataVersionException,
    BKNotEnoughBookiesException,
    BKUnauthorizedAccessException,
    BKWriteException,
    BKWriteOnReadOnlyBookieException,
    LabkitError,
)
from labkit.model.ledger import LedgerMetadata, LedgerState
from labkit.model.wire import MAX_FRAME_SIZE, encode_add

_OVERHEAD = 128
"""At most this much of a frame goes to lengths, headers, key and digest."""
MAX_PAYLOAD_SIZE = MAX_FRAME_SIZE - _OVERHEAD

_STOP_AT_ONCE = (BKLedgerFencedException, BKUnauthorizedAccessException, BKClientClosedException)
_LOOK_AGAIN_AFTER_S = 1.0
"""Pause before looking for a replacement again, after none was found."""


@dataclass(slots=True)
class PendingAdd:
    """An entry on its way; `acked` and `failed` have one bit for each place in the ensemble.

    `length` counts the ledger's payload bytes up to and with this entry.
    """

    entry_id: int
    length: int
    request: bytes
    confirmed: asyncio.Future[int]
    acked: int = 0
    failed: int = 0


class LedgerWriter:
    """Adds entries to a ledger that it created.

    Invariants: `last_add_confirmed` <= `last_add_pushed`; entries are confirmed in order of their
    ids; an entry is confirmed once `ack_quorum` bookies of its write set have it durable; nothing
    is confirmed while the ensemble changes, so a new segment begins behind all that is.

    A bookie that fails is replaced at once.  Where no other takes writes, the writer goes on
    without it while Qa acknowledgements are possible; BookKeeper's then ends with
    `BKNotEnoughBookiesException`, unless `delayEnsembleChange` is set.
    """

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
        self._version = version
        self._context = context
        self._recorder = context.recorder
        self._digest = make_digest(metadata.digest_type, metadata.password)
        self.master_key = make_master_key(metadata.password)
        self._go_to_ensemble()
        # Kept: looking for it is a system call, and this is done for each add.
        self._loop = asyncio.get_running_loop()
        self._pending: deque[PendingAdd] = deque()
        self._ended: LabkitError | None = None
        self._failed: dict[int, str] = {}
        self._last_failure: BKException | None = None
        self._given_up: dict[str, None] = {}
        self._change: asyncio.Task[None] | None = None
        self._look_again_at = 0.0
        self._changes_left = context.config.max_allowed_ensemble_changes

    def add(self, payload: bytes) -> asyncio.Future[int]:
        """Push an entry; the future gives its entry id once it is confirmed.

        Adds may be pushed without waiting for earlier ones; `drain` keeps them within bounds.  The
        future fails with a `LabkitError` when the entry can no longer be confirmed; the bookies may
        have it all the same.  Raises `BKIncorrectParameterException` for a payload above
        `MAX_PAYLOAD_SIZE` bytes, and `BKLedgerClosedException` or the error that ended this writer.
        """
        if self._ended is not None:
            raise self._ended
        if len(payload) > MAX_PAYLOAD_SIZE:
            raise BKIncorrectParameterException(
                f"a payload of {len(payload)} bytes; at most {MAX_PAYLOAD_SIZE} fit into a frame"
            )
        if self._failed:
            # What failed after its entry had Qa acknowledgements waits for the next add.
            self._start_change()
        self.last_add_pushed += 1
        self.length += len(payload)
        entry_id = self.last_add_pushed
        told = self._last_add_confirmed_to_tell()
        entry = pack_entry(self.ledger_id, entry_id, told, self.length, payload, self._digest)
        confirmed = self._loop.create_future()
        pending = PendingAdd(entry_id, self.length, self.request_of(entry), confirmed)
        self._pending.append(pending)
        if self._recorder.listening:
            note = f"{zlib.crc32(payload):08x}"
            self._recorder.record(
                "add.pushed", self.ledger_id, entry_id, size=len(payload), note=note
            )
        sizes = self.metadata.ensemble_size, self.metadata.write_quorum
        for place in write_set(entry_id, *sizes):
            self._send(pending, place)
        return confirmed

    async def drain(self) -> None:
        """Wait until fewer than `max_pending_adds` adds are unconfirmed.  Raises what they raise.

        A writer that pushes without end awaits this before each add.
        """
        beyond = len(self._pending) - self._context.config.max_pending_adds
        if beyond >= 0:
            await asyncio.shield(self._pending[beyond].confirmed)

    async def confirmed(self) -> None:
        """Wait until everything pushed so far is confirmed.  Raises what the adds raise."""
        if self._pending:
            await asyncio.shield(self._pending[-1].confirmed)
        elif self._ended is not None and self.last_add_confirmed < self.last_add_pushed:
            raise self._ended

    @property
    def is_ended(self) -> bool:
        """Whether nothing can be added any more."""
        return self._ended is not None

    def oldest_unacknowledged(self) -> PendingAdd | None:
        """The first add that has fewer than Qa acknowledgements."""
        return next((add for add in self._pending if not self._has_enough_acks(add)), None)

    def abandon(self, error: BKException) -> None:
        """Push nothing more; the ledger stays as it is, for `close` or for who recovers it."""
        self._end(error)

    async def force(self) -> None:
        """Make durable what is acknowledged by now.  Here everything confirmed is so already; a
        ledger with deferred sync has a writer for which this matters.
        """

    async def close(self) -> None:
        """Fix the ledger's end at LastAddConfirmed.

        Adds not confirmed by now fail with `BKLedgerClosedException`; await them first.  Somebody
        who recovers the ledger at the same time takes over this end.  Raises
        `BKMetadataVersionException` when somebody else closed the ledger at another entry.
        """
        closed = f"ledger {self.ledger_id} was closed by its writer"
        await self._stop(BKLedgerClosedException(closed))
        last = self.last_add_confirmed
        while self.metadata.state is not LedgerState.CLOSED:
            await self._publish(self.metadata.closed(last, self.length_confirmed))
        if self.metadata.last_entry_id != last:
            raise BKMetadataVersionException(
                f"ledger {self.ledger_id} was closed by somebody else at entry"
                f" {self.metadata.last_entry_id}; this writer had confirmed up to {last}"
            )

    def _last_add_confirmed_to_tell(self) -> int:
        """The LastAddConfirmed to piggyback on the entry: readers may read up to there."""
        return self.last_add_confirmed

    def request_of(self, entry: bytes) -> bytes:
        """What each bookie of the write set is sent for a packed entry."""
        return encode_add(self.master_key, entry)

    # Answers

    def _send(self, pending: PendingAdd, place: int) -> None:
        bookie, entry_id = self._bookies[place], pending.entry_id
        if self._recorder.listening:
            self._recorder.record("add.sent", self.ledger_id, entry_id, peer=bookie.bookie)
        bookie.add(self.ledger_id, entry_id, pending.request, self._on_added[place], pending)

    def _answered(
        self,
        place: int,
        bookie: PerChannelBookieClientV2,
        pending: PendingAdd,
        error: BKException | None,
    ) -> None:
        if self._recorder.listening:
            kind, note = ("add.failed", type(error).__name__) if error else ("add.acked", "")
            peer = bookie.bookie
            self._recorder.record(kind, self.ledger_id, pending.entry_id, peer=peer, note=note)
        if self._bookies[place] is not bookie:
            return  # It was replaced: its copy counts no more.
        if error is not None:
            self._add_failed(pending, place, bookie.bookie, error)
        else:
            pending.acked |= 1 << place
            self._confirm()

    def _has_enough_acks(self, pending: PendingAdd) -> bool:
        return pending.acked.bit_count() >= self.metadata.ack_quorum

    def _confirm(self) -> None:
        """Confirm from the head of the queue as far as Qa acknowledgements go without a gap."""
        nothing = not self._pending or not self._has_enough_acks(self._pending[0])
        if nothing or self._change is not None:
            return
        confirmed_before = self.last_add_confirmed
        while self._pending and self._has_enough_acks(self._pending[0]):
            pending = self._pending.popleft()
            self.last_add_confirmed = pending.entry_id
            self.length_confirmed = pending.length
            if not pending.confirmed.done():
                pending.confirmed.set_result(pending.entry_id)
        if self._recorder.listening:
            for entry_id in range(confirmed_before + 1, self.last_add_confirmed + 1):
                self._recorder.record("lac.advanced", self.ledger_id, entry_id)

    def _end(self, error: LabkitError) -> None:
        """Nothing more can be added, and what is not confirmed by now never will be."""
        if self._ended is None:
            self._ended = error
        abandoned, self._pending = self._pending, deque()
        for pending in abandoned:
            if not pending.confirmed.done():
                pending.confirmed.set_exception(error)

    async def _stop(self, error: LabkitError) -> None:
        """`_end`, and the metadata are the caller's from now on."""
        self._end(error)
        if self._change is not None:
            await asyncio.shield(self._change)

    # A bookie that fails

    def _add_failed(self, pending: PendingAdd, place: int, bookie: str, error: BKException) -> None:
        if self._ended is not None:
            return
        if isinstance(error, _STOP_AT_ONCE):
            self._end(error)
            return
        self._context.watcher.failed(bookie, error)
        self._last_failure = error
        was_acknowledged = self._has_enough_acks(pending)
        pending.failed |= 1 << place
        is_blocked = self._is_blocked(pending)
        if self._context.config.delay_ensemble_change:
            read_only = isinstance(error, BKWriteOnReadOnlyBookieException)
            if was_acknowledged or not (is_blocked or read_only):
                return
            for failed, name in enumerate(self._ensemble):
                if pending.failed >> failed & 1:
                    self._failed[failed] = name
        else:
            self._failed[place] = bookie
        if not was_acknowledged:
            self._start_change(at_once=is_blocked)

    def _is_blocked(self, pending: PendingAdd) -> bool:
        """Whether fewer than Qa bookies of the write set are left."""
        spare = self.metadata.write_quorum - self.metadata.ack_quorum
        return pending.failed.bit_count() > spare

    @property
    def _ensemble(self) -> tuple[str, ...]:
        return self.metadata.segments[-1].ensemble

    def _go_to_ensemble(self) -> None:
        """From now on adds go to the bookies of the last segment, and only their answers count."""
        self._bookies = [self._context.bookies.get(name) for name in self._ensemble]
        self._on_added: list[OnAdded[PendingAdd]] = [
            partial(self._answered, place, bookie) for place, bookie in enumerate(self._bookies)
        ]

    # Ensemble change

    def _start_change(self, *, at_once: bool = False) -> None:
        """Start a change unless one runs: that also replaces bookies that fail before it ends."""
        if self._change is None and (at_once or self._loop.time() >= self._look_again_at):
            self._change = self._loop.create_task(self._change_ensemble())

    async def _change_ensemble(self) -> None:
        """Replace failed bookies until there are none, then go on with those in their place."""
        shortage: LabkitError | None = None
        try:
            while shortage is None and self._ended is None:
                failed, self._failed = still_placed(self._ensemble, self._failed), {}
                if not failed:
                    break
                self._given_up.update(dict.fromkeys(failed.values()))
                shortage = await self._replace(failed)
        except LabkitError as error:
            self._end(error)
        self._change, self._failed = None, {}
        self._send_to_replacements()
        if shortage is not None:
            self._look_again_at = self._loop.time() + _LOOK_AGAIN_AFTER_S
            if any(map(self._is_blocked, self._pending)):
                self._end(shortage)
        self._confirm()

    async def _replace(self, failed: dict[int, str]) -> LabkitError | None:
        """Store an ensemble without the failed bookies, as far as there are others.

        Returns why a bookie stays in its place.  Raises `BKLedgerFencedException` or
        `BKLedgerClosedException` when somebody recovers or has closed the ledger.
        """
        while failed:
            names = ", ".join(failed.values())
            try:
                found = await self._context.watcher.replacements(
                    self._ensemble, failed, self.metadata.write_quorum, list(self._given_up)
                )
            except MetadataUnavailableError as error:
                return error
            shortage = BKNotEnoughBookiesException(
                f"ledger {self.ledger_id}: {names} failed ({self._last_failure}), and no other"
                " bookie takes writes; start more bookies"
            )
            if not found:
                return shortage
            first = self._first_of_new_segment()
            self._recorder.record("ensemble.changing", self.ledger_id, first, note=names)
            ensemble = with_replacements(self._ensemble, found)
            if await self._store_ensemble(first, ensemble):
                return shortage if len(found) < len(failed) else None
            failed = still_placed(self._ensemble, failed)
        return None

    def _first_of_new_segment(self) -> int:
        return first_of_new_segment(self.last_add_confirmed)

    async def _store_ensemble(self, first_entry_id: int, ensemble: tuple[str, ...]) -> bool:
        """Whether the metadata has this ensemble now; if not, somebody else has changed it."""
        if not self._changes_left:
            limit = self._context.config.max_allowed_ensemble_changes
            raise BKWriteException(
                f"ledger {self.ledger_id}: {self._last_failure}; bookies of it were replaced"
                f" {limit} times, and maxNumEnsembleChanges allows no more: look why so many fail,"
                " and go on in a new ledger"
            )
        if await self._publish(with_ensemble(self.metadata, first_entry_id, ensemble)):
            self._changes_left -= 1
            return True
        if self.metadata.state is LedgerState.IN_RECOVERY:
            raise BKLedgerFencedException(f"ledger {self.ledger_id}: somebody else recovers it")
        if self.metadata.state is LedgerState.CLOSED:
            raise BKLedgerClosedException(f"ledger {self.ledger_id} was closed by somebody else")
        return False

    async def _publish(self, metadata: LedgerMetadata) -> bool:
        """Compare-and-set; after a conflict this writer knows what the other one stored."""
        stored, self.metadata, self._version = await publish(
            self.ledger_id, self.metadata, self._version, metadata, self._context
        )
        return stored

    def _send_to_replacements(self) -> None:
        """Pending entries go again, as they are, to the new bookies, and only to these."""
        changed = [
            place
            for place, (bookie, name) in enumerate(zip(self._bookies, self._ensemble, strict=True))
            if bookie.bookie != name
        ]
        self._go_to_ensemble()
        sizes = self.metadata.ensemble_size, self.metadata.write_quorum
        for pending in self._pending:
            for place in write_set(pending.entry_id, *sizes):
                if place in changed:
                    pending.acked &= ~(1 << place)
                    pending.failed &= ~(1 << place)
                    self._send(pending, place)
