"""A bookie's directory, which can be served by either labkit's or Apache's bookie process.

Both processes use the same bookie id and the same directories, so each of them can take over from
the other.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from dataclasses import dataclass
from pathlib import Path

from labkit.system.metadata.registration import BOOKIE_RPC, find_endpoint
from labkit.system.model.errors import BKBookieHandleNotAvailableException
from labkit.system.storage.log_mark import LogMark, read_last_mark
from labkit.worlds.live.disk import RealDisk
from labkit.worlds.live.host.guard import guarded
from labkit.worlds.live.host.ports import LOOPBACK, free_port
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.interop.apache import Apache

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
SHELL_TIMEOUT_S = 60
POLL_INTERVAL_S = 0.05
NEVER_MS = 24 * 3600 * 1000
"""With this flush interval, acknowledged entries are stored only in the journal."""

CONFIGURATION = """\
bookieId={bookie_id}
bookiePort={port}
advertisedAddress={loopback}
allowLoopback=true
metadataServiceUri=zk://{zookeeper}/ledgers
useV2WireProtocol=true
journalDirectories={folder}/journal
ledgerDirectories={folder}/ledgers
ledgerStorageClass=org.apache.bookkeeper.bookie.SortedLedgerStorage
journalPreAllocSizeMB=1
journalMaxSizeMB=16
skipListSizeLimit=33554432
logSizeLimit=67108864
flushInterval={never_ms}
diskUsageThreshold=0.99
diskUsageWarnThreshold=0.98
autoRecoveryDaemonEnabled=false
"""


class BookieNotServing(Exception):
    """Raised if the process does not start serving; the message contains the end of its log."""


@dataclass(slots=True)
class RunningBookie:
    """A running bookie process of either kind."""

    process: Process

    async def stop(self) -> None:
        """Send SIGTERM and wait until the bookie has flushed its data and exited."""
        if self.process.returncode is None:
            self.process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self.process.wait()
        except TimeoutError:
            await self.kill()
            raise

    async def kill(self) -> None:
        """Send SIGKILL; data that the bookie holds only in memory is lost."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@dataclass(frozen=True, slots=True)
class BookieFolder:
    """The directory of one bookie of a cluster.

    `folder` is the working directory of the bookie and contains `journal/` and `ledgers/`, unless
    `keys` configures other directories. Keys with the value None are left out of the configuration.
    """

    bookie_id: str
    folder: Path
    zookeeper: str
    keys: tuple[tuple[str, object], ...] = ()
    port: int = 0
    """0 means the bookie may use a different port after each start."""

    async def start_labkit(self, *options: str) -> RunningBookie:
        """Serve the directory with labkit's bookie."""
        conf = self.write_configuration(self.port)
        command = [sys.executable, "-m", "labkit", "bookie", "--conf", str(conf), *options]
        bookie = await self._start(command, PIPE)
        assert bookie.process.stdout is not None
        async with asyncio.timeout(START_TIMEOUT_S):
            line = await bookie.process.stdout.readline()
        if not line:
            raise BookieNotServing(self._log_end())
        return bookie

    async def start_java(self, apache: Apache, metadata: ZooKeeperStore) -> RunningBookie:
        """Serve the directory with Apache's bookie."""
        port = self.port or free_port()
        conf = self.write_configuration(port)
        command = apache.command("org.apache.bookkeeper.server.Main", "--conf", str(conf))
        bookie = await self._start(command, DEVNULL)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while await self._registered_port(metadata) != port:
                    if bookie.process.returncode is not None:
                        raise BookieNotServing(self._log_end())
                    await asyncio.sleep(POLL_INTERVAL_S)
        except BaseException:
            await bookie.kill()
            raise
        return bookie

    async def shell(self, apache: Apache, *arguments: str) -> str:
        """Run a `bookkeeper shell` command here, check that it succeeds, and return its output."""
        conf = self.write_configuration(free_port())
        main_class = "org.apache.bookkeeper.bookie.BookieShell"
        command = guarded(apache.command(main_class, "-conf", str(conf), *arguments))
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=STDOUT
        )
        assert process.stdout is not None
        async with asyncio.timeout(SHELL_TIMEOUT_S):
            output = (await process.stdout.read()).decode()
            exit_code = await process.wait()
        assert exit_code == 0, output
        return output

    def write_configuration(self, port: int) -> Path:
        """Write a `bk_server.conf` for this directory and return its path."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "bk_server.conf"
        text = CONFIGURATION.format(
            bookie_id=self.bookie_id,
            port=port,
            loopback=LOOPBACK,
            zookeeper=self.zookeeper,
            folder=self.folder,
            never_ms=NEVER_MS,
        )
        lines = dict(line.split("=", 1) for line in text.splitlines()) | dict(self.keys)
        kept = (f"{key}={value}\n" for key, value in lines.items() if value is not None)
        path.write_text("".join(kept))
        return path

    def last_mark(self) -> LogMark:
        """Return the journal position up to which entries have been checkpointed."""
        return read_last_mark(RealDisk(self.folder / "ledgers"))

    async def _start(self, command: list[str], stdout: int) -> RunningBookie:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *guarded(command), stdin=PIPE, stdout=stdout, stderr=log, cwd=self.folder
            )
        return RunningBookie(process)

    async def _registered_port(self, metadata: ZooKeeperStore) -> int:
        try:
            return (await find_endpoint(metadata, self.bookie_id, BOOKIE_RPC)).port
        except BKBookieHandleNotAvailableException:
            return 0

    @property
    def _log(self) -> Path:
        return self.folder / "bookie.log"

    def _log_end(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
