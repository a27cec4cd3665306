"""Frames over real TCP."""

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence

import pytest

from labkit.system.model.net import Connection, OnBodies
from labkit.system.model.wire import MAX_FRAME_SIZE
from labkit.worlds.live.net import (
    LOOPBACK,
    TcpNetwork,
    UnknownHostError,
    authority,
    listen,
    split_frames,
)
from labkit.worlds.live.zookeeper.server import free_port
from tests.until import until


class Echo:
    """A server that sends every batch of frames back."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.connections: list[Connection] = []

    def accept(self, connection: Connection) -> OnBodies:
        self.connections.append(connection)

        def on_bodies(bodies: Sequence[bytes]) -> None:
            self.batches.append(list(bodies))
            connection.send(bodies)

        return on_bodies


@pytest.fixture
async def echo() -> Echo:
    return Echo()


@pytest.fixture
async def port(echo: Echo) -> AsyncIterator[int]:
    server = await listen(echo.accept)
    yield server.sockets[0].getsockname()[1]
    server.close()


def frames(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(body)) + body for body in bodies)


@pytest.mark.parametrize("cut", range(20))
def test_frames_come_whole_wherever_the_bytes_are_cut(cut: int) -> None:
    data = frames(b"one", b"", b"three", b"")
    first, end = split_frames(data[:cut])
    second, end = split_frames(data, end)
    assert [*first, *second] == [b"one", b"", b"three", b""]
    assert end == len(data)


def test_frame_at_the_limit_is_taken_and_one_above_is_not() -> None:
    largest = MAX_FRAME_SIZE - 4
    assert split_frames(struct.pack(">I", largest)) == ([], 0)
    with pytest.raises(ValueError, match=f"{largest} are allowed"):
        split_frames(struct.pack(">I", largest + 1))


async def test_frames_of_one_send_come_back_in_order(echo: Echo, port: int) -> None:
    received: list[bytes] = []
    connection = await TcpNetwork().connect(LOOPBACK, port, received.extend, lambda: None)
    bodies = [b"%d" % number * 1000 for number in range(300)]
    connection.send(bodies)
    await until(lambda: len(received) == 300)
    assert received == bodies
    connection.close()


async def test_both_ends_learn_that_a_connection_was_closed(echo: Echo, port: int) -> None:
    closed = asyncio.Event()
    await TcpNetwork().connect(LOOPBACK, port, lambda _: None, closed.set)
    await until(lambda: echo.connections)
    echo.connections[0].close()
    await asyncio.wait_for(closed.wait(), 30)


async def test_send_on_a_closed_connection_is_dropped(echo: Echo, port: int) -> None:
    closed = asyncio.Event()
    connection = await TcpNetwork().connect(LOOPBACK, port, lambda _: None, closed.set)
    connection.close()
    connection.send([b"dropped"])
    await asyncio.wait_for(closed.wait(), 30)
    connection.send([b"dropped"])
    connection.close()
    assert echo.batches == []


async def test_a_connection_without_a_listener_is_refused() -> None:
    with pytest.raises(ConnectionRefusedError):
        await TcpNetwork().connect(LOOPBACK, free_port(), lambda _: None, lambda: None)


async def test_all_that_wait_learn_once_that_a_connection_is_gone(echo: Echo, port: int) -> None:
    told: list[str] = []
    connection = await TcpNetwork().connect(
        LOOPBACK, port, lambda bodies: None, lambda: told.append("client")
    )
    connection.when_closed(lambda: told.append("client, too"))
    await until(lambda: echo.connections)
    echo.connections[0].when_closed(lambda: told.append("server"))
    connection.close()
    await until(lambda: len(told) == 3)
    assert sorted(told) == ["client", "client, too", "server"]


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "127.0.0.1:6650"), ("broker", "broker:6650"), ("::1", "[::1]:6650")],
)
def test_an_ipv6_address_stands_in_brackets_before_its_port(host: str, url: str) -> None:
    assert authority(host, 6650) == url


async def test_a_name_without_an_address_is_named_in_the_error() -> None:
    with pytest.raises(UnknownHostError, match=r"no-such-host.invalid has no address"):
        await listen(lambda _: lambda _: None, host="no-such-host.invalid")
