import asyncio
import errno
from dataclasses import replace
from pathlib import Path

import pytest

from labkit.system.bookie.disk_monitor import DiskConfig, DiskMonitor, Space, full_directories
from labkit.system.model.errors import NoWritableLedgerDirException
from labkit.system.storage.entry_log import log_ids, log_name
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.disk import RealDisk
from tests.system.bookie.raw import KEY, entry
from tests.system.storage.support import SMALL

CONFIG = DiskConfig(
    disk_usage_threshold=0.9, disk_usage_warn_threshold=0.8, disk_usage_lwm_threshold=0.7
)

NO_SPACE = OSError(errno.ENOSPC, "No space left on device", "/l1/current/0.log")


class Watched:
    """A store with two ledger directories whose disk usage the test sets."""

    def __init__(self, folder: Path, config: DiskConfig = CONFIG) -> None:
        self.usages = [0.1, 0.1]
        self.rows: list[Event] = []
        self.told: list[bool] = []
        self.spaces: list[Space] = []
        recorder = Recorder("b0", lambda: 0)
        recorder.listen(self.rows.extend)
        self.ledger_disks = [RealDisk(folder / "l1"), RealDisk(folder / "l2")]
        journal = RealDisk(folder / "j")
        self.store = LedgerStore([journal], self.ledger_disks, SMALL, recorder, 1)
        self.monitor = DiskMonitor(
            self.store,
            lambda: dict(zip(("/l1", "/l2"), self.usages, strict=True)),
            config,
            lambda read_only, _: self.told.append(read_only),
            self.spaces.append,
        )

    def see(self, *usages: list[float]) -> None:
        for self.usages in usages:
            self.monitor.check()


def test_a_directory_is_full_above_the_threshold_only() -> None:
    assert full_directories([0.89, 0.9, 0.91], False, CONFIG) == {2}


def test_after_all_were_full_more_must_be_free_before_writes_are_taken_again() -> None:
    assert full_directories([0.8, 0.95], True, CONFIG) == {0, 1}
    assert full_directories([0.7, 0.95], True, CONFIG) == {1}


def test_a_bookie_of_which_every_directory_is_full_is_read_only_until_one_has_room(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path)
    watched.see([0.95, 0.95], [0.8, 0.95], [0.6, 0.95])
    assert watched.told == [True, False]
    kinds = [row.kind for row in watched.rows if row.kind.startswith("bookie.")]
    assert kinds == ["bookie.read_only", "bookie.writable"]


def test_a_bookie_that_is_read_only_says_which_directory_is_how_full_and_what_did_not_fit(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path)
    watched.see([0.95, 0.97])
    watched.see([0.1, 0.1])
    watched.monitor.on_checkpoint_end(NO_SPACE)
    notes = [row.explanation for row in watched.rows if row.kind == "bookie.read_only"]
    assert notes == [
        "/l1 is 95% full, /l2 is 97% full",
        "/l1 is 10% full, /l2 is 10% full, [Errno 28] No space left on device: '/l1/current/0.log'",
    ]


def test_a_bookie_that_is_forced_to_be_read_only_stays_so_whatever_its_disks_do(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path, replace(CONFIG, force_read_only_bookie=True))
    watched.see([0.1, 0.1], [0.95, 0.95], [0.1, 0.1])
    watched.monitor.on_checkpoint_end(None)
    assert watched.told == [True]
    assert [row.explanation for row in watched.rows if row.kind == "bookie.read_only"] == [
        "forceReadOnlyBookie is set"
    ]
    assert watched.spaces == [Space.FULL, Space.ENOUGH]


@pytest.mark.promise(
    "A full directory receives no new files; if all are full, the bookie is read-only until "
    "there is space"
)
def test_a_log_on_a_directory_that_became_full_is_left_for_one_with_room(tmp_path: Path) -> None:
    watched = Watched(tmp_path)

    def flush(entry_id: int) -> list[list[int]]:
        watched.store.add_entry(5, entry_id, entry(5, entry_id), KEY)
        watched.store.commit()
        watched.store.checkpoint()
        return [[i for i in log_ids(disk) if size_of(disk, i)] for disk in watched.ledger_disks]

    assert flush(0) == [[0], []]
    watched.see([0.95, 0.1])
    assert flush(1) == [[0], [1]]
    watched.see([0.95, 0.95])
    assert flush(2) == [[0], [1]]
    assert [watched.store.read_entry(5, n) for n in range(3)] == [entry(5, n) for n in range(3)]


def size_of(disk: RealDisk, log_id: int) -> int:
    return disk.open(f"current/{log_name(log_id)}").size()


def test_one_full_directory_makes_a_bookie_read_only_if_that_is_asked_for(tmp_path: Path) -> None:
    config = replace(CONFIG, read_only_mode_on_any_disk_full_enabled=True)
    watched = Watched(tmp_path, config)
    watched.see([0.95, 0.1], [0.95, 0.95], [0.1, 0.95], [0.1, 0.1])
    assert watched.told == [True, False]


def test_the_garbage_collection_learns_every_change_of_the_fullest_directory(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path)
    watched.see([0.1, 0.8])
    assert watched.spaces == []
    watched.see([0.1, 0.85], [0.85, 0.1], [0.95, 0.85], [0.85, 0.85], [0.1, 0.1])
    assert watched.spaces == [Space.ALMOST_FULL, Space.FULL, Space.ALMOST_FULL, Space.ENOUGH]
    watched.monitor.on_checkpoint_end(NO_SPACE)
    watched.monitor.on_checkpoint_end(None)
    assert watched.spaces[-2:] == [Space.FULL, Space.ENOUGH]


async def test_a_bookie_that_may_not_be_read_only_stops(tmp_path: Path) -> None:
    watched = Watched(tmp_path, replace(CONFIG, read_only_mode_enabled=False))
    watched.usages = [0.95, 0.1]
    running = asyncio.create_task(watched.monitor.run())
    await asyncio.sleep(0)
    watched.monitor.on_checkpoint_end(NO_SPACE)
    with pytest.raises(NoWritableLedgerDirException, match="readOnlyModeEnabled=true"):
        await running
    watched.usages = [0.95, 0.95]
    with pytest.raises(
        NoWritableLedgerDirException,
        match=r"/l1 is 95% full, /l2 is 95% full, .*; free disk space, or",
    ):
        watched.monitor.check()


def test_a_bookie_is_writable_only_when_directories_and_checkpoints_have_space(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path)
    watched.monitor.on_checkpoint_end(NO_SPACE)
    watched.monitor.check()
    assert watched.told == [True]
    watched.see([0.95, 0.95])
    watched.monitor.on_checkpoint_end(None)
    assert watched.told == [True]
    watched.see([0.1, 0.1])
    assert watched.told == [True, False]


def test_without_a_low_water_mark_the_threshold_is_it() -> None:
    assert DiskConfig(disk_usage_threshold=0.99).low_water_mark == 0.99
