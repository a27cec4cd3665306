"""One sync of a whole file system, where that is as good as the syncs of its files.

A bookie with thousands of ledgers flushes thousands of small index files.  Synced one by one each
pays for a commit of the file system; `syncfs` commits once, and takes a small part of the time.

The rule: a sync that cannot report its failure is not a sync.  `syncfs` tells of blocks that could
not be written since Linux 5.8, only what failed since its descriptor was opened, and only where the
file system writes to its device itself: one that lies over another (overlay) keeps silent.
"""

import ctypes
import os
import platform
import re
import weakref
from functools import cache
from pathlib import Path

_FIRST_THAT_TELLS = (5, 8)
_TELL = frozenset({"ext4", "xfs"})


class FileSystem:
    """The file system that a folder is on.  Make it before what it is to sync is written."""

    def __init__(self, folder: Path) -> None:
        self._fd = -1
        self._folder = folder
        if _kernel_tells() and _kind(os.stat(folder).st_dev) in _TELL:
            self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self._fd)

    def sync(self) -> bool:
        """True: all that was written to it is on the device.  False: it cannot tell; none is done.

        Raises `OSError` for a block of any file that could not be written since the last call.
        """
        if self._fd < 0:
            return False
        if _libc().syncfs(self._fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(self._folder))
        return True


def _kernel_tells() -> bool:
    release = re.match(r"(\d+)\.(\d+)", platform.release())
    return (
        platform.system() == "Linux"
        and release is not None
        and (int(release[1]), int(release[2])) >= _FIRST_THAT_TELLS
    )


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _kind(device: int) -> str:
    """The kind of the file system, as `/proc/self/mountinfo` has it (see proc(5))."""
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
