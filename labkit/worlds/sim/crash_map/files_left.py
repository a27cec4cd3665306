"""Describes the files that a crash leaves on a machine's disks."""

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
_RECORD_NAMES = {LEDGER_KEY: "key", FENCE: "fence", EXPLICIT_LAC: "LAC"}


@dataclass(frozen=True, slots=True)
class FileShown:
    """A file, shown by its name, a description of its contents, and the first bytes after its
    header.
    """

    path: str
    size: int
    description: str
    excerpt_offset: int
    excerpt: bytes


def show_files(disks: tuple[SimDisk, ...]) -> tuple[FileShown, ...]:
    """Describe all journals, entry logs, index files and `lastMark` files."""
    return tuple(
        _describe(disk, path)
        for disk in disks
        for path in disk.paths()
        if path.endswith((".txn", ".log", ".idx")) or path.rpartition("/")[2].startswith("lastMark")
    )


def _describe(disk: SimDisk, path: str) -> FileShown:
    file, name = disk.open(path), path.rpartition("/")[2]
    stem, _, suffix = name.partition(".")
    start = 0
    try:
        match suffix:
            case "txn":
                start, description = JOURNAL_HEADER.size, _describe_journal(disk, int(stem, 16))
            case "log":
                start, description = LOG_HEADER.size, _describe_log(disk, int(stem, 16))
            case "idx":
                slots = file.read(DATA_OFFSET, file.size())
                start, description = DATA_OFFSET, ", ".join(_describe_index(int(stem, 16), slots))
            case _:
                mark = read_last_mark(disk, name)
                description = f"replay starts in {mark.file_name} at {mark.offset}"
                if mark == START:
                    description = "replay starts with the first journal"
    except StorageDamagedException as error:
        description = str(error)
    excerpt = file.read(start, _EXCERPT_SIZE)
    return FileShown(
        path.removeprefix("current/"), file.size(), description or "empty", start, excerpt
    )


def _describe_journal(disk: SimDisk, file_id: int) -> str:
    return ", ".join(
        f"{record.ledger_id}/{_RECORD_NAMES.get(record.entry_id, record.entry_id)}"
        f" at {record.offset}"
        for record in JournalScan(disk, file_id).records()
    )


def _describe_log(disk: SimDisk, log_id: int) -> str:
    return ", ".join(
        f"{entry.ledger_id}/{entry.entry_id} at {entry.offset + 4}"
        for entry in scan_entry_log(disk, log_id)
    )


def _describe_index(ledger_id: int, slots: bytes) -> Iterator[str]:
    complete = slots[: len(slots) // INDEX_SLOT.size * INDEX_SLOT.size]
    for entry_id, (location,) in enumerate(INDEX_SLOT.struct.iter_unpack(complete)):
        if location:
            log = log_name(location >> 32)
            yield f"{ledger_id}/{entry_id} in {log} at {location & 0xFFFFFFFF}"
