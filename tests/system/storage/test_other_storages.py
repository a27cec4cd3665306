"""Test that directories of another storage implementation or an old layout are left unchanged."""

import os
from pathlib import Path

import pytest

from labkit.system.model.errors import OtherStorageException, StorageDamagedException
from labkit.system.storage.other_storages import reject_other_storages
from labkit.worlds.live.disk import RealDisk
from labkit.worlds.sim.machine.disk import SimDisk
from tests.system.storage.support import GOLDEN, add, open_store, store_over

OLD_NAMES = ["VERSION", "0.log", "5.idx", "1a.txn"]


def everything_in(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.promise(
    "A directory of another storage type or of an old layout is rejected and left unchanged"
)
@pytest.mark.parametrize("name", ["ledgers", "locations"])
@pytest.mark.parametrize("directory", ["j", "l"])
def test_a_directory_of_db_ledger_storage_is_refused_and_left_as_it_is(
    tmp_path: Path, directory: str, name: str
) -> None:
    database = tmp_path / directory / "current" / name
    database.mkdir(parents=True)
    (database.parent / "0.log").write_bytes(b"BKLO")
    before = everything_in(tmp_path / directory)
    with pytest.raises(OtherStorageException, match=f"{database} belongs to .* DbLedgerStorage"):
        open_store(tmp_path)
    assert everything_in(tmp_path / directory) == before


@pytest.mark.parametrize("name", OLD_NAMES)
def test_a_directory_of_an_old_layout_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(OtherStorageException, match=f"{tmp_path / name} .*before version 3"):
        reject_other_storages([RealDisk(tmp_path)])


def test_the_simulated_world_refuses_them_too() -> None:
    ledgers = SimDisk(name="ledgers")
    ledgers.create("current/locations/000001.sst")
    with pytest.raises(OtherStorageException, match="ledgers/current/locations"):
        store_over(SimDisk(), ledgers)


def test_files_left_by_a_conversion_do_not_stop_a_bookie(tmp_path: Path) -> None:
    for name in ("ledgers.backup", "locations.backup"):
        (tmp_path / "l" / "current" / name).mkdir(parents=True)
    store = open_store(tmp_path)
    add(store, 5, 0)
    store.close()


def test_files_of_either_supported_bookkeeper_storage_do_not_stop_a_bookie() -> None:
    bookies = [folder for folder in GOLDEN.iterdir() if (folder / "l").is_dir()]
    assert len(bookies) >= 2
    for bookie in bookies:
        reject_other_storages([RealDisk(bookie / "j"), RealDisk(bookie / "l")])


@pytest.mark.parametrize("name", ["j/current/9.txn", "l/current/0.log", "l/current/0/5/5.idx"])
@pytest.mark.parametrize("kind", ["FIFO", "folder", "link"])
def test_a_start_finds_names_that_are_not_regular_files_before_it_needs_them(
    tmp_path: Path, name: str, kind: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("elsewhere")
    with pytest.raises(StorageDamagedException, match=f"{path} is a {kind}"):
        open_store(tmp_path)
