"""Apache Pulsar's own clients for Java and Go: a program in each language that runs scenarios.

Client and program are fetched and compiled once, into the user's cache.  A program lives as long as
the tests that use it; it reads the name of a scenario and answers whether it went as it must.
"""

import asyncio
import os
import re
import shutil
import subprocess
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Self

from tests.interop.apache import COMPILE_TIMEOUT_S, JVM_OPTIONS, NotToBeHad, cached, fetch_jars

HERE = Path(__file__).parent
POM = HERE / "pulsar_pom.xml"
JAVA_SOURCES = HERE / "pulsar_java"
ADMIN_SOURCES = HERE / "pulsar_admin"
GO_SOURCES = HERE / "pulsar_go"

NEWEST_JAVA = "4.2.4"
GO_TIMEOUT_S = 180
"""To fetch and compile the client for Go; what is done by then is kept for the next run."""
SCENARIO_TIMEOUT_S = 90


class Place(NamedTuple):
    """Where a scenario meets a broker; "-" stands for nothing."""

    service_url: str
    web_url: str
    token: str = "-"
    certificate: str = "-"


@dataclass(frozen=True, slots=True)
class Program:
    """What it can do, and the command that starts it, which may raise `NotToBeHad`."""

    scenarios: Sequence[str]
    command: Callable[[], list[str]]


class RunningProgram:
    """One of the programs, running; it ends when its standard input does."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, command: Sequence[str], log: Path) -> Self:
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=errors
            )
        return cls(process)

    async def run(self, scenario: str, place: Place) -> str:
        """What it says: ok, or what went wrong."""
        assert self._process.stdin is not None
        words = scenario, place.service_url, place.web_url, f"{scenario}-{self._process.pid}-"
        self._process.stdin.write(" ".join((*words, *place[2:])).encode() + b"\n")
        return await _line(self._process)

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


async def _line(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(SCENARIO_TIMEOUT_S):
        return (await process.stdout.readline()).decode().rstrip("\n")


def _java_command(version: str) -> list[str]:
    """Starts the program on this version of the client for Java.  Raises `NotToBeHad`."""
    return _on_java(version, JAVA_SOURCES, "Driver")


def admin_calls_command() -> list[str]:
    """Starts the program that calls the newest admin library.  Raises `NotToBeHad`."""
    return _on_java(NEWEST_JAVA, ADMIN_SOURCES, "AdminCalls")


def _on_java(version: str, folder: Path, main_class: str) -> list[str]:
    if missing := [name for name in ("mvn", "java", "javac") if shutil.which(name) is None]:
        raise NotToBeHad(f"{', '.join(missing)} not on the PATH; install Maven and a JDK")
    jars = fetch_jars("pulsar", POM, f"-Dpulsar.version={version}")
    sources = sorted(folder.glob("*.java"))

    def compile_into(folder: str) -> None:
        compile_them = ["javac", "-d", folder, "-cp", f"{jars}/*", *map(str, sources)]
        subprocess.run(compile_them, check=True, timeout=COMPILE_TIMEOUT_S)

    classes = cached("pulsar-java", _key(sources, version), compile_into)
    # The admin library's jar has some of the client's classes, too, which lack what they need.
    path = jars / f"pulsar-client-{version}.jar", jars / "*", classes
    return ["java", *JVM_OPTIONS, "-cp", os.pathsep.join(map(str, path)), main_class]


def _go_command() -> list[str]:
    """Starts the program on the client for Go.  Raises `NotToBeHad`."""
    if shutil.which("go") is None:
        raise NotToBeHad("go not on the PATH; install Go")
    sources = [*sorted(GO_SOURCES.glob("*.go")), GO_SOURCES / "go.mod", GO_SOURCES / "go.sum"]

    def build_into(folder: str) -> None:
        build = ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", f"{folder}/driver", "."]
        try:
            subprocess.run(
                build,
                check=True,
                timeout=GO_TIMEOUT_S,
                cwd=GO_SOURCES,
                stdout=PIPE,
                stderr=STDOUT,
                text=True,
            )
        except subprocess.TimeoutExpired as problem:
            raise NotToBeHad(
                f"the client for Go is not compiled after {GO_TIMEOUT_S} s; the next run goes on"
            ) from problem
        except subprocess.CalledProcessError as problem:
            raise NotToBeHad(f"go build failed: {problem.stdout[-500:]}") from problem

    return [str(cached("pulsar-go", _key(sources), build_into) / "driver")]


def _key(sources: Sequence[Path], *more: str) -> str:
    content = b"".join(source.name.encode() + source.read_bytes() for source in sources)
    return sha256(content + "".join(more).encode()).hexdigest()[:12]


def _scenarios(pattern: str, sources: Iterable[Path]) -> list[str]:
    """The names that are given to scenarios there."""
    return sorted(re.findall(pattern, "".join(map(Path.read_text, sources)), re.MULTILINE))


_IN_JAVA = _scenarios(r'scenarios\.put\(\s*"(\w+)"', JAVA_SOURCES.glob("*.java"))

PROGRAMS = {
    "java": Program(_IN_JAVA, lambda: _java_command(NEWEST_JAVA)),
    "java-long-term": Program(_IN_JAVA, lambda: _java_command("4.0.13")),
    "go": Program(_scenarios(r'^\t"(\w+)":', GO_SOURCES.glob("scenarios.go")), _go_command),
}
"""By the name of the client, of which Java's has a newest version and one of long-term support."""
