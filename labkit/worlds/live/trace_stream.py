"""A node's trace over a loopback connection: rows as lines of JSON, sent to every listener.

While no listener is connected the node's recorder records nothing.  A listener that does not read
is dropped when too many rows wait for all listeners together; its last line says so, and so does
the node's log.  A listener above `MOST_LISTENERS` is refused.
"""

import asyncio
import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from labkit.system.model.errors import LabkitError
from labkit.system.trace.events import KINDS
from labkit.system.trace.recorder import Recorder, Row, Sink
from labkit.worlds.live.net import LOOPBACK

LINE_LIMIT = 64 * 1024 * 1024
MOST_ROWS_WAITING = 500_000
"""Limit for all listeners together: some 100 MB."""
MOST_LISTENERS = 50
"""Limit for the connections; each takes one of the files that the process may have open."""
_WAITING_TO_CONNECT = 16
_ROWS_A_LINE = 1000
"""Rows in a line: a long replay has more than one line can hold."""
_UNREAD_BYTES = 64 * 1024
"""While this many written bytes are unread, further rows wait."""
_LAST_WORDS = "too many rows waited unread; what comes after them is not sent"
_REFUSAL = f"{MOST_LISTENERS} listeners are connected to this node, which takes no more"
_TYPES = tuple(Row.__annotations__.values())
_log = logging.getLogger(__name__)


class TraceStreamError(LabkitError):
    """The bytes are not a trace: another program, or another version of labkit, listens there."""


class TraceEndedError(TraceStreamError):
    """The node sends no more rows: this listener did not read for too long, or there are too many
    listeners.
    """


class TraceServer:
    """Sends every row of a node to every connection until it ends.

    With `from_start`, the rows that the node records before the first listener connects are kept
    for that listener: a bookie replays its journal before anything can connect to it.
    """

    def __init__(self, recorder: Recorder, *, from_start: bool = False) -> None:
        self._recorder = recorder
        self._home = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._listeners: list[_Listener] = []
        self._connections = 0
        self._from_threads: list[tuple[_Listener, list[Row]]] = []
        self._lock = threading.Lock()
        self._early: _Listener | None = None
        """A listener without a connection yet: the first one to connect gets its rows."""
        if from_start:
            self._early = self._add(_Listener("the first that connects"))

    async def start(self) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(
            self._serve, LOOPBACK, 0, backlog=_WAITING_TO_CONNECT
        )
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connections == MOST_LISTENERS:
            writer.write(_line(_REFUSAL))
            writer.close()
            return
        self._connections += 1
        try:
            await self._send_all(reader, writer)
        finally:
            self._connections -= 1
            # Not `close`, which waits until the listener has read everything.
            writer.transport.abort()

    async def _send_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send every row until the connection ends."""
        name = f"{writer.get_extra_info('peername')}"
        listener = self._early or self._add(_Listener(name))
        self._early = None
        sending = asyncio.create_task(listener.send_to(writer))
        with suppress(ConnectionError):
            while await reader.read(_UNREAD_BYTES):
                """Drop what the listener sends: only the end of the connection matters."""
        sending.cancel()
        self._remove(listener)

    def _add(self, listener: "_Listener") -> "_Listener":
        listener.stop = self._recorder.listen(lambda rows: self._take(listener, rows))
        self._listeners.append(listener)
        return listener

    def _remove(self, listener: "_Listener") -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)
            listener.stop()

    def _take(self, listener: "_Listener", rows: list[Row]) -> None:
        if threading.get_ident() != self._home:
            # A flush reports from another thread, and lines of two writers would be mixed.
            self._take_later(listener, rows)
            return
        listener.take(rows)
        if listener.waiting and sum(map(len, self._waiting())) > MOST_ROWS_WAITING:
            self._drop(max(self._listeners, key=lambda each: len(each.waiting)))

    def _take_later(self, listener: "_Listener", rows: list[Row]) -> None:
        with self._lock:
            is_first = not self._from_threads
            self._from_threads.append((listener, rows))
        # One call for all that come until it runs: each call writes to the pipe that wakes the
        # loop, and while that is full the loop misses signals.
        if is_first:
            self._loop.call_soon_threadsafe(self._take_all)

    def _take_all(self) -> None:
        with self._lock:
            taken, self._from_threads = self._from_threads, []
        for listener, rows in taken:
            self._take(listener, rows)

    def _waiting(self) -> Iterator[deque[Row]]:
        return (listener.waiting for listener in self._listeners)

    def _drop(self, slowest: "_Listener") -> None:
        _log.warning(
            "labkit: %d rows of the trace wait for %s, so it gets no more",
            len(slowest.waiting),
            slowest.name,
        )
        self._remove(slowest)
        slowest.drop()
        if slowest is self._early:
            self._early = None


class _Listener:
    """The rows for one connection, written at once while its listener reads."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting: deque[Row] = deque()
        self.stop: Callable[[], None] = lambda: None
        self._writer: asyncio.StreamWriter | None = None
        self._is_dropped = False
        self._wake = asyncio.Event()

    def take(self, rows: list[Row]) -> None:
        """Write the rows before the node goes on, so that they leave before any client sees what
        they report; behind rows that wait already, if any.
        """
        if self._writer is not None and self._writer.transport.is_closing():
            return  # The connection has ended, and its server hears of that next.
        if self._writer is not None and not self.waiting and _is_read(self._writer):
            self._writer.write(_line(rows))
        elif not self._is_dropped:
            self.waiting += rows
            self._wake.set()

    def drop(self) -> None:
        """Drop the waiting rows, and end."""
        self._is_dropped = True
        self.waiting.clear()
        self._wake.set()

    async def send_to(self, writer: asyncio.StreamWriter) -> None:
        """Send waiting rows while the other end reads; if it is dropped, say so and end."""
        writer.write(_line(self._next_rows()))
        self._writer = writer
        with suppress(ConnectionError):
            while not self._is_dropped:
                await writer.drain()
                if rows := self._next_rows():
                    writer.write(_line(rows))
                else:
                    self._wake.clear()
                    await self._wake.wait()
            writer.write(_line(_LAST_WORDS))
        writer.close()

    def _next_rows(self) -> list[Row]:
        return [self.waiting.popleft() for _ in range(min(len(self.waiting), _ROWS_A_LINE))]


def _is_read(writer: asyncio.StreamWriter) -> bool:
    return writer.transport.get_write_buffer_size() < _UNREAD_BYTES


def _line(content: list[Row] | str) -> bytes:
    return json.dumps(content).encode() + b"\n"


class TraceStream:
    """The rows of one remote node, passed to a sink as they arrive."""

    def __init__(self, host: str, port: int, sink: Sink) -> None:
        self._host, self._port, self._sink = host, port, sink
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect and return once the node is recording.

        Raises `OSError`, and `TraceEndedError` if the node has too many listeners.
        """
        reader, writer = await self.connect()
        self._sink(decode_rows(await self._next_line(reader)))
        self._following = asyncio.create_task(self._follow(reader, writer))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Raises `OSError`."""
        return await asyncio.open_connection(self._host, self._port, limit=LINE_LIMIT)

    async def drain(self) -> None:
        """Take the last rows of a node that has ended."""
        if self._following is not None:
            await self._following

    async def _follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await self._next_line(reader):
                self._sink(decode_rows(line))
        except TraceEndedError as error:
            _log.warning("labkit: the trace of %s:%d ends here: %s", self._host, self._port, error)
        writer.close()

    async def _next_line(self, reader: asyncio.StreamReader) -> bytes:
        """The next whole line; empty when the node is gone."""
        try:
            line = await reader.readline()
        except ConnectionError:
            return b""
        return line if line.endswith(b"\n") else b""


def decode_rows(line: bytes) -> list[Row]:
    """The rows of one line; none if it is empty.

    Raises `TraceEndedError` for a node's last line to a listener that it drops or refuses, and
    `TraceStreamError` for a line that is not a list of rows, or names an unknown kind.
    """
    try:
        content = json.loads(line or b"[]")
        if content in (_LAST_WORDS, _REFUSAL):
            raise TraceEndedError(content)
        rows = [Row(*values) for values in content]
    except (ValueError, TypeError, RecursionError) as error:
        raise TraceStreamError(f"not a line of trace rows: {error}") from None
    for row in rows:
        if tuple(map(type, row)) != _TYPES or row.kind not in KINDS:
            raise TraceStreamError(f"not a row of a trace: {str(row)[:200]}")
    return rows
