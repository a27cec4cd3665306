"""A checkpoint or a compaction that fails at any of its steps, for lack of space, is done again and
then whole: nothing is taken for written because a sync failed only once.
"""

import errno
from pathlib import Path

import pytest

from labkit.live.disk import RealDisk
from labkit.storage.config import StorageConfig
from labkit.storage.entry_log import log_ids
from labkit.storage.store import LedgerStore
from labkit.trace.recorder import Recorder
from tests.storage.support import KEY, entry, kill
from tests.storage.unreliable import UnreliableDisk

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
    """A store after a checkpoint, with as much to flush again: logs are filled by it."""

    def __init__(self, folder: Path, config: StorageConfig, failing_step: int) -> None:
        self.folder, self.config = folder, config
        self.disk = UnreliableDisk(folder / "l", errno.ENOSPC)
        self.store = self._open(self.disk)
        self.entry_count = 0
        self.add(3)
        self.store.checkpoint()
        self.add(3)
        self.mark = self.store.marks[0]
        self.first_step = self.disk.steps
        self.disk.fails_at = self.first_step + failing_step

    def _open(self, ledgers: RealDisk) -> LedgerStore:
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
        self.store = self._open(RealDisk(self.folder / "l"))
        self.check()
        kill(self.store)


def steps_of_a_checkpoint(folder: Path, config: StorageConfig) -> range:
    scene = Scene(folder, config, failing_step=0)
    scene.store.checkpoint()
    return range(1, scene.disk.steps - scene.first_step + 1)


@pytest.mark.parametrize("config", [SHARED, PER_LEDGER], ids=["shared", "per-ledger"])
def test_a_checkpoint_that_found_no_space_at_any_step_is_made_whole_by_the_next(
    tmp_path: Path, config: StorageConfig
) -> None:
    steps = steps_of_a_checkpoint(tmp_path / "0", config)
    assert len(steps) >= 15
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


@pytest.mark.parametrize("config", [SHARED, PER_LEDGER], ids=["shared", "per-ledger"])
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
    # The log in use cannot be written; then a new one cannot be written, cannot be synced, ...
    for step in (1, 5, 6, 5, 6):
        scene.disk.fails_at = scene.disk.steps + step
        with pytest.raises(OSError, match="No space left on device"):
            scene.store.checkpoint()
        sizes.append(sum(file.stat().st_size for file in tmp_path.glob("l/current/*.log")))
    assert len(set(sizes)) == 1
    scene.store.checkpoint()
    scene.kill_and_check()


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
