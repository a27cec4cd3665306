"""Tests that `rebuildindex` restores an index from the entry logs, including its fence."""

import fcntl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit.system.model.errors import LedgerFencedException, StorageDamagedException
from labkit.system.storage.index.ledger_index import index_path
from labkit.views.shell.folders import ShellError, open_folders
from labkit.views.shell.rebuild import rebuild_index
from tests.system.storage.support import (
    CRC32C,
    KEY,
    SMALL,
    add,
    copy_of_golden,
    entry,
    kill,
    open_store,
)
from tests.views.shell.support import CLEAN, ROLLED, V6, Run, failure, folders_of, overwrite


def index_of(root: Path, ledger_id: int) -> Path:
    return root / "l" / index_path(ledger_id)


@pytest.mark.parametrize(("name", "ledger_id"), [(CLEAN.name, 5), (ROLLED.name, 7)])
def test_an_index_rebuilt_is_the_one_that_bookkeeper_wrote(
    run: Run, tmp_path: Path, name: str, ledger_id: int
) -> None:
    index = index_of(copy_of_golden(name, tmp_path), ledger_id)
    before = index.read_bytes()
    assert run(tmp_path, "rebuildindex", str(ledger_id))[::2] == (0, "")
    assert index.read_bytes() == before
    assert [path.name for path in index.parent.iterdir()] == [index.name]


def test_a_lost_index_comes_back_fenced(run: Run, tmp_path: Path) -> None:
    copy_of_golden(ROLLED.name, tmp_path)
    index_of(tmp_path, 7).unlink()
    code, output, _ = run(tmp_path, "rebuildindex", "7")
    assert code == 0
    assert "isFenced     : true (the header of the old index is lost" in output
    store = open_store(tmp_path)
    assert [store.read_entry(7, i)[15] for i in range(100)] == list(range(100))
    with pytest.raises(LedgerFencedException):
        store.add_entry(7, 100, entry(7, 100), KEY)


def test_fence_and_explicit_lac_of_a_damaged_index_come_from_the_journal(tmp_path: Path) -> None:
    copy_of_golden(CLEAN.name, tmp_path)
    overwrite(index_of(tmp_path, 5), 0, bytes(1024))
    rebuilt = rebuild_index(folders_of(tmp_path), 5)
    assert rebuilt.master_key == KEY
    assert rebuilt.fence_reason == "a fence record in 1a1fd4b7370.txn"
    assert rebuilt.explicit_lac[15] == 1


@pytest.mark.parametrize(("version", "journal_version"), [(0, 4), (0, 5), (1, 6)])
def test_an_index_has_the_header_version_that_the_bookie_writes_old_head_or_not(
    run: Run, tmp_path: Path, version: int, journal_version: int
) -> None:
    formats: dict[str, Any] = {
        "journal_format_version_to_write": journal_version,
        "file_info_format_version_to_write": version,
    }
    store = open_store(tmp_path, replace(SMALL, **formats))
    add(store, 5, 0, 1)
    store.fence(5, KEY)
    store.close()
    index = index_of(tmp_path, 5)
    before = index.read_bytes()
    for head in (before[:1024], bytes(1024)):
        overwrite(index, 0, head)
        assert rebuild_index(folders_of(tmp_path), 5).version == before[7] == version
        assert run(tmp_path, "rebuildindex", "5")[0] == 0
        assert index.read_bytes() == before


def test_without_a_journal_an_index_gets_the_default_version(tmp_path: Path) -> None:
    copy_of_golden(ROLLED.name, tmp_path)
    overwrite(index_of(tmp_path, 7), 0, bytes(1024))
    folders = open_folders([], [tmp_path / "l"])
    assert rebuild_index(folders, 7, master_key=KEY).version == 1


def test_the_newest_copy_counts_and_one_that_does_not_match_only_without_another(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path)
    add(store, 5, 0, 1)
    store.checkpoint()
    add(store, 5, 0, 1)
    store.close()
    folders = folders_of(tmp_path)
    newest = rebuild_index(folders, 5, digest=CRC32C)
    assert newest.unreadable == ()
    for copy in newest.locations:
        overwrite(tmp_path / f"l/current/{copy.log_id:x}.log", copy.offset + 36, b"J")
    older = rebuild_index(folders, 5, digest=CRC32C)
    assert all(o.offset < n.offset for o, n in zip(older.locations, newest.locations, strict=True))
    overwrite(tmp_path / "l/current/0.log", older.locations[0].offset + 36, b"J")
    assert rebuild_index(folders, 5, digest=CRC32C).unreadable == (0,)


def test_an_entry_whose_log_is_gone_stays_unreadable_and_never_absent(
    run: Run, tmp_path: Path
) -> None:
    copy_of_golden(ROLLED.name, tmp_path)
    (tmp_path / "l/current/3.log").unlink()
    lost = [e.entry_id for e in rebuild_index(folders_of(ROLLED), 7).locations if e.log_id == 3]
    assert rebuild_index(folders_of(tmp_path), 7).unreadable == tuple(lost)
    assert run(tmp_path, "rebuildindex", "7")[0] == 0
    with pytest.raises(StorageDamagedException):
        open_store(tmp_path).read_entry(7, lost[0])


def test_what_only_the_journal_has_is_left_to_replay(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    add(store, 5, 0)
    store.checkpoint()
    add(store, 5, 1)
    kill(store)
    rebuilt = rebuild_index(folders_of(tmp_path), 5)
    assert ([e.entry_id for e in rebuilt.locations], rebuilt.journal_entry_count) == ([0], 1)
    with pytest.raises(ShellError, match="the bookie will replay them on its next start"):
        rebuild_index(folders_of(V6), 7)


def test_a_lost_master_key_is_asked_for(run: Run, tmp_path: Path) -> None:
    copy_of_golden(ROLLED.name, tmp_path)
    index_of(tmp_path, 7).unlink()
    for journal in (tmp_path / "j/current").iterdir():
        journal.write_bytes(b"BKLG\0\0\0\4")
    (tmp_path / "l/current/lastMark").unlink()
    errors = failure(run(tmp_path, "rebuildindex", "7"))
    assert "no master key for ledger 7; give the ledger's password with --password" in errors
    assert run(tmp_path, "--password", "pw", "rebuildindex", "7")[0] == 0
    open_store(tmp_path).add_entry(7, 100, entry(7, 100), KEY, recovery=True)


def test_a_dry_run_writes_nothing(run: Run, tmp_path: Path) -> None:
    index_of(copy_of_golden(ROLLED.name, tmp_path), 7).unlink()
    assert run(tmp_path, "rebuildindex", "-dryRun", "7")[0] == 0
    assert not index_of(tmp_path, 7).exists()


def test_a_folder_that_a_bookie_holds_is_refused(run: Run, tmp_path: Path) -> None:
    copy_of_golden(CLEAN.name, tmp_path)
    with (tmp_path / "l" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        errors = failure(run(tmp_path, "rebuildindex", "5"))
        assert "is in use by a bookie; stop it first" in errors
    assert run(tmp_path, "rebuildindex", "5")[0] == 0


def test_a_folder_with_a_dirty_file_needs_force(run: Run, tmp_path: Path) -> None:
    (copy_of_golden(CLEAN.name, tmp_path) / "l/current/DIRTY").touch()
    errors = failure(run(tmp_path, "rebuildindex", "5"))
    assert "add --force" in errors
    assert run(tmp_path, "rebuildindex", "--force", "5")[0] == 0
