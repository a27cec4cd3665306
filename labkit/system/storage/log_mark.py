"""LastLogMark: the place in the journal from which replay starts.

Everything before it is in the entry log and the index, synced.  It is taken before a flush begins
and persisted after the flush is durable; never the other way round.

In BookKeeper: `bookie/LogMark.java`, `bookie/Journal.java` (class LastLogMark).
"""

from typing import NamedTuple

from labkit.system.model.layout import Field, Layout
from labkit.system.storage.disk import Disk

LAST_MARK = Layout(
    "lastMark",
    Field("journal file id", "q", "the journal's number; its file is named by it in hex"),
    Field("offset", "q", "replay starts at this byte of it"),
)


def mark_name(journal: int, journal_count: int) -> str:
    """The file that keeps a journal's mark; with several journals, each has its own."""
    return "lastMark" if journal_count == 1 else f"lastMark.{journal}"


class LogMark(NamedTuple):
    """A position in the journal; marks compare by file, then offset."""

    file_id: int
    offset: int

    @property
    def file_name(self) -> str:
        """The journal file's name."""
        return f"{self.file_id:x}.txn"


START = LogMark(0, 0)
"""Before every journal: nothing was flushed yet."""


def write_last_mark(disk: Disk, mark: LogMark, name: str = "lastMark") -> None:
    """Persist the mark in a ledger directory: afterwards there is the old or the new one, whole."""
    path = f"current/{name}"
    aside = path + ".new"
    file = disk.create(aside)
    file.write(0, LAST_MARK.struct.pack(*mark))
    file.sync()
    file.close()
    disk.rename(aside, path)
    disk.sync_folder("current")


def read_last_mark(disk: Disk, name: str = "lastMark") -> LogMark:
    """The persisted mark; `START` if there is none, or it is not 16 bytes long or negative."""
    path = f"current/{name}"
    if not disk.exists(path):
        return START
    file = disk.open(path)
    data = file.read(0, LAST_MARK.size + 1)
    file.close()
    # A torn mark counts as none, as in BookKeeper: replaying too much does no harm.
    if len(data) != LAST_MARK.size:
        return START
    mark = LogMark(*LAST_MARK.struct.unpack(data))
    return mark if min(mark) >= 0 else START
