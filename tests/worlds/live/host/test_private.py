"""Tests files and directories that only their owner can access."""

import os
import resource
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from labkit.worlds.live.host.private import (
    NotPrivateError,
    check_others_cannot_replace,
    make_private,
    open_log,
    write_private,
)
from tests.worlds.live.other_user import as_another_user

CLOSE = """
import json, sys, pathlib
from labkit.worlds.live.host.private import NotPrivateError, close_to_others
try:
    close_to_others(pathlib.Path(sys.argv[1]))
except NotPrivateError as error:
    print(json.dumps(str(error)))
"""


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_what_is_made_is_closed_to_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(tmp_path / "a" / "b")
        open_log(tmp_path / "log").close()
        write_private(tmp_path / "conf", "key=value")
    finally:
        os.umask(before)
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o700, 0o700)
    assert (mode(tmp_path / "log"), mode(tmp_path / "conf")) == (0o600, 0o600)


def test_what_is_there_is_closed_and_kept(tmp_path: Path) -> None:
    folder, file, log = tmp_path / "folder", tmp_path / "conf", tmp_path / "log"
    folder.mkdir()
    folder.chmod(0o755)
    file.write_text("a longer text than before")
    file.chmod(0o644)
    log.write_text("one\n")
    make_private(folder)
    write_private(file, "short")
    with open_log(log) as opened:
        opened.write(b"two\n")
    assert (mode(folder), mode(file)) == (0o700, 0o600)
    assert (file.read_text(), log.read_text()) == ("short", "one\ntwo\n")


def test_a_folder_of_another_user_that_is_open_is_refused() -> None:
    with TemporaryDirectory() as name:  # pytest's directories are in private ones.
        folder = Path(name)
        folder.chmod(0o755)
        said = as_another_user(CLOSE, folder)
    assert f"{folder} belongs to another user (uid 0)" in said
    assert "(mode 755); choose a folder of your own" in said


@pytest.mark.parametrize(("bits", "fits"), [(0o777, False), (0o1777, True), (0o775, True)])
def test_a_folder_in_which_every_user_may_rename_files_is_refused(
    tmp_path: Path, bits: int, fits: bool
) -> None:
    tmp_path.chmod(bits)
    if fits:
        check_others_cannot_replace(tmp_path)
        return
    with pytest.raises(NotPrivateError, match=r"mode 777.*chmod o-w"):
        check_others_cannot_replace(tmp_path)


def test_a_file_that_cannot_be_written_is_named_and_keeps_its_old_contents(tmp_path: Path) -> None:
    write_private(tmp_path / "conf", "old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            write_private(tmp_path / "conf", "key=value")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raised.value.filename == str(tmp_path / "conf")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
