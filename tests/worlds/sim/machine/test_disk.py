"""A simulated disk keeps synced data after a crash, and may lose everything else."""

import errno

import pytest

from labkit.worlds.sim.machine.disk import (
    PAGE_SIZE,
    CrashError,
    DiskController,
    SimDisk,
    SimDiskError,
)
from labkit.worlds.sim.machine.disk_operation import (
    Operation,
    at_random,
    bytes_lost,
    kept,
    lost,
    names_lost,
    torn,
)

PATH = "current/a"


def written_once(size: int = 2048) -> SimDisk:
    """Return a disk with a durable empty file and a write that has not been synced."""
    disk = SimDisk()
    file = disk.create(PATH)
    file.sync()
    disk.sync_folder("current")
    file.write(0, b"x" * size)
    return disk


def content(disk: SimDisk) -> bytes:
    file = disk.open(PATH)
    return file.read(0, file.size())


def test_a_write_is_read_at_once_and_survives_a_crash_only_after_its_sync() -> None:
    disk = written_once()
    assert content(disk) == b"x" * 2048
    assert content(disk.after_crash(lost)) == b""
    disk.open(PATH).sync()
    assert content(disk.after_crash(lost)) == b"x" * 2048


def passed_over() -> SimDisk:
    """Return a disk with a write of one and a quarter pages whose sync has failed."""

    def fail(operation: Operation) -> None:
        if operation.kind == "sync":
            raise SimDiskError(errno.EIO, "no")

    disk = written_once(PAGE_SIZE + 1024)
    disk.controller.watch = fail
    with pytest.raises(SimDiskError):
        disk.open(PATH).sync()
    disk.controller.watch = None
    return disk


def test_what_a_failed_sync_passed_over_is_read_and_no_later_sync_writes_it() -> None:
    disk = passed_over().after_kill(DiskController())
    disk.open(PATH).sync()
    assert content(disk) == b"x" * (PAGE_SIZE + 1024)
    assert content(disk.after_crash(lost)) == b""
    assert content(disk.after_crash(kept)) == content(disk)


def test_a_page_that_is_written_again_brings_what_a_failed_sync_passed_over_in_it() -> None:
    disk = passed_over()
    disk.open(PATH).write(PAGE_SIZE + 8, b"y")
    disk.open(PATH).sync()
    again = bytearray(b"x" * 1024)
    again[8] = ord("y")
    assert content(disk.after_crash(lost)) == bytes(PAGE_SIZE) + again


def test_a_file_has_a_limit_that_ignores_zeros_at_its_end() -> None:
    file = SimDisk().create(PATH)
    file.write(2**40, bytes(8))
    assert file.size() == 2**40 + 8
    with pytest.raises(OSError, match="exceed the maximum file size"):
        file.write(2**40, b"x")


def test_a_torn_write_keeps_whole_sectors() -> None:
    assert content(written_once().after_crash(torn)) == b"x" * 1024
    assert content(written_once(1000).after_crash(torn)) == b""


def test_writes_survive_each_for_itself_out_of_order_too() -> None:
    disk = written_once(512)
    disk.open(PATH).write(512, b"y" * 512)
    newest = disk.unsynced()[-1]
    assert content(disk.after_crash(lambda op: op == newest)) == bytes(512) + b"y" * 512


def test_a_new_name_is_durable_after_the_sync_of_its_folder() -> None:
    disk = SimDisk()
    disk.create(PATH).sync()
    assert not disk.after_crash(lost).exists(PATH)
    assert not disk.after_crash(names_lost).exists(PATH)
    assert disk.after_crash(bytes_lost).exists(PATH)
    disk.sync_folder("current")
    assert disk.after_crash(lost).exists(PATH)


def test_what_is_in_a_folder_that_is_not_durable_is_out_of_reach() -> None:
    disk = SimDisk()
    disk.create("current/a/b/1.idx").sync()
    for folder in ("current/a/b", "current/a"):
        disk.sync_folder(folder)
        assert not disk.after_crash(lost).exists("current/a/b/1.idx")
    disk.sync_folder("current")
    assert disk.after_crash(lost).exists("current/a/b/1.idx")


def test_a_removal_and_a_rename_can_be_undone_until_their_folder_is_synced() -> None:
    disk = written_once()
    disk.rename(PATH, "current/b")
    assert disk.after_crash(lost).names("current") == ["a"]
    assert disk.after_crash(kept).names("current") == ["b"]
    disk.sync_folder("current")
    disk.remove("current/b")
    assert disk.after_crash(lost).names("current") == ["b"]
    assert disk.after_crash(kept).names("current") == []


def test_an_operation_on_an_open_file_names_the_file_by_its_present_name() -> None:
    disk = written_once()
    file = disk.open(PATH)
    disk.rename(PATH, "current/b")
    file.write(0, b"new")
    file.sync()
    assert [operation.path for operation in disk.controller.operations[-2:]] == ["current/b"] * 2
    crashed = disk.after_crash(lost).open(PATH)
    crashed.sync()
    assert crashed.disk.controller.operations[-1].path == PATH


def test_a_crash_copies_the_disk_and_leaves_it_as_it_was() -> None:
    disk = written_once()
    before = disk.fingerprint(), disk.unsynced()
    disk.after_crash(lost).open(PATH).write(0, b"other")
    assert (disk.fingerprint(), disk.unsynced()) == before


def test_zeros_at_the_end_are_bytes_like_others() -> None:
    disk = written_once(10)
    disk.open(PATH).write(1_000_000, bytes(10))
    assert disk.open(PATH).size() == 1_000_010
    assert disk.open(PATH).read(5, 10) == b"xxxxx" + bytes(5)
    assert disk.open(PATH).read(1_000_005, 100) == bytes(5)
    assert disk.after_crash(kept).open(PATH).size() == 1_000_010
    assert disk.after_crash(lost).open(PATH).size() == 0


def test_the_operations_of_a_machine_are_data() -> None:
    controller = DiskController()
    one, other = SimDisk(controller, "one"), SimDisk(controller, "other")
    one.create(PATH).write(8, b"abc")
    other.create(PATH)
    other.rename(PATH, "current/b")
    assert [f"{op.number} {op.disk}: {op}" for op in controller.operations] == [
        "0 one: create current/a",
        "1 one: write current/a, 3 bytes at 8",
        "2 other: create current/a",
        "3 other: rename current/a to current/b",
    ]


def test_a_machine_stops_before_the_operation_that_its_fuse_names() -> None:
    disk = SimDisk(DiskController(stop_at=1))
    file = disk.create(PATH)
    with pytest.raises(CrashError, match="write current/a"):
        file.write(0, b"x")
    assert content(disk) == b""


def test_lots_are_drawn_from_the_seed_and_the_operation_alone() -> None:
    operations = written_once().controller.operations
    fates = [at_random(3)(op) for op in operations]
    assert fates == [at_random(3)(op) for op in reversed(operations)][::-1]
    assert len({at_random(seed)(operations[0]) for seed in range(20)}) > 5
