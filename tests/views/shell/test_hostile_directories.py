"""Tests that every verb handles malformed directories: it terminates and reports the problem."""

import os
from pathlib import Path

import pytest

from labkit.system.model.entry import MAX_ENTRY_ID
from tests.system.storage.support import add, copy_of_golden, open_store
from tests.views.shell.support import CLEAN, Run, failure, json_lines

ABOUT_INDEXES = [
    ("ledger", "5"),
    ("readledger", "5"),
    ("listledgers",),
    ("localconsistencycheck",),
    ("rebuildindex", "--dry-run", "5"),
]
FEW_READS = 1000
"""Reading through a hole of 8 TiB would take millions of calls."""


@pytest.fixture
def few_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a verb that reads through a hole fail, because that would take hours."""
    reads = 0
    pread = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        nonlocal reads
        reads += 1
        assert reads < FEW_READS
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "pread", counted)


@pytest.fixture
def with_a_hole(tmp_path: Path) -> Path:
    """Write a bookie's files, with entry 0 and entry 2**40 - 1 of a ledger; return their folder."""
    store = open_store(tmp_path)
    add(store, 5, 0, MAX_ENTRY_ID)
    store.close()
    index = tmp_path / "l/current/0/5/5.idx"
    assert index.stat().st_size == 1024 + 8 * 2**40
    assert index.stat().st_blocks * 512 < 2**20
    return tmp_path


@pytest.mark.usefixtures("few_reads")
@pytest.mark.parametrize("verb", ABOUT_INDEXES, ids=lambda verb: verb[0])
def test_a_verb_passes_over_the_hole_of_an_index(
    run: Run, with_a_hole: Path, verb: tuple[str, ...]
) -> None:
    code, output, errors = run(with_a_hole, *verb)
    assert (code, errors) == (0, "")
    if verb[0] in ("ledger", "readledger"):
        assert str(MAX_ENTRY_ID) in output


@pytest.mark.usefixtures("few_reads")
def test_the_hole_of_an_index_is_one_span_of_its_x_ray(run: Run, with_a_hole: Path) -> None:
    code, output, _ = run(with_a_hole, "--json", "xray", f"{with_a_hole}/l/current/0/5/5.idx")
    names = [span["name"] for span in json_lines(output)]
    assert code == 0
    assert names[-3:] == ["entry 0", f"entries 1-{MAX_ENTRY_ID - 1}", f"entry {MAX_ENTRY_ID}"]


@pytest.mark.usefixtures("few_reads")
@pytest.mark.parametrize("name", ["l/current/0.log", "j/current/1a1fd4b7370.txn"])
def test_the_hole_behind_a_journal_or_an_entry_log_is_passed_over(
    run: Run, tmp_path: Path, name: str
) -> None:
    path = copy_of_golden(CLEAN.name, tmp_path) / name
    os.truncate(path, 2**43)
    verb = "readlog" if name.endswith(".log") else "readjournal"
    assert run(tmp_path, verb, path.name)[0] == 0
    assert run(tmp_path, "xray", str(path))[0] == 0
    if verb == "readlog":
        assert run(tmp_path, "readlogmetadata", path.name)[0] == 0


@pytest.mark.parametrize("verb", ABOUT_INDEXES, ids=lambda verb: verb[0])
@pytest.mark.parametrize("name", ["ledgers", "locations"])
def test_a_verb_about_indexes_refuses_the_directory_of_another_storage(
    run: Run, tmp_path: Path, name: str, verb: tuple[str, ...]
) -> None:
    database = copy_of_golden(CLEAN.name, tmp_path) / "l/current" / name
    database.mkdir()
    errors = failure(run(tmp_path, *verb))
    assert f"{database} belongs to BookKeeper's DbLedgerStorage" in errors


def test_files_common_to_every_storage_are_still_read(run: Run, tmp_path: Path) -> None:
    (copy_of_golden(CLEAN.name, tmp_path) / "l/current/locations").mkdir()
    for verb in (("readlog", "0"), ("lastmark",), ("listfilesondisc",)):
        assert run(tmp_path, *verb)[0] == 0


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("j/current/9.txn", ("readjournal", "9.txn")),
        ("j/current/9.txn", ("xray", "j/current/9.txn")),
        ("l/current/9.log", ("readlog", "9.log")),
        ("l/current/9.log", ("listfilesondisc",)),
        ("l/current/0/9/9.idx", ("ledger", "9")),
        ("l/current/0/9/9.idx", ("listledgers",)),
        ("l/current/0/9/9.idx", ("localconsistencycheck",)),
        ("l/current/0/9/9.idx", ("listfilesondisc",)),
        ("l/current/lastMark", ("lastmark",)),
    ],
)
def test_a_name_that_is_not_a_regular_file_is_refused_with_its_path(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    verb: tuple[str, ...],
) -> None:
    path = copy_of_golden(CLEAN.name, tmp_path) / name
    monkeypatch.chdir(tmp_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    errors = failure(run(tmp_path, *verb))
    assert f"{name} is a FIFO, expected a file: " in errors
