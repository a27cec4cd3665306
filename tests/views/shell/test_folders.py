"""Tests that files are found by id and name as in BookKeeper's shell, and are never modified."""

import io
from pathlib import Path

import pytest

from labkit.views.shell.folders import (
    ReadOnlyDisk,
    ShellError,
    find_file,
    open_data_folder,
    open_folders,
    parse_file_id,
)
from tests.system.storage.support import copy_of_golden
from tests.views.shell.support import CLEAN, Run, folders_of


@pytest.mark.parametrize(
    ("text", "base", "number"),
    [
        ("26", 10, 26),
        ("26", 16, 0x26),
        ("1a.log", 10, 26),
        ("1a.log", 16, 26),
        ("some/where/10.log", 10, 16),
        ("1A.log", 10, 26),
    ],
)
def test_a_name_is_hexadecimal_and_a_bare_id_as_the_verb_says(
    text: str, base: int, number: int
) -> None:
    found = parse_file_id(text, ".log", base)
    assert (found.number, found.name) == (number, f"{number:x}.log")


@pytest.mark.parametrize("text", ["1a", "", "-1", "0.txn", ".log", "1_0", "0x1a", "x.log"])
def test_text_that_is_not_an_id_is_refused(text: str) -> None:
    with pytest.raises(ShellError, match=r"1a\.log"):
        parse_file_id(text, ".log", 10)


@pytest.mark.parametrize(
    ("verb", "text", "understood"),
    [
        ("readlog", "10", "a.log ('10' read as decimal: id 10)"),
        ("readlogmetadata", "10", "10.log ('10' read as hexadecimal: id 16)"),
        ("readlog", "10.log", "10.log ('10.log' read as hexadecimal: id 16)"),
        ("readjournal", "10", "a.txn ('10' read as decimal: id 10)"),
    ],
)
def test_a_missing_file_is_reported_with_what_was_understood_and_what_there_is(
    run: Run, verb: str, text: str, understood: str
) -> None:
    code, output, errors = run(CLEAN, verb, text)
    assert (code, output) == (1, "")
    kind = "journal" if verb == "readjournal" else "entry log"
    assert f"labkit: {kind} {understood} does not exist in" in errors
    assert errors.endswith("1a1fd4b7370.txn\n" if verb == "readjournal" else "0.log, 1.log\n")


def test_reading_a_missing_journal_makes_none(run: Run, tmp_path: Path) -> None:
    before = sorted(copy_of_golden(CLEAN.name, tmp_path).rglob("*"))
    assert run(tmp_path, "readjournal", "77")[0] == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_directory_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ShellError, match=r"directory .* does not exist"):
        open_folders([tmp_path / "j"], [])
    with pytest.raises(ShellError, match="does not contain the folders 'journal' and 'ledgers'"):
        open_data_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_found_in_any_of_several_directories(tmp_path: Path) -> None:
    for place in ("l0", "l1"):
        (tmp_path / place / "current").mkdir(parents=True)
    (tmp_path / "l1/current/1a.log").touch()
    folders = open_folders([], [tmp_path / "l0", tmp_path / "l1"])
    found = find_file(folders.ledgers, "entry log", parse_file_id("26", ".log", 10))
    assert found.path("") == str(tmp_path / "l1")


def test_the_shells_disk_cannot_be_written() -> None:
    disk = ReadOnlyDisk(CLEAN / "l")
    file = disk.open("current/0.log")
    for attempt in (
        lambda: disk.create("current/x"),
        lambda: disk.rename("current/0.log", "current/x"),
        lambda: disk.remove("current/0.log"),
        lambda: disk.sync_folder("current"),
        lambda: file.write(0, b"x"),
        file.sync,
    ):
        with pytest.raises(io.UnsupportedOperation):
            attempt()


def test_indexes_lie_with_the_ledgers_unless_named(tmp_path: Path) -> None:
    (tmp_path / "i").mkdir()
    (index,) = folders_of(CLEAN).indexes
    assert index.path("") == str(CLEAN / "l")
    named = open_folders([], [CLEAN / "l"], [tmp_path / "i"])
    assert [directory.path("") for directory in named.indexes] == [str(tmp_path / "i")]
