"""A cluster on this machine: ZooKeeper, bookies and brokers as processes that can be killed.

    async with LocalCluster(bookies=5) as cluster:
        client = await cluster.connect()
        ...
        await cluster.kill("bookie-2")

In BookKeeper: `util/LocalBookKeeper.java`, the command `bookkeeper localbookie`.
"""

import asyncio
import atexit
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import Placement
from labkit.system.metadata.place import MetadataPlace, parse_place
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.trace.log import TraceLog
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.host.own_python import own_command, own_path
from labkit.worlds.live.host.posix import require_posix
from labkit.worlds.live.host.private import make_private, write_private
from labkit.worlds.live.net import LOOPBACK, authority
from labkit.worlds.live.new_client import at_random, new_client
from labkit.worlds.live.processes.node_process import NodeProcess, NodeStateError, kill_and_wait
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
"""Short, so that programs that read ledgers soon see a topic's newest entry."""


class LocalCluster:
    """ZooKeeper, bookies `bookie-1`, `bookie-2`, ... and brokers `broker-1`, ... on this machine.

    `zookeeper` names an existing server by "host:port", or the place of the cluster's metadata in
    the form of `metadataServiceUri`; without it a server is started.  `folder` keeps the data;
    without it the data is removed with the cluster.  With `traced`, `trace` gets the events of all
    nodes and clients.

    All processes that the cluster starts end with this process, even if it is killed.
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
        """With `autorecovery` the bookies repair ledgers; it contains BookKeeper's keys, such as
        `{"openLedgerRereplicationGracePeriod": 1000}`, or {} for the defaults.  `broker_conf`
        contains Pulsar's keys for the brokers, such as `{"brokerDeduplicationEnabled": "true"}`.

        Raises `BKIncorrectParameterException` for fewer than 1 bookie, a negative number of
        brokers, a `zookeeper` that is not a place of metadata, and a key without effect or refused;
        `MissingPart` on Windows.
        """
        require_posix("a cluster of processes")
        if bookies < 1 or brokers < 0:
            raise BKIncorrectParameterException(
                f"a cluster of {bookies} bookies and {brokers} brokers; it needs at least 1 and 0"
            )
        BOOKKEEPER_KEYS.require_used(autorecovery or {})
        if broker_conf:
            # Brokers' tokens need PyJWT and cryptography, which take long to import.
            from labkit.worlds.live.processes.broker_config import PULSAR_KEYS  # noqa: PLC0415

            PULSAR_KEYS.require_used(broker_conf)
        self._bookie_keys = _NO_AUTORECOVERY if autorecovery is None else autorecovery
        quorums = dict.fromkeys(_QUORUM_KEYS, min(bookies, 2))
        self._broker_keys = {**quorums, **_BROKER_KEYS, **(broker_conf or {})}
        self._zookeeper = zookeeper
        self._place = parse_place(zookeeper) if zookeeper else None
        self._temporary = tempfile.TemporaryDirectory(prefix="labkit-") if folder is None else None
        self.folder = Path(self._temporary.name) if self._temporary else Path(folder or "")
        self.embedded_zookeeper = EmbeddedZooKeeper(self.folder / "zookeeper")
        """The cluster's own server; never started where the argument `zookeeper` names another."""
        self.trace = TraceLog()
        self._settler = _TraceSettler(self.trace) if traced else None
        self._bookies = self._nodes(_BOOKIE, bookies)
        self._brokers = self._nodes(_BROKER, brokers)
        self._clients: list[tuple[BookKeeper, ZooKeeperStore]] = []
        self._is_started = False

    @property
    def zookeeper(self) -> str:
        """The metadata store's "host:port", or the value of the argument `zookeeper`."""
        return self._zookeeper or self.embedded_zookeeper.address

    @property
    def metadata(self) -> MetadataPlace:
        """The place of the cluster's metadata."""
        return self._place or self.embedded_zookeeper.place

    @property
    def bookie_names(self) -> list[str]:
        """All bookies, up or down."""
        return list(self._bookies)

    @property
    def broker_names(self) -> list[str]:
        """All brokers, up or down."""
        return list(self._brokers)

    @property
    def service_url(self) -> str:
        """The URL for Pulsar's client, with all brokers: the client asks any of them."""
        return "pulsar://" + ",".join(self._authority_of(name, "port") for name in self._brokers)

    def service_url_of(self, broker: str) -> str:
        """The URL for Pulsar's client, with only this broker."""
        return f"pulsar://{self._authority_of(broker, 'port')}"

    def web_url_of(self, broker: str) -> str:
        """The URL of a broker's HTTP side."""
        return f"http://{self._authority_of(broker, 'web_port')}"

    def _authority_of(self, broker: str, port: str) -> str:
        host = str(self._broker_keys.get("advertisedAddress", LOOPBACK))
        return authority(host, self.ports_of(broker)[port])

    def ports_of(self, name: str) -> dict[str, int]:
        """The ports on which a node listens, as its process announced them last.

        Raises `NodeStateError` before its first start.
        """
        node = self._find(name)
        if not node.ports:
            raise NodeStateError(f"{name} has no ports yet: await the cluster's start() first")
        return node.ports

    def is_up(self, name: str) -> bool:
        """Whether the node's process lives (paused or not)."""
        return self._find(name).is_up

    def exit_code_of(self, name: str) -> int | None:
        """The exit code of the node's process, negative for a signal; None while it is up."""
        return self._find(name).exit_code

    def folder_of(self, name: str) -> Path:
        """The folder of a node's files; a bookie's has `journal/` and `ledgers/`."""
        return self._find(name).folder

    async def start(self) -> Self:
        """Start ZooKeeper, all bookies and all brokers; returns when all of them serve.

        Raises `NodeStateError` if they run already, and `LabkitError` that says what is missing; no
        process is then left running.
        """
        if self._is_started:
            raise NodeStateError("this cluster runs already: await its stop() first")
        self._is_started = True
        atexit.register(self._kill_at_exit)
        try:
            if self._place is None:
                await self.embedded_zookeeper.start()
            if self._settler is not None:
                self._settler.start()
            # The first bookie creates the cluster's znodes, the others find them.
            first, *others = self._bookies.values()
            await self._start(first)
            await self._start_all(others)
            await self._start_all(self._brokers.values())
        except BaseException:
            await self.stop()
            raise
        return self

    async def stop(self) -> None:
        """End everything; brokers close their topics first, then bookies flush."""
        await self.disconnect()
        for nodes in (self._brokers, self._bookies):
            await asyncio.gather(*(node.stop() for node in nodes.values()))
        await self.embedded_zookeeper.stop()
        atexit.unregister(self._kill_at_exit)
        if self._temporary is not None:
            self._temporary.cleanup()
        self._is_started = False
        if self._settler is not None:
            self._settler.stop()  # Last, since it raises what a listener raises.

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
        """A client of this cluster; `name` is its node in the trace.

        Raises `NodeStateError` before the cluster's start.
        """
        self._require_start()
        session = ZooKeeperStore(self.metadata)
        await session.start()
        client = new_client(session, self._recorder(name), placement=placement, config=config)
        self._clients.append((client, session))
        return client

    async def disconnect(self) -> None:
        """Close all clients of `connect`, and their sessions with the metadata store."""
        clients, self._clients = self._clients, []
        for client, _ in clients:
            client.close()
        await asyncio.gather(*(session.stop() for _, session in clients))

    async def settled(self) -> None:
        """Return when `trace` has all events that the nodes have reported up to now."""
        if self._settler is not None:
            self._require_start()
            await self._settler.wait()

    async def kill(self, name: str) -> None:
        """SIGKILL: the node's memory is lost, its files stay.

        Raises `NodeStateError` if it is down.
        """
        await self._find(name).kill()

    async def shut_down(self, name: str) -> None:
        """SIGTERM, and wait: a broker gives up its topics, a bookie flushes; a paused node goes on
        first.

        Raises `NodeStateError` if it is down.
        """
        await self._find(name).shut_down()

    async def pause(self, name: str) -> None:
        """SIGSTOP: from the return on the node does not answer.  Raises `NodeStateError` if it is
        not running.
        """
        await self._find(name).pause()

    async def resume(self, name: str) -> None:
        """SIGCONT: a paused node goes on.  Raises `NodeStateError` if it is not paused."""
        self._find(name).resume()

    async def restart(self, name: str) -> None:
        """Start a node again, a bookie with its files and a broker on its ports; kills it first if
        it is up.
        """
        self._require_start()
        if self.is_up(name):
            await self.kill(name)
        await self._start(self._find(name))

    def _kill_at_exit(self) -> None:
        """Kill all nodes if `stop` was never called: a running one would write into the temporary
        folder while that is removed.
        """
        for node in self._all().values():
            if node.process is not None and node.process.returncode is None:
                kill_and_wait(node.process.pid)
        if self.embedded_zookeeper.is_up:
            kill_and_wait(self.embedded_zookeeper.pid)

    def _nodes(self, kind: str, count: int) -> dict[str, NodeProcess]:
        # Of a named server too: nodes may reach it at another address.
        secret = (
            known_secret(self._place.servers) if self._place else self.embedded_zookeeper.secret
        )
        environment = own_path() | ({SECRET_VARIABLE: secret} if secret else {})
        return {
            name: NodeProcess(
                kind,
                name,
                self.folder / name,
                self._recorder(name),
                environment,
                is_temporary=self._temporary is not None,
            )
            for name in (f"{kind}-{number}" for number in range(1, count + 1))
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
                f"there is no {name!r}; there are {', '.join(nodes)}"
            )
        return nodes[name]

    async def _start_all(self, nodes: Iterable[NodeProcess]) -> None:
        results = await asyncio.gather(*map(self._start, nodes), return_exceptions=True)
        for problem in filter(None, results):
            raise problem

    async def _start(self, node: NodeProcess) -> None:
        await node.mark_ended()
        make_private(node.folder)
        conf = node.folder / _CONF[node.kind]
        keys = self.configuration_of(node.name)
        write_private(conf, "".join(f"{key}={value}\n" for key, value in keys.items()))
        await node.start(self.command_of(node.name, self._command(node, conf)))
        if self._settler is not None:
            node.stream = self.trace_stream_of(node.name, node.ports["trace_port"])
            await node.stream.start()
        node.recorder.record("node.started")
        node.watch_end()

    # Where nodes run: a subclass may put each node into a separate network.

    def configuration_of(self, name: str) -> Mapping[str, object]:
        """The keys of a node's configuration file."""
        place = self.metadata
        if name in self._bookies:
            return {"metadataServiceUri": place, **self._bookie_keys}
        topics = {"metadataStoreUrl": f"zk:{place.servers}{place.chroot}"}
        return {**topics, "bookkeeperMetadataServiceUri": place, **self._broker_keys}

    def command_of(self, name: str, command: list[str]) -> list[str]:
        """The command that starts a node's process; by default the node's own `command`."""
        return command

    def trace_stream_of(self, name: str, port: int) -> TraceStream:
        """The connection to the port on which a node reports its events to `trace`."""
        return TraceStream(LOOPBACK, port, self.trace.add)

    def _command(self, node: NodeProcess, conf: Path) -> list[str]:
        options = ["--id", node.name, "--conf", str(conf)]
        if node.kind == _BOOKIE:
            options += ["--data", str(node.folder)]
        elif node.ports:
            options += ["--port", str(node.ports["port"])]
            options += ["--web-port", str(node.ports["web_port"])]
        if self._settler is not None:
            options.append("--trace-from-start")
        return own_command("labkit", node.kind, *options)


class _TraceSettler:
    """Settles a trace at intervals, because rows of several processes arrive in bursts."""

    def __init__(self, trace: TraceLog) -> None:
        self._trace = trace
        self._settled_us = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Settle all that has arrived; raises what a listener raises."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._trace.settle()

    async def wait(self) -> None:
        """Return when everything is settled that was reported up to now.

        Raises what a listener to the trace raised: settling ends with that.
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
