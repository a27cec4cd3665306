"""Runs a checkpoint whenever the memtable is full or the flush interval has elapsed.

If a checkpoint runs out of disk space, it is retried after the next interval. Until it succeeds,
the bookie is read-only, the entries remain readable in memory, and their journal files are kept.
After any other disk failure, the contents of the disk are unknown, so the bookie stops.

In BookKeeper: `bookie/SyncThread.java`.
"""

from collections.abc import Callable
from functools import partial

from labkit.system.bookie.commit import RunInThread
from labkit.system.bookie.periodic_check import PeriodicCheck
from labkit.system.storage.disk import is_out_of_space
from labkit.system.storage.store import LedgerStore

OnCheckpointEnd = Callable[[OSError | None], None]
"""Called with the error if a checkpoint runs out of space, and with None if one succeeds."""


class Checkpoints:
    def __init__(
        self,
        store: LedgerStore,
        run_in_flush_thread: RunInThread,
        flush_interval_ms: int,
        on_flushed: Callable[[], None],
        on_checkpoint_end: OnCheckpointEnd,
    ) -> None:
        """`on_flushed` is called after each checkpoint."""
        self._store = store
        self._run_in_flush_thread = run_in_flush_thread
        self._on_flushed = on_flushed
        self._on_checkpoint_end = on_checkpoint_end
        self._has_space = not store.start_lacked_space
        self._next = PeriodicCheck(flush_interval_ms / 1000, self._is_worthwhile)

    def start_if_needed(self) -> None:
        if self._store.needs_checkpoint:
            self._next.end_wait()

    async def run(self) -> None:
        """Run checkpoints forever. Raises `OSError` if the disk fails."""
        while True:
            await self._next.wait()
            error = await self._checkpoint()
            has_space = error is None
            if has_space != self._has_space:
                self._has_space = has_space
                self._on_checkpoint_end(error)

    def _is_worthwhile(self) -> bool:
        # After a checkpoint has run out of space, only another attempt can show whether there is
        # enough space now.
        return not self._has_space or self._store.mark_can_advance

    async def _checkpoint(self) -> OSError | None:
        """Run a checkpoint. Return the error if it ran out of disk space, and None otherwise."""
        checkpoint = self._store.begin_checkpoint()
        try:
            await self._run_in_flush_thread(partial(self._store.flush, checkpoint))
        except OSError as error:
            if not is_out_of_space(error):
                raise
            return error
        self._store.end_checkpoint()
        # The memtable may have become full again during the flush.
        self.start_if_needed()
        self._on_flushed()
        return None
