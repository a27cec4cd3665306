"""LastLogMark: the position in the journal from which replay starts.

The contents of all records before the mark are in the entry log and the index, and both have been
synced. The mark is determined before a flush begins, and persisted only after the flush is durable.

`LogMark` is BookKeeper's name for any position in the journal. In both of these names, "log" means
the journal; in `log_id`, `log_name` and `LogEntry`, it means an entry log.

In BookKeeper: `bookie/LogMark.java`, `bookie/Journal.java` (class LastLogMark).
"""

from typing import NamedTuple

from labkit.system.model.layout import Field, Layout
from labkit.system.storage.disk import Disk, read_if_exists

LAST_MARK = Layout(
    "lastMark",
    Field("journal file id", "q", "id of the journal file; in hex, it is the file's name"),
    Field("offset", "q", "offset where replay starts"),
)


def mark_file_name(journal: int, journal_count: int) -> str:
    return "lastMark" if journal_count == 1 else f"lastMark.{journal}"


class LogMark(NamedTuple):
    """A position in the journal. Positions are compared by file id, then by offset."""

    file_id: int
    offset: int

    @property
    def file_name(self) -> str:
        return f"{self.file_id:x}.txn"


START = LogMark(0, 0)
"""The position before the first journal file."""


def write_last_mark(disk: Disk, mark: LogMark, name: str = "lastMark") -> None:
    """Persist the mark in a ledger directory; a crash leaves either the old mark or the new one."""
    path = f"current/{name}"
    new_path = path + ".new"
    file = disk.create(new_path)
    file.write(0, LAST_MARK.struct.pack(*mark))
    file.sync()
    file.close()
    disk.rename(new_path, path)
    disk.sync_folder("current")


def read_last_mark(disk: Disk, name: str = "lastMark") -> LogMark:
    """Return the persisted mark, or `START` if it is missing, negative or not 16 bytes long."""
    data = read_if_exists(disk, f"current/{name}", LAST_MARK.size + 1)
    # As in BookKeeper, a torn mark is ignored: replaying too many records does no harm.
    if len(data) != LAST_MARK.size:
        return START
    mark = LogMark(*LAST_MARK.struct.unpack(data))
    return mark if min(mark) >= 0 else START
