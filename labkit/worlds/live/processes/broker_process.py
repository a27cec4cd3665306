"""A broker as a process, with TCP, TLS, HTTP, ZooKeeper, and a BookKeeper client.

    labkit broker --id broker-1 --zookeeper HOST:PORT

On SIGTERM, the broker closes its topics and releases its bundles. Closing a topic stores its
cursors and all messages received so far.

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
from labkit.system.broker.ownership import BrokerAddress
from labkit.system.broker.protocol.authorization import Authorization
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.net import Connection, OnBodies
from labkit.system.node.broker import serve_until_stopped
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.admin.server import AdminServer, admin_server
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.host.gc_tuning import collect_garbage_rarely
from labkit.worlds.live.host.posix import raise_open_file_limit
from labkit.worlds.live.host.stop_signal import cancel_on_stop_signal, on_stop_signal
from labkit.worlds.live.net import authority, explain_port_errors, listen, port_of
from labkit.worlds.live.open_files import limit_connections
from labkit.worlds.live.peer_log import PeerLog, report_failed_accepts
from labkit.worlds.live.peers import PeerLimits, Peers
from labkit.worlds.live.processes.broker_config import BrokerSettings
from labkit.worlds.live.processes.server_ports import server_ports
from labkit.worlds.live.tokens import TokenAuthentication
from labkit.worlds.live.trace_stream import MAX_LISTENERS, TraceServer
from labkit.worlds.live.zookeeper.store import ZooKeeperStore


async def run_broker(settings: BrokerSettings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM.

    Calls `announce` with one line of JSON (pid, port, tls_port, web_port, trace_port) once clients
    can connect. A SIGTERM before the announcement cancels the start. Raises `LabkitError` if the
    broker cannot start.
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
    ports = server_ports(settings.broker_id, settings.metadata, recorder)
    client = ports.new_client(metadata, settings.client)
    broker = Broker(client, listening.address, settings.broker, log=log)
    if settings.tokens is not None:
        roles = settings.super_user_roles
        tokens = TokenAuthentication(settings.tokens)
        authorization = None if roles is None else Authorization(metadata, roles)
        broker = Broker(client, listening.address, settings.broker, tokens, authorization, log)
    await listening.start_serving(broker, log)
    await broker.start()
    stopped = asyncio.Event()
    on_stop_signal(stopped.set)
    collect_garbage_rarely()
    announce(json.dumps({"pid": os.getpid(), **listening.ports, "trace_port": trace_port}))
    await serve_until_stopped(stopped, broker, listening.close)


_LIMITS = PeerLimits(max_connections=100_000)
"""As in Pulsar's default configuration, only the open-file limit restricts the number of
connections.
"""
_OTHER_DESCRIPTORS = 250 + MAX_LISTENERS
"""File descriptors for connections to bookies and ZooKeeper, HTTP and trace listeners."""


class _Ports:
    """The broker's listening ports.

    The ports are bound before the broker is created, because they are part of its address. Clients
    are accepted only after `start_serving`.
    """

    @classmethod
    async def open(cls, settings: BrokerSettings) -> Self:
        """Bind the ports.

        Raises `PortInUseError`, or `BKIncorrectParameterException` for an invalid certificate or
        key.
        """
        listening = cls(settings.host)
        peers = Peers(limit_connections(_LIMITS, _OTHER_DESCRIPTORS))
        endpoints: list[tuple[int, ssl.SSLContext | None]] = [(settings.port, None)]
        if (tls := _tls(settings)) is not None:
            endpoints.append((settings.tls_port, tls))
        for port, context in endpoints:
            server = await listen(
                listening.accept, port, settings.host, peers=peers, tls=context, serving=False
            )
            listening.servers.append(server)
        with explain_port_errors(settings.web_port, settings.host):
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
        """The port numbers. The keys are the names used in the announcement."""
        ports = dict(zip(("port", "tls_port"), map(port_of, self.servers), strict=False))
        return {**ports, "web_port": self.web_sockets[0].getsockname()[1]}

    @property
    def address(self) -> BrokerAddress:
        hosts = {name: authority(self._host, port) for name, port in self.ports.items()}
        tls = f"pulsar+ssl://{hosts['tls_port']}" if "tls_port" in hosts else ""
        web = hosts["web_port"]
        return BrokerAddress(web, f"pulsar://{hosts['port']}", tls, f"http://{web}")

    def accept(self, connection: Connection) -> OnBodies:
        assert self._broker is not None
        return self._broker.accept(connection)

    async def start_serving(self, broker: Broker, log: PeerLog) -> None:
        """Start accepting clients, and write a line to `log` for each rejected HTTP request."""
        self._broker = broker
        for server in self.servers:
            await server.start_serving()
        self._web = admin_server(broker, log)
        self._web.add_sockets(self.web_sockets)

    def close(self) -> None:
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
