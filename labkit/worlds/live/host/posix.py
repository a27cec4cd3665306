"""Functions of the operating system that Windows lacks: locks, syncs, user ids, stopped processes.

On Windows only the simulated world runs, and everything that starts servers refuses in one line
(`require_posix`).  This module, and those that use it, can be imported there.
"""

import asyncio
import errno
import os
import signal
import sys
from typing import IO

from labkit.system.model.missing_part import MissingPart

if sys.platform != "win32":
    import fcntl
    import resource

_OPEN_MAX = 10_240
"""Of macOS's <sys/syslimits.h>."""

_POLL_INTERVAL_S = 0.001

_NO_FULL_SYNC = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)
"""Errors of file systems without F_FULLFSYNC, such as network shares."""


def require_posix(what: str) -> None:
    """Raises `MissingPart` on Windows, where `what` does not run."""
    if sys.platform == "win32":
        raise MissingPart(
            "System",
            f"{what} needs Linux or macOS, and this is Windows",
            "use labkit in WSL, in Docker or in a browser (Binder); the simulated world and lessons"
            " 01 to 10 and 14 to 17 run here",
        )


def raise_open_file_limit() -> None:
    """Let this process open as many files as its hard limit allows, as every JVM does.

    macOS allows 256 by default: fewer than the index files that a bookie keeps open.
    """
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard
    if sys.platform == "darwin":  # It reports "unlimited", and refuses more than OPEN_MAX.
        most = _OPEN_MAX if hard == resource.RLIM_INFINITY else min(hard, _OPEN_MAX)
    if soft != resource.RLIM_INFINITY and (soft < most or most == resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def own_user() -> int:
    """The id of this process's effective user."""
    return os.geteuid()


def open_file_limit() -> int:
    """The number of files that this process may have open."""
    if sys.platform == "win32":
        return sys.maxsize
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


async def stop_process(pid: int) -> None:
    """SIGSTOP; returns when the process stands still.  Until then its threads may go on.

    Raises `ProcessLookupError` when it has ended.
    """
    if sys.platform == "win32":
        require_posix("a stopped process")
        return
    # A browser's Python has no psutil.
    from psutil import STATUS_STOPPED, STATUS_ZOMBIE, NoSuchProcess, Process  # noqa: PLC0415

    os.kill(pid, signal.SIGSTOP)
    try:
        while (status := Process(pid).status()) != STATUS_STOPPED:
            if status == STATUS_ZOMBIE:
                raise ProcessLookupError(f"process {pid} has ended")
            await asyncio.sleep(_POLL_INTERVAL_S)
    except NoSuchProcess as error:
        raise ProcessLookupError(str(error)) from error


def continue_process(pid: int) -> None:
    """SIGCONT: a stopped process goes on where it was."""
    if sys.platform == "win32":
        require_posix("a stopped process")
        return
    os.kill(pid, signal.SIGCONT)


def try_lock(file: IO[bytes] | int) -> bool:
    """Lock an open file for as long as it is open; False if another process has locked it."""
    if sys.platform == "win32":
        require_posix("a lock on a folder")
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def sync_data(fd: int) -> None:
    """Sync a file's data, and the metadata needed to read it, to the device."""
    if sys.platform == "linux":
        os.fdatasync(fd)
    else:
        sync_all(fd)


def sync_all(fd: int) -> None:
    """Sync all of a file, or the names in a folder, to the device."""
    if sys.platform == "darwin":
        # macOS has no fdatasync, and its fsync leaves the bytes in the drive's cache, which a power
        # cut empties: only this command waits until the drive has written them.
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
    # On other systems fsync reaches the device.  On a macOS file system without the command it is
    # the best available, and what Java does for BookKeeper.
    os.fsync(fd)
