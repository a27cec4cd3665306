"""A cluster on this machine: ZooKeeper, bookies and brokers as processes that can be killed.

    async with LocalCluster(bookies=5) as cluster:
        client = await cluster.connect()
        ...
        await cluster.kill("b1")

In BookKeeper: `util/LocalBookKeeper.java`, the command `bookkeeper localbookie`.
"""

import asyncio
import atexit
import tempfile
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import Placement
from labkit.system.metadata.location import MetadataLocation, parse_location
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.trace.log import TraceLog
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.host.own_python import own_command, own_path
from labkit.worlds.live.host.ports import LOOPBACK, free_port
from labkit.worlds.live.host.posix import require_posix
from labkit.worlds.live.host.private import make_private, write_private
from labkit.worlds.live.net import authority
from labkit.worlds.live.new_client import new_client, random_bookies
from labkit.worlds.live.processes.node_process import (
    NodeNotStartedError,
    NodeProcess,
    NodeStateError,
    kill_and_wait,
)
from labkit.worlds.live.processes.server_config import BOOKKEEPER_KEYS
from labkit.worlds.live.trace_stream import TraceStream
from labkit.worlds.live.zookeeper.secret import SECRET_VARIABLE, known_secret
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore

_SETTLE_INTERVAL_S = 0.05
_SETTLE_AFTER_US = 30_000
_BOOKIE, _BROKER = "bookie", "broker"
_CONF = {_BOOKIE: "bk_server.conf", _BROKER: "broker.conf"}
_NO_AUTORECOVERY = {"autoRecoveryDaemonEnabled": "false"}
_QUORUM_KEYS = (
    "managedLedgerDefaultEnsembleSize",
    "managedLedgerDefaultWriteQuorum",
    "managedLedgerDefaultAckQuorum",
)
_BROKER_KEYS = {"bookkeeperExplicitLacIntervalInMills": 100}
"""The interval is short, so that programs that read a topic's ledgers soon see the newest entry."""


class LocalCluster:
    """ZooKeeper, bookies `b0`, `b1`, ... and brokers `broker-1`, ... on this machine.

    `zookeeper` selects an existing server, as "host:port" or in the form of `metadataServiceUri`.
    By default, the cluster starts its own. `folder` is the directory for the data. By default, it
    is a temporary directory that `stop` deletes. With `traced`, `trace` receives the events of all
    nodes and clients.

    All processes that the cluster starts exit together with this process, even if it is killed.
    """

    def __init__(
        self,
        bookies: int = 3,
        *,
        zookeeper: str = "",
        folder: Path | None = None,
        traced: bool = True,
        autorecovery: Mapping[str, object] | None = None,
        brokers: int = 0,
        broker_conf: Mapping[str, object] | None = None,
    ) -> None:
        """Prepare a cluster, to be started with `start`.

        `autorecovery` enables autorecovery in the bookies. Its value contains keys for their
        `bk_server.conf`, such as `{"openLedgerRereplicationGracePeriod": 1000}`, or is empty to use
        the defaults. `broker_conf` contains keys of `broker.conf`, such as
        `{"brokerDeduplicationEnabled": "true"}`.

        Raises `BKIncorrectParameterException` if there is no bookie, the number of brokers is
        negative, `zookeeper` is invalid, or labkit rejects or ignores a key. Raises `MissingPart`
        on Windows.
        """
        require_posix("a cluster of processes")
        if bookies < 1 or brokers < 0:
            raise BKIncorrectParameterException(
                f"expected at least 1 bookie and at least 0 brokers, got {bookies} and {brokers}"
            )
        BOOKKEEPER_KEYS.require_used(autorecovery or {})
        if broker_conf:
            # Imported here because it imports PyJWT and cryptography, which is slow.
            from labkit.worlds.live.processes.broker_config import PULSAR_KEYS  # noqa: PLC0415

            PULSAR_KEYS.require_used(broker_conf)
        self._bookie_keys = _NO_AUTORECOVERY if autorecovery is None else autorecovery
        quorums = dict.fromkeys(_QUORUM_KEYS, min(bookies, 2))
        self._broker_keys = {**quorums, **_BROKER_KEYS, **(broker_conf or {})}
        self._zookeeper = zookeeper
        self._location = parse_location(zookeeper) if zookeeper else None
        self._temporary = tempfile.TemporaryDirectory(prefix="labkit-") if folder is None else None
        # Restarted nodes must find their files even if the working directory has changed.
        self.folder = Path(self._temporary.name if self._temporary else folder or "").absolute()
        self.embedded_zookeeper = EmbeddedZooKeeper(self.folder / "zookeeper")
        """The cluster's own server, which is not started if the argument `zookeeper` selects
        another.
        """
        self.trace = TraceLog(origin_us=trace_clock_us())
        self._settler = _TraceSettler(self.trace) if traced else None
        self._bookies = self._nodes(_BOOKIE, [f"b{n}" for n in range(bookies)])
        self._brokers = self._nodes(_BROKER, [f"broker-{n}" for n in range(1, brokers + 1)])
        self._clients: list[tuple[BookKeeper, ZooKeeperStore]] = []
        self._is_started = False
        self.is_stopped = False
        """Whether the cluster has been started and stopped again."""

    @property
    def zookeeper(self) -> str:
        """The metadata store's "host:port", or the value of the argument `zookeeper`."""
        return self._zookeeper or self.embedded_zookeeper.address

    @property
    def metadata(self) -> MetadataLocation:
        return self._location or self.embedded_zookeeper.location

    @property
    def bookie_names(self) -> list[str]:
        return list(self._bookies)

    @property
    def broker_names(self) -> list[str]:
        return list(self._brokers)

    @property
    def service_url(self) -> str:
        """The service URL for Pulsar clients, which lists all brokers."""
        return "pulsar://" + ",".join(self._authority_of(name, "port") for name in self._brokers)

    def service_url_of(self, broker: str) -> str:
        return f"pulsar://{self._authority_of(broker, 'port')}"

    def web_url_of(self, broker: str) -> str:
        return f"http://{self._authority_of(broker, 'web_port')}"

    def _authority_of(self, broker: str, port: str) -> str:
        host = str(self._broker_keys.get("advertisedAddress", LOOPBACK))
        return authority(host, self.ports_of(broker)[port])

    def ports_of(self, name: str) -> dict[str, int]:
        """Return the node's last announcement: its process id and its ports, by name.

        Raises `NodeStateError` before the node's first start.
        """
        node = self._find(name)
        if not node.ports:
            raise NodeStateError(f"{name} has no ports yet: await the cluster's start() first")
        return node.ports

    def is_up(self, name: str) -> bool:
        return self._find(name).is_up

    def exit_code_of(self, name: str) -> int | None:
        """Return the exit code of the node's last process (negative if a signal ended it), or None
        while the node is up.
        """
        return self._find(name).exit_code

    def folder_of(self, name: str) -> Path:
        """Return the directory that contains a node's files. A bookie's contains `journal/` and
        `ledgers/`.
        """
        return self._find(name).folder

    async def start(self) -> Self:
        """Start ZooKeeper, all bookies and all brokers, and return once all of them serve clients.

        Raises `NodeStateError` if the cluster is already running. If a process cannot be started,
        stops the processes that are already running and raises `LabkitError`.
        """
        if self._is_started:
            raise NodeStateError("this cluster is already running: await its stop() first")
        self._is_started, self.is_stopped = True, False
        atexit.register(self._kill_at_exit)
        try:
            if self._location is None:
                await self.embedded_zookeeper.start()
            if self._settler is not None:
                self._settler.start()
            # The first bookie creates the cluster's znodes, so start it before the others.
            first, *others = self._bookies.values()
            await self._start(first)
            await _run_all(map(self._start, others))
            await _run_all(map(self._start, self._brokers.values()))
        except BaseException:
            await self.stop()
            raise
        return self

    async def stop(self) -> None:
        """Stop everything: first the brokers close their topics, and then the bookies flush.

        If a step fails, still takes all other steps, and then raises the error.
        """
        self._is_started, self.is_stopped = False, True
        async with AsyncExitStack() as steps:  # An exit stack takes its last step first.
            if self._settler is not None:
                steps.callback(self._settler.stop)
            if self._temporary is not None:
                steps.callback(self._temporary.cleanup)
            steps.callback(atexit.unregister, self._kill_at_exit)
            steps.push_async_callback(self.embedded_zookeeper.stop)
            for nodes in (self._bookies, self._brokers):
                steps.push_async_callback(_run_all, (node.stop() for node in nodes.values()))
            steps.push_async_callback(self.disconnect)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def connect(
        self,
        name: str = "client",
        *,
        placement: Placement = random_bookies,
        config: ClientConfig | None = None,
    ) -> BookKeeper:
        """Return a client. `name` identifies it in the trace. Raises `NodeStateError`."""
        self._require_start()
        session = ZooKeeperStore(self.metadata)
        await session.start()
        client = new_client(session, self._recorder(name), placement=placement, config=config)
        self._clients.append((client, session))
        return client

    async def disconnect(self) -> None:
        """Close all clients created by `connect`, and their ZooKeeper sessions."""
        clients, self._clients = self._clients, []
        for client, _ in clients:
            client.close()
        await _run_all(session.stop() for _, session in clients)

    async def settled(self) -> None:
        """Wait until `trace` contains all events that the nodes have recorded so far."""
        if self._settler is not None:
            self._require_start()
            await self._settler.wait()

    async def start_tracing(self) -> None:
        """Let `trace` receive the events of a running cluster that was created without `traced`.

        `trace` receives all events that nodes record from now on, and the events of clients that
        connect from now on. Raises `NodeStateError` if the cluster is already traced, or a node is
        paused.
        """
        self._require_start()
        nodes = self._all().values()
        if self._settler is not None:
            raise NodeStateError("this cluster is already traced")
        if paused := [node.name for node in nodes if node.is_paused]:
            raise NodeStateError(
                f"{paused[0]} is paused and cannot send its events; resume it first"
            )
        self._settler = _TraceSettler(self.trace)
        self._settler.start()
        for node in nodes:
            node.recorder.listen(self.trace.add)
            if node.is_up:
                await self._connect_trace(node)

    async def kill(self, name: str) -> None:
        """Kill the node with SIGKILL. The node's memory is lost, but its files are kept.

        Raises `NodeStateError` if the node is down.
        """
        await self._find(name).kill()

    async def shut_down(self, name: str) -> None:
        """Send SIGTERM and wait until the broker has released its topics or the bookie has flushed.

        A paused node is resumed first. Raises `NodeStateError` if the node is down.
        """
        await self._find(name).shut_down()

    async def pause(self, name: str) -> None:
        """Suspend the node with SIGSTOP. Raises `NodeStateError` if the node is down."""
        await self._find(name).pause()

    async def resume(self, name: str) -> None:
        """Resume a paused node with SIGCONT. Raises `NodeStateError` if the node is not paused."""
        self._find(name).resume()

    async def restart(self, name: str) -> None:
        """Restart a node, killing it first if it is up.

        A bookie keeps its files, and a broker keeps its ports.
        """
        if self.is_up(name):
            await self.kill(name)
        await self._start(self._find(name))

    def _kill_at_exit(self) -> None:
        """Kill all nodes if `stop` was never called, before their temporary folder is deleted."""
        for node in self._all().values():
            if node.process is not None and node.is_up:
                kill_and_wait(node.process.pid)
        if self.embedded_zookeeper.is_up:
            kill_and_wait(self.embedded_zookeeper.pid)

    def _nodes(self, kind: str, names: Iterable[str]) -> dict[str, NodeProcess]:
        # Also pass on the secret of an existing server, because nodes may connect to it at another
        # address.
        location = self._location
        secret = known_secret(location.servers) if location else self.embedded_zookeeper.secret
        environment = own_path() | ({SECRET_VARIABLE: secret} if secret else {})
        temporary = self._temporary is not None
        return {
            name: NodeProcess(
                kind, name, self.folder / name, self._recorder(name), environment, temporary
            )
            for name in names
        }

    def _recorder(self, name: str) -> Recorder:
        recorder = Recorder(name, trace_clock_us)
        if self._settler is not None:
            recorder.listen(self.trace.add)
        return recorder

    def _all(self) -> dict[str, NodeProcess]:
        return {**self._bookies, **self._brokers}

    def _require_start(self) -> None:
        if not self._is_started:
            raise NodeStateError("this cluster is not running: await its start() first")

    def _find(self, name: str) -> NodeProcess:
        nodes = self._all()
        if name not in nodes:
            raise BKIncorrectParameterException(
                f"unknown node {name!r}; nodes of this cluster: {', '.join(nodes)}"
            )
        return nodes[name]

    async def _start(self, node: NodeProcess) -> None:
        self._require_start()
        make_private(node.folder)
        conf = node.folder / _CONF[node.kind]
        keys = self.configuration_of(node.name)
        write_private(conf, "".join(f"{key}={value}\n" for key, value in keys.items()))
        await node.start(self.command_of(node.name, self._command(node, conf)))
        if self._settler is not None:
            await self._connect_trace(node)

    async def _connect_trace(self, node: NodeProcess) -> None:
        node.stream = self.trace_stream_of(node.name, node.ports["trace_port"])
        try:
            await node.stream.start()
        except OSError as error:
            raise NodeNotStartedError(f"the trace of {node.name} cannot be read: {error}") from None

    # A subclass may override these methods to run each node in a separate network.

    def configuration_of(self, name: str) -> Mapping[str, object]:
        location = self.metadata
        if name in self._bookies:
            return {"metadataServiceUri": location, **self._bookie_keys}
        ports = self._brokers[name].ports
        return {
            "metadataStoreUrl": f"zk:{location.servers}{location.chroot}",
            "bookkeeperMetadataServiceUri": location,
            # A broker keeps its ports when it restarts, because clients identify it by its ports.
            "brokerServicePort": ports.get("port") or free_port(),
            "webServicePort": ports.get("web_port") or free_port(),
            **self._broker_keys,
        }

    def command_of(self, name: str, command: list[str]) -> list[str]:
        """Return the command that starts a node's process, by default `command` itself."""
        return command

    def trace_stream_of(self, name: str, port: int) -> TraceStream:
        """Return the stream that passes a node's events to `trace`."""
        return TraceStream(LOOPBACK, port, self.trace.add)

    def _command(self, node: NodeProcess, conf: Path) -> list[str]:
        options = ["--id", node.name, "--conf", str(conf)]
        if node.kind == _BOOKIE:
            options += ["--data", str(node.folder)]
        if self._settler is not None:
            options.append("--trace-from-start")
        return own_command("labkit", node.kind, *options)


async def _run_all(calls: Iterable[Awaitable[None]]) -> None:
    """Wait for all calls, which run at the same time, and raise the first error."""
    for problem in filter(None, await asyncio.gather(*calls, return_exceptions=True)):
        raise problem


class _TraceSettler:
    """Settles a trace periodically, because rows from several processes arrive in bursts."""

    def __init__(self, trace: TraceLog) -> None:
        self._trace = trace
        self._settled_us = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Settle all rows received so far. If a listener raises an exception, re-raises it."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._trace.settle()

    async def wait(self) -> None:
        """Wait until all rows recorded so far are settled. If a listener has raised an exception,
        re-raises it.
        """
        now = trace_clock_us()
        assert self._task is not None
        while self._settled_us < now:
            await asyncio.wait((self._task,), timeout=_SETTLE_INTERVAL_S / 5)
            if self._task.done():
                self._task.result()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_SETTLE_INTERVAL_S)
            self._settled_us = trace_clock_us() - _SETTLE_AFTER_US
            self._trace.settle(self._settled_us)
