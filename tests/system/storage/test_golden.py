"""Test that labkit can read and continue files written by Apache BookKeeper 4.17.4."""

from pathlib import Path

import pytest

from labkit.system.model.entry import Entry, decode_entry
from labkit.system.model.errors import NoEntryException
from labkit.system.storage.entry_log import (
    location_of,
    log_ids,
    log_name,
    read_ledgers_map,
    scan_entry_log,
)
from labkit.system.storage.index.ledger_index import LedgerIndex, ledger_ids_on_disk
from labkit.system.storage.journal import EXPLICIT_LAC, FENCE, LEDGER_KEY, journal_ids
from labkit.system.storage.journal_scan import JournalScan
from labkit.system.storage.log_mark import START, LogMark, read_last_mark
from labkit.worlds.live.disk import RealDisk
from tests.system.storage.support import CRC32C, GOLDEN, KEY, add, copy_of_golden, open_store

pytestmark = pytest.mark.interop

CLEAN, ROLLED = "sorted-clean-shutdown", "rolled-logs-with-ledgers-map"
CRASHED = ["journal-v4-crash", "journal-v6-crash"]
EXPLICIT_LAC_1 = "000000000000000500000000000000019aea0d92"
ENTRIES = {
    CLEAN: {(5, 0), (5, 1), (0x1234, 0)},
    ROLLED: {(7, entry_id) for entry_id in range(100)},
    CRASHED[0]: {(7, 0), (7, 1), (7, 2)},
    CRASHED[1]: {(7, 0), (7, 1), (7, 2)},
}


def journal(name: str) -> JournalScan:
    disk = RealDisk(GOLDEN / name / "j")
    (file_id,) = journal_ids(disk)
    return JournalScan(disk, file_id)


def ledger_disk(name: str) -> RealDisk:
    return RealDisk(GOLDEN / name / "l")


def test_clean_journal_has_every_kind_of_record() -> None:
    records = list(journal(CLEAN).records())
    assert [(r.offset, r.ledger_id, r.entry_id) for r in records] == [
        (0x200, 5, LEDGER_KEY),
        (0x22C, 5, 0),
        (0x400, 5, 1),
        (0x600, 0x1234, LEDGER_KEY),
        (0x62C, 0x1234, 0),
        (0xA00, 5, EXPLICIT_LAC),
        (0xC00, 5, FENCE),
    ]
    assert records[0].body[20:] == KEY
    assert decode_entry(records[1].body, CRC32C, 5, 0) == Entry(5, 0, -1, 5, b"hello")
    assert records[5].body[20:].hex() == EXPLICIT_LAC_1


@pytest.mark.parametrize(
    ("name", "version", "offsets", "end"),
    [
        (CRASHED[0], 4, [8, 52, 97, 142], 187),
        (CRASHED[1], 6, [512, 556, 1024, 1536], 2048),
    ],
)
def test_journal_of_a_crash_is_read_to_its_end(
    name: str, version: int, offsets: list[int], end: int
) -> None:
    scan = journal(name)
    records = list(scan.records())
    assert scan.version == version
    assert [r.offset for r in records] == offsets
    assert [(r.ledger_id, r.entry_id) for r in records] == [(7, LEDGER_KEY), (7, 0), (7, 1), (7, 2)]
    assert scan.end_offset == end


def test_last_marks_are_read() -> None:
    assert read_last_mark(ledger_disk(CLEAN)) == LogMark(0x1A1FD4B7370, 3584)
    assert read_last_mark(ledger_disk(ROLLED)) == LogMark(0x1A1FD4D7C5D, 308224)
    assert {read_last_mark(ledger_disk(name)) for name in CRASHED} == {START}


def test_ledgers_map_of_every_rolled_log_is_what_a_scan_finds() -> None:
    disk = ledger_disk(ROLLED)
    for log_id in range(5):
        found = list(scan_entry_log(disk, log_id))
        assert read_ledgers_map(disk, log_id) == {7: sum(4 + len(e.data) for e in found)}
    assert read_ledgers_map(disk, 0) == {7: 21280}


def test_the_active_log_and_the_preallocated_one_have_no_map() -> None:
    disk = ledger_disk(ROLLED)
    assert log_ids(disk) == list(range(7))
    assert [read_ledgers_map(disk, log_id) for log_id in (5, 6)] == [None, None]
    assert [len(list(scan_entry_log(disk, log_id))) for log_id in (5, 6)] == [9, 0]


@pytest.mark.parametrize("name", [CLEAN, ROLLED])
def test_indexes_point_to_every_entry_of_the_logs(name: str) -> None:
    disk = ledger_disk(name)
    in_logs = {
        (found.ledger_id, found.entry_id): location_of(log_id, found.offset + 4)
        for log_id in log_ids(disk)
        for found in scan_entry_log(disk, log_id)
    }
    in_indexes = {
        (ledger_id, entry_id): location
        for ledger_id in ledger_ids_on_disk(disk)
        for entry_id, location in LedgerIndex.load(ledger_id, disk, 8192).locations()
    }
    assert in_logs == in_indexes
    assert in_logs.keys() == ENTRIES[name]


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_of_a_golden_store_can_be_read(name: str, tmp_path: Path) -> None:
    for _ in range(2):
        store = open_store(copy_of_golden(name, tmp_path))
        assert set(store.ledger_ids()) == {ledger_id for ledger_id, _ in ENTRIES[name]}
        for ledger_id, entry_id in ENTRIES[name]:
            data = store.read_entry(ledger_id, entry_id)
            assert int.from_bytes(data[:8], "big") == ledger_id
            assert int.from_bytes(data[8:16], "big") == entry_id
            if ledger_id != 0x1234:
                decode_entry(data, CRC32C, ledger_id, entry_id)
        last = max(ENTRIES[name])
        assert store.last_entry_id(last[0]) == last[1]
        with pytest.raises(NoEntryException):
            store.read_entry(last[0], last[1] + 1)
        store.close()


@pytest.mark.parametrize("name", CRASHED)
def test_a_replayed_crash_is_on_disk_afterwards(name: str, tmp_path: Path) -> None:
    (crashed,) = journal_ids(RealDisk(copy_of_golden(name, tmp_path) / "j"))
    store = open_store(tmp_path)
    assert not store.is_in_memory(7, 0)
    assert read_last_mark(RealDisk(tmp_path / "l")).file_id == crashed
    assert store.journals[0].append(b"x" * 16).file_id == crashed + 1


def test_new_entries_go_into_new_files(tmp_path: Path) -> None:
    before = {
        p.relative_to(GOLDEN / ROLLED): p.read_bytes() for p in (GOLDEN / ROLLED).rglob("*.log")
    }
    store = open_store(copy_of_golden(ROLLED, tmp_path))
    add(store, 7, 100)
    store.close()
    assert {path: (tmp_path / path).read_bytes() for path in before} == before
    assert [e[1:3] for e in scan_entry_log(RealDisk(tmp_path / "l"), 7)] == [(7, 100)]
    assert (tmp_path / "l/current/lastId").read_text() == "8\n"
    assert (tmp_path / "l/current" / log_name(8)).stat().st_size == 0
