"""Says which of the parts that labkit needs are missing or unfit, and what to do about each.

Not on an entry's path. Each check is a function that looks at one part and returns a `Finding`;
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
class Finding:
    """What a check found out about one part.

    `detail` says what is there, or what is wrong; `remedy` is what to do when `ok` is false. A part
    that is not `required` may be missing: something optional then does not work.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    required: bool = True


Check = Callable[[], Finding]


def require(*checks: Check) -> None:
    """Run the checks in order, before something that needs those parts.

    Raises:
        MissingPart: the first required part that is missing or unfit.
    """
    for check in checks:
        finding = check()
        if finding.required and not finding.ok:
            raise MissingPart(finding.name, finding.detail, finding.remedy)


def run_doctor(folder: Path | None = None) -> list[Finding]:
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


def format_findings(findings: Sequence[Finding]) -> str:
    """Return one line for each finding: "ok", "FAIL", or "--" for a missing optional part."""
    width = max((len(finding.name) for finding in findings), default=0)
    lines = []
    for finding in findings:
        mark = "ok" if finding.ok else "FAIL" if finding.required else "--"
        remedy = "" if finding.ok else f"; {finding.remedy}"
        lines.append(f"{mark:<4}  {finding.name:<{width}}  {finding.detail}{remedy}")
    return "\n".join(lines)


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 1 when a required part is missing or unfit, else 0."""
    return int(any(finding.required and not finding.ok for finding in findings))


def _finding(problem: MissingPart) -> Finding:
    return Finding(problem.part, False, problem.detail, problem.remedy)


def system() -> Finding:
    """Does this operating system run servers, or the simulated world alone?"""
    try:
        require_posix("what runs ZooKeeper, bookies, brokers or Spark")
    except MissingPart as problem:
        return replace(_finding(problem), required=False)
    return Finding("System", True, f"{platform.system()} {platform.release()}")


def python() -> Finding:
    """Is this Python new enough?"""
    found, needed = sys.version_info[:2], OLDEST_PYTHON
    return Finding(
        "Python",
        found >= needed,
        f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}",
        f"make the virtual environment with Python {needed[0]}.{needed[1]} or newer",
    )


def java() -> Finding:
    """Is there a Java that runs ZooKeeper and Spark?"""
    try:
        found = find_java()
    except MissingPart as problem:
        return _finding(problem)
    passed_over = f" ({', '.join(found.passed_over)})" if found.passed_over else ""
    return Finding("Java", True, f"{found.version} from {found.source}, {found.home}{passed_over}")


def zookeeper() -> Finding:
    """Are the jars of ZooKeeper and Spark there?"""
    try:
        jars = zookeeper_jars()
    except MissingPart as problem:
        return _finding(problem)
    return Finding("ZooKeeper", True, f"{jars[0].name} of PySpark")


def spark() -> Finding:
    """Which Spark is there, and where will it run?"""
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return Finding("Spark", False, "PySpark is not installed", "run `pip install pyspark`")
    if remote := os.environ.get("SPARK_REMOTE"):
        return Finding(
            "Spark",
            importlib.util.find_spec("grpc_status") is not None,
            f"{version}, Spark Connect at {remote} (SPARK_REMOTE)",
            "run `pip install 'pyspark[connect]'`, or unset SPARK_REMOTE",
        )
    if master := os.environ.get("SPARK_MASTER"):
        return Finding("Spark", True, f"{version}, on the cluster {master} (SPARK_MASTER)")
    return Finding("Spark", True, f"{version}, in a JVM of this machine")


def writable(folder: Path) -> Finding:
    """Can files be made in the folder?"""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        detail = f"{folder} is not writable: {problem.strerror}"
        return Finding("Folder", False, detail, "start in a folder that you can write to")
    return Finding("Folder", True, f"{folder} is writable")


def disk_space(folder: Path, needed_mib: int = DISK_NEEDED_MIB) -> Finding:
    """Is there enough free space for the data of a cluster?"""
    try:
        free_mib = shutil.disk_usage(folder).free // MIB
    except OSError as problem:
        detail = f"the free space of {folder} is not known: {problem.strerror}"
        return Finding("Disk", False, detail, "start in a folder that exists")
    return Finding(
        "Disk",
        free_mib >= needed_mib,
        f"{free_mib} MiB free in {folder}, {needed_mib} MiB needed",
        "free some space, or start in a folder on another disk",
    )


def memory(needed_mib: int = MEMORY_NEEDED_MIB) -> Finding:
    """Is there enough memory, of the machine and within a container's limit?"""
    try:
        from psutil import virtual_memory
    except ImportError:
        return Finding("Memory", False, "psutil is not installed", "run `pip install psutil`")
    available_mib, of_what = virtual_memory().available // MIB, "on this machine"
    left_mib = cgroup_memory_left_mib(CGROUP_FOLDER)
    if left_mib is not None and left_mib < available_mib:
        available_mib, of_what = left_mib, "within this container's limit"
    return Finding(
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


def port(number: int = 0) -> Finding:
    """Can a server listen on the loopback port, or on any for 0?"""
    try:
        free = free_port(number)
    except MissingPart as problem:
        return _finding(problem)
    except OSError as problem:
        detail = f"nothing can listen on the loopback address: {problem.strerror}"
        return Finding("Port", False, detail, "allow this in the container or firewall")
    return Finding("Port", True, f"{free} of the loopback address is free")


def other_users() -> Finding:
    """What can other users of this machine do with a cluster?"""
    try:
        check_secrets_folder()
    except MissingPart as problem:
        return Finding("Other users", False, problem.detail, problem.remedy)
    detail = (
        "cannot read a cluster's files or ask its ZooKeeper; they can connect to the ports of its"
        " bookies and brokers (docs/security.md)"
    )
    return Finding("Other users", True, detail)


def notebook_part(distribution: str) -> Finding:
    """Is this part of the notebooks installed, and new enough?"""
    oldest = NOTEBOOK_PARTS[distribution]
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return Finding(distribution, False, "not installed", f"run `pip install {distribution}`")
    return Finding(
        distribution,
        int(version.partition(".")[0]) >= oldest,
        f"{version} (at least {oldest} needed)" if oldest else version,
        f"run `pip install --upgrade {distribution}`",
    )


def chromium() -> Finding:
    """Is there a browser for the browser tests?"""
    named = os.environ.get("BROWSER_PATH")
    found = next(filter(None, map(shutil.which, [named] if named else CHROMIUM_NAMES)), None)
    return Finding(
        "Chromium",
        found is not None,
        found or "none found, only the browser tests need it",
        "install the package `chromium`, or set BROWSER_PATH to one",
        required=False,
    )
