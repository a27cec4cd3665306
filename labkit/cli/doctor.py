"""`labkit doctor`: checks whether this machine has everything that labkit needs.

Each check is a function that tests one requirement. It returns what it found, or raises
`MissingPart`, which says what is wrong and what to do. A check leaves nothing behind and does not
access the network. `labkit doctor` prints the results of all checks. Other commands call the checks
that they depend on.
"""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


OPTIONAL = ("System", "Chromium")
"""If one of these checks fails, most of labkit still works."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    `detail` says what was found or what is wrong. If the check failed, `remedy` says what to do.
    """

    name: str
    detail: str
    remedy: str = ""

    @property
    def mark(self) -> str:
        return "ok" if not self.remedy else "--" if self.name in OPTIONAL else "FAIL"


Check = Callable[[], str]


def run_doctor() -> list[CheckResult]:
    """Run all checks. The working directory must be writable and have free space."""
    try:
        folder = Path.cwd()
    except FileNotFoundError:
        folder = Path()  # The directory has been deleted. The disk checks report this.
    servers: dict[str, Check] = {
        "Java": java,
        "ZooKeeper": zookeeper,
        "Spark": spark,
        "Port": port,
        "Other users": other_users,
    }
    checks: dict[str, Check] = {
        "System": system,
        "Python": python,
        # labkit cannot run servers on Windows, so skip their requirements there.
        **(servers if sys.platform != "win32" else {}),
        "Folder": partial(writable, folder),
        "Disk": partial(disk_space, folder),
        "Memory": memory,
        **{name: partial(notebook_part, name) for name in NOTEBOOK_PARTS},
        "Chromium": chromium,
    }
    return [result_of(name, check) for name, check in checks.items()]


def result_of(name: str, check: Check) -> CheckResult:
    try:
        return CheckResult(name, check())
    except MissingPart as problem:
        return CheckResult(name, problem.detail, problem.remedy)


def format_results(results: Sequence[CheckResult]) -> str:
    """Return one line per result, which starts with "ok", "FAIL" or, for an optional check that
    failed, "--", followed by the details.
    """
    width = max((len(result.name) for result in results), default=0)
    lines = []
    for result in results:
        text = "; ".join(filter(None, (result.detail, result.remedy)))
        lines.append(f"{result.mark:<4}  {result.name:<{width}}  {text}")
    return "\n".join(lines)


def exit_code(results: Sequence[CheckResult]) -> int:
    return int(any(result.mark == "FAIL" for result in results))


def system() -> str:
    """Check whether this operating system can run servers, or only the simulated world."""
    require_posix("running ZooKeeper, bookies, brokers or Spark")
    return f"{platform.system()} {platform.release()}"


def python() -> str:
    detail = f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}"
    if sys.version_info[:2] < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        remedy = f"create the virtual environment with Python {oldest} or newer"
        raise MissingPart("Python", detail, remedy)
    return detail


def java() -> str:
    found = find_java()
    rejected = f" ({', '.join(found.rejected)})" if found.rejected else ""
    return f"{found.version} from {found.source}, {found.home}{rejected}"


def zookeeper() -> str:
    return f"{zookeeper_jars()[0].name} from PySpark"


def spark() -> str:
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise MissingPart(
            "Spark", "PySpark is not installed", "run `pip install pyspark`"
        ) from None
    if remote := os.environ.get("SPARK_REMOTE"):
        detail = f"{version}, Spark Connect at {remote} (SPARK_REMOTE)"
        if importlib.util.find_spec("grpc_status") is None:
            remedy = "run `pip install 'pyspark[connect]'`, or unset SPARK_REMOTE"
            raise MissingPart("Spark", detail, remedy)
        return detail
    if master := os.environ.get("SPARK_MASTER"):
        return f"{version}, on the cluster {master} (SPARK_MASTER)"
    return f"{version}, in a JVM on this machine"


def writable(folder: Path) -> str:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return f"{folder} is writable"
    except OSError as problem:
        detail = f"{folder} is not writable: {problem.strerror}"
        raise MissingPart("Folder", detail, "start labkit in a folder you can write to") from None


def disk_space(folder: Path) -> str:
    try:
        free_mib = shutil.disk_usage(folder).free // MIB
    except OSError as problem:
        detail = f"cannot determine the free space in {folder}: {problem.strerror}"
        raise MissingPart("Disk", detail, "start labkit in an existing folder") from None
    detail = f"{free_mib} MiB free in {folder}, {DISK_NEEDED_MIB} MiB needed"
    if free_mib < DISK_NEEDED_MIB:
        remedy = "free some space, or start labkit in a folder on another disk"
        raise MissingPart("Disk", detail, remedy)
    return detail


def memory() -> str:
    """Check whether enough memory is available, both on the machine and within the container's
    limit.
    """
    try:
        from psutil import virtual_memory
    except ImportError:
        raise MissingPart("Memory", "psutil is not installed", "run `pip install psutil`") from None
    available_mib, scope = virtual_memory().available // MIB, "on this machine"
    left_mib = cgroup_memory_left_mib(CGROUP_FOLDER)
    if left_mib is not None and left_mib < available_mib:
        available_mib, scope = left_mib, "within this container's limit"
    detail = f"{available_mib} MiB available {scope}, {MEMORY_NEEDED_MIB} MiB needed"
    if available_mib < MEMORY_NEEDED_MIB:
        remedy = "stop other notebooks (Kernel > Shut Down All Kernels) and other programs"
        raise MissingPart("Memory", detail, remedy)
    return detail


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


def port() -> str:
    try:
        return f"{free_port()} is free on the loopback address"
    except OSError as problem:
        detail = f"cannot listen on the loopback address: {problem.strerror}"
        raise MissingPart("Port", detail, "allow it in the container or firewall") from None


def other_users() -> str:
    """Check whether a cluster's files and secrets are protected from other users of this
    machine.
    """
    check_secrets_folder()
    return (
        "cannot read a cluster's files or query its ZooKeeper, but can connect to its bookies and"
        " brokers (see docs/security.md)"
    )


def notebook_part(distribution: str) -> str:
    oldest = NOTEBOOK_PARTS[distribution]
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        remedy = f"run `pip install {distribution}`"
        raise MissingPart(distribution, "not installed", remedy) from None
    detail = f"{version} (at least {oldest} needed)" if oldest else version
    if int(version.partition(".")[0]) < oldest:
        raise MissingPart(distribution, detail, f"run `pip install --upgrade {distribution}`")
    return detail


def chromium() -> str:
    named = os.environ.get("BROWSER_PATH")
    found = next(filter(None, map(shutil.which, [named] if named else CHROMIUM_NAMES)), None)
    if found is None:
        remedy = "install the package `chromium`, or set BROWSER_PATH to the executable"
        raise MissingPart("Chromium", "not found, needed only for the browser tests", remedy)
    return found
