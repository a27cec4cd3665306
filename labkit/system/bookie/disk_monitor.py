"""Monitors the ledger directories, and makes the bookie read-only before they are full.

In BookKeeper: `bookie/LedgerDirsMonitor.java`, `util/DiskChecker.java`,
`bookie/BookieStateManager.java`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from labkit.system.bookie.periodic_check import PeriodicCheck
from labkit.system.model.errors import NoWritableLedgerDirException
from labkit.system.model.settings import InvalidSettingException, check_ranges, setting
from labkit.system.storage.store import LedgerStore

Usages = Callable[[], Mapping[str, float]]
"""Returns the file system usage (0 to 1) of each ledger directory, keyed by path."""

OnReadOnly = Callable[[bool, str], None]
"""Called with True if the bookie has become read-only or False if it has become writable, and with
the reason.
"""


class Space(Enum):
    """The amount of space that is left in the fullest ledger directory."""

    ENOUGH = "enough"
    ALMOST_FULL = "almost full"
    FULL = "full"


OnSpaceChange = Callable[[Space], None]
"""Called when the available space changes."""


@dataclass(frozen=True, slots=True)
class DiskConfig:
    """Settings of the disk monitor, with the names and defaults of `conf/ServerConfiguration.java`.

    A directory is full if the usage of its file system (0 to 1) exceeds `disk_usage_threshold`, and
    almost full if it exceeds `disk_usage_warn_threshold`. If all directories are full, the bookie
    becomes read-only until the usage of one of them falls below `disk_usage_lwm_threshold` (which
    defaults to `disk_usage_threshold`).

    With `read_only_mode_on_any_disk_full_enabled`, one full directory makes the bookie read-only.
    Without `read_only_mode_enabled`, the bookie stops instead of becoming read-only. With
    `force_read_only_bookie`, it is always read-only.

    Raises `BKIncorrectParameterException`.
    """

    disk_usage_threshold: float = setting(0.95, "diskUsageThreshold")
    disk_usage_warn_threshold: float = setting(0.90, "diskUsageWarnThreshold")
    disk_usage_lwm_threshold: float | None = setting(None, "diskUsageLwmThreshold")
    disk_check_interval_ms: int = setting(10_000, "diskCheckInterval", at_least=1)
    read_only_mode_enabled: bool = setting(True, "readOnlyModeEnabled")
    read_only_mode_on_any_disk_full_enabled: bool = setting(
        False, "readOnlyModeOnAnyDiskFullEnabled"
    )
    force_read_only_bookie: bool = setting(False, "forceReadOnlyBookie")

    def __post_init__(self) -> None:
        check_ranges(self)
        threshold = self.disk_usage_threshold
        for name, value in (
            ("disk_usage_threshold", threshold),
            ("disk_usage_warn_threshold", self.disk_usage_warn_threshold),
            ("disk_usage_lwm_threshold", self.low_water_mark),
        ):
            if not 0 < value <= threshold <= 1:
                raise InvalidSettingException(
                    self,
                    f"{{{name}}} and {{disk_usage_threshold}}; expected"
                    f" 0 < {{{name}.name}} <= {{disk_usage_threshold.name}} <= 1",
                )
        if self.force_read_only_bookie and not self.read_only_mode_enabled:
            raise InvalidSettingException(
                self, "{force_read_only_bookie.name} requires {read_only_mode_enabled.name}"
            )

    @property
    def low_water_mark(self) -> float:
        """If all directories were full, a directory becomes usable again once its usage falls below
        this value.
        """
        lwm = self.disk_usage_lwm_threshold
        return self.disk_usage_threshold if lwm is None else lwm


def full_directories(usages: Sequence[float], all_were_full: bool, config: DiskConfig) -> set[int]:
    """Return the indices of the full directories, in which no new files may be created."""
    limit = config.low_water_mark if all_were_full else config.disk_usage_threshold
    return {index for index, usage in enumerate(usages) if usage > limit}


class DiskMonitor:
    """Keeps new files out of full directories, makes the bookie read-only if all are full, and
    reports the available space to garbage collection.
    """

    def __init__(
        self,
        store: LedgerStore,
        usages: Usages,
        config: DiskConfig,
        on_read_only: OnReadOnly,
        on_space_change: OnSpaceChange,
    ) -> None:
        self._store = store
        self._usages = usages
        self._config = config
        self._recorder = store.recorder
        self._on_read_only = on_read_only
        self._on_space_change = on_space_change
        self._full: set[int] = set()
        self._all_are_full = False
        self._failed_checkpoint = (
            "not enough space for the replayed entries" if store.start_lacked_space else ""
        )
        self._next = PeriodicCheck(config.disk_check_interval_ms / 1000, self._has_changed)
        self._checked_usages: Mapping[str, float] = {}
        self._read_only = False
        self._space = Space.ENOUGH

    async def run(self) -> None:
        """Check the directories forever. Raises `OSError` if the usage of a directory cannot be
        read, and `NoWritableLedgerDirException` if the bookie would have to become read-only but is
        not allowed to.
        """
        while True:
            self.check()
            await self._next.wait()

    def check(self) -> None:
        """Check every directory once. Raises the same errors as `run`."""
        self._checked_usages = self._usages()
        usages = list(self._checked_usages.values())
        self._full = full_directories(usages, self._all_are_full, self._config)
        self._store.set_full_directories(self._full)
        self._all_are_full = len(self._full) == len(usages)
        if self._must_be_read_only and not self._config.read_only_mode_enabled:
            raise NoWritableLedgerDirException(
                f"{self._reason}; free disk space, or set readOnlyModeEnabled=true"
            )
        self._report_changes()

    def on_checkpoint_end(self, error: OSError | None) -> None:
        """After a checkpoint has run out of space, keep the bookie read-only until one succeeds."""
        self._failed_checkpoint = str(error or "")
        self._next.end_wait()
        if self._config.read_only_mode_enabled:
            self._report_changes()

    def _has_changed(self) -> bool:
        try:
            return self._usages() != self._checked_usages
        except OSError:  # `check` will raise this error.
            return True

    @property
    def _must_be_read_only(self) -> bool:
        any_matters = self._config.read_only_mode_on_any_disk_full_enabled
        too_full = self._all_are_full or (any_matters and bool(self._full))
        forced = self._config.force_read_only_bookie
        return forced or too_full or bool(self._failed_checkpoint)

    @property
    def _reason(self) -> str:
        usages = [f"{path} is {usage:.0%} full" for path, usage in self._checked_usages.items()]
        return ", ".join((*usages, *filter(None, [self._failed_checkpoint])))

    def _report_changes(self) -> None:
        read_only, why = self._must_be_read_only, self._reason
        if read_only != self._read_only:
            self._read_only = read_only
            if self._config.force_read_only_bookie:
                why = "forceReadOnlyBookie is set"
            self._recorder.record(
                "bookie.read_only" if read_only else "bookie.writable", explanation=why
            )
            self._on_read_only(read_only, why)
        highest = max(self._checked_usages.values(), default=0.0)
        is_almost_full = highest > self._config.disk_usage_warn_threshold
        space = Space.ALMOST_FULL if is_almost_full else Space.ENOUGH
        if self._full or self._failed_checkpoint:
            space = Space.FULL
        if space is not self._space:
            self._space = space
            self._on_space_change(space)
