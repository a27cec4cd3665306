"""Stores the highest entry log id ever used, in the file `lastId` of each ledger directory.

Ids are not reused, because an index may still point to a deleted log.

In BookKeeper: `bookie/EntryLoggerAllocator.java`.
"""

from labkit.system.storage.disk import Disk, read_if_exists

MAX_LOG_ID = 2**31 - 1
"""A location has 31 bits for the log id. After the highest id, the lowest free id is used."""
_PATH = "current/lastId"


def read_last_id(disk: Disk) -> int:
    """Return the stored id, or -1 if no valid id is stored."""
    try:
        last_id = int(read_if_exists(disk, _PATH, 64).strip(), 16)
    except ValueError:
        last_id = -1
    # The file is not synced, so a crash may tear it. In that case, the names of the existing logs
    # show which ids have been used.
    return last_id if 0 <= last_id <= MAX_LOG_ID else -1


def write_last_id(disk: Disk, log_id: int) -> None:
    file = disk.create(_PATH)
    file.write(0, f"{log_id:x}\n".encode())
    file.close()
    disk.sync_folder("current")
