import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.worlds.live.disk import DirectoryInUseError, RealDisk, disk_space, lock_directory

HOLDER = """
import sys
from pathlib import Path
from labkit.worlds.live.disk import lock_directory
lock_directory(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_read_that_the_system_cuts_short_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RealDisk(tmp_path).create("a")
    file.write(0, b"0123456789")
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 3), at))
    assert file.read(1, 8) == b"12345678"
    assert file.read(4, 99) == b"456789"
    file.close()


def test_a_write_that_the_system_cuts_short_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RealDisk(tmp_path).create("a")
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    file.write(2, b"0123456789")
    assert file.read(0, 99) == b"\0\x000123456789"
    file.close()


def test_a_gap_reads_as_zeros_and_takes_no_room(tmp_path: Path) -> None:
    file = RealDisk(tmp_path).create("a")
    file.write(2**30, b"end")
    assert file.read(2**29, 5) == bytes(5)
    assert file.size() == 2**30 + 3
    assert (tmp_path / "a").stat().st_blocks * 512 < 2**20
    file.close()


def test_a_new_ledgers_folders_wait_for_sync_folder_and_only_the_one_in_the_root_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(
        "labkit.worlds.live.disk.sync_all", lambda fd: synced.append(os.fstat(fd).st_ino)
    )
    disk = RealDisk(tmp_path)
    disk.create("current/0/1/a.idx").close()
    disk.create("current/0/2/b.idx").close()
    assert synced == [tmp_path.stat().st_ino]
    disk.sync_folder("current/0")
    assert synced[1:] == [(tmp_path / "current" / "0").stat().st_ino]


@pytest.mark.promise("A full or failing disk is named by its path, together with what to do")
@pytest.mark.parametrize("call", ["os.pwrite", "os.pread", "sync_data", "sync_all"])
def test_every_failure_of_the_disk_names_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    disk = RealDisk(tmp_path)
    file = disk.create("current/a")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(f"labkit.worlds.live.disk.{call}", fail)
    operations = {
        "os.pwrite": lambda: file.write(0, b"x"),
        "os.pread": lambda: file.read(0, 1),
        "sync_data": file.sync,
        "sync_all": lambda: disk.sync_folder("current"),
    }
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as raised:
        operations[call]()
    path = tmp_path / "current" if call == "sync_all" else tmp_path / "current" / "a"
    assert raised.value.filename == str(path)
    monkeypatch.undo()


def test_a_held_folder_refuses_a_second_process_until_the_first_ends(tmp_path: Path) -> None:
    folder = tmp_path / "bookie"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(DirectoryInUseError, match="in use by another bookie process"):
            lock_directory(folder)
    finally:
        holder.kill()
        holder.communicate()
    lock_directory(folder)


def test_directories_of_one_file_system_count_once(tmp_path: Path) -> None:
    one, other = RealDisk(tmp_path / "one"), RealDisk(tmp_path / "other")
    total, free = disk_space([one, other])
    assert 0 < free <= total
    assert total == disk_space([one])[0]
