"""The two systems that are compared, each with a ZooKeeper, bookies and a client of that system.

Both kinds of bookie read the same `bk_server.conf`: BookKeeper's defaults, one disk.  What Apache's
needs (Maven, a JDK, jars from Maven Central) comes the way it comes for the tests in
`tests/interop`.
"""

import asyncio
import json
import os
import sys
import uuid
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labkit.system.metadata.cluster import init_cluster
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.interop import apache as interop
from tests.interop.apache import Apache
from tests.interop.bookies import BookieFolder, RunningBookie

LABKIT, BOOKKEEPER = "labkit", "BookKeeper"
_HERE = Path(__file__).parent
_ANSWER_TIMEOUT_S = 300
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_DEFAULTS: tuple[tuple[str, object], ...] = (
    ("journalPreAllocSizeMB", 16),
    ("journalMaxSizeMB", 2048),
    ("journalMaxBackups", 0),
    ("skipListSizeLimit", 64 * 1024 * 1024),
    ("logSizeLimit", 1024 * 1024 * 1024),
    ("flushInterval", 10_000),
    ("maxPendingAddRequestsPerThread", 1_000_000),
)
"""BookKeeper's, except the backups, which would only fill the disk, and the pending adds: of three
bookies the slowest falls behind where two acknowledgements are enough, and beyond 10,000 adds
BookKeeper's refuses, which ends its client here.  labkit's leaves them in the socket.
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
"""Those of BookKeeper's own start script, as far as they matter here; and no limit on the JIT."""


def get_apache(classes: Path) -> Apache:
    """Apache BookKeeper and the Java load driver, compiled into `classes`.  Raises `NotToBeHad`."""
    found = interop.get_apache(classes, [_HERE / "java" / "LoadDriver.java"])
    return replace(found, jvm_options=_JVM_OPTIONS)


class ClientEnded(Exception):
    """A client gave up under its load; the message has its last words."""


@dataclass(slots=True)
class System:
    """ZooKeeper, three bookies and a client under load, of one kind."""

    name: str
    folder: Path
    zookeeper: EmbeddedZooKeeper
    metadata: ZooKeeperStore
    folders: Sequence[BookieFolder]
    apache: Apache | None
    bookies: list[RunningBookie]
    client: Process

    async def do(self, *command: object) -> dict[str, float]:
        """Let the client do what `load.py` describes.  Raises `ClientEnded`."""
        assert self.client.stdin is not None
        assert self.client.stdout is not None
        self.client.stdin.write(" ".join(map(str, command)).encode() + b"\n")
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            line = await self.client.stdout.readline()
        if not line:
            log = (self.folder / "client.log").read_text(errors="replace")
            words = next((at for at in reversed(log.splitlines()) if "xception" in at), "no words")
            raise ClientEnded(f"{self.name}'s client ended at {command}: {words}")
        result: dict[str, float] = json.loads(line)
        return result

    def cpu_s(self) -> tuple[float, float]:
        """Processor seconds so far: of the client, and of the bookies."""
        bookies = sum(_cpu_s(bookie.process.pid) for bookie in self.bookies)
        return _cpu_s(self.client.pid), bookies

    async def restart_bookies(self) -> None:
        """Stop and start them: what was in memory is then in entry logs alone."""
        await asyncio.gather(*(bookie.stop() for bookie in self.bookies))
        self.bookies = await _start_bookies(self.folders, self.apache, self.metadata)

    async def stop(self) -> None:
        """End everything."""
        for each in [self.client, *(bookie.process for bookie in self.bookies)]:
            if each.returncode is None:
                each.kill()
            await each.wait()
        await self.metadata.stop()
        await self.zookeeper.stop()


async def start_system(folder: Path, apache: Apache | None) -> System:
    """Labkit's kind, or Apache's if it is given."""
    name = BOOKKEEPER if apache else LABKIT
    zookeeper = EmbeddedZooKeeper(folder / "zookeeper")
    await zookeeper.start()
    apache = apache and apache.known_to(zookeeper)
    metadata = ZooKeeperStore(zookeeper.place)
    await metadata.start()
    await init_cluster(metadata, str(uuid.uuid4()))
    folders = [
        BookieFolder(bookie_id, folder / bookie_id, zookeeper.address, _DEFAULTS)
        for bookie_id in ("bookie-1", "bookie-2", "bookie-3")
    ]
    bookies = await _start_bookies(folders, apache, metadata)
    if apache:
        command = apache.command("LoadDriver", f"zk://{zookeeper.address}/ledgers")
    else:
        command = [sys.executable, str(_HERE / "load.py"), zookeeper.address]
    with (folder / "client.log").open("ab") as log:
        # It ends with its standard input, so at the latest with this process.
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


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
