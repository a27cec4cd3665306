"""Tests that `ledger`, `listledgers` and `readledger` show flushed and unflushed entries."""

from pathlib import Path

import pytest

from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder
from labkit.views.shell.consistency import check_consistency
from labkit.views.shell.folders import open_folders
from labkit.views.shell.journal import last_marks
from labkit.views.shell.ledgers import list_ledgers, read_index, read_ledger
from labkit.views.shell.records import (
    ConsistencyReport,
    Damage,
    EntryLocation,
    LedgerIndexFile,
    LedgerSummary,
    NoLocations,
    Source,
    StoredEntry,
)
from labkit.worlds.live.disk import RealDisk
from tests.system.storage.support import CRC32C, KEY, SMALL, add, copy_of_golden, open_store
from tests.views.shell.support import (
    CLEAN,
    ROLLED,
    V4,
    V6,
    Run,
    failure,
    folders_of,
    json_lines,
    overwrite,
)

INDEX = f"{CLEAN}/l/current/0/5/5.idx"


def entry_ids(
    root: Path, ledger_id: int, first: int = 0, last: int | None = None
) -> list[tuple[str, int]]:
    found = read_ledger(folders_of(root), ledger_id, first, last, CRC32C)
    return [(e.file, e.entry_id) for e in found if isinstance(e, StoredEntry)]


def test_an_index_is_shown_slot_by_slot() -> None:
    assert list(read_index(folders_of(CLEAN), 5)) == [
        LedgerIndexFile(5, INDEX, KEY, 8192, 1024, True, 1),
        EntryLocation(0, 0, 1028),
        EntryLocation(1, 0, 1073),
        NoLocations(2, 1023),
    ]


def test_ledger_prints_what_bookkeepers_shell_prints(run: Run) -> None:
    code, output, _ = run(CLEAN, "ledger", "-m", "5")
    assert code == 0
    assert output == (
        "===== LEDGER: 5 =====\n"
        f"master key  : {KEY.hex()}\n"
        "size         : 8192\n"
        "entries      : 1024\n"
        "isFenced     : true\n"
        "explicitLac  : 1\n"
        "entry 0\t:\t(log:0, pos: 1028)\n"
        "entry 1\t:\t(log:0, pos: 1073)\n"
        "entries 2 to 1023\t:\tN/A\n"
    )
    assert "master key" not in run(CLEAN, "ledger", "5")[1]


def test_holes_between_entries_are_runs(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    add(store, 7, 0, 2, 3000)
    store.close()
    _, *slots = read_index(folders_of(tmp_path), 7)
    holes = [slot for slot in slots if isinstance(slot, NoLocations)]
    assert holes == [NoLocations(1, 1), NoLocations(3, 2999), NoLocations(3001, 3071)]


@pytest.mark.parametrize("root", [V4, V6])
def test_entries_that_only_the_journal_has_are_listed_and_read(root: Path) -> None:
    assert list(list_ledgers(folders_of(root))) == [LedgerSummary(7, "", False, 0, 3, 2)]
    (journal,) = (path.name for path in (root / "j/current").iterdir())
    assert entry_ids(root, 7) == [(journal, 0), (journal, 1), (journal, 2)]


def test_listledgers_tells_fence_and_entries(run: Run) -> None:
    _, output, _ = run(CLEAN, "--json", "listledgers")
    five, other = json_lines(output)
    assert (five["ledger_id"], five["fenced"], five["entry_count"]) == (5, True, 2)
    assert (other["ledger_id"], other["fenced"], other["last_entry_id"]) == (0x1234, False, 0)


def test_readledger_joins_logs_and_journal_in_order(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    add(store, 5, 0, 2)
    store.checkpoint()
    add(store, 5, 1, 3)
    assert entry_ids(tmp_path, 5) == [("0.log", 0), ("1.txn", 1), ("0.log", 2), ("1.txn", 3)]
    assert entry_ids(tmp_path, 5, 1, 2) == [("1.txn", 1), ("0.log", 2)]
    (summary,) = list_ledgers(folders_of(tmp_path))
    assert isinstance(summary, LedgerSummary)
    assert (summary.entry_count, summary.journal_entry_count, summary.last_entry_id) == (2, 2, 3)


def test_readledger_names_the_file_when_it_changes() -> None:
    found = read_ledger(folders_of(ROLLED), 7)
    sources = [each.file for each in found if isinstance(each, Source)]
    assert sources == [f"{log_id}.log" for log_id in range(6)]


def test_an_entry_that_cannot_be_read_is_reported_and_the_rest_goes_on(
    run: Run, tmp_path: Path
) -> None:
    overwrite(copy_of_golden(CLEAN.name, tmp_path) / "l/current/0.log", 1028, bytes(8))
    found = list(read_ledger(folders_of(tmp_path), 5))
    assert [type(each) for each in found] == [Damage, Source, StoredEntry]
    errors = failure(run(tmp_path, "readledger", "5"))
    log = tmp_path / "l/current/0.log"
    assert f"0/5/5.idx, offset 1024: entry log {log}, offset 1028: entry 0 of ledger 5" in errors


def test_an_unknown_ledger_is_reported_with_the_file_that_is_missing(run: Run) -> None:
    for verb in ("ledger", "readledger"):
        code, output, errors = run(CLEAN, verb, "77")
        assert (code, output) == (1, "")
        assert "no entries of ledger 77 (read as decimal): current/0/4d/4d.idx does not" in errors


def test_a_damaged_index_is_one_line_and_the_other_ledgers_are_listed(
    run: Run, tmp_path: Path
) -> None:
    overwrite(copy_of_golden(CLEAN.name, tmp_path) / "l/current/0/5/5.idx", 0, b"XXXX")
    code, output, errors = run(tmp_path, "listledgers")
    assert code == 1
    assert output.startswith("ledgerID: 4660, ")
    assert "0/5/5.idx" in errors
    assert run(tmp_path, "ledger", "5")[0] == 1


def test_several_directories_of_each_kind_are_read_as_one(tmp_path: Path) -> None:
    journals, ledgers = ([tmp_path / f"{kind}{i}" for i in range(2)] for kind in "jl")
    journal_disks, ledger_disks = map(RealDisk, journals), map(RealDisk, ledgers)
    recorder = Recorder("bookie", lambda: 0)
    store = LedgerStore([*journal_disks], [*ledger_disks], SMALL, recorder, 1)
    for ledger_id in (4, 5):
        add(store, ledger_id, 0)
    store.checkpoint()
    for ledger_id in (4, 5):
        add(store, ledger_id, 1)
    folders = open_folders(journals, ledgers)
    summaries = [each for each in list_ledgers(folders) if isinstance(each, LedgerSummary)]
    assert [(s.ledger_id, s.entry_count, s.journal_entry_count) for s in summaries] == [
        (4, 1, 1),
        (5, 1, 1),
    ]
    assert len({Path(s.index_file).parents[3] for s in summaries}) == 2
    assert [mark.journal_id for mark in last_marks(folders)] == [1, 1]
    assert check_consistency(folders, CRC32C) == ConsistencyReport(2, 2, ())
