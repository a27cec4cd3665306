import errno
import gc
import os
import resource
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from labkit.system.storage.config import StorageConfig
from labkit.system.storage.index.ledger_cache import LedgerCache
from labkit.system.storage.index.ledger_index import LedgerIndex, index_path
from labkit.worlds.live.disk import RealDisk, RealFile
from labkit.worlds.sim.machine.disk import DiskController, SimDisk
from labkit.worlds.sim.machine.disk_operation import lost
from tests.system.storage.support import KEY, open_files, present

MANY = 300


@pytest.fixture(autouse=True)
def closed_files() -> Iterator[None]:
    """Close the files of each test's caches: a user may have only 1024 files open by default, and
    a cache and its indexes form a reference cycle.
    """
    yield
    gc.collect()


class CountingDisk(RealDisk):
    """Counts syncs; `can_sync_whole` sets whether the disk can sync all files in one operation."""

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


def new_cache() -> tuple[SimDisk, LedgerCache]:
    disk = SimDisk()
    return disk, LedgerCache([disk], StorageConfig())


def cache_of(ledger_count: int, disk: RealDisk) -> LedgerCache:
    cache = LedgerCache([disk], StorageConfig())
    for ledger_id in range(ledger_count):
        cache.create(ledger_id, KEY)
        cache.set_locations(ledger_id, [0], [1 << 32 | ledger_id])
    return cache


def locations(disk: RealDisk, ledger_count: int) -> list[int]:
    """Return the locations that a restarted bookie reads from disk."""
    ledgers = [LedgerCache([disk], StorageConfig()).get(each) for each in range(ledger_count)]
    return [ledger.index.location(0) if ledger else -1 for ledger in ledgers]


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
    # Indexes are synced and renamed in groups of at most 256.
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
    """Counts how often an index closes its file to limit the number of open files."""

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
    for entry_id in (0, 100, 200):  # These entries are farther apart than the size of a read-ahead.
        for ledger in map(cache.get, range(30)):
            assert ledger is not None
            ledger.index.location(entry_id)
    # The first cache and its indexes form a reference cycle, so their files stay open until the
    # garbage collector runs.
    gc.collect()
    assert len(open_files(tmp_path)) <= 10


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


@pytest.mark.parametrize(
    ("ledger_count", "file_syncs", "folder_syncs", "whole_syncs"),
    [(29, 29, 31, 0), (30, 30, 0, 1), (31, 31, 0, 1), (32, 0, 0, 2)],
)
def test_from_32_files_or_folders_on_one_sync_replaces_theirs(
    tmp_path: Path, ledger_count: int, file_syncs: int, folder_syncs: int, whole_syncs: int
) -> None:
    """Each of these ledgers has its own directory below two shared ones."""
    disk = CountingDisk(tmp_path)
    cache_of(ledger_count, disk).flush()
    counted = disk.file_syncs, disk.folder_syncs, disk.whole_syncs
    assert counted == (file_syncs, folder_syncs, whole_syncs)
    assert locations(disk, ledger_count) == [1 << 32 | each for each in range(ledger_count)]


def test_of_many_indexes_256_are_written_before_they_are_synced() -> None:
    disk, cache = new_cache()
    for ledger_id in range(257):
        cache.create(ledger_id, KEY)
    cache.flush()
    kinds = [each.kind for each in disk.controller.operations if each.path.endswith(".idx.new")]
    steps = [kind for kind, _ in groupby(kinds)]
    assert kinds[: kinds.index("sync")].count("create") == 256
    assert steps[-4:] == ["create", "write", "sync", "rename"]
    assert kinds.count("sync") == 257


def test_a_folder_is_synced_before_the_folder_that_has_its_name_and_after_the_files() -> None:
    disk, cache = new_cache()
    for ledger_id in (5, 0x1234):
        cache.create(ledger_id, KEY)
    cache.flush()
    syncs = [each.path for each in disk.controller.operations if each.kind.startswith("sync")]
    assert syncs == [
        *("current/0/5/5.idx.new", "current/12/34/1234.idx.new"),
        *("current/0/5", "current/12/34", "current/0", "current/12", "current"),
    ]


def test_an_index_that_has_its_name_has_no_folder_synced_again() -> None:
    disk, cache = new_cache()
    cache.create(5, KEY)
    cache.flush()
    before = len(disk.controller.operations)
    cache.set_locations(5, [0], [1 << 32 | 7])
    cache.flush()
    assert [each.kind for each in disk.controller.operations[before:]] == ["write", "sync"]


@pytest.mark.parametrize(("page_count", "left"), [(32 * 1024, 32 * 1024), (32 * 1024 + 1, 0)])
def test_without_a_limit_in_the_configuration_32768_pages_may_be_changed(
    page_count: int, left: int
) -> None:
    cache = LedgerCache([SimDisk()], StorageConfig(page_size=8))
    ledger = cache.create(5, KEY)
    cache.set_locations(5, range(page_count), [1 << 32 | 7] * page_count)
    assert ledger.index.changed_page_count == left


def test_a_removed_index_stays_away_after_a_crash() -> None:
    disk, cache = new_cache()
    cache.create(5, KEY)
    cache.flush()
    cache.remove(5)
    assert cache.get(5) is None
    assert cache.ledger_ids() == []
    assert LedgerCache([disk.after_crash(lost, DiskController())], StorageConfig()).get(5) is None


def test_a_ledger_that_is_emptied_keeps_key_fence_and_version() -> None:
    disk = SimDisk()
    config = StorageConfig(
        journal_format_version_to_write=5, file_info_format_version_to_write=0, page_size=64
    )
    cache = LedgerCache([disk], config)
    cache.create(5, KEY).fence()
    cache.set_locations(5, [0, 3], [7, 8])
    cache.flush()
    # Restart with a cache that writes the newest format version to a new file.
    cache = LedgerCache([disk], StorageConfig())
    assert cache.get(5) is not None
    index = cache.empty(5)
    ledger = present(cache.get(5))
    assert ledger.index is index
    assert (index.last_entry_id(), index.location(0), dict(index.locations())) == (-1, 0, {})
    index.flush()
    loaded = LedgerIndex.load(5, disk.after_crash(lost, DiskController()), 64)
    assert loaded.header == (KEY, True, b"", 0)
    assert loaded.last_entry_id() == -1


def test_a_ledger_is_settled_until_entries_come_and_again_from_the_second_question_on() -> None:
    cache = LedgerCache([SimDisk()], StorageConfig())
    cache.create(5, KEY).has_new_entries = True
    cache.create(6, KEY)
    assert cache.take_settled([5, 6, 7]) == [6, 7]
    assert cache.take_settled([5, 6, 7]) == [5, 6, 7]


def test_a_new_ledger_lies_in_the_directory_of_its_number() -> None:
    disks = SimDisk(), SimDisk()
    cache = LedgerCache(disks, StorageConfig())
    for ledger_id in (4, 5):
        assert cache.create(ledger_id, KEY).index.disk is disks[ledger_id % 2]
    cache.flush()
    assert [disk.exists(index_path(4)) for disk in disks] == [True, False]
    again = present(LedgerCache(disks, StorageConfig()).get(5))
    assert again.index.disk is disks[1]


def holders(disks: tuple[SimDisk, ...], ledger_id: int) -> list[bool]:
    return [disk.exists(index_path(ledger_id)) for disk in disks]


def test_a_new_index_is_created_in_a_directory_that_is_not_full() -> None:
    disks = SimDisk(), SimDisk()
    cache = LedgerCache(disks, StorageConfig())
    cache.set_full_directories({0})
    cache.create(4, KEY)
    cache.flush()
    assert holders(disks, 4) == [False, True]
    cache.set_full_directories({0, 1})
    cache.create(6, KEY)
    cache.flush()
    assert holders(disks, 6) == [True, False]


def test_an_index_avoids_a_directory_that_became_full_before_its_first_flush() -> None:
    disks = SimDisk(), SimDisk()
    cache = LedgerCache(disks, StorageConfig())
    cache.create(4, KEY)
    cache.set_locations(4, [0], [1 << 32 | 2000])
    cache.set_full_directories({0})
    cache.flush()
    assert holders(disks, 4) == [False, True]
    again = present(LedgerCache(disks, StorageConfig()).get(4))
    assert list(again.index.locations()) == [(0, 1 << 32 | 2000)]


def test_an_existing_index_stays_in_its_directory_even_if_that_is_full() -> None:
    disks = SimDisk(), SimDisk()
    cache = LedgerCache(disks, StorageConfig())
    for ledger_id in (4, 6):
        cache.create(ledger_id, KEY)
        cache.set_locations(ledger_id, [0], [1 << 32 | 2000])
    cache.flush()
    cache.set_full_directories({0})
    cache.set_locations(4, [1], [1 << 32 | 3000])
    cache.empty(6)
    cache.flush()
    assert holders(disks, 4) == holders(disks, 6) == [True, False]
    again = LedgerCache(disks, StorageConfig())
    found = [ledger for ledger_id in (4, 6) if (ledger := again.get(ledger_id)) is not None]
    assert [len(list(ledger.index.locations())) for ledger in found] == [2, 0]


def test_the_file_of_a_ledger_that_was_removed_or_emptied_is_closed(tmp_path: Path) -> None:
    cache = cache_of(3, RealDisk(tmp_path))
    cache.flush()
    # A file that has been deleted but is still open would have a different name.
    assert open_files(tmp_path) == ["0.idx", "1.idx", "2.idx"]
    cache.remove(0)
    assert open_files(tmp_path) == ["1.idx", "2.idx"]
    cache.empty(1)
    assert open_files(tmp_path) == ["2.idx"]
    cache.close()
    assert open_files(tmp_path) == []


def test_listing_the_ledgers_again_reads_no_directory(tmp_path: Path) -> None:
    class CountingLists(RealDisk):
        lists = 0

        def files(self, folder: str, suffix: str) -> list[str]:
            self.lists += 1
            return super().files(folder, suffix)

    disk = CountingLists(tmp_path)
    first = LedgerCache([disk], StorageConfig())
    for ledger_id in (1, 2, 3):
        first.create(ledger_id, KEY)
    first.flush()
    first.close()
    ledgers = LedgerCache([disk], StorageConfig())
    ledgers.create(4, KEY)
    lists = disk.lists
    assert ledgers.ledger_ids() == [1, 2, 3, 4]
    for ledger_id in (1, 4):
        ledgers.remove(ledger_id)
    assert ledgers.ledger_ids() == [2, 3]
    assert disk.lists == lists > 0


def test_a_read_during_a_removal_does_not_bring_the_ledger_back(tmp_path: Path) -> None:
    class ReadDuringRemoval(RealDisk):
        def remove(self, path: str) -> None:
            assert ledgers.get(1) is not None
            super().remove(path)

    ledgers = LedgerCache([ReadDuringRemoval(tmp_path)], StorageConfig())
    ledgers.create(1, KEY)
    ledgers.flush()
    ledgers.remove(1)
    assert ledgers.get(1) is None
    assert ledgers.ledger_ids() == []
