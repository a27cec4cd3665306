from pathlib import Path

import pytest

from labkit.bookie.disk_monitor import DiskConfig, DiskMonitor, full_directories
from labkit.live.disk import RealDisk
from labkit.model.errors import BKIncorrectParameterException
from labkit.storage.entry_log import log_ids
from labkit.storage.store import LedgerStore
from labkit.trace.recorder import Recorder, Row
from tests.bookie.raw import KEY, entry
from tests.storage.support import SMALL

CONFIG = DiskConfig(disk_usage_threshold=0.9, disk_usage_lwm_threshold=0.7)


class Watched:
    """A store over two ledger directories that are as full as the test says."""

    def __init__(self, folder: Path) -> None:
        self.usages = [0.1, 0.1]
        self.rows: list[Row] = []
        self.told: list[bool] = []
        recorder = Recorder("bookie-1", lambda: 0)
        recorder.listen(self.rows.extend)
        self.ledger_disks = [RealDisk(folder / "l1"), RealDisk(folder / "l2")]
        journal = RealDisk(folder / "j")
        self.store = LedgerStore([journal], self.ledger_disks, SMALL, recorder, 1)
        self.monitor = DiskMonitor(
            self.store, lambda: self.usages, CONFIG, recorder, self.on_read_only
        )

    def on_read_only(self, read_only: bool) -> None:
        self.told.append(read_only)


def test_a_directory_is_full_above_the_threshold_only() -> None:
    assert full_directories([0.89, 0.9, 0.91], False, CONFIG) == {2}


def test_after_all_were_full_more_must_be_free_before_writes_are_taken_again() -> None:
    assert full_directories([0.8, 0.95], True, CONFIG) == {0, 1}
    assert full_directories([0.7, 0.95], True, CONFIG) == {1}


def test_new_logs_keep_away_from_a_full_directory(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.usages = [0.95, 0.1]
    watched.monitor.check()
    watched.store.add_entry(5, 0, entry(5, 0), KEY)
    watched.store.commit()
    watched.store.checkpoint()
    assert [log_ids(disk) for disk in watched.ledger_disks] == [[], [0, 1]]
    assert watched.told == []


def test_a_bookie_of_which_every_directory_is_full_is_read_only_until_one_has_room(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path)
    for watched.usages in ([0.95, 0.95], [0.8, 0.95], [0.6, 0.95]):
        watched.monitor.check()
    assert watched.told == [True, False]
    kinds = [row.kind for row in watched.rows if row.kind.startswith("bookie.")]
    assert kinds == ["bookie.read_only", "bookie.writable"]


def test_a_bookie_is_writable_only_when_directories_and_checkpoints_have_space(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path)
    watched.monitor.on_space(False)
    watched.monitor.check()
    assert watched.told == [True]
    watched.usages = [0.95, 0.95]
    watched.monitor.check()
    watched.monitor.on_space(True)
    assert watched.told == [True]
    watched.usages = [0.1, 0.1]
    watched.monitor.check()
    assert watched.told == [True, False]


@pytest.mark.parametrize(("threshold", "lwm"), [(0.9, 0.95), (1.1, 0.9), (0.9, 0.0)])
def test_thresholds_out_of_order_are_refused(threshold: float, lwm: float) -> None:
    with pytest.raises(BKIncorrectParameterException, match="allowed is"):
        DiskConfig(disk_usage_threshold=threshold, disk_usage_lwm_threshold=lwm)
