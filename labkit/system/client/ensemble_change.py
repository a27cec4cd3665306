"""Replaces a writer's failed bookies.

    a bookie fails an add     `add_failed`: record its ensemble index; start a change unless one is
                              already running
    find other bookies        `_replace`: if there are none, continue without the failed bookies, as
                              long as Qa acknowledgements are possible
    store the new ensemble    `store_ensemble`: compare-and-set metadata in which the new ensemble
                              starts at LastAddConfirmed + 1; if another client is recovering or has
                              closed the ledger, the writer ends
    send pending entries      `send_to_replacements`: to the new bookies only
    confirm                   `LedgerWriter.complete_adds`: entries that got enough
                              acknowledgements in the meantime

In BookKeeper: `LedgerHandle.handleBookieFailure`, `ensembleChangeLoop`.
"""

import asyncio

from labkit.system.client.context import ClientContext
from labkit.system.client.ensemble import still_in_ensemble, with_ensemble, with_replacements
from labkit.system.client.pending_add import PendingAdd
from labkit.system.client.striping import write_set
from labkit.system.client.writer_interface import WriterInterface
from labkit.system.metadata.store import MAX_NODE_BYTES, MetadataUnavailableError
from labkit.system.model.errors import (
    BKException,
    BKLedgerClosedException,
    BKLedgerFencedException,
    BKNotEnoughBookiesException,
    BKWriteException,
    BKWriteOnReadOnlyBookieException,
    LabkitError,
)
from labkit.system.model.ledger import LedgerState, encode_ledger_metadata

_LARGEST_METADATA = MAX_NODE_BYTES - 100_000
"""Leave room for the changes of other clients that recover, close or repair the ledger."""
_RETRY_AFTER_S = 1.0
"""How long to wait after a search that found no replacement."""


class EnsembleChange:
    """Runs all ensemble changes of one writer, one at a time.

    A failed bookie is replaced immediately, with two exceptions. If the failed add already had Qa
    acknowledgements, the next `add` starts the replacement. If `delay_ensemble_change` is set, the
    bookie is not replaced while Qa acknowledgements are still possible.

    Invariant: a new segment starts after all confirmed entries, and nothing is confirmed until the
    stored metadata lists the new ensemble.
    """

    def __init__(self, writer: WriterInterface, context: ClientContext) -> None:
        self.writer = writer
        self.recorder = context.recorder
        self.failed: dict[int, str] = {}
        """The bookies to replace, keyed by ensemble index. They are replaced in the next round of
        the running change or, if no change is running, in the next change.
        """
        self.last_failure: BKException | None = None
        self._watcher = context.watcher
        self._config = context.config
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._given_up: dict[str, None] = {}
        """All bookies that this writer has tried to replace (an ordered set). They are used as
        replacements only as a last resort.
        """
        self._retry_at = 0.0
        self._changes_left = context.config.max_allowed_ensemble_changes

    @property
    def is_running(self) -> bool:
        return self._task is not None

    async def wait(self) -> None:
        if self._task is not None:
            await asyncio.shield(self._task)

    # Hooks: overridden by recovery, deferred sync and `worlds/sim/variants`.

    def add_failed(self, pending: PendingAdd, index: int, bookie: str, error: BKException) -> None:
        """Handle a failed add: replace the bookie now, with the next add, or not at all."""
        if self.writer.is_ended:
            return
        self._watcher.count_failure(bookie, error)
        self.last_failure = error
        # If the entry already has Qa acknowledgements, the ensemble change can wait.
        was_acknowledged = self.writer.has_enough_acks(pending)
        pending.failed |= 1 << index
        is_blocked = self._cannot_get_enough_acks(pending)
        if self._config.delay_ensemble_change:
            is_read_only = isinstance(error, BKWriteOnReadOnlyBookieException)
            if was_acknowledged or not (is_blocked or is_read_only):
                return
            # Include bookies that failed to store this entry earlier but were not replaced.
            for other_index, channel in enumerate(self.writer.channels):
                if pending.failed >> other_index & 1:
                    self.failed[other_index] = channel.bookie_id
        else:
            self.failed[index] = bookie
        if not was_acknowledged:
            self.start(at_once=is_blocked)

    def start(self, *, at_once: bool = False) -> None:
        """Start an ensemble change. If one is already running, it also replaces the bookies in
        `failed`.

        If the last search for replacements has just failed, start only if `at_once` is set.
        """
        if self._task is None and (at_once or self._loop.time() >= self._retry_at):
            self._task = self._loop.create_task(self._run())

    def first_of_new_segment(self) -> int:
        """Return the first unconfirmed entry.

        A new bookie's acknowledgements count for every unconfirmed entry, so its segment must
        contain all of them, even entries pushed before the one whose add failed. Recovery relies on
        this rule: it assumes that every entry before the last segment is confirmed.
        """
        return self.writer.last_add_confirmed + 1

    async def store_ensemble(self, first_entry_id: int, ensemble: tuple[str, ...]) -> bool:
        """Store the new ensemble; return False if another client has changed the metadata first.

        Raises `BKLedgerFencedException` or `BKLedgerClosedException` if another client is
        recovering or has closed the ledger, and `BKWriteException` if no further change is allowed
        or the metadata would become too large.
        """
        writer = self.writer
        if not self._changes_left:
            limit = self._config.max_allowed_ensemble_changes
            raise BKWriteException(
                f"ledger {writer.ledger_id}: {self.last_failure}; the ensemble has changed {limit}"
                " times, and bookkeeper_maxNumEnsembleChanges allows no more changes; find out why"
                " the bookies fail, and continue in a new ledger"
            )
        metadata = with_ensemble(writer.metadata, first_entry_id, ensemble)
        if len(encode_ledger_metadata(metadata)) > _LARGEST_METADATA:
            raise BKWriteException(
                f"ledger {writer.ledger_id}: {self.last_failure}; with {len(metadata.segments)}"
                " segments the metadata would be too large to store; continue in a new ledger"
            )
        if await writer.update_metadata(metadata):
            self._changes_left -= 1
            return True
        if writer.metadata.state is LedgerState.IN_RECOVERY:
            raise BKLedgerFencedException(
                f"ledger {writer.ledger_id} is being recovered by another client"
            )
        if writer.metadata.state is LedgerState.CLOSED:
            raise BKLedgerClosedException(f"ledger {writer.ledger_id} was closed by another client")
        return False

    def send_to_replacements(self) -> None:
        """Switch to the new ensemble. Resend the pending entries, unchanged, to its new bookies."""
        writer, metadata = self.writer, self.writer.metadata
        old = [channel.bookie_id for channel in writer.channels]
        writer.connect_to_last_ensemble()
        for pending in writer.pending:
            for index in write_set(pending.entry_id, metadata.ensemble_size, metadata.write_quorum):
                if writer.ensemble[index] != old[index]:
                    # The old bookie's acknowledgement no longer counts.
                    pending.acked &= ~(1 << index)
                    pending.failed &= ~(1 << index)
                    writer.send(pending, index)

    # One change

    async def _run(self) -> None:
        writer, shortage = self.writer, None
        try:
            while shortage is None and not writer.is_ended:
                # Skip bookies that failed another add but were replaced in an earlier round.
                failed, self.failed = still_in_ensemble(writer.ensemble, self.failed), {}
                if not failed:
                    break
                self._given_up.update(dict.fromkeys(failed.values()))
                shortage = await self._replace(failed)
        except LabkitError as error:
            writer.end(error)
        # A bookie that has not been replaced is recorded again when it fails its next add.
        self._task, self.failed = None, {}
        self.send_to_replacements()
        if shortage is not None:
            self._retry_at = self._loop.time() + _RETRY_AFTER_S
            if any(map(self._cannot_get_enough_acks, writer.pending)):
                writer.end(shortage)
        # During the change, acknowledgements were counted but no entry was confirmed.
        writer.complete_adds()

    async def _replace(self, failed: dict[int, str]) -> LabkitError | None:
        """Store an ensemble in which as many failed bookies as possible are replaced.

        Return None if all of them were replaced. Otherwise, return the error that explains why not.
        The writer ends with this error if its adds can no longer get Qa acknowledgements. Raises
        the errors of `store_ensemble`, which always end the writer.
        """
        writer = self.writer
        while failed:
            try:
                found = await self._watcher.replacements(
                    writer.ensemble, failed, writer.metadata.write_quorum, list(self._given_up)
                )
            # This is not fatal, because the remaining bookies may provide Qa acknowledgements.
            except MetadataUnavailableError as error:
                return error
            if not found:
                return self._not_enough_bookies(failed)
            first = self.first_of_new_segment()
            self.recorder.record(
                "ensemble.changing", writer.ledger_id, first, bookies=(*failed.values(),)
            )
            if await self.store_ensemble(first, with_replacements(writer.ensemble, found)):
                return None if len(found) == len(failed) else self._not_enough_bookies(failed)
            # Another client stored its change first, and may have replaced some of these bookies.
            failed = still_in_ensemble(writer.ensemble, failed)
        return None

    def _not_enough_bookies(self, failed: dict[int, str]) -> BKNotEnoughBookiesException:
        return BKNotEnoughBookiesException(
            f"ledger {self.writer.ledger_id}: {', '.join(failed.values())} failed"
            f" ({self.last_failure}), and no other writable bookie is left; start more bookies"
        )

    def _cannot_get_enough_acks(self, pending: PendingAdd) -> bool:
        metadata = self.writer.metadata
        return pending.failed.bit_count() > metadata.write_quorum - metadata.ack_quorum
