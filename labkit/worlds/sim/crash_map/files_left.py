"""The files on a machine's disks, in words and bytes."""

from collections.abc import Iterator
from dataclasses import dataclass

from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.entry_log import LOG_HEADER, log_name, scan_entry_log
from labkit.system.storage.index.ledger_index import DATA_OFFSET, INDEX_SLOT
from labkit.system.storage.journal import EXPLICIT_LAC, FENCE, JOURNAL_HEADER, LEDGER_KEY
from labkit.system.storage.journal_scan import JournalScan
from labkit.system.storage.log_mark import START, read_last_mark
from labkit.worlds.sim.machine.disk import SimDisk

_EXCERPT_SIZE = 32
_SPECIAL = {LEDGER_KEY: "key", FENCE: "fence", EXPLICIT_LAC: "LAC"}


@dataclass(frozen=True, slots=True)
class FileShown:
    """One file: its name, its content in words, and its first bytes after the header."""

    path: str
    size: int
    words: str
    excerpt_offset: int
    excerpt: bytes


def show_files(disks: tuple[SimDisk, ...]) -> tuple[FileShown, ...]:
    """Every file with content; files written aside and `lastId` are left out."""
    return tuple(
        _show(disk, path)
        for disk in disks
        for path in disk.paths()
        if path.endswith((".txn", ".log", ".idx")) or path.rpartition("/")[2].startswith("lastMark")
    )


def _show(disk: SimDisk, path: str) -> FileShown:
    file, name = disk.open(path), path.rpartition("/")[2]
    stem, _, suffix = name.partition(".")
    start = 0
    try:
        match suffix:
            case "txn":
                start, words = JOURNAL_HEADER.size, _journal_words(disk, int(stem, 16))
            case "log":
                start, words = LOG_HEADER.size, _log_words(disk, int(stem, 16))
            case "idx":
                slots = file.read(DATA_OFFSET, file.size())
                start, words = DATA_OFFSET, ", ".join(_index_words(int(stem, 16), slots))
            case _:
                mark = read_last_mark(disk, name)
                words = f"replay starts in {mark.file_name} at {mark.offset}"
                if mark == START:
                    words = "replay starts with the first journal"
    except StorageDamagedException as error:
        words = str(error)
    excerpt = file.read(start, _EXCERPT_SIZE)
    return FileShown(path.removeprefix("current/"), file.size(), words or "empty", start, excerpt)


def _journal_words(disk: SimDisk, file_id: int) -> str:
    return ", ".join(
        f"{record.ledger_id}/{_SPECIAL.get(record.entry_id, record.entry_id)} at {record.offset}"
        for record in JournalScan(disk, file_id).records()
    )


def _log_words(disk: SimDisk, log_id: int) -> str:
    return ", ".join(
        f"{entry.ledger_id}/{entry.entry_id} at {entry.offset + 4}"
        for entry in scan_entry_log(disk, log_id)
    )


def _index_words(ledger_id: int, slots: bytes) -> Iterator[str]:
    whole = slots[: len(slots) // INDEX_SLOT.size * INDEX_SLOT.size]
    for entry_id, (location,) in enumerate(INDEX_SLOT.struct.iter_unpack(whole)):
        if location:
            log = log_name(location >> 32)
            yield f"{ledger_id}/{entry_id} in {log} at {location & 0xFFFFFFFF}"
