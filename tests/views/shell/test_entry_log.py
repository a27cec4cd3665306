"""Tests that `readlog` and `readlogmetadata` print every entry of a log and report torn logs."""

from pathlib import Path

import pytest

from labkit.views.shell.entry_log import read_log, read_log_metadata
from labkit.views.shell.folders import FileId, parse_file_id
from labkit.views.shell.records import Damage, LedgerBytes, LogFile, LogMetadata, StoredEntry
from tests.system.storage.support import CRC32C, copy_of_golden
from tests.views.shell.support import CLEAN, ROLLED, Run, failure, folders_of, json_lines, overwrite


def wanted(name: str) -> FileId:
    return parse_file_id(name, ".log", 10)


def test_readlog_prints_what_bookkeepers_shell_prints(run: Run) -> None:
    expected = "Scan entry log 0 (0.log)\n" + "".join(
        f"--------- Lid={ledger}, Eid={entry}, ByteOffset={offset}, EntrySize={size} ---------\n"
        f"Type:           DATA\nLastConfirmed:  {confirmed}\n\n"
        for ledger, entry, offset, size, confirmed in (
            (5, 0, 1024, 41, -1),
            (5, 1, 1069, 41, 0),
            (4660, 0, 1114, 752, -1),
        )
    )
    assert run(CLEAN, "readlog", "0") == (0, expected, "")


def test_entries_are_given_whole_and_checked() -> None:
    log, hello, world, other = read_log(folders_of(CLEAN), wanted("0.log"), digest=CRC32C)
    assert log == LogFile(0, "0.log", None, None)
    assert isinstance(hello, StoredEntry)
    assert isinstance(world, StoredEntry)
    assert isinstance(other, StoredEntry)
    assert (hello.payload, world.payload) == (b"hello", b"world")
    assert [e.digest_matches for e in (hello, world, other)] == [True, True, False]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["-l", "5"], [(5, 0), (5, 1)]),
        (["-l", "5", "-e", "1"], [(5, 1)]),
        (["-l", "6"], []),
    ],
)
def test_one_ledger_or_one_entry_can_be_asked_for(
    run: Run, options: list[str], found: list[tuple[int, int]]
) -> None:
    code, output, _ = run(CLEAN, "--json", "readlog", *options, "0.log")
    _, *entries = json_lines(output)
    assert code == 0
    assert [(e["ledger_id"], e["entry_id"]) for e in entries] == found


def test_an_entry_without_its_ledger_is_refused(run: Run) -> None:
    code, _, errors = run(CLEAN, "readlog", "-e", "1", "0")
    assert (code, errors) == (
        1,
        "labkit: -e requires -l, because entry ids are unique only within a ledger\n",
    )


@pytest.mark.parametrize("name", ["0.log", "4.log", "6.log"])
def test_logs_with_a_ledgers_map_and_empty_ones_end_well(run: Run, name: str) -> None:
    assert run(ROLLED, "readlog", name)[::2] == (0, "")


@pytest.mark.parametrize(
    ("size", "offset"), [(1869, 1114), (1120, 1114), (1075, 1069), (1023, 1023)]
)
def test_a_torn_log_is_one_line_with_file_and_offset(
    run: Run, tmp_path: Path, size: int, offset: int
) -> None:
    log = copy_of_golden(CLEAN.name, tmp_path) / "l/current/0.log"
    log.write_bytes(log.read_bytes()[:size])
    errors = failure(run(tmp_path, "readlog", "0"))
    assert errors.count("\n") == 1
    assert errors.startswith(f"labkit: 0.log, offset {offset}: ")


def test_a_file_that_is_not_an_entry_log_is_refused(tmp_path: Path) -> None:
    overwrite(copy_of_golden(CLEAN.name, tmp_path) / "l/current/0.log", 0, b"BKXX")
    damage = [d for d in read_log(folders_of(tmp_path), wanted("0")) if isinstance(d, Damage)]
    assert [(d.offset, "BKXX" in d.problem) for d in damage] == [(0, True)]


def test_readlogmetadata_prints_what_bookkeepers_shell_prints(run: Run) -> None:
    code, output, _ = run(CLEAN, "readlogmetadata", "0")
    assert code == 0
    assert output.splitlines()[0] == "Print entryLogMetadata of entrylog 0 (0.log)"
    assert output.splitlines()[2:] == [
        "entryLogId: 0, remaining size: 846, total size: 846, usage: 1.0",
        "--------- Lid=5, TotalSizeOfEntriesOfLedger=90  ---------",
        "--------- Lid=4660, TotalSizeOfEntriesOfLedger=756  ---------",
    ]


def test_a_log_without_a_whole_map_is_scanned(tmp_path: Path) -> None:
    folders, log = folders_of(copy_of_golden(ROLLED.name, tmp_path)), wanted("0")
    mapped = read_log_metadata(folders, log)
    assert mapped == LogMetadata(0, "0.log", 21280, (LedgerBytes(7, 21280),), "ledgers map")
    overwrite(tmp_path / "l/current/0.log", 22324, b"\0\0\0\2")
    scanned = read_log_metadata(folders, log)
    assert scanned.source.startswith("scan")
    assert scanned.ledgers == mapped.ledgers
