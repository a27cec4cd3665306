"""The `Network` port on TCP: connections that carry length-prefixed frames.

To keep the cost per entry low, up to `FRAMES_AT_ONCE` frames that were received together are passed
on in one call, and all frames of one `send` are written together. `labkit.worlds.live.peers` limits
the total memory of all connections and decides which slow peers to drop.
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
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.peers import Peer, PeerLimits, Peers, now_s

FRAMES_AT_ONCE = 256
HIGH_WATER_BYTES = 512 * 1024
"""A connection with at least this many unread bytes is not writable
(`serverWriteBufferHighWaterMark`).
"""
_CONNECT_TIMEOUT_S = 10.0
_LENGTH = struct.Struct(">I")
_CHANGE_ADDRESS = "set advertisedAddress to a host name or an address of this machine"
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, None)
"""Newer versions of asyncio raise an error without a number in this case."""


class CannotListenError(LabkitError):
    """The port or the address of a server is not available. The message says what to change."""


def split_frames(
    data: bytes | memoryview, at: int = 0, max_body_bytes: int = MAX_FRAME_SIZE - LENGTH_SIZE
) -> tuple[list[bytes], int]:
    """Return the bodies of the complete frames that start at offset `at`, and the offset after
    them.

    Returns at most `FRAMES_AT_ONCE` bodies. Raises `ValueError` if the first frame is too large,
    which means that the sender uses another protocol.
    """
    bodies: list[bytes] = []
    data, end = memoryview(data), len(data)
    while len(bodies) < FRAMES_AT_ONCE and (start := at + LENGTH_SIZE) <= end:
        (size,) = _LENGTH.unpack_from(data, at)
        if size > max_body_bytes:
            if bodies:
                break
            raise ValueError(f"frame of {size} bytes exceeds the limit of {max_body_bytes} bytes")
        if (stop := start + size) > end:
            break
        bodies.append(data[start:stop].tobytes())
        at = stop
    return bodies, at


class FrameConnection(Peer, asyncio.BufferedProtocol):
    """One end of a TCP connection that carries frames.

    The bytes of an incomplete frame count against the memory limit of `Peers`.
    """

    def __init__(
        self, on_open: Callable[[Connection], OnBodies], on_close: OnClose, peers: Peers
    ) -> None:
        super().__init__()
        self._on_open = on_open
        self._when_closed = [on_close]
        self._when_writable: list[OnWritable] = []
        self._on_bodies: OnBodies | None = None
        self._transport: asyncio.Transport | None = None
        self._peers = peers
        self._is_paused = False
        self._rest = bytearray()
        """Received bytes not yet passed on: an incomplete frame and, while paused, whole frames."""
        self._needed = 0
        """The length at which `_rest` contains a complete frame."""
        self._front_size = 0
        """Number of bytes of `_rest` that were copied to the front of the receive buffer."""

    @property
    def is_closed(self) -> bool:
        return self._transport is None

    @property
    def is_ending(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    # Sending

    def send(self, bodies: Sequence[bytes]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            data = join_with_lengths(bodies)
            self.moved_bytes += len(data)
            # Write all frames together, because a system call per frame would cost more than the
            # frame itself.
            self._transport.write(data)
            if self.unread_since_s is not None:
                self._report_held_bytes()

    @property
    def is_writable(self) -> bool:
        """False while this connection, or the whole process, has too many unread bytes."""
        return not self._peers.is_full and self.unread_bytes < HIGH_WATER_BYTES

    def when_writable(self, on_writable: OnWritable) -> None:
        """Call `on_writable` whenever this connection or the process becomes writable again."""
        self._when_writable.append(on_writable)

    def notify_writable(self) -> None:
        for on_writable in self._when_writable:
            on_writable()

    def pause_writing(self) -> None:
        self.unread_since_s = now_s()
        self._report_held_bytes()

    def resume_writing(self) -> None:
        self.unread_since_s = None
        self._report_held_bytes()
        self.notify_writable()

    @property
    def unread_bytes(self) -> int:
        if self.unread_since_s is None or self._transport is None:
            return 0
        return self._transport.get_write_buffer_size()

    # Receiving

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next receive. If `_rest` is short, copy it to the front first.

        Copying a short `_rest` costs less than appending the received bytes to it.
        """
        buffer = self._peers.receive_buffer()
        self._front_size = len(self._rest) if 2 * len(self._rest) <= len(buffer) else 0
        buffer[: self._front_size] = self._rest[: self._front_size]
        return buffer[self._front_size :]

    def buffer_updated(self, nbytes: int) -> None:
        self.moved_bytes += nbytes
        data = self._peers.receive_buffer()[: self._front_size + nbytes]
        if self._rest:
            lacks_more = len(self._rest) + nbytes < self._needed
            if lacks_more or not self._front_size:
                self._rest += data[self._front_size :]
                data = memoryview(self._rest)
            if lacks_more:
                self._report_held_bytes()
                return
        self._pass_on_frames(data)

    def pause(self) -> None:
        self._is_paused = True
        self.update_receiving()

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            # Continue in a later call, because the caller may still be processing earlier frames.
            asyncio.get_running_loop().call_soon(self._continue_receiving)

    def update_receiving(self) -> None:
        """Receive from TCP, unless the receiver has paused or the memory limit prevents it."""
        if self._transport is None:
            return
        if self._is_paused or self.stopped_since_s is not None:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    @property
    def has_incomplete_frame(self) -> bool:
        return bool(self._rest) and not self._is_paused

    def _continue_receiving(self) -> None:
        if self._rest and not self._is_paused:
            self._pass_on_frames(memoryview(self._rest))
        self.update_receiving()

    def _pass_on_frames(self, data: memoryview) -> None:
        """Pass on the frames in `data` until no complete frame remains or `pause` is called. The
        remaining bytes are copied, because the next read on any connection overwrites the shared
        buffer.
        """
        assert self._on_bodies is not None
        at = 0
        while not (self._is_paused or self.is_ending):
            try:
                bodies, end = split_frames(data, at, self._peers.max_body_bytes)
            except ValueError:
                # As in BookKeeper, close the connection without a response.
                self.close()
                break
            if not bodies:
                break
            self._peers.frame_received(self)
            at = end
            self._on_bodies(bodies)
        self._buffer_rest(data, at)

    def _buffer_rest(self, data: memoryview, at: int) -> None:
        """Buffer the remaining bytes until their frame is complete or the pause ends."""
        if at == len(data):
            if self._rest:
                self._rest = bytearray()
                self._report_held_bytes()
            return
        self._rest = bytearray(data[at:])
        self._needed = LENGTH_SIZE
        if len(self._rest) >= LENGTH_SIZE:
            self._needed += _LENGTH.unpack_from(data, at)[0]
        self.frame_since_s = now_s()
        self._report_held_bytes()

    def _report_held_bytes(self) -> None:
        self._peers.set_held_bytes(self, len(self._rest) + self.unread_bytes)

    # Opening and closing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # Make asyncio call `pause_writing` at the first unread byte, because every unread byte
        # counts against the process's limit.
        transport.set_write_buffer_limits(high=0)
        self._on_bodies = self._on_open(self)
        self._peers.opened(self)

    def close(self) -> None:
        """Close the connection after sending the unread bytes."""
        if self._transport is not None:
            self._transport.close()

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def when_closed(self, on_close: OnClose) -> None:
        self._when_closed.append(on_close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        # Free the buffer now. Otherwise, only the garbage collector would free it, because the
        # transport and this object refer to each other.
        self._rest = bytearray()
        self._peers.closed(self)
        # Clear the lists first, because a callback may close the connection, and each callback must
        # run only once.
        when_closed, self._when_closed, self._when_writable = self._when_closed, [], []
        for on_close in when_closed:
            on_close()
        self._on_bodies = None


class TcpNetwork:
    def __init__(self) -> None:
        self._peers = Peers(PeerLimits(max_connections=sys.maxsize))

    async def connect(
        self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> Connection:
        """Open a connection. Raises `OSError`, including `TimeoutError`."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            _, connection = await loop.create_connection(
                lambda: FrameConnection(lambda _: on_bodies, on_close, self._peers), host, port
            )
        if connection.is_closed:
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
    """Start a server for connections that carry frames. Port 0 selects a free port.

    `peers` limits the memory of the connections, and can be shared with other ports. With
    `serving=False`, the port is bound, but the server does not accept clients until `start_serving`
    is called. Raises `CannotListenError`.
    """
    shared_peers = peers or Peers()
    with explain_port_errors(port, host):
        return await asyncio.get_running_loop().create_server(
            lambda: FrameConnection(accept, lambda: None, shared_peers),
            host,
            port,
            ssl=tls,
            start_serving=serving,
        )


@contextmanager
def explain_port_errors(port: int, host: str) -> Iterator[None]:
    """Raise `CannotListenError` for errors that another port or address would avoid."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, socket.gaierror):
            problem, remedy = f"cannot resolve {host}: {reason}", _CHANGE_ADDRESS
        elif error.errno == errno.EADDRINUSE:
            problem = f"port {port} of {host} is in use by another program"
            remedy = "choose another port, or 0 for any free port"
        elif error.errno == errno.EACCES:
            problem = f"this user may not listen on port {port} of {host}"
            remedy = "choose a port above 1023"
        elif error.errno in _NO_SUCH_ADDRESS:
            problem, remedy = f"cannot listen on {host}: {reason}", _CHANGE_ADDRESS
        else:
            raise
        raise CannotListenError(f"{problem}; {remedy}") from None


def authority(host: str, port: int) -> str:
    """Return `host:port` for a URL, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port
