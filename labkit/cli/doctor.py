"""`labkit doctor`: checks whether this machine has everything that labkit needs.

Each check is a function that tests one requirement and returns a `CheckResult`. A check leaves
nothing behind and does not access the network. `labkit doctor` prints all results. Other commands
call `require` with the checks that they depend on. If one of these fails, `require` raises an error
with the same message.
"""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from labkit.system.model.missing_part import MissingPart
from labkit.worlds.live.host.java import find_java
from labkit.worlds.live.host.ports import free_port
from labkit.worlds.live.host.posix import require_posix
from labkit.worlds.live.zookeeper.secret import check_secrets_folder
from labkit.worlds.live.zookeeper.server import zookeeper_jars

MIB = 1 << 20
OLDEST_PYTHON = (3, 11)
DISK_NEEDED_MIB = 1024
MEMORY_NEEDED_MIB = 1200
"""Enough for a notebook kernel, ZooKeeper, five bookies and a Spark session with 512 MiB."""

NOTEBOOK_PARTS = {"jupyterlab": 4, "ipywidgets": 8, "anywidget": 0}
"""Python distribution -> oldest supported major version."""

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CGROUP_FOLDER = Path("/sys/fs/cgroup")
CGROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)
"""The files of control groups v2 and v1 with the limit, the usage and the statistics, followed by
the name of the statistic for reclaimable memory.
"""

CGROUP_UNLIMITED = 1 << 60
"""Control groups v1 express "no limit" as a number near 2**63."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    `detail` says what was found or what is wrong. `remedy` says what to do if `ok` is false. A
    failed check that is not `required` only disables an optional feature.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True


Check = Callable[[], CheckResult]


def require(*checks: Check) -> None:
    """Run the checks in order and raise `MissingPart` if a required one fails."""
    for check in checks:
        result = check()
        if result.required and not result.ok:
            raise MissingPart(result.name, result.detail, result.remedy)


def run_doctor(folder: Path | None = None) -> list[CheckResult]:
    """Run all checks.

    `folder`, by default the working directory, must be writable and have free space.
    """
    folder = folder or _working_folder()
    # labkit cannot run servers on Windows, so skip their requirements.
    servers: list[Check] = [java, zookeeper, spark, port, other_users]
    if sys.platform == "win32":
        servers = []
    checks: list[Check] = [
        system,
        python,
        *servers,
        partial(writable, folder),
        partial(disk_space, folder),
        memory,
        *(partial(notebook_part, name) for name in NOTEBOOK_PARTS),
        chromium,
    ]
    return [check() for check in checks]


def _working_folder() -> Path:
    try:
        return Path.cwd()
    # The working directory has been deleted. The disk checks report this.
    except FileNotFoundError:
        return Path()


def format_results(results: Sequence[CheckResult]) -> str:
    """Return one line per result, which starts with "ok", "FAIL" or, for an optional check that
    failed, "--", followed by the details.
    """
    width = max((len(result.name) for result in results), default=0)
    lines = []
    for result in results:
        mark = "ok" if result.ok else "FAIL" if result.required else "--"
        remedy = "" if result.ok else f"; {result.remedy}"
        lines.append(f"{mark:<4}  {result.name:<{width}}  {result.detail}{remedy}")
    return "\n".join(lines)


def exit_code(results: Sequence[CheckResult]) -> int:
    return int(any(result.required and not result.ok for result in results))


def _failed_check(problem: MissingPart) -> CheckResult:
    return CheckResult(problem.part, False, problem.detail, problem.remedy)


def system() -> CheckResult:
    """Check whether this operating system can run servers, or only the simulated world."""
    try:
        require_posix("running ZooKeeper, bookies, brokers or Spark")
    except MissingPart as problem:
        return replace(_failed_check(problem), required=False)
    return CheckResult("System", True, f"{platform.system()} {platform.release()}")


def python() -> CheckResult:
    found, needed = sys.version_info[:2], OLDEST_PYTHON
    return CheckResult(
        "Python",
        found >= needed,
        f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}",
        f"create the virtual environment with Python {needed[0]}.{needed[1]} or newer",
    )


def java() -> CheckResult:
    try:
        found = find_java()
    except MissingPart as problem:
        return _failed_check(problem)
    rejected = f" ({', '.join(found.rejected)})" if found.rejected else ""
    return CheckResult("Java", True, f"{found.version} from {found.source}, {found.home}{rejected}")


def zookeeper() -> CheckResult:
    try:
        jars = zookeeper_jars()
    except MissingPart as problem:
        return _failed_check(problem)
    return CheckResult("ZooKeeper", True, f"{jars[0].name} from PySpark")


def spark() -> CheckResult:
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return CheckResult("Spark", False, "PySpark is not installed", "run `pip install pyspark`")
    if remote := os.environ.get("SPARK_REMOTE"):
        return CheckResult(
            "Spark",
            importlib.util.find_spec("grpc_status") is not None,
            f"{version}, Spark Connect at {remote} (SPARK_REMOTE)",
            "run `pip install 'pyspark[connect]'`, or unset SPARK_REMOTE",
        )
    if master := os.environ.get("SPARK_MASTER"):
        return CheckResult("Spark", True, f"{version}, on the cluster {master} (SPARK_MASTER)")
    return CheckResult("Spark", True, f"{version}, in a JVM on this machine")


def writable(folder: Path) -> CheckResult:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        detail = f"{folder} is not writable: {problem.strerror}"
        return CheckResult("Folder", False, detail, "start labkit in a folder you can write to")
    return CheckResult("Folder", True, f"{folder} is writable")


def disk_space(folder: Path, needed_mib: int = DISK_NEEDED_MIB) -> CheckResult:
    try:
        free_mib = shutil.disk_usage(folder).free // MIB
    except OSError as problem:
        detail = f"cannot determine the free space in {folder}: {problem.strerror}"
        return CheckResult("Disk", False, detail, "start labkit in an existing folder")
    return CheckResult(
        "Disk",
        free_mib >= needed_mib,
        f"{free_mib} MiB free in {folder}, {needed_mib} MiB needed",
        "free some space, or start labkit in a folder on another disk",
    )


def memory(needed_mib: int = MEMORY_NEEDED_MIB) -> CheckResult:
    """Check whether enough memory is available, both on the machine and within the container's
    limit.
    """
    try:
        from psutil import virtual_memory
    except ImportError:
        return CheckResult("Memory", False, "psutil is not installed", "run `pip install psutil`")
    available_mib, scope = virtual_memory().available // MIB, "on this machine"
    left_mib = cgroup_memory_left_mib(CGROUP_FOLDER)
    if left_mib is not None and left_mib < available_mib:
        available_mib, scope = left_mib, "within this container's limit"
    return CheckResult(
        "Memory",
        available_mib >= needed_mib,
        f"{available_mib} MiB available {scope}, {needed_mib} MiB needed",
        "stop other notebooks (Kernel > Shut Down All Kernels) and other programs",
    )


def cgroup_memory_left_mib(folder: Path) -> int | None:
    """Return how many MiB are left within a control group's memory limit, or None if it has no
    limit.
    """
    for limit_name, used_name, stat_name, cache in CGROUP_FILES:
        try:
            limit = (folder / limit_name).read_text(encoding="ascii").strip()
            used = int((folder / used_name).read_text(encoding="ascii"))
            statistics = (folder / stat_name).read_text(encoding="ascii").split()
        except FileNotFoundError:
            continue
        if limit == "max" or int(limit) >= CGROUP_UNLIMITED:
            return None
        # Cached file pages count as used, but are reclaimed when memory is needed.
        reclaimable = int(statistics[statistics.index(cache) + 1])
        return (int(limit) - used + reclaimable) // MIB
    return None


def port(number: int = 0) -> CheckResult:
    """Check whether a server can listen on this loopback port (0: any free port)."""
    try:
        free = free_port(number)
    except MissingPart as problem:
        return _failed_check(problem)
    except OSError as problem:
        detail = f"cannot listen on the loopback address: {problem.strerror}"
        return CheckResult("Port", False, detail, "allow it in the container or firewall")
    return CheckResult("Port", True, f"{free} is free on the loopback address")


def other_users() -> CheckResult:
    """Check whether a cluster's files and secrets are protected from other users of this
    machine.
    """
    try:
        check_secrets_folder()
    except MissingPart as problem:
        return CheckResult("Other users", False, problem.detail, problem.remedy)
    detail = (
        "cannot read a cluster's files or query its ZooKeeper, but can connect to its bookies and"
        " brokers (see docs/security.md)"
    )
    return CheckResult("Other users", True, detail)


def notebook_part(distribution: str) -> CheckResult:
    oldest = NOTEBOOK_PARTS[distribution]
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return CheckResult(
            distribution, False, "not installed", f"run `pip install {distribution}`"
        )
    return CheckResult(
        distribution,
        int(version.partition(".")[0]) >= oldest,
        f"{version} (at least {oldest} needed)" if oldest else version,
        f"run `pip install --upgrade {distribution}`",
    )


def chromium() -> CheckResult:
    named = os.environ.get("BROWSER_PATH")
    found = next(filter(None, map(shutil.which, [named] if named else CHROMIUM_NAMES)), None)
    return CheckResult(
        "Chromium",
        found is not None,
        found or "not found, needed only for the browser tests",
        "install the package `chromium`, or set BROWSER_PATH to the executable",
        required=False,
    )
