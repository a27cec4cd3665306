"""When the memtable is brought to disk: it is full, or the flush interval has passed.

A checkpoint that finds no space is tried again at the next interval; meanwhile its entries stay
readable, their journals stay on disk, and the bookie takes no more.  After any other failure of the
disk its content is unknown, and the bookie stops.

In BookKeeper: `bookie/SyncThread.java`.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from labkit.system.bookie.commit import RunBlocking
from labkit.system.bookie.poll import Poll
from labkit.system.storage.disk import is_out_of_space
from labkit.system.storage.store import LedgerStore

OnSpace = Callable[[OSError | None], None]
"""Called with the error when checkpoints no longer find space, with None when they do again."""


class Checkpoints:
    """Runs the store's checkpoints beside its adds and reads, one at a time."""

    def __init__(
        self,
        store: LedgerStore,
        run_blocking: RunBlocking,
        flush_interval_ms: int,
        on_flushed: Callable[[], None],
        on_space: OnSpace,
    ) -> None:
        """`on_flushed` is called after each checkpoint."""
        self._store = store
        self._run_blocking = run_blocking
        self._on_flushed = on_flushed
        self._on_space = on_space
        self._has_space = not store.lacks_space
        self._wanted = asyncio.Event()
        self._interval = Poll(flush_interval_ms / 1000, self._is_worthwhile, self._wanted.set)

    def consider(self) -> None:
        """Called after adds: is the memtable full?"""
        if self._store.needs_checkpoint:
            self._wanted.set()

    async def run(self) -> None:
        """Checkpoint forever.  Raises `OSError` when the disk fails; nothing is lost by that, since
        LastLogMark stays and the journal is kept.
        """
        while True:
            self._interval.begin()
            await self._wanted.wait()
            # A full memtable starts the interval over, too.
            self._interval.end()
            self._wanted.clear()
            lack_of_space = await self._checkpoint()
            if (lack_of_space is None) != self._has_space:
                self._has_space = lack_of_space is None
                self._on_space(lack_of_space)

    def _is_worthwhile(self) -> bool:
        # Without space only another attempt shows whether there is some again.
        return not self._has_space or self._store.has_changes

    async def _checkpoint(self) -> OSError | None:
        """Make one; returns its error if it found no space."""
        checkpoint = self._store.begin_checkpoint()
        try:
            await self._run_blocking(partial(self._store.flush, checkpoint))
        except OSError as error:
            if not is_out_of_space(error):
                raise
            return error
        self._store.end_checkpoint()
        # The memtable may have filled again while this one was flushed.
        self.consider()
        self._on_flushed()
        return None
