"""Fuzz the decoders of a bookie's files, and a whole store in which one file is damaged.

The seeds are small files that labkit's own store has written, with every kind of record.
"""

import errno
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from labkit.system.model.entry import encode_explicit_lac
from labkit.system.model.errors import LabkitError
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.entry_log import EntryLogger, read_ledgers_map, scan_entry_log
from labkit.system.storage.garbage import read_log_metadata
from labkit.system.storage.index.ledger_index import LedgerIndex, index_path
from labkit.system.storage.journal_scan import JournalScan
from labkit.system.storage.log_mark import read_last_mark
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder
from labkit.views.shell.consistency import check_consistency
from labkit.views.shell.folders import BookieFolders
from labkit.views.shell.ledgers import list_ledgers, read_index, read_ledger
from labkit.views.xray.file_spans import (
    cookie_spans,
    entry_log_spans,
    index_slots,
    index_spans,
    journal_spans,
    last_id_spans,
    last_mark_spans,
)
from labkit.worlds.sim.machine.disk import DiskController, SimDisk
from labkit.worlds.sim.machine.disk_operation import Operation
from labkit.worlds.sim.settings.bookie_script import DIGEST, MASTER_KEY, entry_bytes
from tests.fuzz.harness import Target

LEDGER = 5
CONFIG = StorageConfig(
    journal_max_size_mb=1, journal_pre_alloc_size_mb=1, log_size_limit=2048, page_size=64
)
FORMATS = {4: 0, 5: 0, 6: 1}
"""The index version that goes with each journal version."""
LONGEST_FILE = 1280 * 1024
"""In bytes, because a journal is preallocated to 1 MiB."""
INDEX = index_path(LEDGER)
JOURNAL, LOG, LAST_MARK, LAST_ID = (
    f"current/{name}" for name in ("1.txn", "0.log", "lastMark", "lastId")
)


def written(journal_version: int) -> tuple[SimDisk, SimDisk]:
    """Return the disks of a store that contains entries, a fence and an explicit LAC."""
    config = replace(
        CONFIG,
        journal_format_version_to_write=journal_version,
        file_info_format_version_to_write=FORMATS[journal_version],
    )
    disks = SimDisk(), SimDisk()
    store = _open(*disks, config)
    for entry_id in range(4):
        for ledger_id, size in ((LEDGER, 20), (LEDGER + 1, 700)):
            data = entry_bytes(ledger_id, entry_id, size)
            store.add_entry(ledger_id, entry_id, data, MASTER_KEY)
        store.commit()
    store.set_explicit_lac(LEDGER, encode_explicit_lac(LEDGER, 2, DIGEST), MASTER_KEY)
    store.fence(LEDGER + 1, MASTER_KEY)
    store.commit()
    store.checkpoint()
    for entry_id in range(4, 6):
        store.add_entry(LEDGER, entry_id, entry_bytes(LEDGER, entry_id, 20), MASTER_KEY)
    store.fence(LEDGER, MASTER_KEY)
    store.commit()
    return disks


def _open(journal: SimDisk, ledgers: SimDisk, config: StorageConfig = CONFIG) -> LedgerStore:
    return LedgerStore([journal], [ledgers], config, Recorder("bookie", lambda: 0), 1)


def content(disk: SimDisk, path: str) -> bytes:
    file = disk.open(path)
    return file.read(0, file.size())


def older_journal(version: int) -> bytes:
    """Return the journal as an older version of BookKeeper would have written it."""
    journal, _ = written(4)
    head = b"" if version == 1 else b"BKLG" + version.to_bytes(4, "big")
    known = {-0x1000: 3, -0x2000: 4}
    records = (
        r.body for r in JournalScan(journal, 1).records() if known.get(r.entry_id, 1) <= version
    )
    return head + b"".join(len(body).to_bytes(4, "big") + body for body in records)


def disk_with(path: str, data: bytes) -> SimDisk:
    """Return a disk that contains only this file."""
    disk = SimDisk()
    disk.create(path).write(0, data)
    return disk


def each(*calls: Callable[[], object]) -> None:
    """Make all the calls, even if some of them raise an error, and then raise the first error."""
    refusals: list[LabkitError] = []
    for call in calls:
        try:
            value = call()
            if isinstance(value, Iterator):
                deque(value, maxlen=0)
        except LabkitError as refusal:
            refusals.append(refusal)
    if refusals:
        raise refusals[0]


def _alone(path: str, *decoders: Callable[[SimDisk], object]) -> Callable[[bytes], object]:
    """Return a decoder that runs each of these functions on a disk that contains only that file."""
    return lambda data: each(*(partial(decoder, disk_with(path, data)) for decoder in decoders))


def _read_entry_log(disk: SimDisk) -> None:
    logger = EntryLogger([disk], CONFIG)
    for offset in (0, 3, 1028, 1500, 2**31):
        for log_id in (0, 7, -1):
            logger.has_entry(log_id << 32 | offset, LEDGER, 0)


def _read_whole_index(disk: SimDisk) -> None:
    index = LedgerIndex.load(LEDGER, disk, CONFIG.page_size)
    index.last_entry_id()
    for entry_id, location in index.locations():
        assert index.location(entry_id) == location
    index.header = index.header._replace(fenced=True)
    index.set_locations([9], [1 << 32])
    index.flush()
    again = LedgerIndex.load(LEDGER, disk, CONFIG.page_size)
    assert again.header.fenced
    assert (again.header.master_key, again.location(9)) == (index.header.master_key, 1 << 32)


def _disks_with(path: str, on_ledger_disk: bool, data: bytes) -> tuple[SimDisk, SimDisk]:
    """Return copies of a bookie's disks, on which this file has been replaced."""
    copies = _copied(DISKS[6][0]), _copied(DISKS[6][1])
    copies[on_ledger_disk].create(path).write(0, data)
    return copies


def _store_with(path: str, on_ledger_disk: bool) -> Callable[[bytes], object]:
    """Return a decoder that starts a bookie with this file replaced, uses it, and restarts it."""

    def decode(data: bytes) -> None:
        copies = _disks_with(path, on_ledger_disk, data)
        for _ in range(2):
            store = _open(*copies)
            with suppress(LabkitError):
                each(*reads(store))
            store.add_entry(77, 0, entry_bytes(77, 0, 20), MASTER_KEY)
            store.commit()
            store.checkpoint()
            assert store.read_entry(77, 0)

    return decode


def reads(store: LedgerStore) -> Iterator[Callable[[], object]]:
    """Yield calls that read the last entry and a few others of each ledger."""
    for ledger_id in store.ledger_ids():
        yield partial(store.last_entry_id, ledger_id)
        for entry_id in (-1, 0, 1, 5):
            yield partial(store.read_entry, ledger_id, entry_id)


def _copied(disk: SimDisk) -> SimDisk:
    return disk.after_crash(lambda _: 1, DiskController(watch=_limit_files))


def _limit_files(operation: Operation) -> None:
    """Reject huge files, because a simulated disk keeps the zeros of a sparse index in memory."""
    if operation.kind == "write" and operation.offset + operation.size > LONGEST_FILE:
        raise OSError(errno.EFBIG, f"{operation.path} is too long for this disk")


def _shell(path: str, on_ledger_disk: bool) -> Callable[[bytes], object]:
    """Return a decoder that runs the shell commands on a bookie with this file replaced."""

    def decode(data: bytes) -> None:
        journal, ledgers = _disks_with(path, on_ledger_disk, data)
        folders = BookieFolders((journal,), (ledgers,), (ledgers,))
        each(
            lambda: iter(read_index(folders, LEDGER)),
            lambda: iter(read_ledger(folders, LEDGER, digest=DIGEST)),
            lambda: iter(list_ledgers(folders)),
            lambda: check_consistency(folders, DIGEST),
        )

    return decode


def _file(spans: Callable[..., Iterator[object]]) -> Callable[[bytes], object]:
    return lambda data: spans(disk_with("current/file", data).open("current/file"))


DISKS = {version: written(version) for version in FORMATS}
MARK_OFFSET = int.from_bytes(content(DISKS[6][1], LAST_MARK)[8:16], "big")
"""Replay starts at this offset of the journal, so a store rejects a shorter journal."""
JOURNALS = {version: older_journal(version).ljust(MARK_OFFSET, b"\0") for version in (1, 2, 3)} | {
    version: content(journal, JOURNAL).rstrip(b"\0").ljust(MARK_OFFSET, b"\0")
    for version, (journal, _) in DISKS.items()
}
INDEXES = tuple(content(ledgers, INDEX) for _, ledgers in DISKS.values())
LOGS, MARKS, IDS = ((content(DISKS[6][1], path),) for path in (LOG, LAST_MARK, LAST_ID))

scan_journal = _alone(
    JOURNAL, lambda disk: JournalScan(disk, 1).records(), lambda disk: journal_spans(disk, 1)
)
read_log = _alone(
    LOG,
    lambda disk: scan_entry_log(disk, 0),
    lambda disk: read_ledgers_map(disk, 0),
    lambda disk: read_log_metadata(disk, 0),
    lambda disk: entry_log_spans(disk, 0),
    _read_entry_log,
)
read_ledger_index = _alone(
    INDEX,
    _read_whole_index,
    lambda disk: index_spans(disk, LEDGER),
    lambda disk: index_slots(disk.open(INDEX)),
)
read_last_id = _alone(LAST_ID, lambda disk: EntryLogger([disk], CONFIG).append(5, [bytes(40)]))

BOOKIES = (
    ("a journal", JOURNAL, False, tuple(JOURNALS.values())),
    ("an entry log", LOG, True, LOGS),
    ("an index", INDEX, True, INDEXES),
    ("lastMark", LAST_MARK, True, MARKS),
    ("lastId", LAST_ID, True, IDS),
)

STORAGE_TARGETS = (
    *(Target(f"journal {version}", scan_journal, (seed,)) for version, seed in JOURNALS.items()),
    Target("entry log", read_log, LOGS),
    Target("index", read_ledger_index, INDEXES),
    Target("lastMark", _alone(LAST_MARK, read_last_mark), MARKS),
    Target("lastMark spans", _file(last_mark_spans), MARKS),
    Target("lastId", read_last_id, IDS),
    Target("lastId spans", _file(last_id_spans), IDS),
    Target("cookie spans", _file(cookie_spans), (b'5\nbookieHost: "b"\n',)),
    *(
        Target(f"store over {name}", _store_with(path, of_ledgers), seeds, (LabkitError, OSError))
        for name, path, of_ledgers, seeds in BOOKIES
    ),
    *(
        Target(f"shell over {name}", _shell(path, of_ledgers), seeds)
        for name, path, of_ledgers, seeds in BOOKIES
    ),
)
