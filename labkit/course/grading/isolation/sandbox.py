"""Starts the sandboxed process that runs one submission's code.

bubblewrap gives the process its own file system, in which the operating system, Python and labkit
are read-only, and 64 MB in memory are writable. The process sees no other processes and has no
network. `seccomp` rejects system calls that allocate memory outside the memory limit.
`submission_process` sets the limits on memory, processes and open files before any of the
submission's code runs.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from psutil import NoSuchProcess, Process

import labkit
from labkit.course.checking.forked_check import without_memory_limit
from labkit.course.grading.isolation import seccomp
from labkit.system.model.missing_part import MissingPart
from labkit.worlds.live.host.java import find_java

WRITABLE_BYTES = 64 << 20
MAX_SLOWDOWN = 8
"""How many times more slowly a submission may run than on an idle machine.

Limits count processor time, so that no student loses a point because of other programs. Elapsed
time is limited to this multiple, because code that sleeps uses no processor time.
"""
_FIRST_USER, _USERS = 60_000, 5_000
_PACKAGES = "/code"
_MODULE = "labkit.course.grading.isolation.submission_process"


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that a submission may use.

    exercise_s: processor time of the student's function in one exercise
    load_s: elapsed time for loading the notebook, times `MAX_SLOWDOWN`
    cell_s: processor time of one cell
    megabytes: address space of its process; with Spark, memory of each of its processes
    processes: number of threads; with Spark, number of processes and threads
    java: home directory of the Java that runs Spark
    is_sandboxed: false only for code that the teacher trusts
    """

    exercise_s: float = 20.0
    load_s: float = 60.0
    cell_s: int = 10
    megabytes: int = 2048
    processes: int = 8
    open_files: int = 64
    java: Path | None = None
    is_sandboxed: bool = True

    @property
    def elapsed_s(self) -> float:
        """Elapsed time after which an exercise is aborted, no matter how busy the machine is."""
        return MAX_SLOWDOWN * self.exercise_s

    @property
    def submission_s(self) -> float:
        """Elapsed time after which the whole submission is aborted."""
        return 90 * self.exercise_s

    def with_spark(self) -> "Limits":
        """Return the limits of a submission whose exercises need Spark.

        They are higher because a JVM has about a hundred threads and opens every jar, and because
        an exercise consists of about a dozen jobs of roughly a second each.
        Raises `MissingPart` if no suitable Java is installed.
        """
        with without_memory_limit():  # A JVM reserves gigabytes of address space.
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
    """Raise `MissingPart` if untrusted code cannot be sandboxed on this machine."""
    if shutil.which("bwrap") is None:
        raise MissingPart(
            "bubblewrap",
            "`labkit grade` runs students' code in a sandbox, which needs the program `bwrap`",
            "on Debian, run `apt install bubblewrap`; on macOS and Windows, grade in Docker or WSL;"
            " for code that you trust, use --without-sandbox",
        )
    with _in_bubblewrap([sys.executable, "-c", "import labkit"], Limits(), 0) as (command, given):
        tried = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, pass_fds=given
        )
    if tried.returncode:
        is_bubblewraps = tried.stderr.startswith("bwrap: ") and "execvp" not in tried.stderr
        raise MissingPart(
            "bubblewrap",
            f"the sandbox cannot be started: {tried.stderr.strip()[-200:]}",
            (
                "allow user namespaces, or grade on a machine that allows them"
                if is_bubblewraps
                else f"bubblewrap works, but not the Python in {sys.prefix}: install labkit into"
                " an environment whose files all users may read"
            )
            + "; for code that you trust, use --without-sandbox",
        )


@contextmanager
def start_process(limits: Limits) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a submission's process, which then waits for the notebook's cells; kill the process
    when the block ends.

    Raises `MissingPart` if the process cannot be started.
    """
    user = _FIRST_USER + os.getpid() % _USERS if limits.is_sandboxed and os.getuid() == 0 else 0
    # Outside a sandbox, the limit counts all processes of this user.
    processes = limits.processes if limits.is_sandboxed else 1 << 16
    numbers = (limits.megabytes, processes, limits.open_files, limits.cell_s, user)
    spark = ["spark"] if limits.java else []
    command = [sys.executable, "-m", _MODULE, *map(str, numbers), *spark]
    with ExitStack() as stack:
        given: tuple[int, ...] = ()
        if limits.is_sandboxed:
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
                f"cannot start a process: {error}",
                "use fewer --jobs, or close other programs",
            ) from error
        try:
            yield process
        finally:
            # In a sandbox, this also kills all processes that the process has started.
            process.kill()


def processor_s_of(pid: int) -> float:
    """Return the processor time of a process and of all processes that it started."""
    used_s = 0.0
    with suppress(NoSuchProcess):
        process = Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(NoSuchProcess):
                used_s += sum(each.cpu_times()[:4])  # This includes children that have exited.
    return used_s


@contextmanager
def _in_bubblewrap(
    command: list[str], limits: Limits, user: int
) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """Yield the command that runs in a sandbox, and the open files that bubblewrap reads."""
    with ExitStack() as stack:
        given = []

        def readable(data: bytes) -> str:
            # Use a pipe, because a pipe does not give the sandbox access to anything writable.
            reader, writer = os.pipe()
            given.append(stack.enter_context(os.fdopen(reader, "rb")).fileno())
            with os.fdopen(writer, "wb") as file:
                file.write(data)
            return str(reader)

        options = _bubblewrap()
        if limits.java is not None:
            # Java looks up its user's name and home directory.
            users = f"student:x:{user or os.getuid()}:0::/tmp:/bin/sh\n".encode()
            options += _for_spark(limits.java, readable(users))
        # This must come last, after all directories have been created.
        options += ["--remount-ro", "/"]
        if (filtering := seccomp.program(has_processes=limits.java is not None)) is not None:
            options += ["--seccomp", readable(filtering)]
        yield [*options, *command], tuple(given)


def _bubblewrap() -> list[str]:
    command = ["bwrap", "--die-with-parent", "--new-session", "--clearenv"]
    if os.getuid() == 0:
        # Switch to an unprivileged user inside the sandbox: in a user namespace, the process would
        # still be root as far as the resource limits are concerned.
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
    """Return options that mount the system, Python and labkit read-only, and that add an empty
    writable folder.
    """
    command = []
    for folder in ("/usr", "/bin", "/sbin", "/lib", "/lib64"):
        if os.path.islink(folder):
            command += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            command += ["--ro-bind", folder, folder]
    # Mount /tmp before the Python environment, which may be inside it.
    command += ["--size", str(WRITABLE_BYTES), "--perms", "1777", "--tmpfs", "/tmp"]
    shown = {f"{_PACKAGES}/labkit": str(Path(labkit.__file__).parent)}
    for prefix in (sys.base_prefix, sys.prefix):
        if not Path(prefix).is_relative_to("/usr"):
            shown[prefix] = os.path.realpath(prefix)
    for inside, outside in shown.items():
        # Create the parents explicitly, because bubblewrap's own are accessible only to root.
        for parent in reversed(Path(inside).parents[:-1]):
            if parent != Path("/tmp"):
                command += ["--perms", "0755", "--dir", str(parent)]
        command += ["--ro-bind", outside, inside]
    return command


def _for_spark(java: Path, users: str) -> list[str]:
    """Return options for Java and Spark.

    The options provide the runtime, its settings in /etc, a host name, and a user that is read
    from the open file `users`.
    """
    shown = [java, *Path("/etc").glob("java*")]
    command = [part for each in shown for part in ("--ro-bind", str(each), str(each))]
    command += ["--ro-bind", "/etc/hosts", "/etc/hosts", "--setenv", "JAVA_HOME", str(java)]
    command += ["--perms", "0644", "--ro-bind-data", users, "/etc/passwd"]
    return [*command, "--setenv", "SPARK_LOCAL_HOSTNAME", "localhost"]
