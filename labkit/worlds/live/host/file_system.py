"""One sync of a whole file system, where that is as safe as syncing each file.

A bookie with thousands of ledgers flushes thousands of small index files.  If each is synced by
itself, each needs a commit of the file system; `syncfs` commits once, in a fraction of the time.

The rule: a sync that cannot report its failure is not a sync.  Since Linux 5.8 `syncfs` reports
blocks that could not be written, but only failures since its descriptor was opened, and only if the
file system writes to its device itself: one on top of another (overlay) reports nothing.
"""

import ctypes
import os
import platform
import re
import weakref
from functools import cache
from pathlib import Path

_FIRST_KERNEL = (5, 8)
_REPORTING = frozenset({"ext4", "xfs"})


class FileSystem:
    """A folder's file system.  Create this before writing the data that it has to sync."""

    def __init__(self, folder: Path) -> None:
        self._fd = -1
        self._folder = folder
        if _kernel_reports_failures() and _kind(os.stat(folder).st_dev) in _REPORTING:
            self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self._fd)

    def sync(self) -> bool:
        """Sync; True: everything written to it is on the device.  False: unsupported, nothing was
        synced.

        Raises `OSError` if a block of any file could not be written since the last call.
        """
        if self._fd < 0:
            return False
        if _libc().syncfs(self._fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(self._folder))
        return True


def _kernel_reports_failures() -> bool:
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    return (
        platform.system() == "Linux"
        and release is not None
        and (int(release[1]), int(release[2])) >= _FIRST_KERNEL
    )


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _kind(device: int) -> str:
    """The type of the file system, from `/proc/self/mountinfo` (see proc(5))."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in (
        Path("/proc/self/mountinfo")
        .read_text(encoding="utf-8", errors="surrogateescape")
        .splitlines()
    ):
        mount, _, source = line.partition(" - ")
        if mount.split()[2] == number:
            return source.split()[0]
    return ""
