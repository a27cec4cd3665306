"""sandbox: the process that runs one submission's code.

bubblewrap gives it a separate file system: the system, Python and labkit to read, 64 MB in memory
to write.  It sees no other process and has no network.  `seccomp` refuses the system calls that
hand out memory beyond its limit.  `inside` sets the limits of memory, processes and open files
before any of the submission's code runs.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import labkit
from labkit.course.checking.forked_check import without_memory_limit
from labkit.course.grading.isolation import seccomp
from labkit.system.model.missing_part import MissingPart
from labkit.worlds.live.host.java import find_java

WRITABLE_BYTES = 64 << 20
_FIRST_USER, _USERS = 60_000, 5_000
_PACKAGES = "/code"
_INSIDE = "labkit.course.grading.isolation.inside"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a submission may use.

    exercise_s: wall-clock time of the student's function in one exercise; load_s: of the notebook's
    cells before that, all together; cell_s: of one of them.  megabytes: address space of its
    process, with Spark memory of each of its processes; processes: how many threads, with Spark
    processes and threads; java: the home of the Java that runs Spark.
    """

    exercise_s: float = 20.0
    load_s: float = 60.0
    cell_s: int = 10
    megabytes: int = 2048
    processes: int = 8
    open_files: int = 64
    java: Path | None = None

    @property
    def submission_s(self) -> float:
        """Wall-clock time of everything that is done with one submission, from its start."""
        return 90 * self.exercise_s

    def with_spark(self) -> "Limits":
        """The limits of a submission whose exercises need Spark.

        A JVM has some hundred threads and opens every jar, and an exercise is a dozen small jobs,
        of a second each where two run at a time.  Raises `MissingPart` without a suitable Java.
        """
        with without_memory_limit():  # A JVM reserves gigabytes of addresses.
            java = find_java().home
        return replace(
            self,
            exercise_s=4 * self.exercise_s,
            load_s=2 * self.load_s,
            processes=512,
            open_files=1024,
            java=java,
        )


def require_sandbox() -> None:
    """Raises `MissingPart` where strangers' code cannot be shut in."""
    if shutil.which("bwrap") is None:
        raise MissingPart(
            "bubblewrap",
            "`labkit grade` runs strangers' code only in a sandbox, and there is no `bwrap` here",
            "on Debian `apt install bubblewrap`; on macOS and Windows grade in Docker or WSL; "
            "--without-sandbox runs code that you trust",
        )
    with _in_bubblewrap([sys.executable, "-c", "import labkit"], Limits(), 0) as (command, given):
        tried = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, pass_fds=given
        )
    if tried.returncode:
        is_bubblewraps = tried.stderr.startswith("bwrap: ") and "execvp" not in tried.stderr
        raise MissingPart(
            "bubblewrap",
            f"no sandbox can be started: {tried.stderr.strip()[-200:]}",
            (
                "allow user namespaces, or grade on a machine that allows them"
                if is_bubblewraps
                else f"bubblewrap works, but not the Python in {sys.prefix}: install labkit into"
                " an environment whose files all users may read"
            )
            + "; --without-sandbox runs code that you trust",
        )


@contextmanager
def started(limits: Limits, is_shut_in: bool) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a submission's process, which waits for the notebook's cells; kill it at the end.

    Raises `MissingPart` if it cannot be started.
    """
    user = _FIRST_USER + os.getpid() % _USERS if is_shut_in and os.getuid() == 0 else 0
    # Outside of a sandbox the limit counts all processes of this user.
    processes = limits.processes if is_shut_in else 1 << 16
    numbers = (limits.megabytes, processes, limits.open_files, limits.cell_s, user)
    spark = ["spark"] if limits.java else []
    command = [sys.executable, "-m", _INSIDE, *map(str, numbers), *spark]
    with ExitStack() as stack:
        given: tuple[int, ...] = ()
        if is_shut_in:
            command, given = stack.enter_context(_in_bubblewrap(command, limits, user))
        try:
            process = stack.enter_context(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                    pass_fds=given,
                )
            )
        except OSError as error:
            raise MissingPart(
                "sandbox",
                f"no process can be started: {error}",
                "grade again with fewer --jobs, or end other programs",
            ) from error
        try:
            yield process
        finally:
            process.kill()  # and with it all that it started in its sandbox


def pipes(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    """The ends that the grader holds: to write, to read, and of the standard error."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdin, process.stdout, process.stderr


@contextmanager
def _in_bubblewrap(
    command: list[str], limits: Limits, user: int
) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """The command in its sandbox, and the open files that bubblewrap reads and closes."""
    with ExitStack() as stack:
        given = []

        def readable(data: bytes) -> str:
            # A pipe: it leads to nothing that could be written.
            reader, writer = os.pipe()
            given.append(stack.enter_context(os.fdopen(reader, "rb")).fileno())
            with os.fdopen(writer, "wb") as file:
                file.write(data)
            return str(reader)

        options = _bubblewrap()
        if limits.java is not None:
            # Java looks up the name and the home of its user.
            users = f"student:x:{user or os.getuid()}:0::/tmp:/bin/sh\n".encode()
            options += _for_spark(limits.java, readable(users))
        # Last, when every folder is in place.
        options += ["--remount-ro", "/"]
        if (filtering := seccomp.program(has_processes=limits.java is not None)) is not None:
            options += ["--seccomp", readable(filtering)]
        yield [*options, *command], tuple(given)


def _bubblewrap() -> list[str]:
    command = ["bwrap", "--die-with-parent", "--new-session", "--clearenv"]
    if os.getuid() == 0:
        # It becomes an ordinary user inside; in a user namespace it would stay root for the limits.
        command += [f"--unshare-{each}" for each in ("ipc", "pid", "net", "uts", "cgroup-try")]
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-all"]
    command += _files()
    command += ["--perms", "0755", "--dir", "/etc"]
    command += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc"]
    command += ["--dev", "/dev", "--remount-ro", "/dev", "--chdir", "/tmp"]
    variables = {"PYTHONPATH": _PACKAGES, "HOME": "/tmp", "OPENBLAS_NUM_THREADS": "1"}
    variables |= {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    for name, value in variables.items():
        command += ["--setenv", name, value]
    return command


def _files() -> list[str]:
    """The system, Python and labkit to read, and an empty folder to write."""
    command = []
    for folder in ("/usr", "/bin", "/sbin", "/lib", "/lib64"):
        if os.path.islink(folder):
            command += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            command += ["--ro-bind", folder, folder]
    # Before the environment, which may be in there.
    command += ["--size", str(WRITABLE_BYTES), "--perms", "1777", "--tmpfs", "/tmp"]
    shown = {f"{_PACKAGES}/labkit": str(Path(labkit.__file__).parent)}
    for prefix in (sys.base_prefix, sys.prefix):
        if not Path(prefix).is_relative_to("/usr"):
            shown[prefix] = os.path.realpath(prefix)
    for inside, outside in shown.items():
        # bubblewrap makes folders that only root may enter.
        for parent in reversed(Path(inside).parents[:-1]):
            if parent != Path("/tmp"):
                command += ["--perms", "0755", "--dir", str(parent)]
        command += ["--ro-bind", outside, inside]
    return command


def _for_spark(java: Path, users: str) -> list[str]:
    """What Java and Spark want to see: the runtime, its settings in /etc, a host, and a user from
    the open file `users`.
    """
    shown = [java, *Path("/etc").glob("java*")]
    command = [part for each in shown for part in ("--ro-bind", str(each), str(each))]
    command += ["--ro-bind", "/etc/hosts", "/etc/hosts", "--setenv", "JAVA_HOME", str(java)]
    command += ["--perms", "0644", "--ro-bind-data", users, "/etc/passwd"]
    return [*command, "--setenv", "SPARK_LOCAL_HOSTNAME", "localhost"]
