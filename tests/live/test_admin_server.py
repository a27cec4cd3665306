"""A broker's HTTP port towards strangers, over TCP; its broker keeps all in memory."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio
from tornado.netutil import bind_sockets

from labkit.live import admin_server as server_module
from labkit.live.admin_http import LARGEST_BODY, LONGEST_URI
from labkit.live.admin_server import MOST_CONNECTIONS, admin_server
from labkit.live.net import LOOPBACK
from labkit.live.peer_log import PeerLog
from labkit.topic.names import LONGEST_NAME
from tests.pulsar.held import HeldBroker, held_broker
from tests.until import until_true

PARTITIONS = "/admin/v2/persistent/t/n/x/partitions"
TIMEOUT_S = 30


@dataclass
class Site:
    """A running server, and what it logged."""

    broker: HeldBroker
    port: int
    lines: list[str] = field(default_factory=list)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(LOOPBACK, self.port)

    async def say(self, method: str, path: str, body: bytes = b"", head: str = "") -> int:
        """The status of the answer."""
        length = head or f"Content-Length: {len(body)}\r\n"
        request = f"{method} {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n{length}\r\n"
        reader, writer = await self.connect()
        async with asyncio.timeout(TIMEOUT_S):
            writer.write(request.encode("latin-1") + body)
            answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 "), answer
        return int(answer.split()[1])


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    broker = held_broker()
    [socket] = bind_sockets(0, LOOPBACK)
    found = Site(broker, socket.getsockname()[1])
    server = admin_server(broker, PeerLog("broker-1", lambda: 0.0, found.lines.append))
    server.add_sockets([socket])
    yield found
    server.stop()
    await server.close_all_connections()


async def test_a_request_within_the_bounds_is_granted(site: Site) -> None:
    assert await site.say("PUT", PARTITIONS, b"10000") == 204
    assert await site.say("GET", PARTITIONS) == 200
    assert site.lines == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", PARTITIONS, b"10001", 406),
        ("PUT", PARTITIONS, b"1000000000", 406),
        ("PUT", PARTITIONS, b"9" * 5000, 400),
        ("PUT", PARTITIONS, b"[" * 100_000, 400),
        ("PUT", PARTITIONS, b"[" * LARGEST_BODY, 400),
        ("PUT", PARTITIONS, b" " * LARGEST_BODY + b"4", 413),
        ("PUT", PARTITIONS, bytes(20 * LARGEST_BODY), 413),
        ("POST", "/nowhere", bytes(20 * LARGEST_BODY), 413),
        ("PUT", "/admin/v2/persistent/%2E%2E/n/x/partitions", b"4", 412),
        ("PUT", "/admin/v2/persistent/../n/x/partitions", b"4", 412),
        ("PUT", "/admin/v2/persistent/t/%2e/x/partitions", b"4", 412),
        ("PUT", "/admin/v2/persistent/t/n/../partitions", b"4", 412),
        ("PUT", f"/admin/v2/persistent/t/n/{'x' * LONGEST_NAME}/partitions", b"4", 412),
        ("PUT", f"/admin/v2/persistent/t/n/{'x' * LONGEST_URI}/partitions", b"4", 414),
        ("GET", "/admin/v2/persistent/t/..", b"", 412),
        ("GET", "/admin/v2/namespaces/../n/retention", b"", 412),
        ("POST", "/admin/v2/namespaces/t/n%00/deduplication", b"true", 412),
        ("POST", "/admin/v2/namespaces/t/n/permissions/r", b'["\\ud800"]', 400),
        ("POST", "/admin/v2/schemas/t/n/x/schema", b'{"type":"STRING","schema":"\\ud800"}', 400),
        ("POST", "/admin/v2/schemas/t/n/x/schema", b'{"type":[],"schema":""}', 400),
        (
            "POST",
            "/admin/v2/schemas/t/n/x/schema",
            b'{"type":"STRING","schema":"","properties":["a"]}',
            400,
        ),
        ("GET", f"/admin/v2/schemas/t/n/x/schema/{'9' * 19}", b"", 404),
        ("GET", "/admin/v2/schemas/t/n/x/schema/999999999999999999", b"", 404),
        ("GET", f"{PARTITIONS}?checkAllowAutoCreation=%ff%fe", b"", 404),
        (
            "POST",
            "/admin/v2/namespaces/t/n/retention",
            b'{"retentionTimeInMinutes": 1e30, "retentionSizeInMB": 1}',
            400,
        ),
        (
            "POST",
            "/admin/v2/namespaces/t/n/retention",
            b'{"retentionTimeInMinutes": 99999999999999999999, "retentionSizeInMB": 1}',
            400,
        ),
    ],
)
async def test_what_a_stranger_may_not_send_is_refused_in_one_line(
    site: Site, method: str, path: str, body: bytes, status: int
) -> None:
    assert await site.say(method, path, body) == status
    [line] = site.lines
    assert str(status) in line
    assert "\n" not in line
    assert len(line) < 1000
    assert await site.broker.store.exists("/admin/partitioned-topics") is False


async def test_a_chunked_body_has_the_same_bound(site: Site) -> None:
    chunk = b"100000\r\n" + bytes(0x100000) + b"\r\n"
    body = chunk * 3 + b"0\r\n\r\n"
    assert await site.say("PUT", PARTITIONS, body, "Transfer-Encoding: chunked\r\n") == 413


async def test_partitions_of_a_topic_are_deleted_however_many_its_node_says(site: Site) -> None:
    node = "/admin/partitioned-topics/t/n/persistent/x"
    await site.broker.store.create(node, json.dumps({"partitions": 1_000_000_000}).encode())
    assert await site.say("DELETE", PARTITIONS) == 204
    assert await site.say("GET", PARTITIONS) == 404


async def test_a_node_that_would_be_too_large_is_not_written(site: Site) -> None:
    await site.broker.store.create("/admin/policies/t/n", b'{"x": "' + b"x" * 999_000 + b'"}')
    path = f"/admin/v2/namespaces/t/n/permissions/{'r' * 2000}"
    assert await site.say("POST", path, b'["produce"]') == 413


async def test_a_client_that_is_slow_with_a_request_is_disconnected(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "PATIENCE_S", 0.1)
    [socket] = bind_sockets(0, LOOPBACK)
    server = admin_server(site.broker, PeerLog("broker-1", lambda: 0.0, site.lines.append))
    server.add_sockets([socket])
    begun = [b"GET /admin", b"PUT / HTTP/1.1\r\nContent-Length: 10\r\n\r\n4", b""]
    for beginning in begun:
        reader, writer = await asyncio.open_connection(LOOPBACK, socket.getsockname()[1])
        writer.write(beginning)
        async with asyncio.timeout(TIMEOUT_S):
            await reader.read()
        writer.close()
    server.stop()


async def test_connections_beyond_the_bound_are_closed_and_make_room_when_they_go(
    site: Site,
) -> None:
    held = [await site.connect() for _ in range(MOST_CONNECTIONS)]
    reader, writer = await site.connect()
    async with asyncio.timeout(TIMEOUT_S):
        assert await reader.read() == b""
    writer.close()
    for _, other in held:
        other.close()

    async def is_served() -> bool:
        try:
            return await site.say("GET", PARTITIONS) == 404
        except (AssertionError, ConnectionError):
            return False

    await until_true(is_served)
