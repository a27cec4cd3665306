"""sandbox: the process of one submission.

bubblewrap gives it a separate file system: the system, Python and labkit to read, 64 MB in memory
to write.  It sees no other process and has no network.  `inside` sets the limits of memory,
processes and open files before any of the submission's code runs.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import labkit
from labkit.live.missing import MissingPart

WRITABLE_BYTES = 64 << 20
_FIRST_USER, _USERS = 60_000, 5_000
_PACKAGES = "/code"
_INSIDE = "labkit.grading.inside"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a submission may use.

    exercise_s: wall-clock time of the student's function in one exercise; load_s: of the notebook's
    cells before that, all together; cell_s: of one of them.  megabytes: address space of each
    process; processes: how many, threads included.
    """

    exercise_s: float = 20.0
    load_s: float = 60.0
    cell_s: int = 10
    megabytes: int = 2048
    processes: int = 8


def require_sandbox() -> None:
    """Raises `MissingPart` where strangers' code cannot be shut in."""
    if shutil.which("bwrap") is None:
        raise MissingPart(
            "bubblewrap",
            "`labkit grade` runs strangers' code only in a sandbox, and there is no `bwrap` here",
            "on Debian `apt install bubblewrap`; on macOS and Windows grade in Docker or WSL; "
            "--without-sandbox runs code that you trust",
        )
    tried = subprocess.run(
        [*_bubblewrap(), sys.executable, "-c", ""], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        raise MissingPart(
            "bubblewrap",
            f"`bwrap` cannot make a sandbox: {tried.stderr.strip()[-200:]}",
            "allow user namespaces, or grade on a machine that allows them; --without-sandbox runs"
            " code that you trust",
        )


def start(limits: Limits, is_shut_in: bool) -> "subprocess.Popen[bytes]":
    """Start the process of one submission; it waits for the notebook's cells."""
    user = _FIRST_USER + os.getpid() % _USERS if is_shut_in and os.getuid() == 0 else 0
    numbers = (limits.megabytes, limits.processes, limits.cell_s, user)
    if not is_shut_in:
        # Outside of a sandbox the limit counts all processes of this user.
        numbers = (limits.megabytes, 1 << 16, limits.cell_s, 0)
    command = [sys.executable, "-m", _INSIDE, *map(str, numbers)]
    return subprocess.Popen(
        [*_bubblewrap(), *command] if is_shut_in else command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,
    )


def pipes(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    """Both ends that the grader holds: to write, and to read."""
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _bubblewrap() -> list[str]:
    command = ["bwrap", "--die-with-parent", "--new-session", "--clearenv"]
    if os.getuid() == 0:
        # It becomes an ordinary user inside; in a user namespace it would stay root for the limits.
        command += [f"--unshare-{each}" for each in ("ipc", "pid", "net", "uts", "cgroup-try")]
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-all"]
    for folder in ("/usr", "/bin", "/sbin", "/lib", "/lib64"):
        if os.path.islink(folder):
            command += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            command += ["--ro-bind", folder, folder]
    python = [each for each in (sys.base_prefix, sys.prefix) if not each.startswith("/usr")]
    shown = {f"{_PACKAGES}/labkit": str(Path(labkit.__file__).parent)}
    shown |= {prefix: os.path.realpath(prefix) for prefix in python}
    for inside, outside in shown.items():
        # bubblewrap makes folders that only root may enter.
        for parent in reversed(Path(inside).parents[:-1]):
            command += ["--perms", "0755", "--dir", str(parent)]
        command += ["--ro-bind", outside, inside]
    command += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc"]
    command += ["--dev", "/dev", "--remount-ro", "/dev"]
    command += ["--size", str(WRITABLE_BYTES), "--perms", "1777", "--tmpfs", "/tmp"]
    command += ["--chdir", "/tmp", "--remount-ro", "/"]
    variables = {"PYTHONPATH": _PACKAGES, "HOME": "/tmp", "OPENBLAS_NUM_THREADS": "1"}
    variables |= {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    for name, value in variables.items():
        command += ["--setenv", name, value]
    return command
