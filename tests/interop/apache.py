"""Run Apache BookKeeper's client, shell and bookie on this machine.

The jars are downloaded once from Maven Central into the user's cache. Every wait has a deadline.
"""

import asyncio
import hashlib
import os
import shutil
import subprocess
import tempfile
from asyncio.subprocess import PIPE, STDOUT, Process
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
JAVA_SOURCES = HERE / "java"
NEEDED = ("mvn", "java", "javac")

FETCH_TIMEOUT_S = 300
COMPILE_TIMEOUT_S = 60
RESPONSE_TIMEOUT_S = 60
LINE_LIMIT = 16 * 1024 * 1024

JVM_OPTIONS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    f"-Dlog4j2.configurationFile={JAVA_SOURCES / 'log4j2.properties'}",
)


class NotToBeHad(Exception):
    """Raised if Apache BookKeeper cannot be run on this machine; the message says why."""


@dataclass(frozen=True, slots=True)
class Apache:
    """An installation of Apache BookKeeper; `class_path` contains its jars and our drivers.

    `login` is the path of the file that provides ZooKeeper's secret to a JVM.
    """

    class_path: str
    login: Path | None = None
    jvm_options: Sequence[str] = JVM_OPTIONS

    def known_to(self, zookeeper: EmbeddedZooKeeper) -> Self:
        """Return a copy of this installation with the login for the given server."""
        return replace(self, login=zookeeper.login_file)

    def command(self, main_class: str, *arguments: str) -> list[str]:
        """Return the command line of a JVM that runs this class."""
        login = [f"-Djava.security.auth.login.config={self.login}"] if self.login else []
        options = (*self.jvm_options, *login, "-cp", self.class_path)
        return ["java", *options, main_class, *arguments]


def get_apache(classes: Path, more_sources: Sequence[Path] = ()) -> Apache:
    """Download missing jars and compile our drivers into the directory `classes`.

    Raises `NotToBeHad`.
    """
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        raise NotToBeHad(f"{', '.join(missing)} not on the PATH; install Maven and a JDK")
    class_path = f"{fetch_jars()}{os.sep}*{os.pathsep}{classes}"
    sources = [str(source) for source in (*JAVA_SOURCES.glob("*.java"), *more_sources)]
    compile_them = ["javac", "-d", str(classes), "-cp", class_path, *sources]
    subprocess.run(compile_them, check=True, timeout=COMPILE_TIMEOUT_S)
    return Apache(class_path)


def fetch_jars(name: str = "bookkeeper", pom: Path = POM, *properties: str) -> Path:
    """Return a directory with the jars listed in the pom. Raises `NotToBeHad`."""
    key = hashlib.sha256(pom.read_bytes() + "".join(properties).encode()).hexdigest()[:12]
    return cached(name, key, lambda folder: _fetch_into(folder, pom, properties))


def cached(name: str, key: str, make: Callable[[str], None]) -> Path:
    """Return the directory with this name and key in the user's cache, creating it if necessary.

    The directory is created atomically, so it is never incomplete.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "labkit"
    folder = cache / f"{name}-{key}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as unfinished:
            made = f"{unfinished}/made"
            os.mkdir(made)
            make(made)
            try:
                os.replace(made, folder)
            except OSError:
                if not folder.exists():  # Otherwise, another worker created the directory first.
                    raise
    return folder


def _fetch_into(folder: str, pom: Path, properties: Sequence[str]) -> None:
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={folder}", *properties)
    maven = ["mvn", "-q", "-B", "-f", str(pom), *goal]
    try:
        subprocess.run(
            maven, check=True, timeout=FETCH_TIMEOUT_S, stdout=PIPE, stderr=STDOUT, text=True
        )
    except subprocess.TimeoutExpired as problem:
        raise NotToBeHad(f"Maven downloads took longer than {FETCH_TIMEOUT_S} s") from problem
    except subprocess.CalledProcessError as problem:
        errors = (line for line in problem.stdout.splitlines() if "ERROR" in line)
        raise NotToBeHad(f"Maven failed: {next(errors, problem.stdout)}") from problem


class DriverFailed(Exception):
    """Raised for an exception in the Java client; the message contains its class and message."""


class JavaClient:
    """Apache BookKeeper's client in a separate process (`java/LedgerDriver.java`).

    The process exits at the end of its standard input, and therefore no later than this process.
    """

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(
        cls,
        apache: Apache,
        zookeeper: str,
        protocol: str,
        log: Path,
        explicit_lac_interval_ms: int = 0,
    ) -> Self:
        """Start a client of the cluster; `protocol` is "v2" or "v3".

        Its writers send an explicit LAC every `explicit_lac_interval_ms` milliseconds (0: never).
        """
        settings = f"zk://{zookeeper}/ledgers", protocol, str(explicit_lac_interval_ms)
        command = apache.command("LedgerDriver", *settings)
        with log.open("ab") as errors:
            return cls(
                await asyncio.create_subprocess_exec(
                    *command, stdin=PIPE, stdout=PIPE, stderr=errors, limit=LINE_LIMIT
                )
            )

    async def create(self, ensemble: int, write: int, ack: int, digest: str) -> int:
        return int(await self._ask(f"create {ensemble} {write} {ack} {digest}"))

    async def add(self, ledger_id: int, payloads: Sequence[bytes]) -> int:
        """Add all payloads concurrently, wait until all are confirmed, and return the last entry
        id.
        """
        words = " ".join(b64encode(payload).decode() for payload in payloads)
        return int(await self._ask(f"add {ledger_id} {words}"))

    async def close(self, ledger_id: int) -> None:
        await self._ask(f"close {ledger_id}")

    async def open(
        self, ledger_id: int, digest: str = "CRC32C", *, recovery: bool = False
    ) -> tuple[int, int]:
        """Open a ledger and return its LastAddConfirmed and length."""
        how = "recovery" if recovery else "norecovery"
        last, length = (await self._ask(f"open {ledger_id} {digest} {how}")).split()
        return int(last), int(length)

    async def read(self, ledger_id: int, first: int, last: int) -> list[bytes]:
        """Read entries and return their payloads; the client verifies the digests."""
        words = (await self._ask(f"read {ledger_id} {first} {last}")).split(" ")
        return [b64decode(word) for word in words]

    async def read_batch(
        self, ledger_id: int, first: int, max_count: int, max_size: int
    ) -> list[bytes]:
        """Read a batch of entries and return the payloads that the bookie put into its response."""
        words = await self._ask(f"batchread {ledger_id} {first} {max_count} {max_size}")
        return [b64decode(word) for word in words.split(" ")]

    async def delete(self, ledger_id: int) -> None:
        await self._ask(f"delete {ledger_id}")

    async def create_deferred(self, ensemble: int, write: int, ack: int) -> int:
        """Create a ledger with deferred sync and CRC32C digests."""
        return int(await self._ask(f"createdeferred {ensemble} {write} {ack}"))

    async def force(self, ledger_id: int) -> None:
        await self._ask(f"force {ledger_id}")

    async def last_add_confirmed(self, ledger_id: int) -> int:
        """Return the LastAddConfirmed that the handle has cached, without sending a request."""
        return int(await self._ask(f"confirmed {ledger_id}"))

    async def read_last_confirmed(self, ledger_id: int) -> int:
        """Ask the bookies for LastAddConfirmed."""
        return int(await self._ask(f"readconfirmed {ledger_id}"))

    async def read_explicit_last_confirmed(self, ledger_id: int) -> int:
        """Ask the bookies for the explicit LAC."""
        return int(await self._ask(f"readexplicit {ledger_id}"))

    async def await_entry(
        self, ledger_id: int, entry_id: int, timeout_ms: int
    ) -> tuple[int, bytes | None]:
        """Long-poll for an entry; return LastAddConfirmed and the payload, or None on timeout."""
        lac, payload = (await self._ask(f"await {ledger_id} {entry_id} {timeout_ms}")).split(" ")
        return int(lac), None if payload == "-" else b64decode(payload)

    async def list_of_entries(self, ledger_id: int, bookie_id: str, last: int) -> list[int]:
        """Ask a bookie for the ids of the ledger's entries that it stores."""
        answer = await self._ask(f"entries {ledger_id} {bookie_id} {last}")
        return [int(word) for word in answer.split()]

    async def disk_space(self, bookie_id: str) -> tuple[int, int]:
        """Return the bookie's total and free disk space in bytes."""
        total, free = (await self._ask(f"space {bookie_id}")).split()
        return int(total), int(free)

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line.encode() + b"\n")
        async with asyncio.timeout(RESPONSE_TIMEOUT_S):
            answer = (await self._process.stdout.readline()).decode().rstrip("\n")
        verdict, _, result = answer.partition(" ")
        if verdict != "ok":
            raise DriverFailed(result)
        return result
