"""Make Python behave as on macOS. To use this module, put its directory first on PYTHONPATH.

Features that only Linux has are hidden, including `/proc`. F_FULLFSYNC exists: each call does the
most thorough sync that Linux offers and writes a line to the file named by FULL_SYNCS.
"""

import builtins
import fcntl
import io
import os
import platform
import select
import signal
import socket
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from taken_away import load, take_away  # type: ignore[import-not-found]

OTHERS = """
    asyncio concurrent.futures.process ctypes multiprocessing.resource_tracker
    multiprocessing.spawn psutil pytest shutil subprocess tempfile
"""

OS = """
    EFD_CLOEXEC MFD_CLOEXEC O_DIRECT O_LARGEFILE O_NOATIME O_PATH O_RSYNC O_TMPFILE P_PID
    POSIX_FADV_DONTNEED RWF_DSYNC WEXITED WNOWAIT copy_file_range eventfd fdatasync getrandom
    getresuid getxattr listxattr memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate
    removexattr sched_getaffinity sched_setaffinity setns setxattr splice timerfd_create unshare
    waitid
"""

SIGNALS = """
    SIGPOLL SIGPWR SIGRTMAX SIGRTMIN SIGSTKFLT pidfd_send_signal sigtimedwait sigwaitinfo
"""

SOCKETS = """
    AF_NETLINK AF_PACKET AF_VSOCK SOCK_CLOEXEC SOCK_NONBLOCK SO_BINDTODEVICE TCP_QUICKACK
"""

F_FULLFSYNC = 51
real_fcntl, real_open = fcntl.fcntl, io.open


def full_fcntl(fd: int, command: int, argument: int = 0) -> object:
    if command != F_FULLFSYNC:
        return real_fcntl(fd, command, argument)
    os.fsync(fd)
    with real_open(os.environ["FULL_SYNCS"], "a", encoding="utf-8") as called:
        called.write(f"{os.readlink(f'/proc/self/fd/{fd}')}\n")
    return 0


def open_without_proc(file: object, *arguments: object, **more: object) -> object:
    asks = str(sys._getframe(1).f_globals["__name__"])  # On macOS, psutil does not use /proc.
    if str(file).startswith("/proc") and not asks.startswith("psutil"):
        raise FileNotFoundError(2, "No such file or directory", str(file))
    return real_open(file, *arguments, **more)  # type: ignore[call-overload]


load(OTHERS)
take_away(os, OS)
take_away(signal, SIGNALS)
take_away(socket, SOCKETS)
take_away(select, "epoll")
left = take_away(fcntl, "F_OFD_SETLK F_SETPIPE_SZ")
left.F_FULLFSYNC = F_FULLFSYNC
left.fcntl = full_fcntl
io.open = builtins.open = open_without_proc  # type: ignore[assignment]
platform.system = lambda: "Darwin"
sys.platform = "darwin"
