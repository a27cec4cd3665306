"""Schedules garbage collections, and limits the rate of compactions.

Each collection removes deleted ledgers. Some collections also remove over-replicated ledgers, which
are stored on this bookie although their metadata no longer lists it.

Compactions need disk space before they free any, so they are suspended when the ledger directories
are nearly full. Even then, deleted ledgers and logs without live entries are removed.

In BookKeeper: `bookie/GarbageCollectorThread.java` (runWithFlags), `bookie/AbstractLogCompactor`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial

from labkit.system.bookie.commit import RunInThread
from labkit.system.bookie.disk_monitor import Space
from labkit.system.metadata.store import MetadataError
from labkit.system.model.errors import StorageDamagedException
from labkit.system.model.settings import InvalidSettingException, check_ranges, setting
from labkit.system.storage.disk import is_out_of_space
from labkit.system.storage.entry_log import log_name
from labkit.system.storage.garbage import Copied, deleted_ledgers, logs_to_compact
from labkit.system.storage.store import LedgerStore

ExistingLedgers = Callable[[], Awaitable[Collection[int]]]
"""Returns the ids of all existing ledgers. Raises `MetadataError` if the list may be incomplete."""

DropOverreplicated = Callable[[Sequence[int], Callable[[int], None]], Awaitable[None]]
"""Calls `drop(ledger_id)` for each given ledger that is certainly over-replicated. Raises
`MetadataError`.
"""

_DAY_S = 86_400
_BATCH_ENTRIES = 1000
"""A compaction pauses after this many entries, to limit its rate."""


@dataclass(frozen=True, slots=True)
class GarbageConfig:
    """Settings of garbage collection, with the names and defaults of
    `conf/ServerConfiguration.java`.

    A log is compacted if the live fraction of its bytes is below a threshold. Minor compactions are
    frequent and have a low threshold; major compactions are rare and have a high one. An interval
    of 0 disables the respective kind of compaction.

    Over-replicated ledgers are removed every `gc_overreplicated_ledger_wait_time_ms` (0: never).
    Compactions copy at most `compaction_rate_by_bytes` bytes per second if `is_throttle_by_bytes`
    is set, and otherwise at most `compaction_rate_by_entries` entries per second. With
    `is_force_gc_allow_when_no_space`, every collection also starts a compaction while disk space is
    low.

    Raises `BKIncorrectParameterException`.
    """

    gc_wait_time_ms: int = setting(600_000, "gcWaitTime", at_least=1)
    gc_overreplicated_ledger_wait_time_ms: int = setting(
        1000 * _DAY_S, "gcOverreplicatedLedgerWaitTime", at_least=0
    )
    minor_compaction_threshold: float = setting(0.2, "minorCompactionThreshold")
    minor_compaction_interval_s: float = setting(3600, "minorCompactionInterval")
    major_compaction_threshold: float = setting(0.8, "majorCompactionThreshold")
    major_compaction_interval_s: float = setting(_DAY_S, "majorCompactionInterval")
    is_throttle_by_bytes: bool = setting(False, "isThrottleByBytes")
    compaction_rate_by_entries: int = setting(1000, "compactionRateByEntries", at_least=1)
    compaction_rate_by_bytes: int = setting(1_000_000, "compactionRateByBytes", at_least=1)
    is_force_gc_allow_when_no_space: bool = setting(False, "isForceGCAllowWhenNoSpace")

    def __post_init__(self) -> None:
        check_ranges(self)
        if not 0 < self.minor_compaction_threshold < self.major_compaction_threshold <= 1:
            raise InvalidSettingException(
                self,
                "{minor_compaction_threshold} and {major_compaction_threshold}; expected"
                " 0 < minor < major <= 1",
            )
        for name in ("minor_compaction_interval_s", "major_compaction_interval_s"):
            if 0 < getattr(self, name) * 1000 < self.gc_wait_time_ms:
                raise InvalidSettingException(
                    self,
                    f"{{{name}}}, which is shorter than {{gc_wait_time_ms.name}}"
                    " ({gc_wait_time_ms.value}); compactions run only when garbage is collected",
                )


class Compaction(Enum):
    MINOR = "minor"
    MAJOR = "major"


def due_compaction(
    config: GarbageConfig, space: Space, since_minor_s: float, since_major_s: float
) -> Compaction | None:
    """Return the kind of compaction that is due, or None. The arguments `since_..._s` contain the
    number of seconds since the last compaction of each kind.
    """
    forced = is_forced(config, space)
    for kind, interval_s, since_s in (
        (Compaction.MAJOR, config.major_compaction_interval_s, since_major_s),
        (Compaction.MINOR, config.minor_compaction_interval_s, since_minor_s),
    ):
        is_time = forced or since_s >= interval_s
        if interval_s > 0 and is_time and not is_suspended(kind, config, space):
            return kind
    return None


def is_forced(config: GarbageConfig, space: Space) -> bool:
    return config.is_force_gc_allow_when_no_space and space is not Space.ENOUGH


def is_suspended(kind: Compaction, config: GarbageConfig, space: Space) -> bool:
    """Return whether compactions of this kind are suspended. If a directory is full, all
    compactions are suspended; if one is almost full, only major compactions are.
    """
    if config.is_force_gc_allow_when_no_space:
        return False
    return space is Space.FULL or (space is Space.ALMOST_FULL and kind is Compaction.MAJOR)


def pause_s(copied: Copied, config: GarbageConfig) -> float:
    if config.is_throttle_by_bytes:
        return copied.size_bytes / config.compaction_rate_by_bytes
    return copied.entry_count / config.compaction_rate_by_entries


class GarbageCollection:
    def __init__(
        self,
        store: LedgerStore,
        existing_ledgers: ExistingLedgers,
        drop_overreplicated: DropOverreplicated,
        run_in_flush_thread: RunInThread,
        config: GarbageConfig,
    ) -> None:
        self._store = store
        self._existing_ledgers = existing_ledgers
        self._drop_overreplicated = drop_overreplicated
        self._run_in_flush_thread = run_in_flush_thread
        self._config = config
        self._recorder = store.recorder
        self._space = Space.ENOUGH
        self._wanted = asyncio.Event()
        self._last_minor_s = self._last_major_s = asyncio.get_running_loop().time()
        self._last_overreplicated_s = self._last_minor_s

    def on_space_change(self, space: Space) -> None:
        was_forced = is_forced(self._config, self._space)
        self._space = space
        if is_forced(self._config, space) and not was_forced:
            self._wanted.set()

    async def run(self) -> None:
        """Collect garbage forever. Raises `OSError` if the disk fails. If a file is corrupt, the
        affected logs are kept, as in BookKeeper.
        """
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._config.gc_wait_time_ms / 1000):
                    await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._drop_if_due()
                await self.collect()
                await self._compact_if_due()
            except MetadataError as error:
                self._recorder.record("garbage.kept", explanation=str(error))
            except OSError as error:
                if not is_out_of_space(error):
                    raise
                # Keep collecting, because deleted ledgers may free the space that compactions need.
                self._recorder.record("garbage.kept", explanation=str(error))

    async def collect(self) -> None:
        """Remove deleted ledgers, and remove logs that contain only entries of deleted ledgers.

        If it is uncertain which ledgers exist, removes nothing and raises `MetadataError`.
        """
        # List the stored ledgers first. Otherwise, a ledger that is created in between would
        # look deleted.
        stored = self._store.ledger_ids()
        deleted = deleted_ledgers(stored, set(await self._existing_ledgers()))
        # Remember the ledgers before deleting their indexes, so that adds cannot recreate them.
        self._store.collected.advance_to(asyncio.get_running_loop().time())
        self._store.collected.add(deleted)
        for ledger_id in deleted:
            self._recorder.record("ledger.collected", ledger_id)
        empty = await self._run_in_flush_thread(partial(self._store.garbage.collect, deleted))
        self._recorder.record("garbage.collected", size=len(deleted))
        for error in self._store.garbage.skipped_logs.values():
            self._recorder.record("garbage.kept", explanation=str(error))
        for log_id in empty:
            await self._run_in_flush_thread(partial(self._store.garbage.remove_log, log_id))
            self._recorder.record("log.removed", file=log_name(log_id))

    async def drop_overreplicated(self) -> None:
        """Delete over-replicated ledgers that have received no entries since the last call.

        Raises `MetadataError`.
        """
        settled = self._store.ledgers.take_settled(self._store.ledger_ids())
        await self._drop_overreplicated(settled, self._drop)

    def _drop(self, ledger_id: int) -> None:
        try:
            if self._store.garbage.drop_entries(ledger_id):
                self._recorder.record("ledger.dropped", ledger_id)
        except StorageDamagedException as error:
            self._recorder.record("garbage.kept", explanation=str(error))

    async def _drop_if_due(self) -> None:
        now = asyncio.get_running_loop().time()
        wait_time_s = self._config.gc_overreplicated_ledger_wait_time_ms / 1000
        if wait_time_s and now - self._last_overreplicated_s >= wait_time_s:
            await self.drop_overreplicated()
            self._last_overreplicated_s = now

    async def compact(self, kind: Compaction) -> None:
        threshold = self._config.minor_compaction_threshold
        if kind is Compaction.MAJOR:
            threshold = self._config.major_compaction_threshold
        for log_id in logs_to_compact(self._store.garbage.logs, threshold):
            if is_suspended(kind, self._config, self._space):
                self._recorder.record(
                    "garbage.kept",
                    explanation=f"{kind.value} compaction is suspended: a ledger directory is"
                    f" {self._space.value}",
                )
                return
            batches = self._store.garbage.compact(log_id, _BATCH_ENTRIES)
            next_batch = partial(next, batches, None)
            # Copy in batches: flushes run in the same thread, and must not wait until a whole log
            # has been copied.
            while (copied := await self._run_in_flush_thread(next_batch)) is not None:
                batch_pause_s = pause_s(copied, self._config)
                await asyncio.sleep(batch_pause_s)
            await self._run_in_flush_thread(partial(self._store.garbage.remove_log, log_id))
            self._recorder.record("log.compacted", file=log_name(log_id))

    async def _compact_if_due(self) -> None:
        now = asyncio.get_running_loop().time()
        since_minor_s, since_major_s = now - self._last_minor_s, now - self._last_major_s
        kind = due_compaction(self._config, self._space, since_minor_s, since_major_s)
        if kind is None:
            return
        await self.compact(kind)
        # A major compaction includes a minor one.
        self._last_minor_s = now
        if kind is Compaction.MAJOR:
            self._last_major_s = now
