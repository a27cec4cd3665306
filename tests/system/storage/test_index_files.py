"""Test what an index writes to and reads from its file, including the header."""

import struct
from pathlib import Path

import pytest

from labkit.system.storage.index.ledger_descriptor import LedgerDescriptor
from labkit.system.storage.index.ledger_index import (
    IndexHeader,
    LedgerIndex,
    index_folders,
    index_path,
)
from labkit.views.xray.file_spans import index_slots
from labkit.worlds.live.disk import RealDisk, RealFile
from labkit.worlds.sim.machine.disk import SimDisk, SimFile
from tests.system.storage.index.test_ledger_index import PAGE_SIZE, index_with
from tests.system.storage.support import KEY


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


def test_a_page_of_which_the_file_has_a_part_is_written_whole() -> None:
    disk = SimDisk()
    small = LedgerIndex(5, IndexHeader(KEY), disk, 8)
    small.set_locations((0, 1, 2), (7, 8, 9))
    small.flush()
    index = LedgerIndex.load(5, disk, PAGE_SIZE)
    index.set_locations([3], [10])
    assert written_by(index, disk) == [(1024, PAGE_SIZE)]
    again = LedgerIndex.load(5, disk, PAGE_SIZE)
    assert dict(again.locations()) == {0: 7, 1: 8, 2: 9, 3: 10}


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
    assert written_by(index, disk) == [(1024 + 32, 32)]
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
