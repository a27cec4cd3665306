"""Test when and how fast entry logs are compacted, and the effect of low disk space."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import pytest

from labkit.system.bookie.disk_monitor import Space
from labkit.system.bookie.garbage_collection import (
    Compaction,
    GarbageCollection,
    GarbageConfig,
    due_compaction,
    pause_s,
)
from labkit.system.metadata.store import MetadataError
from labkit.system.model.errors import (
    LedgerFencedException,
    NoEntryException,
)
from labkit.system.storage.entry_log import log_ids, log_name
from labkit.system.storage.garbage import Copied
from labkit.system.storage.index.ledger_index import index_path
from labkit.system.trace.events import Event
from labkit.worlds.live.disk import RealDisk
from tests.system.bookie.raw import KEY, entry
from tests.system.storage.support import SMALL, open_store
from tests.until import DEADLINE_S, until
from tests.virtual_time import in_virtual_time

T = TypeVar("T")

CONFIG = GarbageConfig()
FORCED = GarbageConfig(is_force_gc_allow_when_no_space=True)
HOUR_S, DAY_S = 3600, 86_400
NEVER_MS = 24 * HOUR_S * 1000
GONE, KEPT = 6, 5


@dataclass
class Collecting:
    """Garbage collection of a store in which half of the data in each log is still needed."""

    folder: Path
    config: GarbageConfig
    existing: list[int] | None = field(default_factory=lambda: [KEPT])
    overreplicated: list[int] = field(default_factory=list)
    looked_at: list[list[int]] = field(default_factory=list)
    rows: list[Event] = field(default_factory=list)
    in_flush_thread: bool = False

    def __post_init__(self) -> None:
        self.open()
        for entry_id in range(4):
            for ledger_id in (KEPT, GONE):
                data = entry(ledger_id, entry_id, bytes(1000))
                self.store.add_entry(ledger_id, entry_id, data, KEY)
            self.store.commit()
            self.store.checkpoint()

    def open(self) -> None:
        self.store = open_store(self.folder, replace(SMALL, log_size_limit=2048))
        self.store.recorder.listen(self.rows.extend)
        self.garbage = GarbageCollection(
            self.store, self.ask, self.drop_overreplicated, self.run_here, self.config
        )

    async def ask(self) -> list[int]:
        if self.existing is None:
            raise MetadataError("the metadata store is not responding")
        return self.existing

    async def drop_overreplicated(
        self, ledger_ids: Sequence[int], drop: Callable[[int], None]
    ) -> None:
        if self.existing is None:
            raise MetadataError("the metadata store is not responding")
        self.looked_at.append(list(ledger_ids))
        for ledger_id in self.overreplicated:
            drop(ledger_id)

    async def run_here(self, call: Callable[[], T], /) -> T:
        self.in_flush_thread = True
        try:
            return call()
        finally:
            self.in_flush_thread = False

    def notes(self, kind: str) -> list[str]:
        return [row.explanation for row in self.rows if row.kind == kind]

    def compacted(self) -> int:
        return len(self.notes("log.compacted"))

    def check(self) -> None:
        for entry_id in range(4):
            stored = entry(KEPT, entry_id, bytes(1000))
            assert self.store.read_entry(KEPT, entry_id) == stored


@pytest.mark.promise("Compaction respects its threshold, interval, rate and space")
@pytest.mark.parametrize(
    ("minor_age_s", "major_age_s", "due"),
    [
        (HOUR_S - 1, DAY_S - 1, None),
        (HOUR_S, DAY_S - 1, Compaction.MINOR),
        (0, DAY_S, Compaction.MAJOR),
        (HOUR_S, DAY_S, Compaction.MAJOR),
    ],
)
def test_a_compaction_is_due_when_its_interval_has_passed_the_major_first(
    minor_age_s: float, major_age_s: float, due: Compaction | None
) -> None:
    assert due_compaction(CONFIG, Space.ENOUGH, minor_age_s, major_age_s) is due


def test_almost_full_directories_suspend_the_major_compaction_full_ones_both() -> None:
    assert due_compaction(CONFIG, Space.ALMOST_FULL, HOUR_S, DAY_S) is Compaction.MINOR
    assert due_compaction(CONFIG, Space.FULL, HOUR_S, DAY_S) is None


@pytest.mark.parametrize("space", [Space.ALMOST_FULL, Space.FULL])
def test_a_lack_of_space_forces_compactions_at_once_if_that_is_allowed(space: Space) -> None:
    assert due_compaction(FORCED, space, 0, 0) is Compaction.MAJOR
    minor_only = replace(FORCED, major_compaction_interval_s=0)
    assert due_compaction(minor_only, space, 0, 0) is Compaction.MINOR
    none = replace(minor_only, minor_compaction_interval_s=0)
    assert due_compaction(none, space, DAY_S, DAY_S) is None
    assert due_compaction(FORCED, Space.ENOUGH, 0, 0) is None


def test_an_interval_of_zero_switches_a_kind_off() -> None:
    no_major = replace(CONFIG, major_compaction_interval_s=0)
    assert due_compaction(no_major, Space.ENOUGH, HOUR_S, DAY_S) is Compaction.MINOR
    neither = replace(no_major, minor_compaction_interval_s=0)
    assert due_compaction(neither, Space.ENOUGH, DAY_S, DAY_S) is None


@in_virtual_time
async def test_a_compaction_comes_once_in_its_interval_and_a_major_one_is_a_minor_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[float, Compaction]] = []

    async def note(kind: Compaction) -> None:
        done.append((round(asyncio.get_running_loop().time(), 3), kind))

    config = replace(
        CONFIG,
        gc_wait_time_ms=1000,
        minor_compaction_interval_s=3,
        major_compaction_interval_s=8,
    )
    garbage = Collecting(tmp_path, config).garbage
    monkeypatch.setattr(garbage, "compact", note)
    running = asyncio.create_task(garbage.run())
    await asyncio.sleep(12.5)
    running.cancel()
    minor, major = Compaction.MINOR, Compaction.MAJOR
    assert done == [(3, minor), (6, minor), (8, major), (11, minor)]


def test_the_rate_counts_entries_or_bytes_as_configured() -> None:
    rates = GarbageConfig(compaction_rate_by_entries=100, compaction_rate_by_bytes=4000)
    assert pause_s(Copied(50, 1000), rates) == 0.5
    assert pause_s(Copied(50, 1000), replace(rates, is_throttle_by_bytes=True)) == 0.25


@pytest.mark.parametrize("by_bytes", [False, True])
async def test_a_compaction_rests_as_long_as_its_rate_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_bytes: bool
) -> None:
    rests: list[float] = []

    async def rest(delay_s: float) -> None:
        rests.append(delay_s)

    config = replace(
        CONFIG,
        is_throttle_by_bytes=by_bytes,
        compaction_rate_by_entries=8,
        compaction_rate_by_bytes=len(entry(KEPT, 0, bytes(1000))) * 4,
    )
    collecting = Collecting(tmp_path, config)
    await collecting.garbage.collect()
    monkeypatch.setattr(asyncio, "sleep", rest)
    await collecting.garbage.compact(Compaction.MAJOR)
    assert sum(rests) == (1.0 if by_bytes else 0.5)
    collecting.check()


@pytest.mark.parametrize(
    ("space", "compacted"), [(Space.ENOUGH, 4), (Space.ALMOST_FULL, 0), (Space.FULL, 0)]
)
async def test_a_compaction_goes_on_only_as_long_as_there_is_space(
    tmp_path: Path, space: Space, compacted: int
) -> None:
    collecting = Collecting(tmp_path, CONFIG)
    await collecting.garbage.collect()
    collecting.garbage.on_space_change(space)
    await collecting.garbage.compact(Compaction.MAJOR)
    assert collecting.compacted() == compacted
    assert bool(collecting.notes("garbage.kept")) == (compacted == 0)
    collecting.check()


async def test_a_minor_compaction_leaves_logs_of_which_half_is_live(tmp_path: Path) -> None:
    collecting = Collecting(tmp_path, CONFIG)
    await collecting.garbage.collect()
    await collecting.garbage.compact(Compaction.MINOR)
    assert collecting.compacted() == 0


async def test_directories_that_become_full_start_a_forced_compaction_without_a_wait(
    tmp_path: Path,
) -> None:
    collecting = Collecting(
        tmp_path, replace(FORCED, gc_wait_time_ms=NEVER_MS, minor_compaction_interval_s=NEVER_MS)
    )
    running = asyncio.create_task(collecting.garbage.run())
    collecting.garbage.on_space_change(Space.FULL)
    await until(lambda: collecting.compacted() == 4)
    # Directories that stay full, or are still almost full, do not start another collection.
    collecting.garbage.on_space_change(Space.ALMOST_FULL)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(collecting.notes("garbage.collected")) == 1
    running.cancel()
    collecting.check()


async def test_while_the_metadata_store_does_not_answer_nothing_is_dropped(tmp_path: Path) -> None:
    collecting = Collecting(
        tmp_path,
        replace(FORCED, gc_wait_time_ms=NEVER_MS, minor_compaction_interval_s=NEVER_MS),
        existing=None,
    )
    running = asyncio.create_task(collecting.garbage.run())
    collecting.garbage.on_space_change(Space.FULL)
    await until(
        lambda: collecting.notes("garbage.kept") == ["the metadata store is not responding"]
    )
    running.cancel()
    assert collecting.store.ledger_ids() == [KEPT, GONE]


async def test_a_disk_that_fails_ends_the_collections_and_one_without_space_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [OSError(errno.ENOSPC, "No space left"), OSError(errno.EIO, "Input/output error")]

    def fail(*_: object) -> list[int]:
        raise errors.pop(0)

    collecting = Collecting(tmp_path, replace(CONFIG, gc_wait_time_ms=1))
    monkeypatch.setattr(collecting.store.garbage, "collect", fail)
    with pytest.raises(OSError, match="Input/output error"):
        async with asyncio.timeout(DEADLINE_S):
            await collecting.garbage.run()
    assert collecting.notes("garbage.kept") == ["[Errno 28] No space left"]


async def test_a_collected_ledger_is_named_and_takes_no_adds(tmp_path: Path) -> None:
    collecting = Collecting(tmp_path, CONFIG)
    await collecting.garbage.collect()
    assert [row.ledger for row in collecting.rows if row.kind == "ledger.collected"] == [GONE]
    with pytest.raises(LedgerFencedException):
        collecting.store.add_entry(GONE, 4, entry(GONE, 4), KEY)
    collecting.store.add_entry(KEPT, 4, entry(KEPT, 4), KEY)


async def test_a_collected_ledger_is_forgotten_by_a_collection_seven_days_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collecting = Collecting(tmp_path, CONFIG)
    await collecting.garbage.collect()
    now_s = asyncio.get_running_loop().time()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s + 7 * DAY_S)
    await collecting.garbage.collect()
    collecting.store.add_entry(GONE, 4, entry(GONE, 4), KEY)


@pytest.mark.promise(
    "Over-replicated ledgers are dropped at their interval; their fence, key and new entries "
    "are kept"
)
async def test_ledgers_that_others_have_instead_are_looked_for_in_their_interval(
    tmp_path: Path,
) -> None:
    config = replace(CONFIG, gc_wait_time_ms=1, gc_overreplicated_ledger_wait_time_ms=20)
    collecting = Collecting(tmp_path, config, [KEPT, GONE], [GONE])
    running = asyncio.create_task(collecting.garbage.run())
    await until(lambda: len(collecting.looked_at) >= 3)
    running.cancel()
    # On the first run, both ledgers have received entries since the start.
    assert collecting.looked_at[:2] == [[], [KEPT, GONE]]
    assert collecting.notes("ledger.dropped") == [""]
    assert len(collecting.notes("garbage.collected")) > 3
    assert len(collecting.notes("log.removed")) == 0
    with pytest.raises(NoEntryException):
        collecting.store.read_entry(GONE, 0)
    collecting.check()


@in_virtual_time
async def test_the_logs_of_ledgers_that_others_have_instead_go_at_the_same_time(
    tmp_path: Path,
) -> None:
    config = replace(CONFIG, gc_wait_time_ms=1000, gc_overreplicated_ledger_wait_time_ms=1000)
    collecting = Collecting(tmp_path, config, [KEPT, GONE], [KEPT, GONE])
    running = asyncio.create_task(collecting.garbage.run())
    await asyncio.sleep(1.5)
    running.cancel()
    assert len(collecting.notes("garbage.collected")) == 1
    assert len(collecting.notes("ledger.dropped")) == 2
    assert len(collecting.notes("log.removed")) == 4


async def test_ledgers_that_others_have_instead_can_be_left_alone(tmp_path: Path) -> None:
    config = replace(CONFIG, gc_wait_time_ms=1, gc_overreplicated_ledger_wait_time_ms=0)
    collecting = Collecting(tmp_path, config, [KEPT, GONE], [GONE])
    running = asyncio.create_task(collecting.garbage.run())
    await until(lambda: len(collecting.notes("garbage.collected")) > 3)
    running.cancel()
    assert collecting.looked_at == []


async def test_logs_in_which_no_ledger_lives_go_as_a_whole(tmp_path: Path) -> None:
    collecting = Collecting(tmp_path, CONFIG, existing=[])
    (disk,) = collecting.store.ledger_disks
    logs = [log_name(log_id) for log_id in collecting.store.entry_logger.finished_log_ids()]
    assert set(logs) <= set(disk.names("current"))
    await collecting.garbage.collect()
    assert [row.file for row in collecting.rows if row.kind == "log.removed"] == logs != []
    assert set(logs) & set(disk.names("current")) == set()


async def test_a_ledger_with_a_damaged_index_does_not_end_the_bookie(tmp_path: Path) -> None:
    config = replace(CONFIG, gc_wait_time_ms=1, gc_overreplicated_ledger_wait_time_ms=1)
    collecting = Collecting(tmp_path, config, overreplicated=[KEPT])
    collecting.store.close()
    RealDisk(tmp_path / "l").open(index_path(KEPT)).write(0, b"damaged")
    collecting.open()
    running = asyncio.create_task(collecting.garbage.run())
    await until(lambda: running.done() or len(collecting.notes("garbage.collected")) > 2)
    assert not running.done(), running.exception()
    running.cancel()
    assert collecting.store.ledger_ids() == [KEPT]
    assert "unreadable header" in collecting.notes("garbage.kept")[0]
    assert len(collecting.store.garbage.skipped_logs) == 4
    assert set(collecting.store.garbage.skipped_logs) <= set(log_ids(RealDisk(tmp_path / "l")))


@in_virtual_time
async def test_a_failed_search_for_over_replicated_ledgers_is_retried_at_the_next_collection(
    tmp_path: Path,
) -> None:
    config = replace(CONFIG, gc_wait_time_ms=1000, gc_overreplicated_ledger_wait_time_ms=10_000)
    collecting = Collecting(tmp_path, config, existing=None)
    running = asyncio.create_task(collecting.garbage.run())
    await asyncio.sleep(10.5)
    collecting.existing = [KEPT]
    await asyncio.sleep(1)
    running.cancel()
    assert len(collecting.looked_at) == 1


@in_virtual_time
async def test_a_failed_compaction_is_retried_at_the_next_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Compaction] = []

    async def fail(kind: Compaction) -> None:
        tried.append(kind)
        raise OSError(errno.ENOSPC, "No space left on device")

    config = replace(CONFIG, gc_wait_time_ms=1000, minor_compaction_interval_s=10)
    garbage = Collecting(tmp_path, config).garbage
    monkeypatch.setattr(garbage, "compact", fail)
    running = asyncio.create_task(garbage.run())
    await asyncio.sleep(11.5)
    running.cancel()
    assert tried == [Compaction.MINOR] * 2


@pytest.mark.parametrize("existing", [[], [KEPT]])
async def test_logs_are_removed_in_the_flush_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existing: list[int]
) -> None:
    removed_in_flush_thread: list[bool] = []
    collecting = Collecting(tmp_path, CONFIG, existing)
    (disk,) = collecting.store.ledger_disks
    remove = disk.remove

    def watch(path: str) -> None:
        removed_in_flush_thread.append(collecting.in_flush_thread)
        remove(path)

    monkeypatch.setattr(disk, "remove", watch)
    await collecting.garbage.collect()
    await collecting.garbage.compact(Compaction.MAJOR)
    assert len(removed_in_flush_thread) > 4
    assert all(removed_in_flush_thread)
