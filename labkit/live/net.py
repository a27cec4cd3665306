"""Frames over TCP: the network port in the live world.

All frames of one receive are handed over at once, and all frames of one `send` go out in one write;
that is what keeps the cost per entry low.
"""

import asyncio
import errno
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

from labkit.model.errors import LabkitError
from labkit.model.net import Connection, OnBodies, OnClose, OnWritable
from labkit.model.wire import MAX_FRAME_SIZE

LOOPBACK = "127.0.0.1"
_LENGTH = struct.Struct(">I")
_LENGTH_SIZE = _LENGTH.size
_MAX_BODY_SIZE = MAX_FRAME_SIZE - _LENGTH_SIZE


class PortInUseError(LabkitError):
    """Another program listens on the port."""


def split_frames(data: bytes) -> tuple[list[bytes], bytes]:
    """The bodies of all whole frames, and the bytes of the last one that is not whole.

    Raises `ValueError` for a frame above the limit: its sender talks another protocol.
    """
    bodies: list[bytes] = []
    at, end, unpack = 0, len(data), _LENGTH.unpack_from
    while (start := at + _LENGTH_SIZE) <= end:
        size: int = unpack(data, at)[0]
        if size > _MAX_BODY_SIZE:
            raise ValueError(f"a frame of {size} bytes; {_MAX_BODY_SIZE} are allowed")
        stop = start + size
        if stop > end:
            break
        bodies.append(data[start:stop])
        at = stop
    return bodies, data[at:]


class FrameConnection(asyncio.Protocol):
    """One end of a TCP connection that carries frames."""

    def __init__(self, on_open: Callable[[Connection], OnBodies], on_close: OnClose) -> None:
        self._on_open = on_open
        self._when_closed = [on_close]
        self._on_bodies: OnBodies | None = None
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._when_writable: list[OnWritable] = []
        self.is_writable = True
        """False while what is to be sent is above the transport's high-water mark, 64 KiB."""

    @property
    def is_gone(self) -> bool:
        """Whether TCP is down."""
        return self._transport is None

    def send(self, bodies: Sequence[bytes]) -> None:
        """Send frames with these bodies, in one write."""
        if self._transport is not None and not self._transport.is_closing():
            lengths = map(_LENGTH.pack, map(len, bodies))
            self._transport.write(b"".join(chain.from_iterable(zip(lengths, bodies, strict=True))))

    def when_writable(self, on_writable: OnWritable) -> None:
        """Call this whenever it is below the low-water mark again."""
        self._when_writable.append(on_writable)

    def pause_writing(self) -> None:
        """The other end does not take what it is sent."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """It has taken most of it."""
        self.is_writable = True
        for on_writable in self._when_writable:
            on_writable()

    def pause(self) -> None:
        """Receive nothing more for now."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Receive again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    def when_closed(self, on_close: OnClose) -> None:
        """Call this, too, once, when the connection is gone."""
        self._when_closed.append(on_close)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TCP is up."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._on_bodies = self._on_open(self)

    def data_received(self, data: bytes) -> None:
        """Some bytes came; hand over the frames that are whole now."""
        assert self._on_bodies is not None
        try:
            bodies, self._rest = split_frames(self._rest + data if self._rest else data)
        except ValueError:
            # As BookKeeper does: no answer, the connection ends.
            self.close()
            return
        if bodies:
            self._on_bodies(bodies)

    def connection_lost(self, exc: Exception | None) -> None:
        """TCP is down, for whatever reason."""
        self._transport = None
        for on_close in self._when_closed:
            on_close()


class TcpNetwork:
    """Opens TCP connections."""

    def __init__(self, connect_timeout_s: float = 10.0) -> None:
        self._connect_timeout_s = connect_timeout_s

    async def connect(
        self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> Connection:
        """Connect.  Raises `OSError`, `TimeoutError` included."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_timeout_s):
            _, connection = await loop.create_connection(
                lambda: FrameConnection(lambda _: on_bodies, on_close), host, port
            )
        if connection.is_gone:
            raise ConnectionResetError(errno.ECONNRESET, f"{host}:{port} closed the connection")
        return connection


async def listen(
    accept: Callable[[Connection], OnBodies],
    port: int = 0,
    host: str = LOOPBACK,
    *,
    tls: ssl.SSLContext | None = None,
    serving: bool = True,
) -> asyncio.Server:
    """Serve frames; port 0 takes a free one.  Raises `PortInUseError`.

    Without `serving` the port is known and nobody accepted until the server's `start_serving`.
    """
    with taking_port(port, host):
        return await asyncio.get_running_loop().create_server(
            lambda: FrameConnection(accept, lambda: None),
            host,
            port,
            ssl=tls,
            start_serving=serving,
        )


@contextmanager
def taking_port(port: int, host: str) -> Iterator[None]:
    """Say it by name when another program has the port.  Raises `PortInUseError`."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise PortInUseError(
            f"port {port} of {host} is taken by another program; name another one, or 0 for any"
            " that is free"
        ) from None


def port_of(server: asyncio.Server) -> int:
    """Where it listens."""
    port: int = server.sockets[0].getsockname()[1]
    return port
