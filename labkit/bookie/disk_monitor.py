"""Watching how full the ledger directories are: a bookie stops taking writes before they are full.

In BookKeeper: `bookie/LedgerDirsMonitor.java`, `util/DiskChecker.java`,
`bookie/BookieStateManager.java`.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labkit.model.errors import BKIncorrectParameterException
from labkit.storage.store import LedgerStore
from labkit.trace.recorder import Recorder

Usages = Callable[[], Sequence[float]]
"""How full the file system of each of the store's ledger directories is, 0 to 1."""

OnReadOnly = Callable[[bool], None]
"""Told when the bookie becomes read-only (True) or takes writes again (False)."""


@dataclass(frozen=True, slots=True)
class DiskConfig:
    """Names and defaults are those of `conf/ServerConfiguration.java`.

    A directory is full above `disk_usage_threshold` (a part of its file system, 0 to 1).  A bookie
    of which all directories were full takes writes again when one of them is below
    `disk_usage_lwm_threshold`.  Raises `BKIncorrectParameterException`.
    """

    disk_usage_threshold: float = 0.95
    disk_usage_lwm_threshold: float = 0.95
    disk_check_interval_ms: int = 10_000

    def __post_init__(self) -> None:
        if not 0 < self.disk_usage_lwm_threshold <= self.disk_usage_threshold <= 1:
            raise BKIncorrectParameterException(
                f"disk usage thresholds {self.disk_usage_threshold} and"
                f" {self.disk_usage_lwm_threshold} (back to writable): allowed is"
                " 0 < back to writable <= threshold <= 1"
            )
        if self.disk_check_interval_ms < 1:
            raise BKIncorrectParameterException(
                f"disk_check_interval_ms is {self.disk_check_interval_ms}; it must be at least 1"
            )


def full_directories(usages: Sequence[float], all_were_full: bool, config: DiskConfig) -> set[int]:
    """The places of the directories that take no new files now."""
    limit = config.disk_usage_lwm_threshold if all_were_full else config.disk_usage_threshold
    return {place for place, usage in enumerate(usages) if usage > limit}


class DiskMonitor:
    """Keeps new files away from full directories, and adds away from a bookie that has no other."""

    def __init__(
        self,
        store: LedgerStore,
        usages: Usages,
        config: DiskConfig,
        recorder: Recorder,
        on_read_only: OnReadOnly,
    ) -> None:
        self._store = store
        self._usages = usages
        self._config = config
        self._recorder = recorder
        self._on_read_only = on_read_only
        self._all_are_full = False
        self._has_space = True
        self._read_only = False

    async def run(self) -> None:
        """Check forever.  Raises `OSError` when a directory cannot even be asked."""
        while True:
            self.check()
            await asyncio.sleep(self._config.disk_check_interval_ms / 1000)

    def check(self) -> None:
        """Look at every directory once, and act."""
        usages = self._usages()
        full = full_directories(usages, self._all_are_full, self._config)
        self._store.set_full_directories(full)
        self._all_are_full = len(full) == len(usages)
        self._tell(f"directories are {max(usages):.0%} full")

    def on_space(self, has_space: bool) -> None:
        """Checkpoints find no space any more, or do again, whatever the usages say."""
        self._has_space = has_space
        self._tell(f"checkpoints find {'space' if has_space else 'no space'}")

    def _tell(self, why: str) -> None:
        read_only = self._all_are_full or not self._has_space
        if read_only != self._read_only:
            self._read_only = read_only
            self._recorder.record("bookie.read_only" if read_only else "bookie.writable", note=why)
            self._on_read_only(read_only)
