"""Starts the two systems to be compared, each with its own ZooKeeper, bookies and client.

Both kinds of bookie use the same `bk_server.conf`, with BookKeeper's defaults and one disk. The
dependencies of Apache BookKeeper (Maven, a JDK, jars from Maven Central) are obtained as in
`tests/interop`.
"""

import asyncio
import json
import sys
import uuid
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from benchmarks.measure import cpu_s_of
from labkit.system.metadata.cluster import init_cluster
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.interop import apache as interop
from tests.interop.apache import Apache
from tests.interop.bookies import BookieFolder, RunningBookie

LABKIT, BOOKKEEPER = "labkit", "BookKeeper"
_HERE = Path(__file__).parent
_ANSWER_TIMEOUT_S = 300

_DEFAULTS: tuple[tuple[str, object], ...] = (
    ("journalPreAllocSizeMB", 16),
    ("journalMaxSizeMB", 2048),
    ("journalMaxBackups", 0),
    ("skipListSizeLimit", 64 * 1024 * 1024),
    ("logSizeLimit", 1024 * 1024 * 1024),
    ("flushInterval", 10_000),
    ("maxPendingAddRequestsPerThread", 1_000_000),
)
"""BookKeeper's defaults, with two exceptions. Journal backups would only fill the disk. The limit
on pending adds is raised because the slowest of three bookies falls behind if two acknowledgements
are enough: with the default of 10,000, BookKeeper's bookie would reject adds, and its client would
fail; labkit's bookie leaves them in the socket.
"""

_JVM_OPTIONS = (
    "-Xms768m",
    "-Xmx768m",
    "-XX:MaxDirectMemorySize=768m",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=10",
    "-XX:+ParallelRefProcEnabled",
    "-Dio.netty.leakDetection.level=disabled",
    f"-Dlog4j2.configurationFile={interop.JAVA_SOURCES / 'log4j2.properties'}",
)
"""The relevant options of BookKeeper's start script, without its limits on the JIT compiler."""


def get_apache(classes: Path) -> Apache:
    """Get Apache BookKeeper, and compile the load driver into `classes`.

    Raises `NotToBeHad` if Apache BookKeeper is not available.
    """
    found = interop.get_apache(classes, [_HERE / "java" / "LoadDriver.java"])
    return replace(found, jvm_options=_JVM_OPTIONS)


class ClientEnded(Exception):
    """Raised if a client exits under load; the message contains the last exception in its log."""


@dataclass(slots=True)
class System:
    """The ZooKeeper, three bookies and a load client of one system."""

    name: str
    folder: Path
    zookeeper: EmbeddedZooKeeper
    metadata: ZooKeeperStore
    folders: Sequence[BookieFolder]
    apache: Apache | None
    bookies: list[RunningBookie]
    client: Process

    async def do(self, *command: object) -> dict[str, float]:
        """Send a command of `load.py` to the client and return the result.

        Raises `ClientEnded` if the client exits.
        """
        assert self.client.stdin is not None
        assert self.client.stdout is not None
        self.client.stdin.write(" ".join(map(str, command)).encode() + b"\n")
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            line = await self.client.stdout.readline()
        if not line:
            log = (self.folder / "client.log").read_text(errors="replace")
            lines = reversed(log.splitlines())
            reason = next((each for each in lines if "xception" in each), "no exception logged")
            raise ClientEnded(f"the client of {self.name} exited during {command}: {reason}")
        result: dict[str, float] = json.loads(line)
        return result

    def cpu_s(self) -> tuple[float, float]:
        """Return the processor time used so far by the client and by the bookies, in seconds."""
        bookies = (psutil.Process(bookie.process.pid) for bookie in self.bookies)
        return cpu_s_of(psutil.Process(self.client.pid)), cpu_s_of(*bookies)

    async def restart_bookies(self) -> None:
        """Restart the bookies, so that they flush everything in memory to entry logs."""
        await asyncio.gather(*(bookie.stop() for bookie in self.bookies))
        self.bookies = await _start_bookies(self.folders, self.apache, self.metadata)

    async def stop(self) -> None:
        for each in [self.client, *(bookie.process for bookie in self.bookies)]:
            if each.returncode is None:
                each.kill()
            await each.wait()
        await self.metadata.stop()
        await self.zookeeper.stop()


async def start_system(folder: Path, apache: Apache | None) -> System:
    """Start labkit, or Apache BookKeeper if `apache` is given."""
    name = BOOKKEEPER if apache else LABKIT
    zookeeper = EmbeddedZooKeeper(folder / "zookeeper")
    await zookeeper.start()
    apache = apache and apache.known_to(zookeeper)
    metadata = ZooKeeperStore(zookeeper.location)
    await metadata.start()
    await init_cluster(metadata, str(uuid.uuid4()))
    folders = [
        BookieFolder(bookie_id, folder / bookie_id, zookeeper.address, _DEFAULTS)
        for bookie_id in ("b0", "b1", "b2")
    ]
    bookies = await _start_bookies(folders, apache, metadata)
    if apache:
        command = apache.command("LoadDriver", f"zk://{zookeeper.address}/ledgers")
    else:
        command = [sys.executable, str(_HERE / "load.py"), zookeeper.address]
    with (folder / "client.log").open("ab") as log:
        # The client exits when its standard input is closed, which happens at the latest when this
        # process exits.
        client = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=log)
    return System(name, folder, zookeeper, metadata, folders, apache, bookies, client)


async def _start_bookies(
    folders: Sequence[BookieFolder], apache: Apache | None, metadata: ZooKeeperStore
) -> list[RunningBookie]:
    starts = (
        folder.start_java(apache, metadata) if apache else folder.start_labkit()
        for folder in folders
    )
    return list(await asyncio.gather(*starts))
