"""The highest id that an entry log ever had, in the file `lastId` of each ledger directory.

After every id ever given, the next one is new, so an index that points to a removed log never meets
another one.  In BookKeeper: `bookie/EntryLoggerAllocator.java`.
"""

from labkit.system.storage.disk import Disk

MAX_LOG_ID = 2**31 - 1
"""A location has 31 bits for it; after the last id the first free one is next."""
_PATH = "current/lastId"


def read_last_id(disk: Disk) -> int:
    """The id in a directory; -1 if there is none."""
    if not disk.exists(_PATH):
        return -1
    file = disk.open(_PATH)
    text = file.read(0, 64).strip()
    file.close()
    try:
        last_id = int(text, 16)
    except ValueError:
        last_id = -1
    # Written without a sync, so a crash may leave it torn; the logs' names tell as well.
    return last_id if 0 <= last_id <= MAX_LOG_ID else -1


def write_last_id(disk: Disk, log_id: int) -> None:
    """Keep the id there."""
    file = disk.create(_PATH)
    file.write(0, f"{log_id:x}\n".encode())
    file.close()
    disk.sync_folder("current")
