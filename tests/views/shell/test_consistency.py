"""Tests that `localconsistencycheck` finds every index location without a matching entry."""

import json
import struct
from pathlib import Path

import pytest

from labkit.views.shell.consistency import check_consistency
from labkit.views.shell.records import ConsistencyReport
from tests.system.storage.support import CRC32C, copy_of_golden
from tests.views.shell.support import CLEAN, ROLLED, Run, folders_of, overwrite

INDEX = "l/current/0/5/5.idx"


def test_the_files_of_apache_bookkeeper_pass(run: Run) -> None:
    assert check_consistency(folders_of(ROLLED)) == ConsistencyReport(1, 100, ())
    code, output, errors = run(CLEAN, "localconsistencycheck")
    assert (code, errors) == (0, "")
    assert output.startswith("=== Performing local consistency check ===\n")
    assert output.endswith("=== Check passed ===\n")


@pytest.mark.parametrize(
    ("location", "error"),
    [
        (0x7_0000_0404, "7.log"),
        (0x405, "l/current/0.log, offset 1029: entry 0 of ledger 5 is missing here"),
        (0x404_0000, "0.log"),
        (3, "the location in its index, 0x3, is not valid in an entry log"),
        (-1, "the location in its index, -0x1, is not valid in an entry log"),
    ],
)
def test_a_location_without_its_entry_is_an_error(
    run: Run, tmp_path: Path, location: int, error: str
) -> None:
    copy_of_golden(CLEAN.name, tmp_path)
    overwrite(tmp_path / INDEX, 1024, struct.pack(">q", location))
    code, output, errors = run(tmp_path, "--json", "localconsistencycheck")
    report = json.loads(output)
    assert code == 1
    assert report["kind"] == "ConsistencyReport"
    assert report["entry_count"] == 3
    assert len(report["errors"]) == 1
    assert error in report["errors"][0]
    assert errors.startswith("labkit: errors found: 1; the first one: ")


def test_an_entry_cut_off_its_log_and_a_damaged_index_are_errors(tmp_path: Path) -> None:
    log = copy_of_golden(CLEAN.name, tmp_path) / "l/current/0.log"
    log.write_bytes(log.read_bytes()[:-1])
    overwrite(tmp_path / INDEX, 4, b"\0\0\0\x09")
    report = check_consistency(folders_of(tmp_path))
    assert len(report.errors) == 2
    assert "version 9" in report.errors[0]
    assert "entry 0 of ledger 4660" in report.errors[1]


def test_digests_are_checked_when_given(tmp_path: Path) -> None:
    overwrite(copy_of_golden(ROLLED.name, tmp_path) / "l/current/0.log", 1024 + 4 + 40, b"!")
    assert check_consistency(folders_of(tmp_path)).errors == ()
    (error,) = check_consistency(folders_of(tmp_path), CRC32C).errors
    assert error.startswith("entry log 0.log, offset 1028: the CRC32C digest of entry 0")
