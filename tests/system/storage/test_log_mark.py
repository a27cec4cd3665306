import struct

import pytest

from labkit.system.storage.log_mark import START, LogMark, read_last_mark, write_last_mark
from labkit.worlds.sim.machine.disk import CrashError, DiskController, SimDisk
from labkit.worlds.sim.machine.disk_operation import at_random, kept, lost

OLD, NEW = LogMark(0x1A1FD4B7370, 0xE00), LogMark(0x1A1FD4B7371, 0x200)


def test_a_mark_has_bookkeepers_bytes() -> None:
    disk = SimDisk()
    write_last_mark(disk, OLD)
    assert disk.open("current/lastMark").read(0, 99).hex() == "000001a1fd4b73700000000000000e00"
    assert read_last_mark(disk) == OLD


def test_marks_compare_by_file_then_offset() -> None:
    assert LogMark(0, 0) == START < LogMark(1, 9999) < LogMark(2, 0) < LogMark(2, 512)


@pytest.mark.parametrize("size", [0, 15, 17])
def test_no_mark_or_one_of_another_size_is_the_start(size: int) -> None:
    disk = SimDisk()
    assert read_last_mark(disk) == START
    disk.create("current/lastMark").write(0, b"x" * size)
    assert read_last_mark(disk) == START


def test_a_mark_before_the_first_record_of_a_journal_is_read_as_it_is() -> None:
    disk = SimDisk()
    write_last_mark(disk, LogMark(7, 0))
    assert read_last_mark(disk) == LogMark(7, 0)


@pytest.mark.parametrize("mark", [(-1, 0), (7, -1)])
def test_a_negative_mark_is_the_start(mark: tuple[int, int]) -> None:
    disk = SimDisk()
    disk.create("current/lastMark").write(0, struct.pack(">qq", *mark))
    assert read_last_mark(disk) == START


@pytest.mark.parametrize("seed", range(5))
def test_after_a_crash_there_is_the_old_mark_or_the_new_one(seed: int) -> None:
    found = set()
    for stop_at in range(10):
        disk = SimDisk()
        write_last_mark(disk, OLD)
        disk.controller.stop_at = len(disk.controller.operations) + stop_at
        try:
            write_last_mark(disk, NEW)
        except CrashError:
            for keep in (lost, kept, at_random(seed)):
                found.add(read_last_mark(disk.after_crash(keep, DiskController())))
        else:
            assert read_last_mark(disk.after_crash(lost, DiskController())) == NEW
    assert found == {OLD, NEW}
