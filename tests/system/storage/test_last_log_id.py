"""Tests for storing the highest entry log id ever used."""

import pytest

from labkit.system.storage.last_log_id import MAX_LOG_ID, read_last_id, write_last_id
from labkit.worlds.sim.machine.disk import DiskController, SimDisk
from labkit.worlds.sim.machine.disk_operation import kept, lost, names_lost

PATH = "current/lastId"


def found(text: bytes) -> int:
    disk = SimDisk()
    disk.create(PATH).write(0, text)
    return read_last_id(disk)


def test_the_id_is_a_line_of_hexadecimal_digits() -> None:
    disk = SimDisk()
    assert read_last_id(disk) == -1
    write_last_id(disk, 0x1F)
    assert disk.open(PATH).read(0, 99) == b"1f\n"
    assert read_last_id(disk) == 0x1F


@pytest.mark.parametrize("log_id", [0, 0x1F, MAX_LOG_ID])
def test_every_id_of_31_bits_is_read_back(log_id: int) -> None:
    assert found(f"{log_id:x}\n".encode()) == log_id


@pytest.mark.parametrize("text", [b"", b"\n", b"-1\n", b"1g\n", b"1 f\n", b"80000000\n", bytes(9)])
def test_what_is_not_an_id_counts_as_none(text: bytes) -> None:
    assert found(text) == -1


def test_the_name_is_durable_at_once_and_what_is_in_the_file_need_not_be() -> None:
    disk = SimDisk()
    write_last_id(disk, 0x1F)
    assert disk.after_crash(lost, DiskController()).exists(PATH)
    assert read_last_id(disk.after_crash(lost, DiskController())) == -1
    assert read_last_id(disk.after_crash(names_lost, DiskController())) == 0x1F
    assert read_last_id(disk.after_crash(kept, DiskController())) == 0x1F
