"""A broker as a process, with TCP, TLS, HTTP, ZooKeeper, and a BookKeeper client.

    labkit broker --id broker-1 --zookeeper HOST:PORT

On SIGTERM, the broker closes its topics and releases its bundles. Closing a topic stores its
cursors and all messages received so far.

In Pulsar: `PulsarBrokerStarter.java`, `broker/PulsarService.java`.
"""

import asyncio
import json
import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

from tornado.netutil import bind_sockets

from labkit.system.broker.broker import Broker
from labkit.system.broker.ownership import BrokerAddress
from labkit.system.broker.protocol.authorization import Authorization
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.net import Connection, OnBodies
from labkit.system.node.broker import serve_until_stopped
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.admin.server import admin_server
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.host.memory import collect_garbage_rarely
from labkit.worlds.live.host.posix import raise_open_file_limit
from labkit.worlds.live.host.stop_signal import cancel_on_stop_signal, on_stop_signal
from labkit.worlds.live.net import authority, explain_port_errors, listen, port_of
from labkit.worlds.live.new_client import new_client
from labkit.worlds.live.peer_log import PeerLog, report_failed_accepts
from labkit.worlds.live.peers import PeerLimits, Peers
from labkit.worlds.live.processes.broker_config import BrokerSettings
from labkit.worlds.live.tokens import TokenAuthentication
from labkit.worlds.live.trace_stream import MAX_LISTENERS, TraceServer
from labkit.worlds.live.zookeeper.store import ZooKeeperStore

_LIMITS = PeerLimits(max_connections=100_000)
"""As in Pulsar's default configuration, only the open-file limit restricts the number of
connections.
"""
_OTHER_DESCRIPTORS = 250 + MAX_LISTENERS
"""File descriptors for connections to bookies and ZooKeeper, HTTP and trace listeners."""


async def run_broker(settings: BrokerSettings, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM.

    Calls `announce` with one line of JSON (pid, port, tls_port, web_port, trace_port) once clients
    can connect. A SIGTERM before the announcement cancels the start. Raises `LabkitError` if the
    broker cannot start.
    """
    raise_open_file_limit()
    cancel_on_stop_signal()
    async with ZooKeeperStore(settings.metadata) as metadata:
        await _serve(settings, metadata, announce)


async def _serve(
    settings: BrokerSettings, metadata: ZooKeeperStore, announce: Callable[[str], None]
) -> None:
    def accept(connection: Connection) -> OnBodies:
        return broker.accept(connection)

    recorder = Recorder(settings.broker_id, trace_clock_us)
    trace_server = TraceServer(recorder, from_start=settings.trace_from_start)
    log = PeerLog(settings.broker_id)
    report_failed_accepts(log)
    # Bind the ports first, because the broker needs its address, but accept clients only later.
    host, peers = settings.host, Peers(_LIMITS.within_open_files(_OTHER_DESCRIPTORS))
    servers = {"port": await listen(accept, settings.port, host, peers=peers, serving=False)}
    if settings.certificate is not None and settings.private_key is not None:
        tls = tls_context(settings.certificate, settings.private_key)
        servers["tls_port"] = await listen(
            accept, settings.tls_port, host, peers=peers, tls=tls, serving=False
        )
    with explain_port_errors(settings.web_port, host):
        web_sockets = bind_sockets(settings.web_port, host)
    ports = {name: port_of(server) for name, server in servers.items()}
    ports["web_port"] = web_sockets[0].getsockname()[1]
    tokens, roles = settings.tokens, settings.super_user_roles
    broker = Broker(
        new_client(metadata, recorder, config=settings.client),
        _address(host, ports),
        settings.broker,
        None if tokens is None else TokenAuthentication(tokens),
        None if roles is None else Authorization(metadata, roles),
        log,
    )
    for server in servers.values():
        await server.start_serving()
    web = admin_server(broker, log)
    web.add_sockets(web_sockets)

    def stop_accepting() -> None:
        for server in servers.values():
            server.close()
        web.stop()

    await broker.start()
    stopped = asyncio.Event()
    on_stop_signal(stopped.set)
    collect_garbage_rarely()
    trace_port = await trace_server.start()
    announce(json.dumps({"pid": os.getpid(), **ports, "trace_port": trace_port}))
    await serve_until_stopped(stopped, broker, stop_accepting)


def _address(host: str, ports: Mapping[str, int]) -> BrokerAddress:
    hosts = {name: authority(host, port) for name, port in ports.items()}
    tls = f"pulsar+ssl://{hosts['tls_port']}" if "tls_port" in hosts else ""
    web = hosts["web_port"]
    return BrokerAddress(web, f"pulsar://{hosts['port']}", tls, f"http://{web}")


def tls_context(certificate: Path, private_key: Path) -> ssl.SSLContext:
    """Return the context of a TLS server. Raises `BKIncorrectParameterException`."""

    def refuse_password() -> str:
        # Without this function, OpenSSL would ask for the password on the terminal and wait.
        raise BKIncorrectParameterException(
            f"{private_key} is encrypted; decrypt it with `openssl pkey`"
        )

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, private_key, refuse_password)
    except OSError as error:  # This includes `ssl.SSLError`.
        raise BKIncorrectParameterException(
            f"{certificate} and {private_key} are not a certificate and its key: {error}"
        ) from None
    return context
