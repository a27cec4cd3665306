import struct
from pathlib import Path

import pytest

from labkit.system.model.entry import MAX_ENTRY_ID
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.index.ledger_cache import LedgerCache
from labkit.system.storage.index.ledger_index import (
    IndexHeader,
    LedgerIndex,
    index_path,
    ledger_ids_on_disk,
)
from labkit.worlds.live.disk import RealDisk, RealFile
from labkit.worlds.sim.machine.disk import DiskController, SimDisk, SimFile
from labkit.worlds.sim.machine.disk_operation import lost
from tests.system.storage.support import KEY, present

PAGE_SIZE = 8192


def index_with(disk: SimDisk | RealDisk, locations: dict[int, int]) -> LedgerIndex:
    index = LedgerIndex(5, IndexHeader(KEY), disk, PAGE_SIZE)
    for entry_id, location in locations.items():
        index.set_locations([entry_id], [location])
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
    index = LedgerIndex(5, IndexHeader(KEY), disk, PAGE_SIZE)
    lac = bytes.fromhex("000000000000000500000000000000019aea0d92")
    index.header = index.header._replace(fenced=True)
    index.header = index.header._replace(explicit_lac=lac)
    index.set_locations([0], [0x404])
    index.set_locations([1], [0x431])
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


@pytest.mark.promise(
    "The size of a bookie's entry list depends on what it stores, whatever ids a client "
    "chose, and delays no other request"
)
def test_what_was_never_written_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searching page by page would take half a billion reads."""
    locations = {3: 0x404, 2**35: 0x431, 2**39: 0x45E}
    index_with(RealDisk(tmp_path), locations).close()
    reads: list[int] = []
    read = RealFile.read

    def counted(file: RealFile, offset: int, size: int) -> bytes:
        reads.append(offset)
        assert len(reads) < 20
        return read(file, offset, size)

    monkeypatch.setattr(RealFile, "read", counted)
    loaded = LedgerIndex.load(5, RealDisk(tmp_path), PAGE_SIZE)
    loaded.set_locations([2**38], [0x48B])
    assert dict(loaded.locations()) == locations | {2**38: 0x48B}


def test_last_entry_is_found_before_pages_that_hold_none(tmp_path: Path) -> None:
    """This happens if a crash preserves the length of the file but not the data at its end."""
    index_with(RealDisk(tmp_path), {3: 0x404, 1024: 0x431, 2**39: 0}).close()
    loaded = LedgerIndex.load(5, RealDisk(tmp_path), PAGE_SIZE)
    assert loaded.last_entry_id() == 1024


@pytest.mark.parametrize("entry_id", [2**32, MAX_ENTRY_ID, 2**62])
def test_asking_for_an_absent_high_entry_costs_nothing(tmp_path: Path, entry_id: int) -> None:
    index = index_with(RealDisk(tmp_path), {3: 0x404})
    assert index.location(entry_id) == 0
    assert index.last_entry_id() == 3
    assert dict(index.locations()) == {3: 0x404}


def test_a_location_that_the_file_ends_in_is_absent() -> None:
    disk = SimDisk()
    whole = LedgerIndex(5, IndexHeader(KEY), disk, 8)
    whole.set_locations((0, 1), (0x404, 0x431))
    whole.flush()
    stored = disk.open(index_path(5)).read(0, 1024 + 2 * 8)
    disk.create(index_path(5)).write(0, stored[:-1])
    loaded = LedgerIndex.load(5, disk, PAGE_SIZE)
    assert dict(loaded.locations()) == {0: 0x404}
    assert (loaded.location(0), loaded.location(1), loaded.last_entry_id()) == (0x404, 0, 0)


def test_a_location_that_moved_is_not_found_where_it_was() -> None:
    index = index_with(SimDisk(), {0: 7, 1: 8})
    assert [index.location(entry_id) for entry_id in range(3)] == [7, 8, 0]
    for entry_id, location in ((2, 9), (0, 10)):
        index.set_locations([entry_id], [location])
        assert index.location(entry_id) == location
        index.flush()
        assert index.location(entry_id) == location
    assert [index.location(entry_id) for entry_id in range(3)] == [10, 8, 9]


def test_a_location_read_while_a_flush_moves_it_is_read_again_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = index_with(SimDisk(), {0: 7})
    read = SimFile.read

    def late(file: SimFile, offset: int, size: int) -> bytes:
        before = read(file, offset, size)
        monkeypatch.undo()
        index.set_locations([0], [8])
        index.flush()
        return before

    monkeypatch.setattr(SimFile, "read", late)
    assert index.location(0) == 7
    assert index.location(0) == 8


def test_a_fence_that_comes_during_a_flush_is_written_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimDisk()
    index = index_with(disk, {})
    write = SimFile.write

    def write_while_fencing(self: SimFile, offset: int, data: bytes) -> None:
        write(self, offset, data)
        index.header = index.header._replace(fenced=True)

    with monkeypatch.context() as patched:
        patched.setattr(SimFile, "write", write_while_fencing)
        index.set_locations([0], [0x404])
        index.flush()
    assert not LedgerIndex.load(5, disk, PAGE_SIZE).header.fenced
    index.flush()
    assert LedgerIndex.load(5, disk, PAGE_SIZE).header.fenced


def test_a_flush_that_failed_is_done_again_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: SimFile, *_: object) -> None:
        raise OSError("no space left")

    disk = SimDisk()
    index = index_with(disk, {0: 0x404})
    index.header = index.header._replace(fenced=True)
    index.set_locations([1], [0x431])
    for call in ("write", "sync"):
        with monkeypatch.context() as patched:
            patched.setattr(SimFile, call, refuse)
            with pytest.raises(OSError, match="no space"):
                index.flush()
    index.flush()
    loaded = LedgerIndex.load(5, disk.after_crash(lost, DiskController()), PAGE_SIZE)
    assert (loaded.header.fenced, loaded.location(1)) == (True, 0x431)


def test_nothing_is_written_when_nothing_changed() -> None:
    disk = SimDisk()
    index = index_with(disk, {0: 0x404})
    before = len(disk.controller.operations)
    index.flush()
    loaded = LedgerIndex.load(5, disk, PAGE_SIZE)
    loaded.flush()
    assert len(disk.controller.operations) == before


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


@pytest.mark.parametrize(("version", "key_size"), [(2, 20), (1, -1), (1, 1005)])
def test_an_error_about_the_header_names_what_can_be_read(version: int, key_size: int) -> None:
    disk = SimDisk()
    header = b"BKLE" + struct.pack(">ii", version, key_size)
    disk.create(index_path(5)).write(0, header.ljust(1024, b"\0"))
    with pytest.raises(StorageDamagedException) as raised:
        LedgerIndex.load(5, disk, PAGE_SIZE)
    assert str(raised.value).endswith(
        f"current/0/5/5.idx: unreadable header (magic b'BKLE', version {version}, key length"
        f" {key_size}; expected magic b'BKLE', version 0 or 1, key length 0 to 1004)"
    )


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
    LedgerCache((disk,), StorageConfig()).create(5, KEY).index.set_locations([0], [0x404])
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
        cache.create(ledger_id, KEY).index.set_locations([0], [0x404 + ledger_id])
    cache.flush()
    places = [
        ledger.index.location(0) for ledger in map(cache.get, range(10)) if ledger is not None
    ]
    assert places == [0x404 + ledger_id for ledger_id in range(10)]
    cache.flush()
    paths = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert sum(path.suffix == ".idx" and tmp_path in path.parents for path in paths) == 3


def test_pages_leave_memory_with_the_flush(tmp_path: Path) -> None:
    index = LedgerIndex(5, IndexHeader(KEY), RealDisk(tmp_path), PAGE_SIZE)
    index.set_locations([2000], [0x404])
    index.flush()
    assert (index.location(2000), index.location(1999), index.last_entry_id()) == (0x404, 0, 2000)
    assert index.changed_page_count == 0


@pytest.mark.promise("The index is limited in memory and in open files")
def test_no_more_changed_pages_are_in_memory_than_the_limit() -> None:
    disk = SimDisk()
    cache = LedgerCache([disk], StorageConfig(page_size=32, page_limit=3))
    for ledger_id in range(4):
        cache.create(ledger_id, KEY)
    places = [(ledger_id, entry_id) for entry_id in range(0, 40, 2) for ledger_id in range(4)]
    most = 0
    for number, (ledger_id, entry_id) in enumerate(places):
        cache.set_locations(ledger_id, [entry_id], [0x404 + number])
        ledgers = [ledger for ledger in map(cache.get, range(4)) if ledger is not None]
        most = max(most, sum(ledger.index.changed_page_count for ledger in ledgers))
    assert most == 3
    cache.flush()
    again = LedgerCache([disk.after_crash(lost)], StorageConfig(page_size=32))
    for number, (ledger_id, entry_id) in enumerate(places):
        ledger = present(again.get(ledger_id))
        assert ledger.index.location(entry_id) == 0x404 + number


def test_pages_that_were_flushed_no_longer_count_for_the_limit() -> None:
    disk = SimDisk()
    cache = LedgerCache([disk], StorageConfig(page_size=32, page_limit=3))
    cache.create(5, KEY)
    flushed = []
    for entry_id in range(0, 48, 4):
        cache.set_locations(5, [entry_id], [0x404])
        ledger = present(cache.get(5))
        flushed.append(ledger.index.changed_page_count == 0)
    assert flushed == [False, False, False, True] * 3


def test_an_index_that_bookkeeper_had_moved_when_it_ended_is_found() -> None:
    old, new = SimDisk(), SimDisk()
    index_with(new, {0: 0x404})
    new.rename(index_path(5), index_path(5) + ".rloc")
    new.sync_folder(index_path(5).rpartition("/")[0])
    ledger = present(LedgerCache([old, new], StorageConfig()).get(5))
    assert ledger.index.location(0) == 0x404
    assert ledger_ids_on_disk(new.after_crash(lost)) == [5]


def test_a_location_of_a_ledger_that_was_deleted_is_dropped() -> None:
    disk = SimDisk()
    LedgerCache([disk], StorageConfig()).set_locations(5, [0], [0x404])
    assert disk.names("current") == []


@pytest.mark.parametrize("asks_before", [True, False])
def test_the_last_entry_is_found_among_those_on_disk_and_those_set_since(
    asks_before: bool,
) -> None:
    disk = SimDisk(DiskController())
    index_with(disk, {0: 7, 3: 8})
    index = LedgerIndex.load(5, disk, PAGE_SIZE)
    if asks_before:
        assert index.last_entry_id() == 3
    for entry_id, last in ((2, 3), (9, 9), (5, 9)):
        index.set_locations([entry_id], [11])
        assert index.last_entry_id() == last
