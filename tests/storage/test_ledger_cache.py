import errno
import gc
import os
import resource
from pathlib import Path

import pytest

from labkit.live.disk import RealDisk, RealFile
from labkit.sim.disk import Fuse, SimDisk, lost
from labkit.storage.config import StorageConfig
from labkit.storage.index import LedgerIndex, index_path
from labkit.storage.ledger_cache import LedgerCache

MANY = 300
KEY = b"k" * 20


class CountingDisk(RealDisk):
    """Counts the syncs of its files, and has a say in whether all are synced in one step."""

    def __init__(self, root: Path, *, can_sync_whole: bool = True) -> None:
        super().__init__(root)
        self.can_sync_whole = can_sync_whole
        self.failing = False
        self.file_syncs = self.folder_syncs = self.whole_syncs = 0

    def create(self, path: str) -> RealFile:
        super().create(path).close()
        return self.open(path)

    def open(self, path: str) -> RealFile:
        return CountingFile(self, self.root / path)

    def sync_folder(self, folder: str) -> None:
        self.folder_syncs += 1

    def sync_whole(self) -> bool:
        self.whole_syncs += self.can_sync_whole
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.can_sync_whole


class CountingFile(RealFile):
    def __init__(self, disk: CountingDisk, path: Path) -> None:
        super().__init__(path, 0)
        self.disk = disk

    def sync(self) -> None:
        self.disk.file_syncs += 1


def cache_of(ledger_count: int, disk: RealDisk) -> LedgerCache:
    cache = LedgerCache([disk], StorageConfig())
    for ledger_id in range(ledger_count):
        cache.create(ledger_id, KEY)
        cache.set_locations(ledger_id, [0], [1 << 32 | ledger_id])
    return cache


def locations(disk: RealDisk, ledger_count: int) -> list[int]:
    """What another start finds."""
    indexes = [LedgerCache([disk], StorageConfig()).get(each) for each in range(ledger_count)]
    return [index.location(0) if index else -1 for index in indexes]


def test_few_indexes_are_synced_one_by_one(tmp_path: Path) -> None:
    disk = CountingDisk(tmp_path)
    cache_of(3, disk).flush()
    assert (disk.file_syncs, disk.whole_syncs) == (3, 0)
    assert locations(disk, 3) == [1 << 32 | each for each in range(3)]


@pytest.mark.slow
def test_many_indexes_are_synced_in_one_step_before_they_get_their_names_and_after(
    tmp_path: Path,
) -> None:
    named_at_sync = []

    class Watched(CountingDisk):
        def sync_whole(self) -> bool:
            named_at_sync.append(sum(self.exists(index_path(each)) for each in range(MANY)))
            return super().sync_whole()

    disk = Watched(tmp_path)
    cache_of(MANY, disk).flush()
    assert (disk.file_syncs, disk.folder_syncs) == (0, 0)
    # Never more than 256 files at once.
    assert named_at_sync == [0, 256, 256, MANY]
    assert locations(disk, MANY) == [1 << 32 | each for each in range(MANY)]


def test_without_one_sync_for_all_each_index_and_each_folder_is_synced(tmp_path: Path) -> None:
    disk = CountingDisk(tmp_path, can_sync_whole=False)
    cache_of(MANY, disk).flush()
    assert disk.file_syncs == MANY
    assert disk.folder_syncs >= 256


@pytest.mark.slow
def test_indexes_stay_changed_when_the_sync_of_all_fails_and_the_next_flush_writes_them_again(
    tmp_path: Path,
) -> None:
    disk = CountingDisk(tmp_path)
    disk.failing = True
    cache = cache_of(MANY, disk)
    with pytest.raises(OSError, match="Input/output error"):
        cache.flush()
    assert locations(disk, MANY) == [-1] * MANY
    disk.failing = False
    cache.flush()
    assert locations(disk, MANY) == [1 << 32 | each for each in range(MANY)]


def test_flush_without_changes_syncs_nothing(tmp_path: Path) -> None:
    disk = CountingDisk(tmp_path)
    cache = cache_of(MANY, disk)
    cache.flush()
    before = disk.whole_syncs
    cache.flush()
    assert (disk.whole_syncs, disk.file_syncs) == (before, 0)


class CountingIndex(LedgerIndex):
    """Counts what keeps the number of open files small."""

    __slots__ = ()
    forgotten = 0

    def forget_file(self) -> None:
        CountingIndex.forgotten += 1
        super().forget_file()


class CountingCache(LedgerCache):
    index_class = CountingIndex


def test_reading_a_ledger_takes_the_same_steps_for_any_number_of_ledgers(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    cache_of(MANY, disk).flush()
    cache = CountingCache([disk], StorageConfig(open_file_limit=10))
    CountingIndex.forgotten = 0
    assert all(cache.get(ledger_id) for ledger_id in range(MANY))
    assert CountingIndex.forgotten <= MANY


def test_ledgers_that_are_read_again_without_a_flush_have_few_files_open(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    cache_of(30, disk).flush()
    cache = LedgerCache([disk], StorageConfig(open_file_limit=10))
    for entry_id in (0, 100, 200):  # Further apart than what is read ahead.
        for index in map(cache.get, range(30)):
            assert index is not None
            index.location(entry_id)
    # The first cache and its indexes know each other, so their files are open until they are found.
    gc.collect()
    paths = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert sum(path.suffix == ".idx" and tmp_path in path.parents for path in paths) <= 10


@pytest.mark.slow
def test_a_flush_of_many_new_ledgers_has_few_files_open_at_a_time(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    cache = LedgerCache([disk], StorageConfig(open_file_limit=10))
    for ledger_id in range(2 * MANY):
        cache.create(ledger_id, KEY)
        cache.set_locations(ledger_id, [0], [1 << 32 | ledger_id])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + MANY, hard))
    try:
        cache.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert locations(disk, 2 * MANY) == [1 << 32 | each for each in range(2 * MANY)]


def test_an_index_that_a_move_left_under_its_other_name_gets_its_name_back_durably() -> None:
    disk = SimDisk()
    cache = LedgerCache([disk], StorageConfig())
    cache.create(5, KEY)
    cache.set_locations(5, [0], [1 << 32 | 7])
    cache.flush()
    disk.rename(index_path(5), f"{index_path(5)}.rloc")
    disk.sync_folder(index_path(5).rpartition("/")[0])
    found = LedgerCache([disk], StorageConfig()).get(5)
    assert found is not None
    assert found.location(0) == 1 << 32 | 7
    assert disk.after_crash(lost, Fuse()).exists(index_path(5))
