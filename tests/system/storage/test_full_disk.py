"""Test that a checkpoint, a compaction or a start that runs out of space at any step can be retried
and then succeeds completely: a failed sync must not make data count as written.
"""

import errno
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import Disk
from labkit.system.storage.entry_log import log_ids
from labkit.system.storage.memtable import Memtable
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.disk import RealDisk
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.machine.disk import SimDisk, SimDiskError
from labkit.worlds.sim.machine.disk_operation import Operation
from tests.system.storage.support import KEY, entry, kill
from tests.system.storage.unreliable import UnreliableDisk
from tests.worlds.sim.scripts import EVERYTHING, TWO_LEDGERS

PAYLOAD = bytes(range(250)) * 4
LEDGERS = (5, 6)
SHARED = StorageConfig(
    journal_max_size_mb=1, journal_pre_alloc_size_mb=1, log_size_limit=9000, page_size=32
)
PER_LEDGER = StorageConfig(
    journal_max_size_mb=1,
    journal_pre_alloc_size_mb=1,
    log_size_limit=6000,
    page_size=32,
    entry_log_per_ledger_enabled=True,
)


class Scene:
    """A store that has made a checkpoint and must flush as much data again, which fills its
    logs.
    """

    def __init__(self, folder: Path, config: StorageConfig, failing_step: int) -> None:
        self.folder, self.config = folder, config
        self.disk = UnreliableDisk(folder / "l", errno.ENOSPC)
        self.store = self.open(self.disk)
        self.entry_count = 0
        self.add(3)
        self.store.checkpoint()
        self.add(3)
        self.mark = self.store.marks[0]
        self.first_step = self.disk.steps
        self.disk.fails_at = self.first_step + failing_step

    def open(self, ledgers: Disk) -> LedgerStore:
        journal, recorder = RealDisk(self.folder / "j"), Recorder("bookie", lambda: 0)
        return LedgerStore([journal], [ledgers], self.config, recorder, 1)

    def add(self, entry_count: int) -> None:
        for entry_id in range(self.entry_count, self.entry_count + entry_count):
            for ledger_id in LEDGERS:
                self.store.add_entry(ledger_id, entry_id, entry(ledger_id, entry_id, PAYLOAD), KEY)
        self.entry_count += entry_count
        self.store.commit()

    def check(self) -> None:
        for entry_id in range(self.entry_count):
            for ledger_id in LEDGERS:
                stored = entry(ledger_id, entry_id, PAYLOAD)
                assert self.store.read_entry(ledger_id, entry_id) == stored

    def kill_and_check(self) -> None:
        kill(self.store)
        self.store = self.open(RealDisk(self.folder / "l"))
        self.check()
        kill(self.store)


def steps_of_a_checkpoint(folder: Path, config: StorageConfig) -> range:
    scene = Scene(folder, config, failing_step=0)
    scene.store.checkpoint()
    return range(1, scene.disk.steps - scene.first_step + 1)


BOTH = pytest.mark.parametrize("config", [SHARED, PER_LEDGER], ids=["shared", "per-ledger"])


@BOTH
def test_a_checkpoint_that_found_no_space_at_any_step_is_made_whole_by_the_next(
    tmp_path: Path, config: StorageConfig
) -> None:
    steps = steps_of_a_checkpoint(tmp_path / "0", config)
    assert len(steps) >= 14
    for step in steps:
        scene = Scene(tmp_path / str(step), config, step)
        with pytest.raises(OSError, match="No space left on device"):
            scene.store.checkpoint()
        assert scene.store.marks[0] == scene.mark
        scene.check()
        scene.add(1)
        scene.store.checkpoint()
        assert scene.store.marks[0] == scene.store.journals[0].synced
        scene.check()
        scene.kill_and_check()


@pytest.mark.slow
@BOTH
def test_a_kill_after_a_checkpoint_that_found_no_space_loses_nothing(
    tmp_path: Path, config: StorageConfig
) -> None:
    for step in steps_of_a_checkpoint(tmp_path / "0", config):
        scene = Scene(tmp_path / str(step), config, step)
        with pytest.raises(OSError, match="No space left on device"):
            scene.store.checkpoint()
        scene.kill_and_check()


def test_checkpoints_without_space_leave_no_more_behind_each_time(tmp_path: Path) -> None:
    scene = Scene(tmp_path, SHARED, failing_step=0)
    sizes = []
    # First the current log cannot be written; then a new one cannot be written, cannot be synced,
    # and so on.
    for step in (1, 5, 6, 5, 6):
        scene.disk.fails_at = scene.disk.steps + step
        with pytest.raises(OSError, match="No space left on device"):
            scene.store.checkpoint()
        sizes.append(sum(file.stat().st_size for file in tmp_path.glob("l/current/*.log")))
    assert len(set(sizes)) == 1
    scene.store.checkpoint()
    scene.kill_and_check()


@pytest.mark.slow
@BOTH
def test_a_start_that_found_no_space_at_any_step_serves_from_memory_until_a_checkpoint_fits(
    tmp_path: Path, config: StorageConfig
) -> None:
    step, lacked_space = 1, True
    while lacked_space:
        scene = Scene(tmp_path / str(step), config, failing_step=0)
        mark = scene.store.marks[0]
        kill(scene.store)
        scene.disk = UnreliableDisk(scene.folder / "l", errno.ENOSPC)
        scene.disk.fails_at = step
        scene.store = scene.open(scene.disk)
        lacked_space = scene.store.start_lacked_space
        assert (scene.store.marks[0] == mark) == lacked_space
        scene.check()
        scene.add(1)
        scene.check()
        if step % 2:
            scene.store.checkpoint()
            assert scene.store.marks[0] == scene.store.journals[0].synced
        scene.kill_and_check()
        step += 1
    assert step > 15


def test_a_start_fails_with_any_other_error_of_the_disk(tmp_path: Path) -> None:
    scene = Scene(tmp_path, SHARED, failing_step=0)
    kill(scene.store)
    broken = UnreliableDisk(scene.folder / "l", errno.EIO)
    broken.fails_at = 3
    with pytest.raises(OSError, match="Input/output error"):
        scene.open(broken)


def open_without_space(
    journals: Sequence[Disk], ledgers: Sequence[Disk], *rest: Any
) -> LedgerStore:
    """Open a store on full disks that have space again as soon as the store has started."""
    full = [disk for disk in ledgers if isinstance(disk, SimDisk)]
    names, controller = [disk.name for disk in full], full[0].controller

    def refuse(operation: Operation) -> None:
        if operation.disk in names and operation.kind in ("create", "write"):
            raise SimDiskError(errno.ENOSPC, "No space left on device")
        if before is not None:
            before(operation)

    before, controller.watch = controller.watch, refuse
    store = LedgerStore(journals, ledgers, *rest)
    controller.watch = before
    assert store.start_lacked_space
    return store


def test_no_crash_of_a_bookie_that_always_starts_without_space_loses_anything() -> None:
    found = crash_map(EVERYTHING, store_factory=open_without_space)
    assert found.is_safe
    assert len(found.points) > 40
    assert crash_map(TWO_LEDGERS, store_factory=open_without_space, ledger_dir_count=2).is_safe


def test_a_long_replay_without_space_tries_once(tmp_path: Path) -> None:
    config = replace(SHARED, skip_list_size_limit=2000)
    scene = Scene(tmp_path, config, failing_step=0)
    scene.add(20)
    kill(scene.store)
    ledgers = UnreliableDisk(scene.folder / "l", errno.ENOSPC)
    ledgers.is_full = True
    before = sorted(path.name for path in tmp_path.glob("l/current/*"))
    scene.store = scene.open(ledgers)
    assert scene.store.start_lacked_space
    scene.check()
    assert sorted(path.name for path in tmp_path.glob("l/current/*")) == before
    ledgers.is_full = False
    scene.store.checkpoint()
    scene.kill_and_check()


def test_a_start_without_space_keeps_entries_in_memory_even_if_a_log_has_them(
    tmp_path: Path,
) -> None:
    """With one page of changes at most, replay flushes the index for each stored entry."""
    scene = Scene(tmp_path, replace(SHARED, page_limit=1), failing_step=0)
    scene.store.flush_entries(scene.store.memtable)  # LastLogMark does not advance
    scene.store.memtable = Memtable()
    scene.check()
    kill(scene.store)
    ledgers = UnreliableDisk(scene.folder / "l", errno.ENOSPC)
    ledgers.is_full = True
    scene.store = scene.open(ledgers)
    assert scene.store.start_lacked_space
    scene.check()
    ledgers.is_full = False
    scene.store.checkpoint()
    assert scene.store.marks[0] == scene.store.journals[0].synced
    scene.check()
    scene.kill_and_check()


@pytest.mark.slow
def test_a_compaction_that_found_no_space_at_any_step_moves_nothing_and_can_be_repeated(
    tmp_path: Path,
) -> None:
    step, failed = 1, True
    while failed:
        scene = Scene(tmp_path / str(step), SHARED, failing_step=0)
        scene.store.checkpoint()
        scene.store.garbage.collect([])
        victim = min(log_ids(scene.disk))
        scene.disk.fails_at = scene.disk.steps + step
        try:
            list(scene.store.garbage.compact(victim, 2))
            failed = False
        except OSError:
            scene.check()
            list(scene.store.garbage.compact(victim, 2))
        scene.disk.fails_at = 0
        scene.store.garbage.remove_log(victim)
        scene.check()
        scene.kill_and_check()
        step += 1
    assert step > 10
