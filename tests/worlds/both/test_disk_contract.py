"""The contract of the disk port, tested on real files and on the simulated disk.

Each rule is a function that is checked on both kinds of disk. What a crash leaves behind is tested
only for the simulated disk.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.disk import Disk
from labkit.worlds.live.disk import RealDisk
from labkit.worlds.sim.machine.disk import SimDisk

Rule = Callable[[Disk], None]
RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    RULES.append(function)
    return function


def content(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    found = file.read(0, file.size() + 1)
    file.close()
    return found


def put(disk: Disk, path: str, data: bytes = b"") -> None:
    file = disk.create(path)
    file.write(0, data)
    file.close()


@rule
def what_is_written_is_read_back_synced_or_not(disk: Disk) -> None:
    file = disk.create("current/a")
    file.write(0, b"hello world")
    file.sync()
    file.write(6, b"there")
    file.close()
    assert content(disk, "current/a") == b"hello there"


@rule
def two_who_have_a_file_open_see_the_same(disk: Disk) -> None:
    one = disk.create("a")
    other = disk.open("a")
    one.write(0, b"abc")
    assert (other.size(), other.read(1, 9)) == (3, b"bc")
    other.write(3, b"d")
    assert one.read(0, 9) == b"abcd"


@rule
def a_read_is_short_only_at_the_end_of_the_file(disk: Disk) -> None:
    file = disk.create("a")
    file.write(0, b"0123456789")
    assert [file.read(at, 4) for at in (0, 7, 10, 500)] == [b"0123", b"789", b"", b""]


@rule
def a_sync_of_all_is_done_or_refused_and_changes_no_byte(disk: Disk) -> None:
    put(disk, "current/a", b"hello")
    disk.sync_whole()
    assert content(disk, "current/a") == b"hello"


@rule
def a_gap_reads_as_zeros(disk: Disk) -> None:
    file = disk.create("a")
    file.write(0, b"start")
    file.write(10_000, b"end")
    assert file.size() == 10_003
    assert file.read(0, 8) == b"start" + bytes(3)
    assert file.read(9_998, 99) == bytes(2) + b"end"


@rule
def a_write_over_the_end_makes_the_file_longer_and_no_write_shorter(disk: Disk) -> None:
    file = disk.create("a")
    file.write(0, b"0123456789")
    file.write(8, b"abcd")
    file.write(0, b"x")
    assert file.read(0, 99) == b"x1234567abcd"


@rule
def an_empty_write_changes_nothing(disk: Disk) -> None:
    file = disk.create("a")
    file.write(0, b"")
    file.write(5, b"")
    assert file.size() == 0


@rule
def creating_a_file_again_empties_it(disk: Disk) -> None:
    put(disk, "a", b"old")
    assert disk.create("a").size() == 0
    assert content(disk, "a") == b""


@rule
def names_are_sorted_folders_too_and_none_in_a_missing_folder(disk: Disk) -> None:
    for name in ("current/b", "current/a", "current/sub/c"):
        put(disk, name)
    assert disk.names("current") == ["a", "b", "sub"]
    assert "current" in disk.names("")
    assert disk.names("nowhere") == []
    assert disk.files("current", "a") == ["a"]
    assert disk.files("nowhere", "") == []


@rule
def a_file_exists_or_not(disk: Disk) -> None:
    put(disk, "current/a")
    assert [disk.exists(path) for path in ("current/a", "current/b", "b/a")] == [True, False, False]


@rule
def a_folder_is_no_file_and_a_file_is_no_folder(disk: Disk) -> None:
    put(disk, "current/a")
    for attempt in (
        lambda: disk.exists("current"),
        lambda: disk.exists("current/a/b"),
        lambda: disk.names("current/a"),
        lambda: disk.files("current/a", ""),
    ):
        with pytest.raises(StorageDamagedException, match="is a f"):
            attempt()


@rule
def what_is_missing_cannot_be_opened_renamed_or_removed(disk: Disk) -> None:
    for attempt in (
        lambda: disk.open("nothing"),
        lambda: disk.rename("nothing", "something"),
        lambda: disk.remove("nothing"),
    ):
        with pytest.raises(FileNotFoundError, match="nothing"):
            attempt()


@rule
def a_rename_replaces(disk: Disk) -> None:
    put(disk, "current/old", b"new content")
    put(disk, "current/name", b"old content")
    disk.rename("current/old", "current/name")
    assert disk.names("current") == ["name"]
    assert content(disk, "current/name") == b"new content"


@rule
def an_open_file_follows_its_rename(disk: Disk) -> None:
    file = disk.create("old")
    disk.rename("old", "name")
    file.write(0, b"later")
    assert content(disk, "name") == b"later"


@rule
def a_file_that_was_removed_is_read_by_those_who_have_it_open(disk: Disk) -> None:
    put(disk, "a", b"content")
    file = disk.open("a")
    disk.remove("a")
    assert not disk.exists("a")
    assert file.read(0, 99) == b"content"
    put(disk, "a", b"another")
    assert file.read(0, 99) == b"content"


@rule
def a_folder_can_be_synced_whatever_is_in_it(disk: Disk) -> None:
    put(disk, "current/a")
    disk.sync_folder("current")
    disk.remove("current/a")
    disk.sync_folder("current")
    disk.sync_folder("")
    assert disk.names("current") == []


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return RealDisk(tmp_path / "root") if request.param == "real" else SimDisk()


@pytest.mark.parametrize("each", RULES, ids=lambda function: function.__name__)
def test_disk(each: Rule, disk: Disk) -> None:
    each(disk)
