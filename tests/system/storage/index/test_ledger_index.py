import struct
from pathlib import Path

import pytest

from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.index.ledger_cache import LedgerCache
from labkit.system.storage.index.ledger_descriptor import LedgerDescriptor
from labkit.system.storage.index.ledger_index import (
    IndexHeader,
    LedgerIndex,
    index_folders,
    index_path,
    ledger_ids_on_disk,
)
from labkit.views.xray.file_spans import index_slots
from labkit.worlds.live.disk import RealDisk, RealFile
from labkit.worlds.sim.machine.disk import DiskController, SimDisk, SimFile
from labkit.worlds.sim.machine.disk_operation import lost
from tests.system.storage.support import KEY, open_files, present

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
    assert len(open_files(tmp_path)) == 3


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


# What an index writes to and reads from its file


def written_by(index: LedgerIndex, disk: SimDisk) -> list[tuple[int, int]]:
    """Flush the index and return the offset and size of each write."""
    before = len(disk.controller.operations)
    index.flush()
    operations = disk.controller.operations[before:]
    return [(each.offset, each.size) for each in operations if each.kind == "write"]


@pytest.mark.parametrize("is_loaded", [True, False])
def test_of_a_page_that_the_file_has_only_changed_slots_are_written(is_loaded: bool) -> None:
    disk = SimDisk()
    index = index_with(disk, {0: 7, 3: 8})
    if is_loaded:
        index = LedgerIndex.load(5, disk, PAGE_SIZE)
    index.set_locations([3], [9])
    assert written_by(index, disk) == [(1024 + 3 * 8, 8)]
    index.set_locations([1024], [10])
    assert written_by(index, disk) == [(1024 + PAGE_SIZE, PAGE_SIZE)]
    index.set_locations((1025, 1026), (11, 12))
    assert written_by(index, disk) == [(1024 + PAGE_SIZE + 8, 16)]
    index.set_locations([4], [13])
    assert written_by(index, disk) == [(1024 + 4 * 8, 8)]


def test_a_fence_alone_writes_the_header_alone() -> None:
    disk = SimDisk()
    index = index_with(disk, {0: 7})
    index.header = index.header._replace(fenced=True)
    assert written_by(index, disk) == [(0, 1024)]


def test_an_index_that_is_not_trusted_is_synced_with_its_folders_and_its_header_is_written() -> (
    None
):
    disk = SimDisk()
    index_with(disk, {0: 7})
    index = LedgerIndex.load(5, disk, PAGE_SIZE)
    index.assume_unsynced()
    before = len(disk.controller.operations)
    index.flush()
    index.flush()
    assert [(each.kind, each.path) for each in disk.controller.operations[before:]] == [
        ("write", "current/0/5/5.idx"),
        ("sync", "current/0/5/5.idx"),
        *(("sync folder", path) for path in ("current/0/5", "current/0", "current")),
    ]


def test_a_new_index_has_its_locations_before_it_has_a_file() -> None:
    index = LedgerIndex(5, IndexHeader(KEY), SimDisk(), 64)
    assert (index.location(0), index.last_entry_id(), dict(index.locations())) == (0, -1, {})
    index.assume_unsynced()
    index.set_locations((9, 1), (8, 7))
    assert dict(index.locations()) == {1: 7, 9: 8}
    assert [index.location(entry_id) for entry_id in (0, 1, 2, 9, 10, 16)] == [0, 7, 0, 8, 0, 0]
    assert (index.last_entry_id(), index.changed_page_count) == (9, 2)
    assert index.locations_from(0, 99) == (0, 7, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("is_flushed", [True, False])
def test_locations_in_a_row_end_with_their_page(is_flushed: bool) -> None:
    index = LedgerIndex(5, IndexHeader(KEY), SimDisk(), 32)
    index.set_locations(range(7), range(100, 107))
    if is_flushed:
        index.flush()
    assert index.locations_from(0, 3) == (100, 101, 102)
    assert index.locations_from(1, 99) == (101, 102, 103)
    assert index.locations_from(3, 2) == (103,)
    assert index.locations_from(4, 99) == (104, 105, 106, 0)
    assert index.locations_from(8, 2) == (0, 0)
    assert index.locations_from(5, 0) == ()


def test_64_locations_are_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, reads, read = SimDisk(), list[tuple[int, int]](), SimFile.read
    index_with(disk, {entry_id: 1000 + entry_id for entry_id in range(200)})
    index = LedgerIndex.load(5, disk, PAGE_SIZE)

    def counted(file: SimFile, offset: int, size: int) -> bytes:
        reads.append((offset, size))
        return read(file, offset, size)

    monkeypatch.setattr(SimFile, "read", counted)
    assert [index.location(entry_id) for entry_id in range(200)] == [*range(1000, 1200)]
    assert reads == [(1024 + at * 512, 512) for at in range(4)]


def test_the_last_entry_is_looked_for_in_the_last_page_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, looked = SimDisk(), list[int]()
    stored = index_with(disk, {0: 7, 5000: 8})
    next_data = SimFile.next_data

    def counted(file: SimFile, offset: int) -> int:
        looked.append(offset)
        return next_data(file, offset)

    monkeypatch.setattr(SimFile, "next_data", counted)
    for index in (stored, LedgerIndex.load(5, disk, PAGE_SIZE)):
        looked.clear()
        assert index.last_entry_id() == 5000
        assert looked == [1024 + 4 * PAGE_SIZE]
        assert index.last_entry_id() == 5000
        assert len(looked) == 1


# Headers


@pytest.mark.parametrize(
    ("key", "lac", "fits"),
    [
        *((b"", b"", True), (KEY, b"", True), (KEY, bytes(1), False), (KEY, bytes(15), False)),
        *((KEY, bytes(16), True), (KEY, bytes(1024 - 12 - 20 - 8), True)),
        *((KEY, bytes(1024 - 12 - 20 - 8 + 1), False), (bytes(1024 - 12 - 8), b"", True)),
        (bytes(1024 - 12 - 8 + 1), b"", False),
    ],
)
def test_a_header_has_1024_bytes_for_key_and_explicit_lac(
    key: bytes, lac: bytes, fits: bool
) -> None:
    assert IndexHeader(key, explicit_lac=lac).is_encodable == fits
    if fits:
        disk = SimDisk()
        index = LedgerIndex(5, IndexHeader(key), disk, PAGE_SIZE)
        index.header = index.header._replace(explicit_lac=lac)
        index.flush()
        loaded = LedgerIndex.load(5, disk, PAGE_SIZE)
        assert (loaded.header.master_key, loaded.header.explicit_lac) == (key, lac)
        assert loaded.last_entry_id() == -1


@pytest.mark.parametrize(("state", "fenced"), [(0, False), (1, True), (2, False), (3, True)])
def test_the_lowest_state_bit_is_the_fence(state: int, fenced: bool) -> None:
    disk = SimDisk()
    header = b"BKLE" + struct.pack(">ii", 1, 20) + KEY + struct.pack(">ii", state, 0)
    disk.create(index_path(5)).write(0, header.ljust(1024, b"\0"))
    assert LedgerIndex.load(5, disk, PAGE_SIZE).header.fenced == fenced


def test_version_0_has_no_explicit_lac_whatever_follows_the_state_bits() -> None:
    disk = SimDisk()
    header = b"BKLE" + struct.pack(">ii", 0, 20) + KEY + struct.pack(">ii", 1, 16)
    disk.create(index_path(5)).write(0, (header + b"x" * 16).ljust(1024, b"\0"))
    index = LedgerIndex.load(5, disk, PAGE_SIZE)
    assert (index.header.version, index.header.fenced, index.header.explicit_lac) == (0, True, b"")
    index.header = index.header._replace(explicit_lac=bytes(20))
    index.set_locations([0], [7])
    index.flush()
    loaded = LedgerIndex.load(5, disk, PAGE_SIZE)
    assert (loaded.header.version, loaded.header.explicit_lac, loaded.location(0)) == (0, b"", 7)


def test_only_folders_of_two_digits_hold_indexes() -> None:
    disk = SimDisk()
    for folder in ("ff/ff", "100/0", "0/100", "00/1", "g/1", "0/1"):
        disk.create(f"current/{folder}/1.idx")
    assert list(index_folders(disk)) == ["current/0/1", "current/ff/ff"]


def test_a_new_index_knows_nothing_yet() -> None:
    index = LedgerIndex(5, IndexHeader(KEY), SimDisk(), PAGE_SIZE)
    assert index.header == (KEY, False, b"", 1)
    assert index.changed_page_count == 0
    ledger = LedgerDescriptor(index)
    assert (ledger.fenced, ledger.explicit_lac, ledger.confirmed_by_entry) == (False, b"", (-1, -1))
    assert (ledger.key_in_journal, ledger.has_new_entries) == (False, False)


def test_an_index_of_part_of_a_page_has_its_locations_and_takes_more() -> None:
    """The file was written with a different page size."""
    disk = SimDisk()
    small = LedgerIndex(5, IndexHeader(KEY), disk, 8)
    small.set_locations(range(5), range(7, 12))
    small.flush()
    index = LedgerIndex.load(5, disk, 32)
    assert index.last_entry_id() == 4
    assert index.locations_from(4, 9) == (11, 0, 0, 0)
    assert (index.location(4), index.location(5), index.location(8)) == (11, 0, 0)
    index.set_locations([5], [12])
    assert written_by(index, disk) == [(1024 + 32, 32)]  # The page is written whole.
    assert dict(LedgerIndex.load(5, disk, 32).locations()) == dict(enumerate(range(7, 13)))


@pytest.mark.parametrize("entry_id", [1024, 1025, 2**40])
def test_an_entry_behind_the_last_page_is_absent_without_a_look_into_the_file(
    entry_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimDisk()
    index = index_with(disk, {1023: 7})

    def read(file: SimFile, offset: int, size: int) -> bytes:
        raise AssertionError((offset, size))

    monkeypatch.setattr(SimFile, "read", read)
    assert index.location(entry_id) == 0


def test_slots_are_listed_over_holes_and_up_to_a_slot_that_is_cut(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    index_with(disk, {3: 7, 140_000: 8, 2**30: 9}).close()
    path = tmp_path / index_path(5)
    with path.open("r+b") as file:
        file.truncate(1024 + 8 * (2**30 + 1))
        file.seek(0, 2)
        file.write(b"\1\1\1")
    reads: list[int] = []

    class Counted(RealFile):
        def read(self, offset: int, size: int) -> bytes:
            reads.append(offset)
            assert len(reads) < 20
            return super().read(offset, size)

    slots = list(index_slots(Counted(path, 0)))
    assert [slot for slot in slots if slot[2]] == [(3, 1, 7), (140_000, 1, 8), (2**30, 1, 9)]
    assert sum(count for _, count, _ in slots) == 2**30 + 1
