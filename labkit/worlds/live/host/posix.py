"""Operating system functions that Windows lacks: file locks, syncs, user ids, stopping processes.

On Windows, only the simulated world runs. All code that starts servers calls `require_posix`, which
raises an error that explains this. This module and the modules that use it can still be imported
there.
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
"""From macOS's <sys/syslimits.h>."""

_POLL_INTERVAL_S = 0.001

_NO_FULL_SYNC = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)
"""Errors of file systems without F_FULLFSYNC, such as network shares."""


def require_posix(what: str) -> None:
    """Raise `MissingPart` on Windows. The message says that `what` requires a different operating
    system.
    """
    if sys.platform == "win32":
        raise MissingPart(
            "System",
            f"{what} requires Linux or macOS, but this is Windows",
            "use labkit in WSL, in Docker or in a browser (Binder); the simulated world and lessons"
            " 01 to 10 and 14 to 17 run here",
        )


def raise_open_file_limit() -> None:
    """Raise the open-file limit of this process to its hard limit, as every JVM does.

    The default on macOS is 256, less than the number of index files that a bookie keeps open.
    """
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard
    if sys.platform == "darwin":  # macOS may report "unlimited", but rejects more than OPEN_MAX.
        most = _OPEN_MAX if hard == resource.RLIM_INFINITY else min(hard, _OPEN_MAX)
    if soft != resource.RLIM_INFINITY and (soft < most or most == resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def own_user() -> int:
    return os.geteuid()


def open_file_limit() -> int:
    if sys.platform == "win32":
        return sys.maxsize
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


async def stop_process(pid: int) -> None:
    """Send SIGSTOP and wait until all threads have stopped. Raises `ProcessLookupError`."""
    if sys.platform == "win32":
        require_posix("a stopped process")
        return
    # Imported here because psutil is missing in a browser's Python.
    from psutil import STATUS_STOPPED, STATUS_ZOMBIE, NoSuchProcess, Process  # noqa: PLC0415

    os.kill(pid, signal.SIGSTOP)
    try:
        while (status := Process(pid).status()) != STATUS_STOPPED:
            if status == STATUS_ZOMBIE:
                raise ProcessLookupError(f"process {pid} has exited")
            await asyncio.sleep(_POLL_INTERVAL_S)
    except NoSuchProcess as error:
        raise ProcessLookupError(str(error)) from error


def continue_process(pid: int) -> None:
    if sys.platform == "win32":
        require_posix("a stopped process")
        return
    os.kill(pid, signal.SIGCONT)


def try_lock(file: IO[bytes] | int) -> bool:
    """Lock an open file until it is closed. Return False if another process holds the lock."""
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
    """Sync a file's data and metadata, or the entries of a directory, to the device."""
    if sys.platform == "darwin":
        # macOS has no fdatasync, and its fsync leaves the data in the drive's cache, where a power
        # failure destroys it. Only F_FULLFSYNC waits until the drive has written the data.
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
    # On other systems, fsync reaches the device. On a macOS file system without F_FULLFSYNC, fsync
    # is the best available option. BookKeeper uses it as well, through Java.
    os.fsync(fd)
