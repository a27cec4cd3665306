"""Says which of the parts that labkit needs are missing or unfit, and what to do about each.

Not on an entry's path. Each check is a function that looks at one part and returns a `CheckResult`;
`labkit doctor` shows them all, and `require` raises the same line where a part is about to be used.
The rule: a check looks, it changes nothing that stays, and it asks no host on the network.
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
from labkit.worlds.live.host.posix import require_posix
from labkit.worlds.live.zookeeper.secret import check_secrets_folder
from labkit.worlds.live.zookeeper.server import free_port, zookeeper_jars

MIB = 1 << 20
OLDEST_PYTHON = (3, 11)
DISK_NEEDED_MIB = 1024
MEMORY_NEEDED_MIB = 1200
"""A notebook's kernel, ZooKeeper, five bookies and a Spark session of 512 MiB."""

NOTEBOOK_PARTS = {"jupyterlab": 4, "ipywidgets": 8, "anywidget": 0}
"""Distribution -> oldest major version."""

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
"""Versions 2 and 1 of control groups: limit, use, statistics, and which of those can be freed."""

CGROUP_UNLIMITED = 1 << 60
"""Version 1 says "no limit" by a number near 2**63."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found out about one part.

    `detail` says what is there, or what is wrong; `remedy` is what to do when `ok` is false. A part
    that is not `required` may be missing: something optional then does not work.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True


Check = Callable[[], CheckResult]


def require(*checks: Check) -> None:
    """Run the checks in order, before something that needs those parts.

    Raises:
        MissingPart: the first required part that is missing or unfit.
    """
    for check in checks:
        result = check()
        if result.required and not result.ok:
            raise MissingPart(result.name, result.detail, result.remedy)


def run_doctor(folder: Path | None = None) -> list[CheckResult]:
    """Run all checks; those on disk look at `folder`, by default the working folder."""
    folder = folder or _working_folder()
    # Windows runs no servers, so it does not matter what they would miss there.
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
    except FileNotFoundError:  # It was deleted; the checks on disk say so.
        return Path()


def format_results(results: Sequence[CheckResult]) -> str:
    """Return one line for each result: "ok", "FAIL", or "--" for a missing optional part."""
    width = max((len(result.name) for result in results), default=0)
    lines = []
    for result in results:
        mark = "ok" if result.ok else "FAIL" if result.required else "--"
        remedy = "" if result.ok else f"; {result.remedy}"
        lines.append(f"{mark:<4}  {result.name:<{width}}  {result.detail}{remedy}")
    return "\n".join(lines)


def exit_code(results: Sequence[CheckResult]) -> int:
    """Return 1 when a required part is missing or unfit, else 0."""
    return int(any(result.required and not result.ok for result in results))


def _failed_check(problem: MissingPart) -> CheckResult:
    return CheckResult(problem.part, False, problem.detail, problem.remedy)


def system() -> CheckResult:
    """Does this operating system run servers, or the simulated world alone?"""
    try:
        require_posix("what runs ZooKeeper, bookies, brokers or Spark")
    except MissingPart as problem:
        return replace(_failed_check(problem), required=False)
    return CheckResult("System", True, f"{platform.system()} {platform.release()}")


def python() -> CheckResult:
    """Is this Python new enough?"""
    found, needed = sys.version_info[:2], OLDEST_PYTHON
    return CheckResult(
        "Python",
        found >= needed,
        f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}",
        f"make the virtual environment with Python {needed[0]}.{needed[1]} or newer",
    )


def java() -> CheckResult:
    """Is there a Java that runs ZooKeeper and Spark?"""
    try:
        found = find_java()
    except MissingPart as problem:
        return _failed_check(problem)
    rejected = f" ({', '.join(found.rejected)})" if found.rejected else ""
    return CheckResult("Java", True, f"{found.version} from {found.source}, {found.home}{rejected}")


def zookeeper() -> CheckResult:
    """Are the jars of ZooKeeper and Spark there?"""
    try:
        jars = zookeeper_jars()
    except MissingPart as problem:
        return _failed_check(problem)
    return CheckResult("ZooKeeper", True, f"{jars[0].name} of PySpark")


def spark() -> CheckResult:
    """Which Spark is there, and where will it run?"""
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
    return CheckResult("Spark", True, f"{version}, in a JVM of this machine")


def writable(folder: Path) -> CheckResult:
    """Can files be made in the folder?"""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        detail = f"{folder} is not writable: {problem.strerror}"
        return CheckResult("Folder", False, detail, "start in a folder that you can write to")
    return CheckResult("Folder", True, f"{folder} is writable")


def disk_space(folder: Path, needed_mib: int = DISK_NEEDED_MIB) -> CheckResult:
    """Is there enough free space for the data of a cluster?"""
    try:
        free_mib = shutil.disk_usage(folder).free // MIB
    except OSError as problem:
        detail = f"the free space of {folder} is not known: {problem.strerror}"
        return CheckResult("Disk", False, detail, "start in a folder that exists")
    return CheckResult(
        "Disk",
        free_mib >= needed_mib,
        f"{free_mib} MiB free in {folder}, {needed_mib} MiB needed",
        "free some space, or start in a folder on another disk",
    )


def memory(needed_mib: int = MEMORY_NEEDED_MIB) -> CheckResult:
    """Is there enough memory, of the machine and within a container's limit?"""
    try:
        from psutil import virtual_memory
    except ImportError:
        return CheckResult("Memory", False, "psutil is not installed", "run `pip install psutil`")
    available_mib, of_what = virtual_memory().available // MIB, "on this machine"
    left_mib = cgroup_memory_left_mib(CGROUP_FOLDER)
    if left_mib is not None and left_mib < available_mib:
        available_mib, of_what = left_mib, "within this container's limit"
    return CheckResult(
        "Memory",
        available_mib >= needed_mib,
        f"{available_mib} MiB available {of_what}, {needed_mib} MiB needed",
        "stop other notebooks (Kernel > Shut Down All Kernels) and other programs",
    )


def cgroup_memory_left_mib(folder: Path) -> int | None:
    """Return what the memory limit of a control group leaves, in MiB; None without a limit."""
    for limit_name, used_name, stat_name, cache in CGROUP_FILES:
        try:
            limit = (folder / limit_name).read_text(encoding="ascii").strip()
            used = int((folder / used_name).read_text(encoding="ascii"))
            statistics = (folder / stat_name).read_text(encoding="ascii").split()
        except FileNotFoundError:
            continue
        if limit == "max" or int(limit) >= CGROUP_UNLIMITED:
            return None
        # File pages in the cache count as used, but go when memory is needed.
        reclaimable = int(statistics[statistics.index(cache) + 1])
        return (int(limit) - used + reclaimable) // MIB
    return None


def port(number: int = 0) -> CheckResult:
    """Can a server listen on the loopback port, or on any for 0?"""
    try:
        free = free_port(number)
    except MissingPart as problem:
        return _failed_check(problem)
    except OSError as problem:
        detail = f"nothing can listen on the loopback address: {problem.strerror}"
        return CheckResult("Port", False, detail, "allow this in the container or firewall")
    return CheckResult("Port", True, f"{free} of the loopback address is free")


def other_users() -> CheckResult:
    """What can other users of this machine do with a cluster?"""
    try:
        check_secrets_folder()
    except MissingPart as problem:
        return CheckResult("Other users", False, problem.detail, problem.remedy)
    detail = (
        "cannot read a cluster's files or ask its ZooKeeper; they can connect to the ports of its"
        " bookies and brokers (docs/security.md)"
    )
    return CheckResult("Other users", True, detail)


def notebook_part(distribution: str) -> CheckResult:
    """Is this part of the notebooks installed, and new enough?"""
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
    """Is there a browser for the browser tests?"""
    named = os.environ.get("BROWSER_PATH")
    found = next(filter(None, map(shutil.which, [named] if named else CHROMIUM_NAMES)), None)
    return CheckResult(
        "Chromium",
        found is not None,
        found or "none found, only the browser tests need it",
        "install the package `chromium`, or set BROWSER_PATH to one",
        required=False,
    )
