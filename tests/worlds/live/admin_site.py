"""A broker's HTTP port over TCP. The broker keeps its data in memory, and has the namespace t/n."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest_asyncio
from tornado.netutil import bind_sockets

from labkit.system.broker.tenants import create_namespace, create_tenant, new_policies, new_tenant
from labkit.worlds.live.admin.server import admin_server
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.peer_log import PeerLog
from tests.system.broker.held import HeldBroker, held_broker

TIMEOUT_S = 30


@dataclass
class Site:
    """A running server and its log lines."""

    broker: HeldBroker
    port: int
    lines: list[str] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    """Keep the writers, because a writer closes its connection when it is garbage-collected."""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port)
        self.writers.append(writer)
        return reader, writer

    async def say(self, method: str, path: str, body: bytes = b"", **more: str) -> int:
        """Send a request and return the status; `more` contains additional headers."""
        return (await self.ask(method, path, body, **more))[0]

    async def json(self, method: str, path: str, body: Any = None, **more: str) -> tuple[int, Any]:
        """Send a request with a JSON body, and return the status and the decoded response."""
        data = b"" if body is None else json.dumps(body).encode()
        status, _, answer = await self.ask(method, path, data, **more)
        return status, json.loads(answer) if answer else None

    async def ask(
        self, method: str, path: str, body: bytes = b"", **more: str
    ) -> tuple[int, str, str]:
        """Send a request and return the status, content type and body of the response."""
        headers = {
            "Host": f"{LOOPBACK}:{self.port}",
            "Connection": "close",
            "Content_Length": f"{len(body)}",
            "Content_Type": "application/json",
            **more,
        }
        lines = [f"{key.replace('_', '-')}: {value}\r\n" for key, value in headers.items() if value]
        request = f"{method} {path} HTTP/1.1\r\n{''.join(lines)}\r\n"
        reader, writer = await self.connect()
        async with asyncio.timeout(TIMEOUT_S):
            writer.write(request.encode("latin-1") + body)
            answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 "), answer
        head, _, rest = answer.decode().partition("\r\n\r\n")
        kinds = [line for line in head.split("\r\n") if line.startswith("Content-Type: ")]
        return int(head.split()[1]), "".join(kinds).removeprefix("Content-Type: "), rest


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    broker = held_broker()
    await broker.start()
    await create_tenant(broker.store, "t", new_tenant([], [broker.cluster]))
    await create_namespace(broker.store, "t/n", new_policies(broker.cluster))
    [socket] = bind_sockets(0, LOOPBACK)
    found = Site(broker, socket.getsockname()[1])
    server = admin_server(broker, PeerLog("broker-1", lambda: 0.0, found.lines.append))
    server.add_sockets([socket])
    yield found
    server.stop()
    await server.close_all_connections()
