"""What a writer does when a bookie fails: another one takes its place, and the ledger goes on.

    a bookie fails an add     note its place; unless a change runs, start one
    find other bookies        none: go on without, as long as Qa acknowledgements can come
    store the new ensemble    from LastAddConfirmed + 1 on, by compare-and-set of the metadata
    send what is pending      to the new bookies, and only to these
    confirm                   what had enough acknowledgements meanwhile

In BookKeeper: `LedgerHandle.handleBookieFailure`, `ensembleChangeLoop`.
"""

import asyncio
from collections import deque
from typing import Protocol

from labkit.system.client.context import ClientContext
from labkit.system.client.ensemble import (
    first_of_new_segment,
    still_placed,
    with_ensemble,
    with_replacements,
)
from labkit.system.client.pending_add import PendingAdd
from labkit.system.client.protocol.protocol_v2 import PerChannelBookieClientV2
from labkit.system.client.striping import write_set
from labkit.system.metadata.store import LARGEST_NODE, MetadataUnavailableError
from labkit.system.model.errors import (
    BKClientClosedException,
    BKException,
    BKLedgerClosedException,
    BKLedgerFencedException,
    BKNotEnoughBookiesException,
    BKUnauthorizedAccessException,
    BKWriteException,
    BKWriteOnReadOnlyBookieException,
    LabkitError,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState, encode_ledger_metadata

_STOP_AT_ONCE = (BKLedgerFencedException, BKUnauthorizedAccessException, BKClientClosedException)
_LARGEST_METADATA = LARGEST_NODE - 100_000
"""The rest is for those who recover, close and repair the ledger."""
_RETRY_AFTER_S = 1.0
"""Pause before looking for a replacement again, after none was found."""


class ChangingLedger(Protocol):
    """What an ensemble change needs of the ledger's writer."""

    ledger_id: int
    metadata: LedgerMetadata
    last_add_confirmed: int
    last_add_pushed: int
    pending: deque[PendingAdd]
    bookies: list[PerChannelBookieClientV2]

    @property
    def is_ended(self) -> bool:
        """Whether nothing can be added any more."""

    @property
    def ensemble(self) -> tuple[str, ...]:
        """The bookies of the last segment."""

    def end(self, error: LabkitError) -> None:
        """Add nothing more, and fail what is pending."""

    async def publish(self, metadata: LedgerMetadata) -> bool:
        """Compare-and-set of the metadata."""

    def use_last_ensemble(self) -> None:
        """Use the bookies of the last segment from now on."""

    def send(self, pending: PendingAdd, place: int) -> None:
        """Send an entry to the bookie at that place."""

    def has_enough_acks(self, pending: PendingAdd) -> bool:
        """Whether Qa bookies have it."""

    def confirm(self) -> None:
        """Confirm what can be confirmed."""


class EnsembleChange:
    """Replaces the bookies that fail one writer, from its creation to its end.

    Invariant: at most one change runs; the new segment begins behind all that is confirmed, and
    nothing is confirmed before the metadata names the new ensemble.
    """

    def __init__(self, ledger: ChangingLedger, context: ClientContext) -> None:
        self.ledger = ledger
        self.recorder = context.recorder
        self.failed: dict[int, str] = {}
        """Bookies that failed and are not replaced yet, by place."""
        self.last_failure: BKException | None = None
        self.task: asyncio.Task[None] | None = None
        """The running change; None between changes."""
        self._watcher = context.watcher
        self._config = context.config
        self._loop = asyncio.get_running_loop()
        self._given_up: dict[str, None] = {}
        self._retry_at = 0.0
        self._changes_left = context.config.max_allowed_ensemble_changes

    # Rules, which a subclass may change

    def add_failed(self, pending: PendingAdd, place: int, bookie: str, error: BKException) -> None:
        """A bookie has failed an add: end the writer, go on without it, or replace it."""
        if self.ledger.is_ended:
            return
        if isinstance(error, _STOP_AT_ONCE):
            self.ledger.end(error)
            return
        # After the checks above: a fence or a wrong key is the writer's affair, not the bookie's.
        self._watcher.failed(bookie, error)
        self.last_failure = error
        # Asked before the failure is noted: an entry that has its acknowledgements needs no change
        # now.
        was_acknowledged = self.ledger.has_enough_acks(pending)
        # By place, not by name: the bookie of a place may be another one later.
        pending.failed |= 1 << place
        is_blocked = self._is_blocked(pending)
        if self._config.delay_ensemble_change:
            read_only = isinstance(error, BKWriteOnReadOnlyBookieException)
            if was_acknowledged or not (is_blocked or read_only):
                return
            # All that failed this entry: earlier failures did not start a change.
            for failed, used in enumerate(self.ledger.bookies):
                if pending.failed >> failed & 1:
                    self.failed[failed] = used.bookie
        else:
            self.failed[place] = bookie
        if not was_acknowledged:
            self.start(at_once=is_blocked)

    def start(self, *, at_once: bool = False) -> None:
        """Start a change unless one runs: that also replaces bookies that fail before it ends."""
        if self.task is None and (at_once or self._loop.time() >= self._retry_at):
            self.task = self._loop.create_task(self._run())

    def first_entry_id(self) -> int:
        """The entry from which on the new ensemble holds."""
        return first_of_new_segment(self.ledger.last_add_confirmed)

    async def store(self, first_entry_id: int, ensemble: tuple[str, ...]) -> bool:
        """Whether the metadata has this ensemble now; if not, another client has changed it.

        Raises `BKLedgerFencedException` or `BKLedgerClosedException` when another client recovers
        or has closed the ledger, and `BKWriteException` when no further change is allowed, or none
        fits into the metadata.
        """
        ledger = self.ledger
        if not self._changes_left:
            limit = self._config.max_allowed_ensemble_changes
            raise BKWriteException(
                f"ledger {ledger.ledger_id}: {self.last_failure}; bookies of it were replaced"
                f" {limit} times, and maxNumEnsembleChanges allows no more: find out why they fail,"
                " and go on in a new ledger"
            )
        metadata = with_ensemble(ledger.metadata, first_entry_id, ensemble)
        if len(encode_ledger_metadata(metadata)) > _LARGEST_METADATA:
            raise BKWriteException(
                f"ledger {ledger.ledger_id}: {self.last_failure}; its metadata has"
                f" {len(metadata.segments)} segments, and no room for more: go on in a new ledger"
            )
        if await ledger.publish(metadata):
            self._changes_left -= 1
            return True
        if ledger.metadata.state is LedgerState.IN_RECOVERY:
            raise BKLedgerFencedException(f"ledger {ledger.ledger_id}: another client recovers it")
        if ledger.metadata.state is LedgerState.CLOSED:
            raise BKLedgerClosedException(f"ledger {ledger.ledger_id} was closed by another client")
        return False

    def send_to_replacements(self) -> None:
        """Pending entries go again, as they are, to the new bookies, and only to these."""
        ledger = self.ledger
        replaced = self.go_to_replacements()
        sizes = ledger.metadata.ensemble_size, ledger.metadata.write_quorum
        for pending in ledger.pending:
            for place in write_set(pending.entry_id, *sizes):
                if place in replaced:
                    self.send_again(pending, place)

    # For these rules

    def go_to_replacements(self) -> frozenset[int]:
        """Use the new ensemble from now on; returns the places of its new bookies."""
        pairs = zip(self.ledger.bookies, self.ledger.ensemble, strict=True)
        replaced = frozenset(at for at, (old, name) in enumerate(pairs) if old.bookie != name)
        self.ledger.use_last_ensemble()
        return replaced

    def send_again(self, pending: PendingAdd, place: int) -> None:
        """Send to the new bookie there; the old one's acknowledgement no longer counts."""
        pending.acked &= ~(1 << place)
        pending.failed &= ~(1 << place)
        self.ledger.send(pending, place)

    # One change

    async def _run(self) -> None:
        """Replace failed bookies until none is left, then go on with their replacements."""
        ledger, shortage = self.ledger, None
        try:
            while shortage is None and not ledger.is_ended:
                # A bookie that was just replaced may still fail adds, and is noted again.
                failed, self.failed = still_placed(ledger.ensemble, self.failed), {}
                if not failed:
                    break
                # Remembered for the ledger's life: one that failed it once is the last choice.
                self._given_up.update(dict.fromkeys(failed.values()))
                shortage = await self._replace(failed)
        except LabkitError as error:
            ledger.end(error)
        # Before anything is sent: an answer may come that starts the next change.
        self.task, self.failed = None, {}
        self.send_to_replacements()
        if shortage is not None:
            self._retry_at = self._loop.time() + _RETRY_AFTER_S
            if any(map(self._is_blocked, ledger.pending)):
                ledger.end(shortage)
        # Acknowledgements that came during the change were only counted.
        ledger.confirm()

    async def _replace(self, failed: dict[int, str]) -> LabkitError | None:
        """Store an ensemble without the failed bookies, as far as there are others.

        Returns why a bookie stays in its place.  Raises what `store` raises.
        """
        ledger = self.ledger
        while failed:
            names = ", ".join(failed.values())
            try:
                found = await self._watcher.replacements(
                    ledger.ensemble, failed, ledger.metadata.write_quorum, list(self._given_up)
                )
            # Not the end: Qa acknowledgements may still come without a replacement.
            except MetadataUnavailableError as error:
                return error
            shortage = BKNotEnoughBookiesException(
                f"ledger {ledger.ledger_id}: {names} failed ({self.last_failure}), and no other"
                " bookie takes writes; start more bookies"
            )
            if not found:
                return shortage
            # After the search: entries may have been confirmed before it.
            first = self.first_entry_id()
            self.recorder.record("ensemble.changing", ledger.ledger_id, first, note=names)
            if await self.store(first, with_replacements(ledger.ensemble, found)):
                return shortage if len(found) < len(failed) else None
            # Another client stored first, and may have replaced some of them.
            failed = still_placed(ledger.ensemble, failed)
        return None

    def _is_blocked(self, pending: PendingAdd) -> bool:
        """Whether fewer than Qa bookies of the write set are left."""
        spare = self.ledger.metadata.write_quorum - self.ledger.metadata.ack_quorum
        return pending.failed.bit_count() > spare
