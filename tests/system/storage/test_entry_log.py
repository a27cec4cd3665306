import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.entry_log import (
    LEDGERS_MAP_HEADER,
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
from labkit.worlds.sim.machine.disk import DiskController, SimDisk, SimFile
from labkit.worlds.sim.machine.disk_operation import lost
from tests.system.storage.support import KEY, entry, open_files

ROLLS_SOON = StorageConfig(log_size_limit=2048)
MAP_OF_ONE = (
    "00000024ffffffffffffffff" + "fffffffffffffffe" + "00000001" + f"{5:016x}" + f"{0x2D:016x}"
)


def new_logger(config: StorageConfig | None = None) -> tuple[SimDisk, EntryLogger]:
    disk = SimDisk()
    return disk, EntryLogger((disk,), config or StorageConfig())


def append(logger: EntryLogger, ledger_id: int, entry_id: int, size: int = 5) -> int:
    return logger.append(ledger_id, [entry(ledger_id, entry_id, bytes(size))])[0]


def contents(disk: SimDisk, log_id: int) -> list[tuple[int, int]]:
    return [(found.ledger_id, found.entry_id) for found in scan_entry_log(disk, log_id)]


@given(gaps=st.lists(st.integers(0, 40) | st.integers(65_500, 65_600), min_size=1, max_size=4))
def test_zeros_between_entries_are_passed_over(gaps: list[int]) -> None:
    """After a crash, the file system may return zeros for data that had not been written."""
    disk, log, data = SimDisk(), LOG_HEADER.struct.pack(b"BKLO", 1, 0, 0), entry(5, 0)
    places = []
    for gap in gaps:
        log += bytes(gap)
        places.append(len(log))
        log += struct.pack(">i", len(data)) + data
    disk.create("current/0.log").write(0, log + bytes(100))
    assert [found.offset for found in scan_entry_log(disk, 0)] == places


def test_long_zeros_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, reads, read = SimDisk(), [], SimFile.read
    data = entry(5, 7)
    file = disk.create("current/0.log")
    file.write(0, LOG_HEADER.struct.pack(b"BKLO", 1, 0, 0))
    file.write(20_000_000, struct.pack(">i", len(data)) + data)

    def counted(file: SimFile, offset: int, size: int) -> bytes:
        reads.append(offset)
        return read(file, offset, size)

    monkeypatch.setattr(SimFile, "read", counted)
    assert contents(disk, 0) == [(5, 7)]
    assert len(reads) < 1000


def full_log(
    disk: SimDisk | RealDisk, map_bytes: bytes, map_offset: int, count: int, log_id: int = 0
) -> None:
    header = LOG_HEADER.struct.pack(b"BKLO", 1, map_offset, count)
    data = entry(5, 0)
    log = header + struct.pack(">i", len(data)) + data + map_bytes
    disk.create(f"current/{log_id:x}.log").write(0, log)


def test_a_location_is_log_id_and_offset_behind_the_length() -> None:
    _, logger = new_logger()
    assert append(logger, 5, 0) == 0x404
    assert append(logger, 5, 1) == 0x404 + 41 + 4
    assert location_of(0x1A, 0x404) == 0x1A_0000_0404


def test_entries_are_read_back_from_their_locations() -> None:
    logger = EntryLogger((SimDisk(),), ROLLS_SOON)
    places = {}
    for entry_id in range(40):
        places[entry_id] = append(logger, 5, entry_id, 100)
        if entry_id % 10 == 9:
            logger.sync()
    assert {location >> 32 for location in places.values()} == {0, 1, 2, 3}
    for entry_id, location in places.items():
        assert logger.read(location, 5, entry_id) == entry(5, entry_id, bytes(100))


def test_a_log_over_its_limit_ends_with_the_map_that_a_scan_gives() -> None:
    disk, logger = new_logger(ROLLS_SOON)
    for number in range(30):
        append(logger, number % 3, number, 30)
        if number % 10 == 9:
            logger.sync()
    assert log_ids(disk) == [0, 1, 2]
    for log_id in (0, 1):
        expected: dict[int, int] = {}
        for found in scan_entry_log(disk, log_id):
            size = 4 + len(found.data)
            expected[found.ledger_id] = expected.get(found.ledger_id, 0) + size
        assert read_ledgers_map(disk, log_id) == (expected if log_id == 0 else None)


def test_a_log_of_the_limit_to_the_byte_is_written_on_and_one_byte_more_ends_it() -> None:
    logger = EntryLogger((SimDisk(),), ROLLS_SOON)
    framing = 4 + len(entry(5, 0, b""))
    logs = []
    for entry_id, size in enumerate((2048 - LOG_HEADER.size - framing, 0, 0)):
        logs.append(append(logger, 5, entry_id, size) >> 32)
        logger.sync()
    assert logs == [0, 0, 1]


def test_a_map_of_more_than_ten_thousand_ledgers_takes_two_batches() -> None:
    disk, logger = new_logger(ROLLS_SOON)
    for ledger_id in range(10_001):
        append(logger, ledger_id, 0, 0)
    logger.sync()
    assert read_ledgers_map(disk, 0) == dict.fromkeys(range(10_001), 40)
    assert len(contents(disk, 0)) == 10_001


@pytest.mark.parametrize(
    ("map_bytes", "map_offset", "count"),
    [
        (bytes.fromhex(MAP_OF_ONE), 0, 1),
        (bytes.fromhex(MAP_OF_ONE), 0x42D, 2),
        (bytes.fromhex(MAP_OF_ONE), 0x42D, 0),
        (bytes.fromhex(MAP_OF_ONE), 0x42C, 1),
        (bytes.fromhex(MAP_OF_ONE), -1, 1),
        (bytes.fromhex(MAP_OF_ONE), 2**62, 1),
        (bytes.fromhex(MAP_OF_ONE)[:-1], 0x42D, 1),
        (b"", 0x42D, 0),
        (LEDGERS_MAP_HEADER.struct.pack(-4, -1, -2, 0), 0x42D, 0),
        (LEDGERS_MAP_HEADER.struct.pack(20, -1, -2, 0), 0x42D, 0),
        (LEDGERS_MAP_HEADER.struct.pack(-(2**31), -1, -2, -1), 0x42D, 0),
    ],
    ids=[
        *("none", "count too high", "count 0", "offset too low", "negative offset"),
        *("offset beyond", "cut short", "empty"),
        *("batch of no size", "batch of no ledger", "negative batch"),
    ],
)
def test_an_incomplete_map_is_ignored(map_bytes: bytes, map_offset: int, count: int) -> None:
    disk = SimDisk()
    full_log(disk, map_bytes, map_offset, count)
    assert read_ledgers_map(disk, 0) is None


FRAMED = struct.pack(">i", 41) + entry(5, 0)


@pytest.mark.parametrize(
    ("log", "offsets"),
    [
        (FRAMED + b"\xf0" * 9 + bytes(7) + FRAMED + FRAMED[:-1], [0, 45 + 16]),
        *((b"\xf0" * filler + FRAMED, [filler]) for filler in range(1, 10)),
    ],
)
def test_a_scan_skips_what_is_not_an_entry_and_stops_where_the_file_is_cut(
    log: bytes, offsets: list[int]
) -> None:
    disk = SimDisk()
    disk.create("current/0.log").write(0, bytes(1024) + log)
    assert [found.offset - 1024 for found in scan_entry_log(disk, 0)] == offsets


def test_a_scan_goes_on_behind_a_length_that_is_too_short_for_an_entry() -> None:
    disk = SimDisk()
    disk.create("current/0.log").write(0, bytes(1024) + struct.pack(">i", 1) + b"x" + FRAMED)
    assert (5, 0) in contents(disk, 0)


def test_a_new_process_never_appends_to_an_old_log() -> None:
    disk = SimDisk()
    for _ in range(3):
        logger = EntryLogger((disk,), StorageConfig())
        append(logger, 5, 0)
        logger.sync()
        logger.close()
    assert [len(contents(disk, log_id)) for log_id in log_ids(disk)] == [1, 0, 1, 0, 1, 0]


@pytest.mark.promise(
    "Entry logs: one for all ledgers or one per ledger, with map, preallocation and lastId"
)
@pytest.mark.parametrize(
    "text",
    [b"", b"zz\n", b"80000000\n", b"-7\n", b"7\n"],
    ids=["empty", "torn", "too large", "negative", "ahead"],
)
def test_the_next_log_id_is_above_last_id_and_all_logs(text: bytes) -> None:
    disk = SimDisk()
    disk.create("current/3.log")
    disk.create("current/lastId").write(0, text)
    assert append(EntryLogger((disk,), StorageConfig()), 5, 0) >> 32 == (8 if text == b"7\n" else 4)


def test_after_the_last_log_id_comes_the_first_that_is_free() -> None:
    disk = SimDisk()
    for name in ("0.log", "2.log", "7fffffff.log"):
        disk.create(f"current/{name}")
    logger = EntryLogger((disk,), ROLLS_SOON)
    places = []
    for entry_id in range(4):
        places.append(append(logger, 5, entry_id, 2000))
        logger.sync()
    assert [place >> 32 for place in places] == [1, 3, 4, 5]
    for entry_id, place in enumerate(places):
        assert logger.read(place, 5, entry_id) == entry(5, entry_id, bytes(2000))


@pytest.mark.parametrize(
    "name", ["zz.log", "1A.log", "01.log", "-1.log", "0x1.log", "8000000000000000.log"]
)
def test_a_log_whose_name_is_not_an_id_is_reported_with_the_remedy(name: str) -> None:
    disk = SimDisk()
    disk.create(f"current/{name}")
    with pytest.raises(
        StorageDamagedException, match=f"current/{name} does not .* move the file els"
    ):
        log_ids(disk)


@pytest.mark.parametrize(
    "location", [location_of(0, 0x405), location_of(0, 2), location_of(0, 2000)]
)
def test_a_location_where_the_entry_is_not_is_reported_as_damage(location: int) -> None:
    logger = EntryLogger((SimDisk(),), StorageConfig())
    append(logger, 5, 0)
    logger.sync()
    with pytest.raises(StorageDamagedException, match=r"0\.log, offset"):
        logger.read(location, 5, 0)


@pytest.mark.parametrize(("ledger_id", "entry_id"), [(5, 1), (6, 0)])
def test_another_entry_at_the_location_is_reported_as_damage(ledger_id: int, entry_id: int) -> None:
    logger = EntryLogger((SimDisk(),), StorageConfig())
    location = append(logger, 5, 0)
    logger.sync()
    with pytest.raises(StorageDamagedException, match="is missing here, but"):
        logger.read(location, ledger_id, entry_id)


def test_a_location_of_which_only_the_log_id_was_written_is_reported_as_damage(
    tmp_path: Path,
) -> None:
    logger = EntryLogger([RealDisk(tmp_path)], StorageConfig())
    append(logger, 5, 0)
    logger.sync()
    assert not logger.has_entry(location_of(0, 0), 5, 0)
    with pytest.raises(StorageDamagedException, match=r"0\.log, offset 0: entry 0 of ledger 5"):
        logger.read(location_of(0, 0), 5, 0)


PER_LEDGER = StorageConfig(
    entry_log_per_ledger_enabled=True, maximum_number_of_active_entry_logs=2, log_size_limit=2048
)


def test_with_a_log_per_ledger_no_two_ledgers_share_one() -> None:
    disk, logger = new_logger(PER_LEDGER)
    for entry_id in range(2):
        for ledger_id in (5, 6):
            append(logger, ledger_id, entry_id)
    logger.sync()
    filled = [found for log_id in log_ids(disk) if (found := contents(disk, log_id))]
    assert filled == [[(5, 0), (5, 1)], [(6, 0), (6, 1)]]


def test_of_too_many_active_logs_the_oldest_end_with_their_map() -> None:
    disk, logger = new_logger(PER_LEDGER)
    places = {ledger_id: append(logger, ledger_id, 0) for ledger_id in (5, 6, 7)}
    logger.sync()
    oldest = places[5] >> 32
    assert read_ledgers_map(disk, oldest) == {5: 45}
    assert oldest in logger.finished_log_ids()
    assert [read_ledgers_map(disk, places[i] >> 32) for i in (6, 7)] == [None, None]
    assert append(logger, 5, 1) >> 32 > places[7] >> 32


def test_a_log_on_a_full_directory_ends_with_its_ledgers_map_and_nothing_is_lost() -> None:
    disks = SimDisk(), SimDisk()
    logger = EntryLogger(disks, StorageConfig())
    places = [append(logger, 5, entry_id) for entry_id in range(2)]
    logger.set_full_directories({0})
    places += [append(logger, 5, entry_id) for entry_id in range(2, 4)]
    logger.sync()
    assert [place >> 32 for place in places] == [0, 0, 1, 1]
    assert [log_ids(disk) for disk in disks] == [[0], [1, 2]]
    assert read_ledgers_map(disks[0], 0) == {5: 2 * (4 + len(entry(5, 0)))}
    for entry_id, place in enumerate(places):
        assert logger.read(place, 5, entry_id) == entry(5, entry_id, bytes(5))


def test_when_every_directory_is_full_logs_are_written_on() -> None:
    logger = EntryLogger((SimDisk(), SimDisk()), StorageConfig())
    append(logger, 5, 0)
    logger.set_full_directories({0, 1})
    assert append(logger, 5, 1) >> 32 == 0


# What an entry logger writes and when, and which logs it keeps open


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


def test_of_many_logs_that_are_read_64_stay_open(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    for log_id in range(66):
        full_log(disk, b"", 0, 0, log_id)
    logger = EntryLogger([disk], StorageConfig())
    for log_id in range(66):
        assert logger.read(location_of(log_id, 0x404), 5, 0) == entry(5, 0)
    assert open_files(tmp_path) == sorted(f"{log_id:x}.log" for log_id in range(2, 66))
    logger.remove(65)
    assert open_files(tmp_path) == sorted(f"{log_id:x}.log" for log_id in range(2, 65))
    logger.close()
    assert open_files(tmp_path) == []


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
