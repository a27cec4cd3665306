"""The verbs `readlog` and `readlogmetadata`, and a reader of single entries at given locations.

In BookKeeper: `tools/cli/commands/bookie/ReadLogCommand.java`, `ReadLogMetadataCommand.java`.
"""

from collections.abc import Iterator

from labkit.system.model.entry import Digest
from labkit.system.model.errors import StorageDamagedException
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import File
from labkit.system.storage.entry_log import (
    LOG_HEADER,
    MAGIC,
    EntryLogger,
    read_ledgers_map,
    scan_entry_log,
)
from labkit.views.shell.folders import BookieFolders, FileId, find_file
from labkit.views.shell.journal import view_entry
from labkit.views.shell.records import (
    FROM_MAP,
    Damage,
    LedgerBytes,
    LogFile,
    LogMetadata,
    StoredEntry,
)
from labkit.views.xray.file_spans import log_frames

_FIRST_ENTRY = LOG_HEADER.size + LENGTH_SIZE


def read_log(
    folders: BookieFolders,
    file_id: FileId,
    ledger_id: int | None = None,
    entry_id: int | None = None,
    digest: Digest | None = None,
) -> Iterator[LogFile | StoredEntry | Damage]:
    """Yield the log, then all its entries or only the requested ones, then a `Damage` if its end is
    torn.

    Raises `ShellError` if the log does not exist.
    """
    disk = find_file(folders.ledgers, "entry log", file_id)
    yield LogFile(file_id.number, file_id.name, ledger_id, entry_id)
    magic = disk.open(f"current/{file_id.name}").read(0, len(MAGIC))
    if magic not in (b"", MAGIC):
        yield Damage(file_id.name, 0, f"not an entry log: expected {MAGIC!r}, got {magic!r}")
    end = LOG_HEADER.size
    for offset, found_ledger, found_entry, data in scan_entry_log(disk, file_id.number):
        end = offset + LENGTH_SIZE + len(data)
        if ledger_id in (None, found_ledger) and entry_id in (None, found_entry):
            yield view_entry(file_id.name, offset, found_ledger, found_entry, data, digest)
    yield from _torn_end(disk.open(f"current/{file_id.name}"), file_id.name, end)


def read_log_metadata(folders: BookieFolders, file_id: FileId) -> LogMetadata:
    """Return the size of each ledger, from the log's ledgers map or, if that is missing, from a
    scan.

    Raises `ShellError` if the log does not exist.
    """
    disk = find_file(folders.ledgers, "entry log", file_id)
    sizes, source = read_ledgers_map(disk, file_id.number), FROM_MAP
    if sizes is None:
        sizes, source = {}, "scan, because the ledgers map is missing or damaged"
        for _, ledger_id, _, data in scan_entry_log(disk, file_id.number):
            sizes[ledger_id] = sizes.get(ledger_id, 0) + LENGTH_SIZE + len(data)
    ledgers = tuple(LedgerBytes(*item) for item in sorted(sizes.items()))
    return LogMetadata(file_id.number, file_id.name, sum(sizes.values()), ledgers, source)


def _torn_end(file: File, name: str, end: int) -> Iterator[Damage]:
    if 0 < file.size() < LOG_HEADER.size:
        yield Damage(name, file.size(), "the file ends inside its header")
        return
    for kind, offset, size in log_frames(file, end):
        if kind == "torn":
            yield Damage(name, offset, f"{size} bytes of an incomplete entry; reading stops here")


class EntryReader:
    """Reads entries by location, from all ledger directories, as the bookie does."""

    def __init__(self, folders: BookieFolders) -> None:
        self._logger = EntryLogger(folders.ledgers, StorageConfig())

    def read(self, location: int, ledger_id: int, entry_id: int) -> bytes:
        if location < 0 or location & 0xFFFFFFFF < _FIRST_ENTRY:
            raise StorageDamagedException(
                f"entry {entry_id} of ledger {ledger_id}: the location in its index, {location:#x},"
                " is not valid in an entry log"
            )
        return self._logger.read(location, ledger_id, entry_id)
