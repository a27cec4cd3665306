"""A ZooKeeper server for the cluster's metadata.

Ledger metadata, ledger ids, cookies and bookie registrations are stored as znodes, as in
production. The server is Apache ZooKeeper itself, from the jars in PySpark's wheel, and serves one
data directory on one loopback port. It exits together with the process that started it, even if
that process is killed (`labkit.worlds.live.host.guard`).

In BookKeeper: `util/LocalBookKeeper.java`, which runs the server in its own JVM.
"""

import asyncio
import importlib.util
import os
import re
import secrets
from pathlib import Path
from typing import BinaryIO, Self

from labkit.system.metadata.location import MetadataLocation
from labkit.system.model.errors import LabkitError
from labkit.system.model.missing_part import MissingPart
from labkit.worlds.live.host.guard import guarded
from labkit.worlds.live.host.java import find_java
from labkit.worlds.live.host.ports import LOOPBACK, PortTaken, free_port
from labkit.worlds.live.host.posix import require_posix, try_lock
from labkit.worlds.live.host.private import UMASK, make_private, open_log, write_private
from labkit.worlds.live.zookeeper.secret import login_configuration, publish, withdraw

TICK_MS = 500
MAX_SESSION_MS = 60_000
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.02
RESPONSE_TIMEOUT_S = 2.0
PORT_ATTEMPTS = 5
LOG_NAME = "zookeeper.log"
OUTPUT_NAME = "zookeeper.out"
LOGGING_NAME = "log4j2.properties"
LOGIN_NAME = "jaas.conf"

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JARS = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "log4j-api",
    "log4j-core",
    "log4j-slf4j2-impl",
    "metrics-core",
    "snappy-java",
    "commons-io",
    "netty-handler",
)
"""The jars that the server needs. It would start more slowly with all 300 jars of PySpark."""

JVM_OPTIONS = (
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    f"-Dlog4j2.configurationFile=./{LOGGING_NAME}",
    "-Dzookeeper.preAllocSize=1024",
    f"-Djava.security.auth.login.config=./{LOGIN_NAME}",
)
"""Options for a small heap, a fast start, a transaction log that grows in steps of 1 MiB instead of
64 MiB, and the file with the secret.
"""

CONFIGURATION = f"""\
dataDir=./data
clientPortAddress={LOOPBACK}
clientPort={{port}}
tickTime={TICK_MS}
minSessionTimeout={2 * TICK_MS}
maxSessionTimeout={MAX_SESSION_MS}
maxClientCnxns=0
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
admin.enableServer=false
4lw.commands.whitelist=conf
authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider
enforce.auth.enabled=true
enforce.auth.schemes=sasl
"""
"""The `conf` command works without the secret. It shows the data directory and the ports.

The default limit of 60 connections per address is disabled, because all nodes and clients of the
cluster connect from the same address, and bookies might be unable to reconnect. At startup and once
an hour, the server deletes all snapshots except the newest three, and all transaction logs that
these three do not need.
"""

LOGGING = f"""\
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName=./{LOG_NAME}
appender.file.filePattern=./{LOG_NAME}.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d{{ISO8601}} %p %c - %m%n
appender.file.policies.type=SizeBasedTriggeringPolicy
appender.file.policies.size=1MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=2
rootLogger.level=info
rootLogger.appenderRef.file.ref=file
"""
"""The log is limited to 3 MB, because the server logs every connection."""


class ZooKeeperNotStarted(LabkitError):
    """The server did not start. The message contains the reason and the end of its log."""


def zookeeper_jars() -> list[Path]:
    """Return the paths of the server's jars, which are part of the installed PySpark.

    Raises:
        MissingPart: PySpark is not installed, or some of the jars are missing from it.
    """
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise MissingPart(
            "ZooKeeper",
            "PySpark, whose jars contain the server, is not installed",
            "run `pip install pyspark`",
        )
    folder = Path(pyspark.origin).parent / "jars"
    jars = []
    for name in JARS:
        found = sorted(folder.glob(f"{name}-[0-9]*.jar"))
        if not found:
            remedy = "run `pip install --force-reinstall pyspark`"
            raise MissingPart("ZooKeeper", f"{folder} has no {name}-*.jar", remedy)
        jars.append(found[-1])
    return jars


class EmbeddedZooKeeper:
    """A ZooKeeper server on a loopback port, in a process that exits together with this one.

    `folder` is the directory for its data, its configuration, and the newest 3 MB of its log
    `zookeeper.log`. A server that is restarted on the same directory has the same znodes. Port 0
    selects a free port, which is reused by later starts.

    The server accepts only this user's clients. `labkit.worlds.live.zookeeper.secret` explains how
    clients authenticate. Java clients need `-Djava.security.auth.login.config=` with the path
    `login_file`.

    Session timeouts can be between 1 and 60 s. An expired session is detected within 0.5 s.
    """

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.folder = folder
        self.port = port
        self.secret = secrets.token_hex(32)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        """The address for clients: "127.0.0.1:port"."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def location(self) -> MetadataLocation:
        """The default location of a cluster's metadata on this server: the path /ledgers."""
        return MetadataLocation(self.address)

    @property
    def login_file(self) -> Path:
        """The file from which Java clients read the secret while the server is running."""
        return self.folder / LOGIN_NAME

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("ZooKeeper is not running: await start() first")
        return self._process.pid

    async def start(self) -> None:
        """Start the server, and return once it serves clients, which takes 0.5 to 1 s.

        Raises:
            ZooKeeperNotStarted: the server exited or did not respond, or its directory is in use.
            MissingPart: on Windows, without a suitable Java or the jars, or if the port is in use.
        """
        require_posix("a ZooKeeper server")
        if self.is_up:
            raise RuntimeError(
                f"ZooKeeper at {self.address} is already running: await its stop() first"
            )
        for attempts_left in reversed(range(PORT_ATTEMPTS)):
            port = free_port(self.port)
            try:
                await self._start_on(port)
            except PortTaken:
                # Another process took the port before the server could bind it.
                if self.port or not attempts_left:
                    raise
            else:
                self.port = port
                return

    async def stop(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            withdraw(self.address, self.secret)
            self._process.stdin.close()
            if self.is_up:
                self._process.terminate()  # The guard does the same, unless it has been killed.
            try:
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
            self._process = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def _start_on(self, port: int) -> None:
        folder = self.folder.resolve()
        try:
            log_start = await asyncio.to_thread(_log_size, folder)
            command, output = await _prepare_in_thread(folder, port, self.secret)
            with output:
                self._process = await asyncio.create_subprocess_exec(
                    *guarded(command),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    cwd=folder,
                    umask=UMASK,
                    # Without a UTF-8 locale, a JVM cannot open directories with non-ASCII names.
                    env={**os.environ, "LC_ALL": "C.UTF-8"},
                )
            await _until_serving(self._process, port, folder, log_start)
            publish(f"{LOOPBACK}:{port}", self.secret, self.pid)
        except BaseException:
            await self.stop()
            raise


async def _prepare_in_thread(folder: Path, port: int, secret: str) -> tuple[list[str], BinaryIO]:
    """Run `_prepare` in a thread. If cancelled, wait for it, because it writes to the directory."""
    preparing = asyncio.ensure_future(asyncio.to_thread(_prepare, folder, port, secret))
    try:
        return await asyncio.shield(preparing)
    except asyncio.CancelledError:
        await asyncio.wait((preparing,))
        if preparing.exception() is None:
            preparing.result()[1].close()
        raise


def _prepare(folder: Path, port: int, secret: str) -> tuple[list[str], BinaryIO]:
    """Write the configuration and return the command line and the locked output file."""
    java = find_java()
    class_path = os.pathsep.join(str(jar) for jar in zookeeper_jars())
    make_private(folder)
    make_private(folder / "data")
    output = open_log(folder / OUTPUT_NAME)
    try:
        # The server inherits the open file with its lock, so two servers never share a directory.
        if not try_lock(output):
            raise ZooKeeperNotStarted(
                f"another ZooKeeper is running in {folder}: stop it, or choose another folder"
            )
        output.truncate(0)
        write_private(folder / "zoo.cfg", CONFIGURATION.format(port=port))
        write_private(folder / LOGGING_NAME, LOGGING)
        write_private(folder / LOGIN_NAME, login_configuration(secret))
    except BaseException:
        output.close()
        raise
    command = [str(java.executable), *JVM_OPTIONS, "-cp", class_path, MAIN_CLASS, "./zoo.cfg"]
    return command, output


async def _until_serving(
    process: asyncio.subprocess.Process, port: int, folder: Path, log_start: int
) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + START_TIMEOUT_S
    while await _folder_served_on(port) != folder:
        ended = process.returncode is not None
        if ended or loop.time() > deadline:
            lines = await asyncio.to_thread(_output_since, folder, log_start)
            if any("Address already in use" in line for line in lines):
                raise PortTaken(port)
            what = f"exited with code {process.returncode}" if ended else "is not responding"
            reasons = [
                line
                for line in lines
                if line.strip() and " INFO " not in line and not line.startswith("\t")
            ]
            shown = "\n  ".join(reasons) or "(no messages)"
            raise ZooKeeperNotStarted(f"ZooKeeper {what}; its log, {folder / LOG_NAME}:\n  {shown}")
        await asyncio.sleep(POLL_INTERVAL_S)


async def _folder_served_on(port: int) -> Path | None:
    """Ask the server on this port for its configuration and return the parent of its data
    directory.

    Just getting a response is not enough, because another ZooKeeper may have taken the port first.
    """
    try:
        async with asyncio.timeout(RESPONSE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            try:
                writer.write(b"conf")
                response = await reader.read()
            finally:
                writer.close()
    except OSError:  # No server is listening yet, or (TimeoutError) it is not responding.
        return None
    found = re.search(r"^dataDir=(.+)$", response.decode(errors="replace"), re.MULTILINE)
    return Path(found[1]).parent.parent if found else None


def _log_size(folder: Path) -> int:
    log = folder / LOG_NAME
    return log.stat().st_size if log.exists() else 0


def _output_since(folder: Path, log_start: int) -> list[str]:
    """Return the JVM's output, and the log from `log_start` on (all of it if it was rotated)."""
    output = (folder / OUTPUT_NAME).read_bytes()
    if (folder / LOG_NAME).exists():
        log = (folder / LOG_NAME).read_bytes()
        output += log[log_start if log_start <= len(log) else 0 :]
    return output.decode(errors="replace").splitlines()
