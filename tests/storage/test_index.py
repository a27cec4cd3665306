import struct
from pathlib import Path

import pytest

from labkit.live.disk import RealDisk
from labkit.model.entry import MAX_ENTRY_ID
from labkit.model.errors import StorageDamagedException
from labkit.sim.disk import Fuse, SimDisk, SimFile, lost
from labkit.storage.config import StorageConfig
from labkit.storage.index import LedgerCache, LedgerIndex, index_path, ledger_ids_on_disk
from tests.storage.support import KEY

PAGE_SIZE = 8192


def index_with(disk: SimDisk | RealDisk, locations: dict[int, int]) -> LedgerIndex:
    index = LedgerIndex(5, KEY, disk, PAGE_SIZE)
    for entry_id, location in locations.items():
        index.set_location(entry_id, location)
    index.flush()
    return index


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "0/0/0.idx"),
        (1, "0/1/1.idx"),
        (26, "0/1a/1a.idx"),
        (256, "1/0/100.idx"),
        (4660, "12/34/1234.idx"),
        (1250999896491, "89/ab/123456789ab.idx"),
    ],
)
def test_index_files_have_bookkeepers_names(ledger_id: int, path: str) -> None:
    assert index_path(ledger_id) == f"current/{path}"


def test_a_fenced_ledger_with_explicit_lac_and_two_entries_has_bookkeepers_bytes() -> None:
    disk = SimDisk()
    index = LedgerIndex(5, KEY, disk, PAGE_SIZE)
    lac = bytes.fromhex("000000000000000500000000000000019aea0d92")
    index.fence()
    index.set_explicit_lac(lac)
    index.set_location(0, 0x404)
    index.set_location(1, 0x431)
    index.flush()
    file = disk.open("current/0/5/5.idx")
    header = b"BKLE" + struct.pack(">ii", 1, 20) + KEY + struct.pack(">ii", 1, 20) + lac
    expected = header.ljust(1024, b"\0") + struct.pack(">qq", 0x404, 0x431)
    assert file.read(0, file.size()) == expected.ljust(9216, b"\0")


@pytest.mark.parametrize("page_size", [8, 512, 8192])
def test_locations_do_not_depend_on_the_page_size_that_wrote_them(page_size: int) -> None:
    disk, locations = SimDisk(), {0: 0x404, 1: 0x431, 1023: 7, 1024: 8, 5000: 9}
    index_with(disk, locations)
    loaded = LedgerIndex.load(5, disk, page_size)
    assert dict(loaded.locations()) == locations
    assert loaded.last_entry_id() == 5000
    assert (loaded.location(1024), loaded.location(1025), loaded.location(9999)) == (8, 0, 0)


def test_a_high_entry_id_makes_a_sparse_file(tmp_path: Path) -> None:
    index_with(RealDisk(tmp_path), {3: 0x404, 2**32: 0x431}).close()
    loaded = LedgerIndex.load(5, RealDisk(tmp_path), PAGE_SIZE)
    assert (loaded.location(2**32), loaded.last_entry_id()) == (0x431, 2**32)
    stat = (tmp_path / index_path(5)).stat()
    assert stat.st_size > 2**35 > stat.st_blocks * 512


@pytest.mark.parametrize("entry_id", [2**32, MAX_ENTRY_ID, 2**62])
def test_asking_for_an_absent_high_entry_costs_nothing(tmp_path: Path, entry_id: int) -> None:
    index = index_with(RealDisk(tmp_path), {3: 0x404})
    assert index.location(entry_id) == 0
    assert index.last_entry_id() == 3
    assert dict(index.locations()) == {3: 0x404}


def test_a_location_that_the_file_ends_in_is_absent() -> None:
    disk = SimDisk()
    disk.create(index_path(5)).write(
        0, LedgerIndex(5, KEY, disk, 8)._encode_header() + struct.pack(">qq", 0x404, 0x431)[:-1]
    )
    loaded = LedgerIndex.load(5, disk, PAGE_SIZE)
    assert dict(loaded.locations()) == {0: 0x404}


def test_a_fence_that_comes_during_a_flush_is_written_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimDisk()
    index = index_with(disk, {})
    write = SimFile.write

    def write_while_fencing(self: SimFile, offset: int, data: bytes) -> None:
        write(self, offset, data)
        index.fence()

    with monkeypatch.context() as patched:
        patched.setattr(SimFile, "write", write_while_fencing)
        index.set_location(0, 0x404)
        index.flush()
    assert not LedgerIndex.load(5, disk, PAGE_SIZE).fenced
    index.flush()
    assert LedgerIndex.load(5, disk, PAGE_SIZE).fenced


def test_a_flush_that_failed_is_done_again_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: SimFile, *_: object) -> None:
        raise OSError("no space left")

    disk = SimDisk()
    index = index_with(disk, {0: 0x404})
    index.fence()
    index.set_location(1, 0x431)
    for call in ("write", "sync"):
        with monkeypatch.context() as patched:
            patched.setattr(SimFile, call, refuse)
            with pytest.raises(OSError, match="no space"):
                index.flush()
    index.flush()
    loaded = LedgerIndex.load(5, disk.after_crash(lost, Fuse()), PAGE_SIZE)
    assert (loaded.fenced, loaded.location(1)) == (True, 0x431)


def test_nothing_is_written_when_nothing_changed() -> None:
    disk = SimDisk()
    index = index_with(disk, {0: 0x404})
    before = len(disk.fuse.operations)
    index.flush()
    loaded = LedgerIndex.load(5, disk, PAGE_SIZE)
    loaded.flush()
    assert len(disk.fuse.operations) == before


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"BKLE\0\0",
        b"BKLO" + struct.pack(">ii", 1, 20),
        b"BKLE" + struct.pack(">ii", 2, 20),
        b"BKLE" + struct.pack(">ii", 1, -1),
        b"BKLE" + struct.pack(">ii", 1, 5000),
        b"BKLE" + struct.pack(">ii", 1, 20) + bytes(24) + struct.pack(">i", 15),
        b"BKLE" + struct.pack(">ii", 1, 20) + bytes(24) + struct.pack(">i", -1),
        b"BKLE" + struct.pack(">ii", 1, 20) + bytes(24) + struct.pack(">i", 1000),
    ],
    ids=[
        *("empty", "cut short", "magic", "version", "negative key", "long key"),
        *("short LAC", "negative LAC", "long LAC"),
    ],
)
def test_a_damaged_header_is_reported_with_the_file(header: bytes) -> None:
    disk = SimDisk()
    size = 1024 if len(header) >= 12 else len(header)
    disk.create(index_path(5)).write(0, header.ljust(size, b"\0"))
    with pytest.raises(StorageDamagedException, match=r"current/0/5/5\.idx: unreadable header"):
        LedgerIndex.load(5, disk, PAGE_SIZE)


def test_ledgers_are_those_in_memory_and_those_on_disk() -> None:
    disk = SimDisk()
    cache = LedgerCache((disk,), StorageConfig())
    for ledger_id in (0x1234, 5, 2**40):
        cache.create(ledger_id, KEY)
    cache.flush()
    cache.create(6, KEY)
    assert ledger_ids_on_disk(disk) == [5, 0x1234, 2**40]
    assert cache.ledger_ids() == [5, 6, 0x1234, 2**40]
    assert cache.get(7) is None


def test_a_ledger_that_was_never_flushed_has_no_file() -> None:
    disk = SimDisk()
    LedgerCache((disk,), StorageConfig()).create(5, KEY).set_location(0, 0x404)
    assert ledger_ids_on_disk(disk) == []
    assert LedgerCache((disk,), StorageConfig()).get(5) is None


def test_a_file_that_no_writer_named_is_reported() -> None:
    disk = SimDisk()
    disk.create("current/0/5/readme.idx")
    with pytest.raises(StorageDamagedException, match=r"current/0/5/readme\.idx"):
        ledger_ids_on_disk(disk)


def test_no_more_index_files_stay_open_than_the_limit(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    cache = LedgerCache([disk], StorageConfig(open_file_limit=3))
    for ledger_id in range(10):
        cache.create(ledger_id, KEY).set_location(0, 0x404 + ledger_id)
    cache.flush()
    places = [index.location(0) for index in map(cache.get, range(10)) if index is not None]
    assert places == [0x404 + ledger_id for ledger_id in range(10)]
    cache.flush()
    paths = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert sum(path.suffix == ".idx" and tmp_path in path.parents for path in paths) == 3


def test_pages_leave_memory_with_the_flush(tmp_path: Path) -> None:
    index = LedgerIndex(5, KEY, RealDisk(tmp_path), PAGE_SIZE)
    index.set_location(2000, 0x404)
    index.flush()
    assert (index.location(2000), index.location(1999), index.last_entry_id()) == (0x404, 0, 2000)
    assert not index._changed_pages
