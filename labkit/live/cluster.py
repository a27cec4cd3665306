"""A cluster on this machine: ZooKeeper and bookies as processes, to be killed and brought back.

    async with LocalCluster(bookies=5) as cluster:
        client = await cluster.connect()
        ...
        await cluster.kill("bookie-2")

In BookKeeper: `util/LocalBookKeeper.java`, the command `bookkeeper localbookie`.
"""

import asyncio
import json
import random
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from labkit.client.bookkeeper import BookKeeper
from labkit.client.context import ClientConfig
from labkit.client.placement import Placement
from labkit.live.clock import trace_clock_us, wall_clock_ms
from labkit.live.guard import guarded
from labkit.live.net import LOOPBACK, TcpNetwork
from labkit.live.trace_stream import TraceStream
from labkit.live.zookeeper import EmbeddedZooKeeper
from labkit.live.zookeeper_store import ZooKeeperStore
from labkit.model.errors import BKIncorrectParameterException, LabkitError
from labkit.trace.log import TraceLog
from labkit.trace.recorder import Recorder

_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 10.0
_SETTLE_INTERVAL_S = 0.05
_SETTLE_AFTER_US = 30_000


class BookieNotStartedError(LabkitError):
    """A bookie's process ended, or said nothing in time, instead of serving."""


class BookieStateError(LabkitError):
    """What was asked does not fit the state that the bookie is in."""


def at_random(bookies: Sequence[str], count: int) -> Sequence[str]:
    """The placement of a real cluster: any of them."""
    return random.sample(bookies, count)


@dataclass(slots=True)
class _BookieProcess:
    name: str
    folder: Path
    recorder: Recorder
    process: Process | None = None
    paused: bool = False
    stream: TraceStream | None = None
    watch: asyncio.Task[None] | None = None

    @property
    def conf(self) -> Path:
        return self.folder / "bk_server.conf"

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.returncode is None


class LocalCluster:
    """ZooKeeper and bookies `bookie-1`, `bookie-2`, ... of this machine.

    `zookeeper` names an existing server by "host:port"; without it one is started.  `folder` keeps
    the data; without it they go with the cluster.  With `traced`, `trace` gets the events of all
    nodes and clients.

    Everything that is started here ends with this process, even if that is killed.
    """

    def __init__(
        self,
        bookies: int = 3,
        *,
        zookeeper: str = "",
        folder: Path | None = None,
        traced: bool = True,
        autorecovery: Mapping[str, object] | None = None,
    ) -> None:
        """`autorecovery` makes the bookies repair ledgers: BookKeeper's keys for it, such as
        `{"openLedgerRereplicationGracePeriod": 1000}`; {} for what is usual.

        Raises `BKIncorrectParameterException` for fewer than 1 bookie.
        """
        if bookies < 1:
            raise BKIncorrectParameterException(
                f"a cluster of {bookies} bookies; it needs at least 1"
            )
        self.trace = TraceLog()
        self._traced = traced
        off = {"autoRecoveryDaemonEnabled": "false"}
        self._keys = off if autorecovery is None else autorecovery
        self._temporary = tempfile.TemporaryDirectory(prefix="labkit-") if folder is None else None
        self.folder = Path(self._temporary.name) if self._temporary else Path(folder or "")
        self._embedded = None if zookeeper else EmbeddedZooKeeper(self.folder / "zookeeper")
        self._zookeeper = zookeeper
        self._bookies = {
            name: _BookieProcess(name, self.folder / name, Recorder(name, trace_clock_us))
            for name in (f"bookie-{number}" for number in range(1, bookies + 1))
        }
        self._sessions: list[ZooKeeperStore] = []
        self._clients: list[BookKeeper] = []
        self._settling: asyncio.Task[None] | None = None
        self._settled_us = 0
        self._settled = asyncio.Condition()

    @property
    def zookeeper(self) -> str:
        """The metadata store's "host:port"."""
        return self._embedded.address if self._embedded else self._zookeeper

    @property
    def bookie_names(self) -> list[str]:
        """All bookies, up or down."""
        return list(self._bookies)

    def is_up(self, name: str) -> bool:
        """Whether the bookie's process lives (paused or not)."""
        return self._find(name).is_up

    def folder_of(self, name: str) -> Path:
        """Where a bookie keeps its files: `journal/` and `ledgers/` below it."""
        return self._find(name).folder

    async def start(self) -> Self:
        """Start ZooKeeper and all bookies; returns when every bookie takes writes.

        Raises `LabkitError` saying what is missing; nothing is left running then.
        """
        try:
            if self._embedded is not None:
                await self._embedded.start()
            if self._traced:
                for bookie in self._bookies.values():
                    bookie.recorder.listen(self.trace.add)
                self._settling = asyncio.create_task(self._settle())
            # The first one makes the cluster's nodes, the others find them.
            first, *others = self._bookies.values()
            await self._start_bookie(first)
            starts = (self._start_bookie(bookie) for bookie in others)
            results = await asyncio.gather(*starts, return_exceptions=True)
            for problem in filter(None, results):
                raise problem
        except BaseException:
            await self.stop()
            raise
        return self

    async def stop(self) -> None:
        """End everything; bookies flush first."""
        for client in self._clients:
            client.close()
        await asyncio.gather(*(session.stop() for session in self._sessions))
        self._clients, self._sessions = [], []
        await asyncio.gather(*(self._stop_bookie(bookie) for bookie in self._bookies.values()))
        if self._embedded is not None:
            await self._embedded.stop()
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
            self.trace.settle()
        if self._temporary is not None:
            self._temporary.cleanup()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def connect(
        self,
        name: str = "client",
        *,
        placement: Placement = at_random,
        config: ClientConfig | None = None,
    ) -> BookKeeper:
        """A client of this cluster; `name` is its node in the trace."""
        session = ZooKeeperStore(self.zookeeper)
        await session.start()
        self._sessions.append(session)
        recorder = Recorder(name, trace_clock_us)
        if self._traced:
            recorder.listen(self.trace.add)
        client = BookKeeper(
            session,
            TcpNetwork(),
            recorder,
            placement,
            lambda: random.getrandbits(63),
            wall_clock_ms,
            config,
        )
        self._clients.append(client)
        return client

    async def settled(self) -> None:
        """Return when `trace` has everything that the nodes have reported up to now."""
        if not self._traced:
            return
        assert self._settling is not None, "the cluster is not running"
        now = trace_clock_us()
        while self._settled_us < now:
            turn = asyncio.create_task(self._next_turn())
            await asyncio.wait((turn, self._settling), return_when=asyncio.FIRST_COMPLETED)
            if self._settling.done():
                turn.cancel()
                # A listener of the trace raised: say so here rather than wait for ever.
                self._settling.result()

    async def kill(self, name: str) -> None:
        """SIGKILL: the bookie's memory is lost, its files stay.

        Raises `BookieStateError` if it is down.
        """
        self._running(name, "killed").kill()
        watch = self._find(name).watch
        assert watch is not None
        await watch

    async def pause(self, name: str) -> None:
        """SIGSTOP: the bookie answers nobody.  Raises `BookieStateError` if it is not running."""
        self._running(name, "paused").send_signal(signal.SIGSTOP)
        self._find(name).paused = True
        self._find(name).recorder.record("node.paused")

    async def resume(self, name: str) -> None:
        """SIGCONT: a paused bookie goes on.  Raises `BookieStateError` if it is not paused."""
        bookie = self._find(name)
        if not bookie.paused:
            raise BookieStateError(f"{name} is not paused")
        self._running(name, "resumed").send_signal(signal.SIGCONT)
        bookie.paused = False
        self._find(name).recorder.record("node.resumed")

    async def restart(self, name: str) -> None:
        """Start a bookie again over its files, after killing it if it is up."""
        if self.is_up(name):
            await self.kill(name)
        await self._start_bookie(self._find(name))

    def _find(self, name: str) -> _BookieProcess:
        if name not in self._bookies:
            raise BKIncorrectParameterException(
                f"there is no bookie {name!r}; there are {', '.join(self._bookies)}"
            )
        return self._bookies[name]

    def _running(self, name: str, verb: str) -> Process:
        process = self._find(name).process
        if process is None or process.returncode is not None:
            raise BookieStateError(f"{name} is down and cannot be {verb}; restart it first")
        return process

    async def _forget(self, bookie: _BookieProcess) -> None:
        """Its process has ended: take the last rows of its trace."""
        bookie.process = None
        bookie.paused = False
        if bookie.stream is not None:
            stream, bookie.stream = bookie.stream, None
            await stream.drain()

    async def _start_bookie(self, bookie: _BookieProcess) -> None:
        await self._forget(bookie)
        bookie.folder.mkdir(parents=True, exist_ok=True)
        keys = self._configuration(bookie.name)
        bookie.conf.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        log_path = bookie.folder / "bookie.log"
        with log_path.open("ab") as log:
            bookie.process = await asyncio.create_subprocess_exec(
                *guarded(self._in_place(bookie.name, self._command(bookie))),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
            )
        ready = await self._first_line(bookie, log_path)
        if self._traced:
            bookie.stream = self._trace_stream(bookie.name, ready["trace_port"])
            await bookie.stream.start()
        bookie.recorder.record("node.started")
        bookie.watch = asyncio.create_task(self._watch(bookie, bookie.process))

    async def _watch(self, bookie: _BookieProcess, process: Process) -> None:
        """Tell when the process ends, killed by us or by itself."""
        await process.wait()
        await self._forget(bookie)
        bookie.recorder.record("node.killed")

    # Where bookies run: a subclass may put each of them into a network of its own

    def _configuration(self, name: str) -> Mapping[str, object]:
        return {"zkServers": self.zookeeper, **self._keys}

    def _in_place(self, name: str, command: list[str]) -> list[str]:
        return command

    def _trace_stream(self, name: str, port: int) -> TraceStream:
        return TraceStream(LOOPBACK, port, self.trace.add)

    def _command(self, bookie: _BookieProcess) -> list[str]:
        options = ["--id", bookie.name, "--data", str(bookie.folder), "--conf", str(bookie.conf)]
        if self._traced:
            options.append("--trace-from-start")
        return [sys.executable, "-m", "labkit", "bookie", *options]

    async def _first_line(self, bookie: _BookieProcess, log_path: Path) -> dict[str, int]:
        assert bookie.process is not None
        assert bookie.process.stdout is not None
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                line = await bookie.process.stdout.readline()
        except TimeoutError:
            line = b""
        if not line:
            if bookie.is_up:
                bookie.process.kill()
            await bookie.process.wait()
            raise BookieNotStartedError(
                f"{bookie.name} did not start; its last words in {log_path}: {_last_line(log_path)}"
            )
        ready: dict[str, int] = json.loads(line)
        return ready

    async def _stop_bookie(self, bookie: _BookieProcess) -> None:
        process = bookie.process
        if bookie.watch is not None:
            bookie.watch.cancel()
        if process is not None and process.returncode is None:
            if bookie.paused:
                process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                async with asyncio.timeout(_STOP_TIMEOUT_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        await self._forget(bookie)

    async def _next_turn(self) -> None:
        async with self._settled:
            await self._settled.wait()

    async def _settle(self) -> None:
        """Rows of several processes come in bursts: give them a moment to meet."""
        while True:
            await asyncio.sleep(_SETTLE_INTERVAL_S)
            self._settled_us = trace_clock_us() - _SETTLE_AFTER_US
            self.trace.settle(self._settled_us)
            async with self._settled:
                self._settled.notify_all()


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "nothing")
