"""Make Python behave as on Windows. To use this module, put its directory first on PYTHONPATH."""

import asyncio
import importlib.abc
import os
import signal
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from taken_away import load, take_away  # type: ignore[import-not-found]

OTHERS = """
    IPython.core.interactiveshell IPython.terminal.interactiveshell anywidget
    concurrent.futures.process concurrent.futures.thread google.protobuf.internal.builder
    google_crc32c importlib.resources ipywidgets kazoo.client logging.handlers
    multiprocessing.connection multiprocessing.popen_spawn_posix multiprocessing.resource_tracker
    multiprocessing.spawn nbclient nbconvert.preprocessors nbformat numpy pandas
    plotly.graph_objects psutil pyarrow.parquet pyspark.sql pyspark.sql.datasource pytest shutil
    subprocess tempfile tornado.web
"""

MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}

OS = """
    O_CLOEXEC O_DIRECT O_DIRECTORY O_DSYNC O_NOCTTY O_NOFOLLOW O_NONBLOCK O_SYNC P_PID SEEK_DATA
    SEEK_HOLE WEXITED WNOHANG WNOWAIT chown chroot confstr copy_file_range eventfd fchown
    fdatasync fork forkpty fstatvfs getegid geteuid getgid getgroups getloadavg getpgid getpgrp
    getpriority getsid getuid killpg lchown lockf major makedev memfd_create minor mkfifo mknod
    nice openpty pidfd_open pipe2 posix_fadvise posix_fallocate posix_spawn posix_spawnp pread
    preadv pwrite pwritev register_at_fork sched_getaffinity sched_setaffinity sched_yield
    sendfile setegid seteuid setgid setpgid setpriority setsid setuid setxattr splice statvfs sync
    sysconf ttyname uname wait wait3 wait4 waitid
"""

SIGNALS = """
    SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 alarm pause
    pthread_kill pthread_sigmask setitimer sigpending sigtimedwait sigwait
"""


class Hidden(importlib.abc.MetaPathFinder):
    """Import finder that rejects modules that Windows lacks."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname in MODULES:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def refuse(*_: object) -> None:
    raise NotImplementedError


load(OTHERS)
for name in MODULES:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Hidden())
take_away(os, OS)
take_away(signal, SIGNALS)
asyncio.SelectorEventLoop.add_signal_handler = refuse  # type: ignore[assignment, method-assign]
sys.platform = "win32"
