"""Streams a node's trace over loopback connections: event rows as lines of JSON.

While no listener is connected, the node does not record any events. If too many rows are queued for
all listeners together, the slowest listener is dropped. The last line that this listener receives
says so, and the node logs it as well. Connections beyond `MAX_LISTENERS` are refused.
"""

import asyncio
import json
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import Any

from labkit.system.model.errors import LabkitError
from labkit.system.trace.events import COLUMN_TYPES, DEFAULTS, Event, Names, Segments
from labkit.system.trace.kinds import KINDS
from labkit.system.trace.recorder import Recorder, Sink
from labkit.worlds.live.host.ports import LOOPBACK

LINE_LIMIT = 64 * 1024 * 1024
MAX_WAITING_ROWS = 500_000
"""Limit on queued rows for all listeners together: about 100 MB."""
MAX_LISTENERS = 50
"""Limit on the number of connections, each of which uses a file descriptor."""
_BACKLOG = 16
_MAX_ROWS_PER_LINE = 1000
"""Maximum number of rows per line. All rows of a long replay would exceed `LINE_LIMIT`."""
_MAX_UNREAD_BYTES = 64 * 1024
"""If a listener has this many unread bytes, further rows are queued for it."""
_DROPPED = "too many rows are queued: the listener is too slow; further rows are not sent"
_REFUSED = f"this node already has {MAX_LISTENERS} listeners, the maximum"
_VALUES = tuple(DEFAULTS.values())
_TYPES = [*map(type, _VALUES)]
_FROM_JSON: dict[Any, Callable[[Any], Any]] = {
    Names: tuple,
    Segments: lambda value: tuple((first, tuple(ensemble)) for first, ensemble in value),
    float: float,
}
"""The functions that convert values whose type JSON does not preserve."""
_CONVERTED = {name: _FROM_JSON[kind] for name, kind in COLUMN_TYPES.items() if kind in _FROM_JSON}
_NAMES = [name for name, kind in COLUMN_TYPES.items() if kind == Names]
_FIRST_CONVERTED = min(map(Event._fields.index, _CONVERTED))
_log = logging.getLogger(__name__)


class TraceStreamError(LabkitError):
    """The node has stopped sending rows, or it is another program or another version of labkit."""


class TraceServer:
    """Sends every row that a node records to every connected listener.

    With `from_start`, the first listener also receives the rows recorded before it connects.
    Otherwise, it would miss the journal replay, which ends before anything can connect to a bookie.
    """

    def __init__(self, recorder: Recorder, *, from_start: bool = False) -> None:
        self._recorder = recorder
        self._loop_thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._listeners: list[_Listener] = []
        self._connections = 0
        self._from_threads: list[tuple[_Listener, list[Event]]] = []
        self._lock = threading.Lock()
        self._early: _Listener | None = None
        """A listener that has no connection yet. The first connection will receive its rows."""
        if from_start:
            self._early = self._add(_Listener("the first listener"))

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0, backlog=_BACKLOG)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connections == MAX_LISTENERS:
            writer.write(_line(_REFUSED))
            writer.close()
            return
        self._connections += 1
        listener = self._early or self._add(_Listener(f"{writer.get_extra_info('peername')}"))
        self._early = None
        sending = asyncio.create_task(listener.send_to(writer))
        try:
            with suppress(ConnectionError):
                while await reader.read(_MAX_UNREAD_BYTES):
                    """Ignore everything that the listener sends, and wait for end-of-file."""
        finally:
            sending.cancel()
            self._remove(listener)
            self._connections -= 1
            # Do not use `close`, which would wait until the listener has read everything.
            writer.transport.abort()

    def _add(self, listener: "_Listener") -> "_Listener":
        listener.stop = self._recorder.listen(lambda rows: self._pass_on(listener, rows))
        self._listeners.append(listener)
        return listener

    def _remove(self, listener: "_Listener") -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)
            listener.stop()

    def _pass_on(self, listener: "_Listener", rows: list[Event]) -> None:
        if threading.get_ident() != self._loop_thread:
            # A flush records events in another thread, but only the event loop's thread may write
            # to a connection.
            with self._lock:
                is_first = not self._from_threads
                self._from_threads.append((listener, rows))
            # Schedule a single call for all rows that arrive before it runs. Each scheduled call
            # writes to the pipe that wakes the loop, and the loop misses signals while that pipe is
            # full.
            if is_first:
                self._loop.call_soon_threadsafe(self._pass_on_all)
            return
        listener.send(rows)
        waiting = sum(len(each.waiting) for each in self._listeners) if listener.waiting else 0
        if waiting > MAX_WAITING_ROWS:
            self._drop(max(self._listeners, key=lambda each: len(each.waiting)))

    def _pass_on_all(self) -> None:
        with self._lock:
            queued, self._from_threads = self._from_threads, []
        for listener, rows in queued:
            self._pass_on(listener, rows)

    def _drop(self, slowest: "_Listener") -> None:
        _log.warning(
            "labkit: %d trace rows are queued for %s, so it is dropped",
            len(slowest.waiting),
            slowest.name,
        )
        self._remove(slowest)
        slowest.drop()
        if slowest is self._early:
            self._early = None


class _Listener:
    """The queue of rows for one connection. The queue is empty while the listener keeps up."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting: deque[Event] = deque()
        self.stop: Callable[[], None] = lambda: None
        self._writer: asyncio.StreamWriter | None = None
        self._is_dropped = False
        self._wake = asyncio.Event()

    def send(self, rows: list[Event]) -> None:
        """Write the rows, or queue them if the listener is not keeping up. Rows are written before
        the node continues, so an event is sent before any client can observe its effect.
        """
        if self._writer is not None and self._writer.transport.is_closing():
            return  # The connection is closed. `TraceServer` is about to remove this listener.
        if self._writer is not None and not self.waiting and _is_read(self._writer):
            for at in range(0, len(rows), _MAX_ROWS_PER_LINE):
                self._writer.write(_line(rows[at : at + _MAX_ROWS_PER_LINE]))
        elif not self._is_dropped:
            self.waiting += rows
            self._wake.set()

    def drop(self) -> None:
        self._is_dropped = True
        self.waiting.clear()
        self._wake.set()

    async def send_to(self, writer: asyncio.StreamWriter) -> None:
        """Send queued rows as the peer reads them, until the listener is dropped."""
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
            writer.write(_line(_DROPPED))
        writer.close()

    def _next_rows(self) -> list[Event]:
        return [self.waiting.popleft() for _ in range(min(len(self.waiting), _MAX_ROWS_PER_LINE))]


def _is_read(writer: asyncio.StreamWriter) -> bool:
    return writer.transport.get_write_buffer_size() < _MAX_UNREAD_BYTES


def _line(content: list[Event] | str) -> bytes:
    values = content if isinstance(content, str) else [*map(_values, content)]
    return json.dumps(values).encode() + b"\n"


def _values(event: Event) -> tuple[Any, ...]:
    """Return the event's columns without trailing default values. Most kinds of events use only the
    first few columns.
    """
    size = len(event)
    while event[size - 1] == _VALUES[size - 1]:
        size -= 1
    return event[:size]


class TraceStream:
    """Receives the rows of one node and passes them to a sink as they arrive."""

    def __init__(self, host: str, port: int, sink: Sink) -> None:
        self._host, self._port, self._sink = host, port, sink
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect, and wait until the node has begun to record events.

        Raises `OSError` or `TraceStreamError`.
        """
        reader, writer = await self.connect()
        self._sink(decode_rows(await self._next_line(reader)))
        self._following = asyncio.create_task(self._follow(reader, writer))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._host, self._port, limit=LINE_LIMIT)

    async def drain(self) -> None:
        if self._following is not None:
            await self._following

    async def _follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await self._next_line(reader):
                self._sink(decode_rows(line))
        except TraceStreamError as error:
            _log.warning("labkit: the trace of %s:%d ends here: %s", self._host, self._port, error)
        finally:
            writer.close()

    async def _next_line(self, reader: asyncio.StreamReader) -> bytes:
        """Return the next complete line, or b"" once the connection is closed."""
        try:
            line = await reader.readline()
        except ConnectionError:
            return b""
        return line if line.endswith(b"\n") else b""


def decode_rows(line: bytes) -> list[Event]:
    """Decode the rows in one line. An empty line contains no rows.

    Raises `TraceStreamError` if the line says that the node drops or refuses this listener, is not
    a list of rows, or contains an unknown kind of event.
    """
    try:
        content = json.loads(line or b"[]")
        if content in (_DROPPED, _REFUSED):
            raise TraceStreamError(content)
        rows = [_event(values) for values in content]
    except (ValueError, TypeError, RecursionError) as error:
        raise TraceStreamError(f"not a line of trace rows: {error}") from None
    return rows


def _event(values: list[Any]) -> Event:
    """Decode a row. Raises `TraceStreamError`, `ValueError` or `TypeError` for an invalid row."""
    event = Event(*values)
    if len(values) > _FIRST_CONVERTED:
        converted = {name: convert(getattr(event, name)) for name, convert in _CONVERTED.items()}
        event = event._replace(**converted)
    names = chain.from_iterable(getattr(event, name) for name in _NAMES)
    is_right = [*map(type, event)] == _TYPES and all(type(name) is str for name in names)
    if not is_right or event.kind not in KINDS:
        raise TraceStreamError(f"not a trace row: {str(event)[:200]}")
    return event
