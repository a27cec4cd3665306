"""Apache Pulsar's own clients for Java and Go, each run by a program in its language.

The client and the program are downloaded and compiled once, into the user's cache. A program keeps
running while tests use it. It reads the names of scenarios, and reports whether each scenario
succeeded.
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
"""Enough to download and compile the Go client; if it is not, the next run continues with the files
downloaded so far.
"""
SCENARIO_TIMEOUT_S = 90


class Place(NamedTuple):
    """The broker addresses and credentials for a scenario; "-" means none."""

    service_url: str
    web_url: str
    token: str = "-"
    certificate: str = "-"


@dataclass(frozen=True, slots=True)
class Program:
    """The scenarios of a program and the command that starts it, which may raise `NotToBeHad`."""

    scenarios: Sequence[str]
    command: Callable[[], list[str]]


class RunningProgram:
    """A running program, which exits at the end of its standard input."""

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
        """Run a scenario and return the program's result: "ok" or an error description."""
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
    """Return the command for a version of the Java client. Raises `NotToBeHad`."""
    return _on_java(version, JAVA_SOURCES, "Driver")


def admin_calls_command() -> list[str]:
    """Return the command that calls the newest admin library. Raises `NotToBeHad`."""
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
    # Put the client's jar first, because the admin library's jar contains some of the client's
    # classes without their dependencies.
    path = jars / f"pulsar-client-{version}.jar", jars / "*", classes
    return ["java", *JVM_OPTIONS, "-cp", os.pathsep.join(map(str, path)), main_class]


def _go_command() -> list[str]:
    """Return the command for the Go client. Raises `NotToBeHad`."""
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
    """Return the names of the scenarios that these sources define."""
    return sorted(re.findall(pattern, "".join(map(Path.read_text, sources)), re.MULTILINE))


_IN_JAVA = _scenarios(r'scenarios\.put\(\s*"(\w+)"', JAVA_SOURCES.glob("*.java"))

PROGRAMS = {
    "java": Program(_IN_JAVA, lambda: _java_command(NEWEST_JAVA)),
    "java-long-term": Program(_IN_JAVA, lambda: _java_command("4.0.13")),
    "go": Program(_scenarios(r'^\t"(\w+)":', GO_SOURCES.glob("scenarios.go")), _go_command),
}
"""By client name; Java's client is tested in its newest version and in a long-term support
version.
"""
