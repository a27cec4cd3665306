"""Code that reads a bookie's files closes them, no matter how reading ends."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.disk import Disk
from labkit.system.storage.entry_log import log_name, read_ledgers_map, scan_entry_log
from labkit.system.storage.index.ledger_index import LedgerIndex, index_path
from labkit.system.storage.journal_scan import JournalScan
from labkit.views.xray.file_spans import entry_log_spans, index_spans, journal_spans
from labkit.worlds.sim.machine.disk import SimDisk, SimFile
from tests.system.storage.support import entry
from tests.system.storage.test_journal_scan import KEPT, framed, header

JOURNAL = "current/1.txn"
LOG = f"current/{log_name(0)}"
INDEX = index_path(5)
LOG_HEADER = b"BKLO" + (1).to_bytes(4, "big")
AT_MAP = 1024
"""The offset of the ledgers map, for logs whose header contains it."""


@dataclass
class WatchedFile(SimFile):
    is_closed: bool = False

    def close(self) -> None:
        self.is_closed = True


class WatchedDisk(SimDisk):
    """A disk that remembers every file that was opened on it."""

    def __init__(self, path: str, data: bytes) -> None:
        super().__init__()
        self.create(path).write(0, data)
        self.opened: list[WatchedFile] = []

    def open(self, path: str) -> WatchedFile:
        file = super().open(path)
        self.opened.append(WatchedFile(file.disk, file.inode))
        return self.opened[-1]


Read = Callable[[Disk], object]


def _records(disk: Disk) -> object:
    return list(JournalScan(disk, 1).records())


@pytest.mark.parametrize(
    ("read", "path", "data"),
    [
        pytest.param(lambda disk: JournalScan(disk, 1), JOURNAL, header(7), id="journal version"),
        pytest.param(
            _records, JOURNAL, header(6) + framed(KEPT) + framed(b"7 bytes"), id="record length"
        ),
        pytest.param(
            lambda disk: list(JournalScan(disk, 1).records(9999)), JOURNAL, header(6), id="start"
        ),
        pytest.param(
            lambda disk: list(journal_spans(disk, 1)), JOURNAL, header(6)[:9], id="journal spans"
        ),
        pytest.param(
            lambda disk: list(entry_log_spans(disk, 0)), LOG, b"BKLO", id="entry log spans"
        ),
        pytest.param(lambda disk: LedgerIndex.load(5, disk, 8192), INDEX, bytes(2000), id="index"),
        pytest.param(lambda disk: list(index_spans(disk, 5)), INDEX, b"BKLE", id="index spans"),
    ],
)
def test_a_damaged_file_is_closed(read: Read, path: str, data: bytes) -> None:
    disk = WatchedDisk(path, data)
    with pytest.raises(StorageDamagedException):
        read(disk)
    assert disk.opened
    assert [file.inode.path for file in disk.opened if not file.is_closed] == []


@pytest.mark.parametrize("at", [AT_MAP, AT_MAP - 1])
def test_a_log_with_a_damaged_ledgers_map_is_closed(at: int) -> None:
    head = (LOG_HEADER + at.to_bytes(8, "big") + (1).to_bytes(4, "big")).ljust(AT_MAP, b"\0")
    disk = WatchedDisk(LOG, head + framed(bytes(60)))
    assert read_ledgers_map(disk, 0) is None
    assert [file.is_closed for file in disk.opened] == [True]


@pytest.mark.parametrize(
    ("scan", "path", "data"),
    [
        (
            lambda disk: JournalScan(disk, 1).records(),
            JOURNAL,
            header(6) + framed(KEPT) + framed(KEPT),
        ),
        (
            lambda disk: scan_entry_log(disk, 0),
            LOG,
            LOG_HEADER.ljust(1024, b"\0") + framed(entry(5, 0)) + framed(entry(5, 1)),
        ),
    ],
)
def test_a_scan_that_is_stopped_early_closes_its_file(
    scan: Callable[[Disk], Iterator[object]], path: str, data: bytes
) -> None:
    disk = WatchedDisk(path, data)
    assert next(scan(disk))
    assert [file.is_closed for file in disk.opened] == [True]
