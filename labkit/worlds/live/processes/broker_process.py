"""A broker as a process: TCP, TLS, HTTP, ZooKeeper, and a client of the bookies.

    labkit broker --id broker-1 --zookeeper HOST:PORT

At SIGTERM it closes its topics, which stores all messages that came and the cursors, and gives up
its bundles.

In Pulsar: `PulsarBrokerStarter.java`, `broker/PulsarService.java`.
"""

import asyncio
import json
import os
import socket
import ssl
import time
from collections.abc import Callable
from typing import Self

from tornado.netutil import bind_sockets

from labkit.system.broker.broker import Broker
from labkit.system.broker.protocol.authorization import Authorization
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.net import Connection, OnBodies
from labkit.system.node.broker import serve_until
from labkit.system.topic.ownership import BrokerAddress
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.admin.server import AdminServer, admin_server
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.host.gc_tuning import collect_garbage_rarely
from labkit.worlds.live.host.posix import raise_open_file_limit
from labkit.worlds.live.host.stop_signal import cancel_on_stop_signal, on_stop_signal
from labkit.worlds.live.net import authority, listen, port_of, taking_port
from labkit.worlds.live.open_files import within_open_files
from labkit.worlds.live.peer_log import PeerLog, report_failed_accepts
from labkit.worlds.live.peers import PeerLimits, Peers
from labkit.worlds.live.processes.broker_config import BrokerSettings
from labkit.worlds.live.processes.server_ports import server_ports
from labkit.worlds.live.tokens import TokenAuthentication
from labkit.worlds.live.trace_stream import MOST_LISTENERS, TraceServer
from labkit.worlds.live.zookeeper.store import ZooKeeperStore


async def run_broker(settings: BrokerSettings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM.

    Calls `announce` with one line of JSON (pid, port, tls_port, web_port, trace_port) once clients
    may connect; a SIGTERM before that cancels the start.  Raises `LabkitError` when the broker
    cannot start.
    """
    raise_open_file_limit()
    cancel_on_stop_signal()
    metadata = ZooKeeperStore(settings.metadata)
    await metadata.start()
    try:
        await _serve(settings, metadata, announce)
    finally:
        await metadata.stop()


async def _serve(
    settings: BrokerSettings, metadata: ZooKeeperStore, announce: Callable[[str], None]
) -> None:
    recorder = Recorder(settings.broker_id, trace_clock_us)
    trace_server = TraceServer(recorder, from_start=settings.trace_from_start)
    trace_port = await trace_server.start()
    listening = await _Ports.open(settings)
    log = PeerLog(settings.broker_id, time.monotonic)
    report_failed_accepts(log)
    broker = _broker(settings, metadata, recorder, listening.address, log)
    await listening.start_serving(broker, log)
    await broker.start()
    stopped = asyncio.Event()
    on_stop_signal(stopped.set)
    collect_garbage_rarely()
    ports = {"pid": os.getpid(), **listening.ports, "trace_port": trace_port}
    announce(json.dumps(ports))
    await serve_until(stopped, broker, listening.close)


def _broker(
    settings: BrokerSettings,
    metadata: ZooKeeperStore,
    recorder: Recorder,
    address: BrokerAddress,
    log: PeerLog,
) -> Broker:
    ports = server_ports(settings.broker_id, settings.metadata, recorder)
    client = ports.new_client(metadata, settings.client)
    if settings.tokens is None:
        return Broker(client, address, settings.broker, log=log)
    tokens = TokenAuthentication(settings.tokens)
    authorization = None
    if settings.super_user_roles is not None:
        authorization = Authorization(metadata, settings.super_user_roles)
    return Broker(client, address, settings.broker, tokens, authorization, log)


_LIMITS = PeerLimits(most_connections=100_000)
"""No limit except that on open files: Pulsar has none by default."""
_OTHER_FILES = 250 + MOST_LISTENERS
"""For connections to bookies and ZooKeeper, HTTP, and listeners to the trace."""


class _Ports:
    """The broker's listening ports.  The broker's address contains them, so they are taken first;
    clients are accepted only once the broker exists.
    """

    @classmethod
    async def open(cls, settings: BrokerSettings) -> Self:
        """Take the ports.  Raises `PortInUseError`, and `BKIncorrectParameterException` for files
        that are not a certificate and its key.
        """
        listening = cls(settings.host)
        peers = Peers(within_open_files(_LIMITS, _OTHER_FILES))
        places: list[tuple[int, ssl.SSLContext | None]] = [(settings.port, None)]
        if (tls := _tls(settings)) is not None:
            places.append((settings.tls_port, tls))
        for port, context in places:
            server = await listen(
                listening.accept, port, settings.host, peers=peers, tls=context, serving=False
            )
            listening.servers.append(server)
        with taking_port(settings.web_port, settings.host):
            listening.web_sockets = bind_sockets(settings.web_port, settings.host)
        return listening

    def __init__(self, host: str) -> None:
        self._host = host
        self._broker: Broker | None = None
        self._web: AdminServer | None = None
        self.servers: list[asyncio.Server] = []
        self.web_sockets: list[socket.socket] = []

    @property
    def ports(self) -> dict[str, int]:
        """The ports by the kind of their clients."""
        ports = dict(zip(("port", "tls_port"), map(port_of, self.servers), strict=False))
        return {**ports, "web_port": self.web_sockets[0].getsockname()[1]}

    @property
    def address(self) -> BrokerAddress:
        """The broker's address for clients and other brokers."""
        at = {kind: authority(self._host, port) for kind, port in self.ports.items()}
        tls = f"pulsar+ssl://{at['tls_port']}" if "tls_port" in at else ""
        web = at["web_port"]
        return BrokerAddress(web, f"pulsar://{at['port']}", tls, f"http://{web}")

    def accept(self, connection: Connection) -> OnBodies:
        """A client connected."""
        assert self._broker is not None
        return self._broker.accept(connection)

    async def start_serving(self, broker: Broker, log: PeerLog) -> None:
        """Serve clients; each mistake of a client over HTTP gets a line in the log."""
        self._broker = broker
        for server in self.servers:
            await server.start_serving()
        self._web = admin_server(broker, log)
        self._web.add_sockets(self.web_sockets)

    def close(self) -> None:
        """Accept no new client."""
        for server in self.servers:
            server.close()
        if self._web is not None:
            self._web.stop()


def _tls(settings: BrokerSettings) -> ssl.SSLContext | None:
    if settings.certificate is None or settings.private_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.certificate, settings.private_key)
    except ssl.SSLError as error:
        raise BKIncorrectParameterException(
            f"{settings.certificate} and {settings.private_key} are not a certificate and its key:"
            f" {error}"
        ) from None
    return context
