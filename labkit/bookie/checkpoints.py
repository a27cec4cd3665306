"""When the memtable is brought to disk: it is full, or the flush interval has passed.

In BookKeeper: `bookie/SyncThread.java`.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from labkit.bookie.commit import RunBlocking
from labkit.storage.store import LedgerStore


class Checkpoints:
    """Runs the store's checkpoints beside its adds and reads, one at a time."""

    def __init__(
        self,
        store: LedgerStore,
        run_blocking: RunBlocking,
        flush_interval_ms: int,
        on_flushed: Callable[[], None],
    ) -> None:
        """`on_flushed` is called after each checkpoint."""
        self._store = store
        self._run_blocking = run_blocking
        self._interval_s = flush_interval_ms / 1000
        self._on_flushed = on_flushed
        self._wanted = asyncio.Event()

    def consider(self) -> None:
        """Called after adds: is the memtable full?"""
        if self._store.needs_checkpoint:
            self._wanted.set()

    async def run(self) -> None:
        """Checkpoint forever.  Raises `OSError` when the disk refuses; nothing is lost by that,
        since LastLogMark stays and the journal is kept.
        """
        while True:
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._wanted.wait()
            except TimeoutError:
                if not self._store.has_changes:
                    continue
            self._wanted.clear()
            checkpoint = self._store.begin_checkpoint()
            await self._run_blocking(partial(self._store.flush, checkpoint))
            self._store.end_checkpoint()
            self.consider()
            self._on_flushed()
