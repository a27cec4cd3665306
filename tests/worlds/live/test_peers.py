"""Servers limit peers that send partial frames, do not read, or open many connections."""

import asyncio
import gc
import resource
import socket
import struct
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.net import Connection, OnBodies
from labkit.system.model.wire import MAX_FRAME_SIZE
from labkit.worlds.live import peers
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.net import FrameConnection, listen, port_of
from labkit.worlds.live.peers import PeerLimits, Peers
from tests.until import until

MIB = 1024 * 1024
LIMIT = 20 * MIB
MAX_BODY_BYTES = bytes(MAX_FRAME_SIZE - 4)
HALF = struct.pack(">I", len(MAX_BODY_BYTES)) + bytes(4 * MIB)


class Server:
    """A server that records the sizes of received frames and can send to all of its clients."""

    def __init__(self) -> None:
        self.port = 0
        self.sizes: list[int] = []
        self.connections: list[Connection] = []
        self.closed_count = 0

    def accept(self, connection: Connection) -> OnBodies:
        self.connections.append(connection)
        connection.when_closed(self._closed)
        return lambda bodies: self.sizes.extend(map(len, bodies))

    def _closed(self) -> None:
        self.closed_count += 1


@asynccontextmanager
async def serving(limits: PeerLimits | None = None) -> AsyncIterator[Server]:
    server = Server()
    listener = await listen(server.accept, peers=Peers(limits or PeerLimits()))
    server.port = port_of(listener)
    yield server
    listener.close()
    for connection in server.connections:
        assert isinstance(connection, FrameConnection)
        connection.drop()


class Hostile:
    """Connections whose client does not read any data."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.readers: list[asyncio.StreamReader] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def send(self, data: bytes, connections: int = 1) -> None:
        for _ in range(connections):
            reader, writer = await asyncio.open_connection(LOOPBACK, self._port, limit=1)
            writer.write(data)
            self.readers.append(reader)
            self.writers.append(writer)

    def leave(self) -> None:
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()


@asynccontextmanager
async def hostile(server: Server) -> AsyncIterator[Hostile]:
    peer = Hostile(server.port)
    yield peer
    peer.leave()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop a peer as soon as it falls behind."""
    monkeypatch.setattr(peers, "PATIENCE_S", 0.0)
    monkeypatch.setattr(peers, "_CHECK_INTERVAL_S", 0.01)


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def traced() -> Iterator[Callable[[], int]]:
    """Return a function that measures how much memory Python has allocated since the start."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    yield lambda: tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()


@pytest.mark.promise(
    "The memory that all clients together use on a bookie is limited: connections, partial "
    "frames, unread responses"
)
async def test_half_frames_of_all_connections_together_have_a_bound(
    traced: Callable[[], int],
) -> None:
    """Four fifths of the 100 MiB are not received; they stay in the senders' buffers."""
    async with serving(PeerLimits(max_memory_mb=20)) as server:
        senders = [socket.create_connection((LOOPBACK, server.port)) for _ in range(25)]
        loop, held = asyncio.get_running_loop(), 0
        for sender in senders:
            sender.setblocking(False)
        sending = [asyncio.create_task(loop.sock_sendall(sender, HALF)) for sender in senders]
        await until(lambda: len(server.connections) == 25)
        for _ in range(200):
            await asyncio.sleep(0)
            held = max(held, traced())
        assert LIMIT < held < LIMIT + 2 * len(MAX_BODY_BYTES) + 5 * MIB
        for task in sending:
            task.cancel()
        await asyncio.wait(sending)
        for sender in senders:
            sender.close()


async def test_a_whole_frame_comes_through_while_others_leave_half_ones(impatient: None) -> None:
    async with serving(PeerLimits(max_memory_mb=20)) as server, hostile(server) as others:
        await others.send(HALF, 20)
        for _ in range(5):
            server.sizes.clear()
            _, writer = await asyncio.open_connection(LOOPBACK, server.port)
            writer.write(struct.pack(">I", len(MAX_BODY_BYTES)) + MAX_BODY_BYTES)
            await until(server.sizes.__len__)
            assert server.sizes == [len(MAX_BODY_BYTES)]
            writer.close()


async def test_half_frames_of_clients_that_go_on_all_become_whole() -> None:
    """Together, the frames exceed the limit, but no client is at fault, so they take turns."""
    async with serving(PeerLimits(max_memory_mb=20)) as server, hostile(server) as clients:
        await clients.send(HALF, 15)
        for writer in clients.writers:
            writer.write(bytes(len(MAX_BODY_BYTES) - 4 * MIB))
        await until(lambda: len(server.sizes) == 15)
        assert server.closed_count == 0


async def test_half_a_frame_ends_its_connection_when_its_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "_CHECK_INTERVAL_S", 0.01)
    async with serving() as server, hostile(server) as slow, hostile(server) as idle:
        await idle.send(b"")
        await slow.send(struct.pack(">I", len(MAX_BODY_BYTES)))
        for _ in range(5):
            slow.writers[0].write(b"x")
            await asyncio.sleep(0.01)
        assert server.closed_count == 0
        monkeypatch.setattr(peers, "FRAME_TIMEOUT_S", 0.0)
        await until(lambda: server.closed_count == 1)
        assert server.connections[0].is_writable


async def test_half_a_frame_that_the_server_keeps_waiting_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "_CHECK_INTERVAL_S", 0.01)
    async with serving() as server, hostile(server) as client:
        await client.send(HALF)
        await until(lambda: server.connections)
        server.connections[0].pause()
        monkeypatch.setattr(peers, "FRAME_TIMEOUT_S", 0.0)
        await asyncio.sleep(0.1)
        assert server.closed_count == 0


@pytest.mark.slow
async def test_what_was_held_for_a_connection_is_freed_when_it_ends(
    without_collector: None, traced: Callable[[], int]
) -> None:
    async with serving() as server, hostile(server) as peer:
        await peer.send(HALF, 5)
        for writer in peer.writers:
            await writer.drain()
        await until(lambda: traced() > 5 * 3 * MIB)
        peer.leave()
        await until(lambda: server.closed_count == 5)
        server.connections.clear()
        await until(lambda: traced() < MIB)


async def test_unread_answers_make_others_wait_until_their_clients_are_dropped(
    impatient: None,
) -> None:
    async with serving(PeerLimits(max_memory_mb=20)) as server, hostile(server) as silent:
        await silent.send(b"", 1)
        await until(lambda: server.connections)
        told: list[bool] = []
        async with hostile(server) as other:
            await other.send(b"")
            await until(lambda: len(server.connections) == 2)
            mine = server.connections[1]
            mine.when_writable(lambda: told.append(mine.is_writable))
            while server.connections[0].is_writable:
                server.connections[0].send([MAX_BODY_BYTES] * 8)
            assert not mine.is_writable
            await until(lambda: server.closed_count == 1)
            await until(lambda: told)
            assert mine.is_writable


async def test_a_client_that_takes_its_answers_slowly_is_not_dropped(
    impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "PROGRESS_BYTES", 1)
    monkeypatch.setattr(peers, "PATIENCE_S", 1.0)
    async with serving(PeerLimits(max_memory_mb=20)) as server:
        reader, writer = await asyncio.open_connection(LOOPBACK, server.port)
        await until(lambda: server.connections)
        server.connections[0].send([MAX_BODY_BYTES] * 6)
        left = 6 * MAX_FRAME_SIZE
        while left:
            chunk = await reader.read(256 * 1024)
            assert chunk, "the client was dropped"
            left -= len(chunk)
            await asyncio.sleep(0.02)
        assert server.closed_count == 0
        writer.close()


async def test_one_connection_too_many_takes_the_place_of_the_oldest_that_never_spoke() -> None:
    async with serving(PeerLimits(max_connections=3)) as server, hostile(server) as clients:
        await clients.send(struct.pack(">I", 1) + b"x")
        await until(lambda: server.sizes)
        await clients.send(b"", 2)
        await until(lambda: len(server.connections) == 3)
        await clients.send(b"")
        await until(lambda: server.closed_count == 1)
        for connection in server.connections:
            connection.send([b"are you there"])
        said = [await reader.read(100) for reader in clients.readers]
        assert [bool(each) for each in said] == [True, False, True, True]


async def test_one_connection_too_many_is_ended_if_all_others_have_spoken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(peers, "_CHECK_INTERVAL_S", 0.01)
    async with serving(PeerLimits(max_connections=2)) as server, hostile(server) as clients:
        await clients.send(struct.pack(">I", 1) + b"x", 2)
        await until(lambda: len(server.sizes) == 2)
        reader, _ = await asyncio.open_connection(LOOPBACK, server.port)
        assert await reader.read() == b""
        assert server.closed_count == 1
        await until(lambda: caplog.records)
        assert caplog.messages == ["labkit: connections dropped: 1 (too many connections)"]


async def test_a_smaller_frame_size_is_obeyed() -> None:
    async with serving(PeerLimits(max_frame_bytes=1024)) as server, hostile(server) as clients:
        await clients.send(struct.pack(">I", 1020) + bytes(1020))
        await until(lambda: server.sizes)
        await clients.send(struct.pack(">I", 1021) + bytes(1021))
        await until(lambda: server.closed_count == 1)
        assert server.sizes == [1020]


@pytest.mark.parametrize("values", [(0, 20), (1, 19), (1, 20, 1023), (1, 20, MAX_FRAME_SIZE + 1)])
def test_limits_out_of_range_are_refused(values: Sequence[int]) -> None:
    with pytest.raises(BKIncorrectParameterException, match="must be at least"):
        PeerLimits(*values)


async def test_connections_that_arrive_at_the_same_time_do_not_exceed_the_limit() -> None:
    async with serving(PeerLimits(max_connections=3)) as server, AsyncExitStack() as clients:
        for _ in range(20):
            clients.enter_context(socket.create_connection((LOOPBACK, server.port)))
        await until(lambda: len(server.connections) == 20)
        await until(lambda: server.closed_count == 17)


@pytest.mark.parametrize(
    ("limit", "connections"),
    [(5000, 1000), (1200, 1000), (700, 500), (resource.RLIM_INFINITY, 1000)],
)
def test_a_server_has_as_many_connections_as_open_files_are_left_for(
    monkeypatch: pytest.MonkeyPatch, limit: int, connections: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, sys.maxsize))
    assert PeerLimits().within_open_files(others=200).max_connections == connections


def test_a_server_without_open_files_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (300, 300))
    with pytest.raises(BKIncorrectParameterException, match=r"300 open files.* 295 .*ulimit -n"):
        PeerLimits().within_open_files(others=295)
