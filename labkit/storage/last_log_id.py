"""`lastId`: the id of the newest entry log, kept so that no later log gets it again.

In BookKeeper: `bookie/EntryLoggerAllocator.java` (setLastLogId, getLastLogId).
"""

from labkit.storage.disk import Disk

LAST_LOG_ID = 2**31 - 1
"""A location has 31 bits for it; after the last id the first free one is next."""
_PATH = "current/lastId"


def read_last_log_id(disk: Disk) -> int:
    """The id that the directory names; -1 if it names none.

    It is written without a sync, so a crash may leave it torn; the logs' names tell as well.
    """
    if not disk.exists(_PATH):
        return -1
    file = disk.open(_PATH)
    text = file.read(0, 64).strip()
    file.close()
    try:
        last_id = int(text, 16)
    except ValueError:
        last_id = -1
    return last_id if 0 <= last_id <= LAST_LOG_ID else -1


def write_last_log_id(disk: Disk, log_id: int) -> None:
    """Name it in the directory."""
    file = disk.create(_PATH)
    file.write(0, f"{log_id:x}\n".encode())
    file.close()
