"""Test what an entry logger writes and when, which logs it keeps open, and how it reads them."""

import struct
from pathlib import Path

import pytest

from labkit.system.storage.config import StorageConfig
from labkit.system.storage.entry_log import (
    LOG_HEADER,
    EntryLogger,
    location_of,
    log_ids,
    read_ledgers_map,
    scan_entry_log,
)
from labkit.system.storage.last_log_id import read_last_id
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.disk import RealDisk
from labkit.worlds.sim.machine.disk import DiskController, SimDisk
from labkit.worlds.sim.machine.disk_operation import lost
from tests.system.storage.support import KEY, entry
from tests.system.storage.test_entry_log import (
    MAP_OF_ONE,
    ROLLS_SOON,
    append,
    contents,
    full_log,
    new_logger,
)


def sizes_written(disk: SimDisk, before: int) -> list[int]:
    operations = disk.controller.operations[before:]
    return [each.size for each in operations if each.kind == "write" and each.path[-4:] == ".log"]


@pytest.mark.parametrize(("end", "written"), [(64 * 1024 - 1, 0), (64 * 1024, 64 * 1024)])
def test_what_is_appended_is_written_from_64_kib_on(end: int, written: int) -> None:
    disk, logger = new_logger()
    framing = 4 + len(entry(5, 0, b""))
    append(logger, 5, 0, end - LOG_HEADER.size - framing)
    assert disk.open("current/0.log").size() == written
    append(logger, 5, 1, 0)
    assert disk.open("current/0.log").size() == (written or 64 * 1024 - 1 + framing)


def test_much_is_written_in_pieces_of_about_64_kib() -> None:
    disk, logger = new_logger()
    entries = [entry(5, entry_id, bytes(10_000)) for entry_id in range(40)]
    for _ in range(3):
        before = len(disk.controller.operations)
        logger.append(5, entries)
        *most, last = sizes_written(disk, before)
        assert min(most) > 50_000
        assert max(*most, last) < 80_000
    assert [found.data for found in scan_entry_log(disk, 0)] == 3 * entries


def test_several_entries_lie_one_behind_the_other_and_count_for_their_ledger() -> None:
    disk, logger = new_logger(ROLLS_SOON)
    entries = [entry(5, entry_id, bytes(300 * entry_id)) for entry_id in range(4)]
    places = logger.append(5, entries)
    places += logger.append(6, [entry(6, 0)])
    places += logger.append(5, [entry(5, 9)])
    logger.sync()
    found = list(scan_entry_log(disk, 0))
    assert [location_of(0, each.offset + 4) for each in found] == places
    assert [each.data for each in found] == [*entries, entry(6, 0), entry(5, 9)]
    size = sum(4 + len(each) for each in entries)
    assert read_ledgers_map(disk, 0) == {5: size + 45, 6: 45}


def test_a_sync_of_what_is_durable_syncs_nothing() -> None:
    disk, logger = new_logger()
    append(logger, 5, 0)
    before = len(disk.controller.operations)
    logger.sync()
    assert [each.kind for each in disk.controller.operations[before:]] == ["write", "sync"]
    logger.sync()
    assert len(disk.controller.operations) == before + 2


def test_what_was_synced_survives_and_what_was_appended_since_does_not() -> None:
    disk, logger = new_logger()
    append(logger, 5, 0)
    logger.sync()
    append(logger, 5, 1)
    assert contents(disk.after_crash(lost, DiskController()), 0) == [(5, 0)]
    logger.sync()
    assert contents(disk.after_crash(lost, DiskController()), 0) == [(5, 0), (5, 1)]


def test_a_log_that_was_removed_stays_away_and_its_entries_are_damage() -> None:
    disk, logger = new_logger(ROLLS_SOON)
    places = []
    for entry_id in range(2):
        places.append(append(logger, 5, entry_id, 2000))
        logger.sync()
    assert logger.finished_log_ids() == [0, 1]
    assert logger.read(places[0], 5, 0) == entry(5, 0, bytes(2000))
    logger.remove(0)
    assert (logger.finished_log_ids(), logger.has_entry(places[0], 5, 0)) == ([1], False)
    assert logger.has_entry(places[1], 5, 1)
    assert not disk.after_crash(lost, DiskController()).exists("current/0.log")


def test_a_log_that_is_full_and_not_synced_is_not_finished() -> None:
    disks = SimDisk(), SimDisk()
    logger = EntryLogger(disks, StorageConfig())
    append(logger, 5, 0)
    logger.set_full_directories({0})
    append(logger, 5, 1)
    assert logger.finished_log_ids() == []
    logger.sync()
    assert logger.finished_log_ids() == [0]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no list of the open files")
def test_of_many_logs_that_are_read_64_stay_open(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    for log_id in range(66):
        full_log(disk, b"", 0, 0, log_id)
    logger = EntryLogger([disk], StorageConfig())

    def open_logs() -> set[str]:
        paths = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return {path.name for path in paths if path.suffix == ".log" and tmp_path in path.parents}

    for log_id in range(66):
        assert logger.read(location_of(log_id, 0x404), 5, 0) == entry(5, 0)
    assert open_logs() == {f"{log_id:x}.log" for log_id in range(2, 66)}
    logger.remove(65)
    assert open_logs() == {f"{log_id:x}.log" for log_id in range(2, 65)}
    logger.close()
    assert open_logs() == set()


def test_entries_of_several_logs_are_read_up_to_the_first_log_end() -> None:
    logger = EntryLogger((SimDisk(),), ROLLS_SOON)
    places = [append(logger, 5, entry_id, 900) for entry_id in range(2)]
    logger.sync()
    places += [append(logger, 5, entry_id, 900) for entry_id in range(2, 4)]
    logger.sync()
    assert [place >> 32 for place in places] == [0, 0, 1, 1]
    size = 4 + len(entry(5, 0, bytes(900)))
    for first in (0, 2):
        pieces, count = logger.read_all(places[first:], 5, first, 99_999)
        assert (count, sum(map(len, pieces))) == (2, 2 * size)


@pytest.mark.parametrize("version", [0, 1])
def test_a_log_of_version_0_has_no_map(version: int) -> None:
    disk = SimDisk()
    data = entry(5, 0)
    log = LOG_HEADER.struct.pack(b"BKLO", version, 0x42D, 1) + struct.pack(">i", len(data)) + data
    disk.create("current/0.log").write(0, log + bytes.fromhex(MAP_OF_ONE))
    assert read_ledgers_map(disk, 0) == ({5: 45} if version else None)


def test_a_first_append_creates_two_logs_and_keeps_the_higher_id() -> None:
    disk, logger = new_logger()
    assert log_ids(disk) == []
    append(logger, 5, 0)
    assert (log_ids(disk), read_last_id(disk)) == ([0, 1], 1)
    assert logger.finished_log_ids() == []


def test_the_map_of_a_log_that_ends_without_a_new_entry_is_durable_with_the_next_sync() -> None:
    disks = SimDisk(), SimDisk()
    logger = EntryLogger(disks, StorageConfig())
    append(logger, 5, 0)
    logger.sync()
    logger.set_full_directories({0})
    append(logger, 5, 1)
    logger.sync()
    assert read_ledgers_map(disks[0].after_crash(lost, DiskController()), 0) == {5: 45}


def test_a_map_may_lie_right_behind_the_header() -> None:
    disk = SimDisk()
    header = LOG_HEADER.struct.pack(b"BKLO", 1, LOG_HEADER.size, 1)
    disk.create("current/0.log").write(0, header + bytes.fromhex(MAP_OF_ONE))
    assert read_ledgers_map(disk, 0) == {5: 45}


@pytest.mark.parametrize("filler", range(1, 10))
def test_an_entry_behind_filler_of_any_length_is_found(filler: int) -> None:
    disk, data = SimDisk(), entry(5, 0)
    log = bytes(1024) + b"\xf0" * filler + struct.pack(">i", len(data)) + data
    disk.create("current/0.log").write(0, log)
    assert [found.offset for found in scan_entry_log(disk, 0)] == [1024 + filler]


@pytest.mark.parametrize(
    ("ledger_id", "entry_id", "count"), [(5, 0, 1), (-1, -3, 1), (-2, -2, 1), (-1, -2, 10_001)]
)
def test_what_is_not_a_map_is_not_read_as_one(ledger_id: int, entry_id: int, count: int) -> None:
    disk, size = SimDisk(), 20 + 16 * count
    found = struct.pack(">iqqi", size, ledger_id, entry_id, count)
    found += b"".join(struct.pack(">qq", each, 45) for each in range(count))
    full_log(disk, found, 0x42D, count)
    assert read_ledgers_map(disk, 0) is None


def test_a_store_keeps_new_logs_away_from_full_directories() -> None:
    disks = SimDisk(), SimDisk()
    store = LedgerStore([SimDisk()], disks, StorageConfig(), Recorder("b", lambda: 0), 1)
    store.set_full_directories({0})
    store.add_entry(5, 0, entry(5, 0), KEY)
    store.commit()
    store.checkpoint()
    assert [bool(log_ids(disk)) for disk in disks] == [False, True]
