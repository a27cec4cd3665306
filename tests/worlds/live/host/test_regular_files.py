"""Opening something that is not a regular file raises an error and never blocks on a FIFO."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from labkit.system.model.errors import StorageDamagedException
from labkit.worlds.live.disk import RealDisk, lock_directory

Make = Callable[[Path], object]


def make_link(path: Path) -> None:
    target = path.with_name("elsewhere")
    target.write_bytes(b"")
    path.symlink_to(target)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


KINDS: dict[str, Make] = {
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a link": make_link,
    "a socket": make_socket,
}
OPERATIONS: dict[str, Callable[[RealDisk], object]] = {
    "open": lambda disk: disk.open("0.log"),
    "exists": lambda disk: disk.exists("0.log"),
    "files": lambda disk: disk.files("", ".log"),
}


@pytest.mark.promise("A FIFO, directory or link in place of a file is rejected with its path")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_name_that_is_not_a_regular_file_is_refused_with_its_path(
    tmp_path: Path, kind: str, operation: str
) -> None:
    path = tmp_path / "0.log"
    KINDS[kind](path)
    with pytest.raises(StorageDamagedException, match=f"{path} is {kind}, expected a file: "):
        OPERATIONS[operation](RealDisk(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_no_new_file_takes_the_place_of_something_else(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / "0.log")
    with pytest.raises(StorageDamagedException, match=kind):
        RealDisk(tmp_path).create("0.log")


def test_a_link_is_not_followed_to_what_it_names(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    (tmp_path / "0.log").symlink_to(target)
    with pytest.raises(StorageDamagedException, match="a link"):
        RealDisk(tmp_path).create("0.log")
    assert target.read_bytes() == b"precious"


@pytest.mark.parametrize("kind", ["a FIFO", "a file"])
@pytest.mark.parametrize("operation", ["names", "files", "exists", "create"])
def test_a_name_that_is_not_a_folder_is_refused_with_its_path(
    tmp_path: Path, kind: str, operation: str
) -> None:
    folder = tmp_path / "current"
    folder.write_bytes(b"") if kind == "a file" else os.mkfifo(folder)
    disk = RealDisk(tmp_path)
    operations: dict[str, Callable[[], object]] = {
        "names": lambda: disk.names("current"),
        "files": lambda: disk.files("current", ".log"),
        "exists": lambda: disk.exists("current/0/5/5.idx"),
        "create": lambda: disk.create("current/0/5/5.idx"),
    }
    with pytest.raises(StorageDamagedException, match=f"{folder} is {kind}, expected a folder: "):
        operations[operation]()


@pytest.mark.parametrize("kind", KINDS)
def test_a_directory_is_held_by_a_file_only(tmp_path: Path, kind: str) -> None:
    KINDS[kind](tmp_path / "lock")
    with pytest.raises(StorageDamagedException, match=f"lock is {kind}"):
        lock_directory(tmp_path)


def test_a_directory_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "ledgers").symlink_to("disk")
    RealDisk(tmp_path / "ledgers").create("current/0.log").close()
    assert RealDisk(tmp_path / "disk").files("current", ".log") == ["0.log"]


def test_what_has_another_name_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "notes")
    disk = RealDisk(tmp_path)
    assert disk.names("") == ["notes"]
    assert disk.files("", ".log") == []
