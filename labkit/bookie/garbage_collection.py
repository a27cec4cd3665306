"""When garbage is collected, and how fast logs are compacted.

In BookKeeper: `bookie/GarbageCollectorThread.java` (runWithFlags), `bookie/AbstractLogCompactor`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial

from labkit.bookie.commit import RunBlocking
from labkit.metadata.store import MetadataError
from labkit.model.errors import BKIncorrectParameterException
from labkit.storage.disk import is_out_of_space
from labkit.storage.entry_log import log_name
from labkit.storage.garbage import deleted_ledgers, logs_to_compact
from labkit.storage.store import LedgerStore
from labkit.trace.recorder import Recorder

ExistingLedgers = Callable[[], Awaitable[Collection[int]]]
"""The ids of all ledgers that the metadata store has.  Raises when that is not certain."""

_DAY_S = 86_400
_BATCH_ENTRIES = 1000


@dataclass(frozen=True, slots=True)
class GarbageConfig:
    """Names and defaults are those of `conf/ServerConfiguration.java`.

    A log is compacted when less than the threshold of it still lives: often for nearly empty logs
    (minor), seldom for the others (major).  An interval of 0 switches that kind off.  Raises
    `BKIncorrectParameterException`.
    """

    gc_wait_time_ms: int = 600_000
    minor_compaction_threshold: float = 0.2
    minor_compaction_interval_s: float = 3600
    major_compaction_threshold: float = 0.8
    major_compaction_interval_s: float = _DAY_S
    compaction_rate_by_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        minor, major = self.minor_compaction_threshold, self.major_compaction_threshold
        if not 0 < minor < major <= 1:
            raise BKIncorrectParameterException(
                f"compaction thresholds {minor} (minor) and {major} (major): allowed is"
                " 0 < minor < major <= 1"
            )
        for name in ("gc_wait_time_ms", "compaction_rate_by_bytes"):
            if getattr(self, name) < 1:
                raise BKIncorrectParameterException(
                    f"{name} is {getattr(self, name)}; it must be at least 1"
                )


class GarbageCollection:
    """Collects a store's garbage beside its adds and reads."""

    def __init__(
        self,
        store: LedgerStore,
        existing_ledgers: ExistingLedgers,
        run_blocking: RunBlocking,
        config: GarbageConfig,
        recorder: Recorder,
    ) -> None:
        """`run_blocking` must be the one that runs the store's flushes: both write entry logs."""
        self._store = store
        self._existing_ledgers = existing_ledgers
        self._run_blocking = run_blocking
        self._config = config
        self._recorder = recorder
        self._last_minor_s = self._last_major_s = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Collect forever.  Raises `OSError` when the disk fails."""
        while True:
            await asyncio.sleep(self._config.gc_wait_time_ms / 1000)
            try:
                await self.collect()
            except MetadataError as error:
                # Not knowing which ledgers exist is no reason to drop any.
                self._recorder.record("garbage.kept", note=str(error))
                continue
            threshold = self._due()
            if threshold:
                try:
                    await self.compact(threshold)
                except OSError as error:
                    if not is_out_of_space(error):
                        raise
                    # Deleted ledgers can still give space back, and then logs are compacted again.
                    self._recorder.record("garbage.kept", note=str(error))

    async def collect(self) -> None:
        """Drop deleted ledgers and the logs that hold nothing else.

        Raises `MetadataError` when the metadata store does not tell for certain what exists;
        nothing is dropped then.
        """
        stored = self._store.ledger_ids()
        deleted = deleted_ledgers(stored, set(await self._existing_ledgers()))
        empty = await self._run_blocking(partial(self._store.garbage.collect, deleted))
        self._recorder.record("garbage.collected", size=len(deleted))
        for log_id in empty:
            # Here, not in the thread: reads run here too, and none is under way now.
            self._store.garbage.remove_log(log_id)
            self._recorder.record("log.removed", file=log_name(log_id))

    async def compact(self, threshold: float) -> None:
        """Compact the logs of which less than `threshold` lives, at the configured rate."""
        for log_id in logs_to_compact(self._store.garbage.logs, threshold):
            batches = self._store.garbage.compact(log_id, _BATCH_ENTRIES)
            next_batch = partial(next, batches, None)
            while (copied_bytes := await self._run_blocking(next_batch)) is not None:
                await self._keep_to_the_rate(copied_bytes)
            self._store.garbage.remove_log(log_id)
            self._recorder.record("log.compacted", file=log_name(log_id))

    async def _keep_to_the_rate(self, copied_bytes: int) -> None:
        await asyncio.sleep(copied_bytes / self._config.compaction_rate_by_bytes)

    def _due(self) -> float:
        """The threshold of the compaction whose time has come; 0 for none."""
        now, config = asyncio.get_running_loop().time(), self._config
        if 0 < config.major_compaction_interval_s <= now - self._last_major_s:
            self._last_major_s = self._last_minor_s = now
            return config.major_compaction_threshold
        if 0 < config.minor_compaction_interval_s <= now - self._last_minor_s:
            self._last_minor_s = now
            return config.minor_compaction_threshold
        return 0
