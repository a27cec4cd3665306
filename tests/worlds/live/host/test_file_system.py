import ctypes
import errno
import os
import platform
from pathlib import Path

import pytest

from labkit.worlds.live.host import file_system
from labkit.worlds.live.host.file_system import FileSystem


class Libc:
    """Stand-in for libc whose `syncfs` returns a given error number and records its arguments."""

    def __init__(self, error_number: int = 0) -> None:
        self.error_number = error_number
        self.asked: list[int] = []

    def syncfs(self, fd: int) -> int:
        self.asked.append(fd)
        ctypes.set_errno(self.error_number)
        return -1 if self.error_number else 0


def on(monkeypatch: pytest.MonkeyPatch, kind: str, release: str, libc: Libc) -> None:
    monkeypatch.setattr(file_system, "_kind", lambda _: kind)
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "release", lambda: release)
    monkeypatch.setattr(file_system, "_libc", lambda: libc)


def test_one_sync_goes_to_the_file_system_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libc = Libc()
    on(monkeypatch, "ext4", "5.8.0-generic", libc)
    assert FileSystem(tmp_path).sync()
    assert len(libc.asked) == 1


def test_error_of_any_block_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "xfs", "6.1.0", Libc(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        FileSystem(tmp_path).sync()


@pytest.mark.parametrize(
    ("kind", "release"),
    [("overlay", "6.1.0"), ("", "6.1.0"), ("ext4", "5.7.19"), ("ext4", "4.19.0"), ("ext4", "?")],
)
def test_a_sync_that_cannot_report_errors_is_not_used(
    kind: str, release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libc = Libc()
    on(monkeypatch, kind, release, libc)
    assert not FileSystem(tmp_path).sync()
    assert libc.asked == []


def test_descriptor_is_closed_with_its_last_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libc = Libc()
    on(monkeypatch, "ext4", "6.1.0", libc)
    used = FileSystem(tmp_path)
    used.sync()
    os.fstat(libc.asked[0])
    del used
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(libc.asked[0])


@pytest.mark.skipif(platform.system() != "Linux", reason="there is no /proc here")
def test_a_file_system_in_memory_cannot_be_synced() -> None:
    shared_memory = Path("/dev/shm")
    if not shared_memory.is_dir():
        pytest.skip("/dev/shm does not exist")
    assert not FileSystem(shared_memory).sync()
