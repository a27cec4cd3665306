import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from labkit.system.metadata.cookie import Cookie, check_cookie, delete_cookie, read_cookie
from labkit.system.metadata.store import NoNodeError
from labkit.system.model.errors import InvalidCookieException, OtherStorageException
from labkit.system.storage.disk import Disk
from labkit.worlds.live.disk import RealDisk
from labkit.worlds.live.zookeeper.store import ZooKeeperStore

pytestmark = pytest.mark.asyncio(loop_scope="session")

INSTANCE = "3c8c0f0e-0000-4000-8000-1234567890ab"
VERSION = "current/VERSION"


@pytest.fixture
def store(empty_store: ZooKeeperStore) -> ZooKeeperStore:
    """Here other tests' bookies have no cookies."""
    return empty_store


class Home:
    """The two directories of a bookie, and its cookie."""

    def __init__(self, folder: Path, bookie_id: str, instance_id: str = INSTANCE) -> None:
        self.folders = [folder / "journal", folder / "ledgers"]
        self.disks = [RealDisk(each) for each in self.folders]
        self.node = f"/ledgers/cookies/{bookie_id}"
        journal, ledgers = map(str, self.folders)
        self.cookie = Cookie(bookie_id, journal, (ledgers,), instance_id)

    async def check(self, store: ZooKeeperStore) -> None:
        await check_cookie(store, self.cookie, self.disks)


class PowerFailure(BaseException):
    """The machine stops here."""


class Power:
    """Fails after `steps` steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def use(self) -> None:
        if self.left == 0:
            raise PowerFailure
        self.left -= 1


class Failing:
    """A part of a machine: each call is a step."""

    def __init__(self, part: object, power: Power) -> None:
        self._part = part
        self._power = power

    def __getattr__(self, name: str) -> object:
        method = getattr(self._part, name)
        if not callable(method):
            return method

        def call(*arguments: object) -> object:
            if name in ("create", "rename", "sync_folder", "get"):
                self._power.use()
            return method(*arguments)

        return call


PREPARING_STEPS = 2
"""With a directory: a file is created, and the folder is synced."""


async def test_cookie_is_the_text_that_bookkeeper_writes() -> None:
    cookie = Cookie("192.0.2.1:3181", "/j", ("/l1", "/l2"), INSTANCE)
    text = (
        b'5\nbookieHost: "192.0.2.1:3181"\njournalDir: "/j"\n'
        b'ledgerDirs: "2\\t/l1\\t/l2"\ninstanceId: "3c8c0f0e-0000-4000-8000-1234567890ab"\n'
    )
    assert cookie.encode() == text
    assert Cookie.decode(text, "here") == cookie


async def test_relative_directories_stay_as_they_are_configured(
    store: ZooKeeperStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cookie = Cookie("relative", "./j,j/../j2", ("l/", "l2"), INSTANCE)
    disks = [RealDisk(Path(name)) for name in ("./j", "j/../j2", "l/", "l2")]
    await check_cookie(store, cookie, disks)
    text = (tmp_path / "l2" / VERSION).read_bytes()
    assert b'journalDir: "./j,j/../j2"\nledgerDirs: "2\\tl/\\tl2"\n' in text
    await check_cookie(store, cookie, disks)
    otherwise = Cookie("relative", "j,j2", ("l", "l2"), INSTANCE)
    with pytest.raises(InvalidCookieException, match=r"journal_dir is '\./j,j/\.\./j2' there"):
        await check_cookie(store, otherwise, disks)


async def test_directory_of_another_storage_is_refused_before_it_is_stamped(
    store: ZooKeeperStore, tmp_path: Path
) -> None:
    home = Home(tmp_path, "another-storage")
    (home.folders[1] / "0.log").write_bytes(b"")
    with pytest.raises(OtherStorageException, match="before version 3"):
        await home.check(store)
    assert not (home.folders[0] / VERSION).exists()
    with pytest.raises(NoNodeError):
        await store.get(home.node)


async def test_folder_outside_ascii_is_written_in_octal_as_bookkeeper_does() -> None:
    cookie = Cookie("b", '/ü"', ("/l",), INSTANCE)
    assert b'journalDir: "/\\303\\274\\""\n' in cookie.encode()
    assert Cookie.decode(cookie.encode(), "here") == cookie


@pytest.mark.parametrize("data", [b"", b"3\nhost\n/j\n/l", b"5\nno such field: 1\n", b"5\n\xff"])
async def test_cookie_that_cannot_be_read_is_refused_by_place(data: bytes) -> None:
    with pytest.raises(InvalidCookieException, match="here"):
        Cookie.decode(data, "here")


async def test_first_start_stamps_every_directory_and_then_the_cluster(
    store: ZooKeeperStore, tmp_path: Path
) -> None:
    home = Home(tmp_path, "first")
    await home.check(store)
    for folder in home.folders:
        assert (folder / VERSION).read_bytes() == home.cookie.encode()
    assert await store.get(home.node) == (home.cookie.encode(), 0)


async def test_first_start_that_was_interrupted_anywhere_can_be_taken_up_again(
    store: ZooKeeperStore, tmp_path: Path
) -> None:
    for steps in range(100):
        home = Home(tmp_path / str(steps), f"interrupted-{steps}")
        power = Power(steps)
        try:
            await check_cookie(
                Failing(store, power),  # type: ignore[arg-type]
                home.cookie,
                [Failing(disk, power) for disk in home.disks],  # type: ignore[misc]
            )
        except PowerFailure:
            await home.check(store)
        assert [sorted(os.listdir(f / "current")) for f in home.folders] == [["VERSION"]] * 2
        assert await store.get(home.node) == (home.cookie.encode(), 0)
        if power.left > 0:
            return
    pytest.fail("the start never came to its end")


@pytest.mark.parametrize("lost", [0, 1])
async def test_disk_that_is_lost_in_an_interrupted_first_start_is_refused(
    store: ZooKeeperStore, tmp_path: Path, lost: int
) -> None:
    home = Home(tmp_path, f"lost-early-{lost}")
    # Two steps with the store, and all that prepares the directories.
    power = Power(steps=2 + 2 * PREPARING_STEPS)
    with pytest.raises(PowerFailure):
        await check_cookie(
            Failing(store, power),  # type: ignore[arg-type]
            home.cookie,
            [Failing(disk, power) for disk in home.disks],  # type: ignore[misc]
        )
    assert await store.exists(home.node)
    shutil.rmtree(home.folders[lost])
    with pytest.raises(InvalidCookieException, match="a disk is missing or was replaced"):
        await home.check(store)


async def test_of_two_first_starts_at_once_one_is_refused(
    store: ZooKeeperStore, tmp_path: Path
) -> None:
    homes = [Home(tmp_path / name, "rivals") for name in ("a", "b")]
    results = await asyncio.gather(*(home.check(store) for home in homes), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == [
        "InvalidCookieException",
        "NoneType",
    ]
    refused = homes[0] if results[0] else homes[1]
    assert [os.listdir(folder / "current") for folder in refused.folders] == [[], []]


async def test_bookie_without_its_cookie_does_not_come_back(
    store: ZooKeeperStore, tmp_path: Path
) -> None:
    home = Home(tmp_path, "decommissioned")
    await home.check(store)
    assert await read_cookie(store, "decommissioned") == home.cookie
    await delete_cookie(store, "decommissioned")
    assert await read_cookie(store, "decommissioned") is None
    with pytest.raises(NoNodeError):
        await delete_cookie(store, "decommissioned")
    with pytest.raises(InvalidCookieException, match="the node was deleted"):
        await home.check(store)


async def test_start_on_its_own_directories_changes_nothing(
    store: ZooKeeperStore, tmp_path: Path
) -> None:
    home = Home(tmp_path, "again")
    await home.check(store)
    await home.check(store)
    assert await store.get(home.node) == (home.cookie.encode(), 0)


async def test_first_start_wants_empty_directories(store: ZooKeeperStore, tmp_path: Path) -> None:
    home = Home(tmp_path, "not-empty")
    home.disks[1].create("current/0.log").close()
    with pytest.raises(InvalidCookieException, match="not empty"):
        await home.check(store)
    with pytest.raises(NoNodeError):
        await store.get(home.node)
    assert not (home.folders[0] / VERSION).exists()


async def test_empty_disk_in_place_of_a_lost_one_is_refused(
    store: ZooKeeperStore, tmp_path: Path
) -> None:
    home = Home(tmp_path, "lost-disk")
    await home.check(store)
    (home.folders[1] / VERSION).unlink()
    with pytest.raises(InvalidCookieException, match="a disk is missing or was replaced"):
        await home.check(store)
    assert not (home.folders[1] / VERSION).exists()


async def test_disk_of_another_bookie_is_refused(store: ZooKeeperStore, tmp_path: Path) -> None:
    home, other = Home(tmp_path / "a", "mine"), Home(tmp_path / "b", "other")
    await home.check(store)
    await other.check(store)
    stamp = (other.folders[1] / VERSION).read_bytes()
    (home.folders[1] / VERSION).write_bytes(stamp)
    with pytest.raises(InvalidCookieException, match=f"{VERSION} does not fit .*other"):
        await home.check(store)


async def test_disks_of_another_cluster_are_refused(store: ZooKeeperStore, tmp_path: Path) -> None:
    here = Home(tmp_path, "moved")
    for folder in here.folders:
        elsewhere = replace(here.cookie, instance_id="else")
        (folder / "current").mkdir()
        (folder / VERSION).write_bytes(elsewhere.encode())
    with pytest.raises(InvalidCookieException, match="does not fit this bookie"):
        await here.check(store)


async def test_cluster_that_forgot_the_bookie_is_told_apart_from_a_first_start(
    store: ZooKeeperStore, tmp_path: Path
) -> None:
    home = Home(tmp_path, "forgotten")
    await home.check(store)
    await store.delete(home.node)
    with pytest.raises(InvalidCookieException, match="the node was deleted"):
        await home.check(store)


async def test_bookie_id_that_is_in_use_from_other_folders_is_refused(
    store: ZooKeeperStore, tmp_path: Path
) -> None:
    await Home(tmp_path / "a", "twice").check(store)
    second = Home(tmp_path / "b", "twice")
    with pytest.raises(InvalidCookieException, match="/ledgers/cookies/twice does not fit"):
        await second.check(store)
    assert not (second.folders[0] / VERSION).exists()


async def test_cookie_of_a_bookie_with_separate_index_directories_is_refused() -> None:
    text = Cookie("b", "/j", ("/l",), INSTANCE).encode()
    assert Cookie.decode(text + b'indexDirs: "1\\t/l"\n', "here").ledger_dirs == ("/l",)
    with pytest.raises(InvalidCookieException, match=r"here: .* would take its entries for absent"):
        Cookie.decode(text + b'indexDirs: "1\\t/i"\n', "here")


def expanded(home: Home, folder: Path) -> Home:
    """The same bookie with one more ledger directory."""
    larger = Home(folder, home.cookie.bookie_id)
    added = folder / "ledgers-2"
    larger.folders.append(added)
    larger.disks.append(RealDisk(added))
    larger.cookie = replace(larger.cookie, ledger_dirs=(*larger.cookie.ledger_dirs, str(added)))
    return larger


async def expand(home: Home, store: ZooKeeperStore) -> None:
    await check_cookie(store, home.cookie, home.disks, allow_expansion=True)


async def test_an_empty_ledger_directory_is_added_only_where_it_is_allowed(
    tmp_path: Path, store: ZooKeeperStore
) -> None:
    home = Home(tmp_path, "expands")
    await home.check(store)
    larger = expanded(home, tmp_path)
    with pytest.raises(InvalidCookieException, match=r"allowStorageExpansion=true adds"):
        await larger.check(store)
    await expand(larger, store)
    assert await read_cookie(store, "expands") == larger.cookie
    await larger.check(store)
    with pytest.raises(InvalidCookieException, match="does not fit"):
        await expand(home, store)  # Never smaller again.


async def test_a_directory_that_is_added_must_be_empty(
    tmp_path: Path, store: ZooKeeperStore
) -> None:
    home = Home(tmp_path, "adds-a-full-one")
    await home.check(store)
    larger = expanded(home, tmp_path)
    (larger.folders[2] / "current").mkdir(parents=True)
    (larger.folders[2] / "current" / "0.log").write_bytes(b"somebody's")
    with pytest.raises(InvalidCookieException, match="not a new and empty ledger directory"):
        await expand(larger, store)
    assert await read_cookie(store, "adds-a-full-one") == home.cookie


async def test_a_lost_disk_is_not_taken_for_an_added_one(
    tmp_path: Path, store: ZooKeeperStore
) -> None:
    home = Home(tmp_path, "loses-a-disk")
    await home.check(store)
    shutil.rmtree(home.folders[1])
    larger = expanded(home, tmp_path)
    with pytest.raises(InvalidCookieException, match="a disk is missing or was replaced"):
        await expand(larger, store)


async def test_an_expansion_that_is_interrupted_anywhere_is_taken_up_again(
    tmp_path: Path, store: ZooKeeperStore
) -> None:
    for steps in range(40):
        folder = tmp_path / str(steps)
        home = Home(folder, f"expansion-{steps}")
        await home.check(store)
        larger = expanded(home, folder)
        power = Power(steps)
        disks = [cast("Disk", Failing(disk, power)) for disk in larger.disks]
        try:
            await check_cookie(store, larger.cookie, disks, allow_expansion=True)
        except PowerFailure:
            await expand(larger, store)
            await larger.check(store)
        else:
            break
    assert 6 < steps < 39
