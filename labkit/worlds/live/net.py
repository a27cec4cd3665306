"""Frames over TCP: the network port in the live world.

All frames of one receive, up to `FRAMES_AT_ONCE`, are handed over together, and all frames of one
`send` go out in one write: this keeps the cost per entry low.  `labkit.worlds.live.peers` bounds
the memory of all connections together, and decides which slow peers to drop.
"""

import asyncio
import errno
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from labkit.system.model.errors import LabkitError
from labkit.system.model.length_prefixed import LENGTH_SIZE, join_with_lengths
from labkit.system.model.net import Connection, OnBodies, OnClose, OnWritable
from labkit.system.model.wire import MAX_FRAME_SIZE
from labkit.worlds.live.peers import PeerLimits, PeerProgress, Peers

LOOPBACK = "127.0.0.1"
FRAMES_AT_ONCE = 256
HIGH_WATER_BYTES = 512 * 1024
"""A connection is not writable while more is unsent (`serverWriteBufferHighWaterMark`)."""
_LENGTH = struct.Struct(">I")


class PortInUseError(LabkitError):
    """Another program listens on the port."""


class UnknownHostError(LabkitError):
    """The name of a server's address leads to no address."""


def split_frames(
    data: bytes | memoryview, at: int = 0, largest_body: int = MAX_FRAME_SIZE - LENGTH_SIZE
) -> tuple[list[bytes], int]:
    """The bodies of the complete frames from `at` on, at most `FRAMES_AT_ONCE`, and the offset
    after them.

    Raises `ValueError` when the first is above the limit: its sender speaks another protocol.
    """
    bodies: list[bytes] = []
    data, end = memoryview(data), len(data)
    while len(bodies) < FRAMES_AT_ONCE and (start := at + LENGTH_SIZE) <= end:
        (size,) = _LENGTH.unpack_from(data, at)
        if size > largest_body:
            if bodies:
                break
            raise ValueError(f"a frame of {size} bytes; {largest_body} are allowed")
        if (stop := start + size) > end:
            break
        bodies.append(data[start:stop].tobytes())
        at = stop
    return bodies, at


class FrameConnection(asyncio.BufferedProtocol):
    """One end of a TCP connection that carries frames."""

    def __init__(
        self, on_open: Callable[[Connection], OnBodies], on_close: OnClose, peers: Peers
    ) -> None:
        self._on_open = on_open
        self._when_closed = [on_close]
        self._when_writable: list[OnWritable] = []
        self._on_bodies: OnBodies | None = None
        self._transport: asyncio.Transport | None = None
        self._peers = peers
        self.progress = PeerProgress()
        """How the other end comes along, for the limits over all peers."""
        self._loop = asyncio.get_running_loop()
        self._is_paused = False
        self._rest = bytearray()
        """Bytes not handed over yet: half a frame, and while paused the frames before it."""
        self._needed = 0
        """The number of bytes at which the rest contains a complete frame."""
        self._in_front = 0
        """Bytes of the rest that stand before the receive in its buffer."""

    @property
    def is_gone(self) -> bool:
        """Whether TCP is down."""
        return self._transport is None

    @property
    def is_ending(self) -> bool:
        """Whether it was closed; what is unsent may still leave."""
        return self._transport is None or self._transport.is_closing()

    # Out

    def send(self, bodies: Sequence[bytes]) -> None:
        """Send frames with these bodies, in one write."""
        if self._transport is not None and not self._transport.is_closing():
            data = join_with_lengths(bodies)
            self.progress.moved_bytes += len(data)
            # One write: a system call for each frame would cost more than the frame.
            self._transport.write(data)
            if self.progress.has_unread:
                self._hold()

    @property
    def is_writable(self) -> bool:
        """False while too much is unsent: on this connection, or on all connections of the
        process.
        """
        return not self._peers.is_full and self.unsent_bytes < HIGH_WATER_BYTES

    def when_writable(self, on_writable: OnWritable) -> None:
        """Call this each time all bytes are sent, and each time all connections have room again."""
        self._when_writable.append(on_writable)

    def has_room(self) -> None:
        """Call the callbacks that wait to write: there may be room again."""
        for on_writable in self._when_writable:
            on_writable()

    def pause_writing(self) -> None:
        """Called by asyncio when the other end does not read its bytes."""
        self.progress.leave_unread()
        self._hold()

    def resume_writing(self) -> None:
        """Called by asyncio when the other end has read all of them."""
        self.progress.read_all()
        self._hold()
        self.has_room()

    @property
    def unsent_bytes(self) -> int:
        """What waits for the other end to read, once that is more than it may be."""
        if not self.progress.has_unread or self._transport is None:
            return 0
        return self._transport.get_write_buffer_size()

    # In

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next receive goes: behind what is left of the last one, if that is short.

        So half a frame is copied for each receive, and not the receive behind half a frame.
        """
        buffer = self._peers.receive_buffer()
        self._in_front = len(self._rest) if 2 * len(self._rest) <= len(buffer) else 0
        buffer[: self._in_front] = self._rest[: self._in_front]
        return buffer[self._in_front :]

    def buffer_updated(self, nbytes: int) -> None:
        """Take `nbytes` received bytes, and hand over the frames that are complete now."""
        self.progress.moved_bytes += nbytes
        data = self._peers.receive_buffer()[: self._in_front + nbytes]
        if self._rest:
            lacks_more = len(self._rest) + nbytes < self._needed
            if lacks_more or not self._in_front:
                self._rest += data[self._in_front :]
                data = memoryview(self._rest)
            if lacks_more:
                self._hold()
                return
        self._hand_over(data)

    def pause(self) -> None:
        """Receive nothing more for now."""
        self._is_paused = True
        self.receive_or_not()

    def resume(self) -> None:
        """Receive again."""
        if self._is_paused:
            self._is_paused = False
            # Not in this call: the caller may be in the middle of the frames handed over before.
            self._loop.call_soon(self._go_on)

    def receive_or_not(self) -> None:
        """Let TCP receive, unless the receiver or the limits of all peers forbid it now."""
        if self._transport is None:
            return
        if self._is_paused or self.progress.is_stopped:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    @property
    def has_half_a_frame(self) -> bool:
        """Whether a part of a frame has arrived, and the rest is missing."""
        return bool(self._rest) and not self._is_paused

    def _go_on(self) -> None:
        if self._rest and not self._is_paused:
            self._hand_over(memoryview(self._rest))
        self.receive_or_not()

    def _hand_over(self, data: memoryview) -> None:
        """Hand over the frames of these bytes, until none is left or `pause` is called.  What is
        left is copied: the next receive of any connection overwrites the shared buffer.
        """
        assert self._on_bodies is not None
        at = 0
        while not (self._is_paused or self.is_ending):
            try:
                bodies, end = split_frames(data, at, self._peers.largest_body)
            except ValueError:
                # As in BookKeeper, the connection ends without an answer.
                self.close()
                break
            if not bodies:
                break
            self._peers.received_a_frame(self)
            at = end
            self._on_bodies(bodies)
        self._keep(data, at)

    def _keep(self, data: memoryview, at: int) -> None:
        """Keep the remaining bytes until their frame is complete, or a pause ends."""
        if at == len(data):
            if self._rest:
                self._rest = bytearray()
                self._hold()
            return
        self._rest = bytearray(data[at:])
        self._needed = LENGTH_SIZE
        if len(self._rest) >= LENGTH_SIZE:
            self._needed += _LENGTH.unpack_from(data, at)[0]
        self.progress.begin_frame()
        self._hold()

    def _hold(self) -> None:
        self._peers.hold(self, len(self._rest) + self.unsent_bytes)

    # Beginning and end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TCP is up."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # Every unsent byte counts against the process's limit, so the first one is reported.
        transport.set_write_buffer_limits(high=0)
        self._on_bodies = self._on_open(self)
        self._peers.opened(self)

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    def drop(self) -> None:
        """End the connection now, and drop everything held for it."""
        if self._transport is not None:
            self._transport.abort()

    def when_closed(self, on_close: OnClose) -> None:
        """Also call this once, when the connection is gone."""
        self._when_closed.append(on_close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio when TCP is down, for any reason."""
        self._transport = None
        # Transport and connection refer to each other: their memory would wait for the collector.
        self._rest = bytearray()
        self._peers.closed(self)
        # Cleared first: an action may close the connection, and each is called once.
        when_closed, self._when_closed, self._when_writable = self._when_closed, [], []
        for on_close in when_closed:
            on_close()
        self._on_bodies = None


class TcpNetwork:
    """Opens TCP connections."""

    def __init__(self, connect_timeout_s: float = 10.0) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._peers = Peers(PeerLimits(most_connections=sys.maxsize))

    async def connect(
        self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> Connection:
        """Connect.  Raises `OSError`, `TimeoutError` included."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._connect_timeout_s):
            _, connection = await loop.create_connection(
                lambda: FrameConnection(lambda _: on_bodies, on_close, self._peers), host, port
            )
        if connection.is_gone:
            raise ConnectionResetError(errno.ECONNRESET, f"{host}:{port} closed the connection")
        return connection


async def listen(
    accept: Callable[[Connection], OnBodies],
    port: int = 0,
    host: str = LOOPBACK,
    *,
    peers: Peers | None = None,
    tls: ssl.SSLContext | None = None,
    serving: bool = True,
) -> asyncio.Server:
    """Serve frames; port 0 takes a free one.  Raises `PortInUseError`.

    `peers` bounds the memory of the connections, together with other ports that share it.  Without
    `serving` the port is taken, but clients are accepted only after the server's `start_serving`.
    """
    together = peers or Peers()
    with taking_port(port, host):
        return await asyncio.get_running_loop().create_server(
            lambda: FrameConnection(accept, lambda: None, together),
            host,
            port,
            ssl=tls,
            start_serving=serving,
        )


@contextmanager
def taking_port(port: int, host: str) -> Iterator[None]:
    """Turn the error for a port in use into `PortInUseError`, which names the port, and that for an
    unknown name into `UnknownHostError`.
    """
    try:
        yield
    except socket.gaierror as error:
        raise UnknownHostError(
            f"{host} has no address: {error.strerror}; set advertisedAddress to a name or an"
            " address of this machine"
        ) from None
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise PortInUseError(
            f"port {port} of {host} is taken by another program; name another one, or 0 for any"
            " that is free"
        ) from None


def authority(host: str, port: int) -> str:
    """Host and port as a URL has them: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def port_of(server: asyncio.Server) -> int:
    """The port on which the server listens."""
    port: int = server.sockets[0].getsockname()[1]
    return port
