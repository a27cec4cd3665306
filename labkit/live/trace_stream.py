"""A node's trace over a loopback connection: rows as lines of JSON, to whoever connects.

While nobody is connected the node's recorder listens to nothing and records nothing.
"""

import asyncio
import json
import threading
from contextlib import suppress

from labkit.live.net import LOOPBACK
from labkit.model.errors import LabkitError
from labkit.trace.events import KINDS
from labkit.trace.recorder import Recorder, Row, Sink

LINE_LIMIT = 64 * 1024 * 1024
_ROWS_A_LINE = 1000
"""Of those that were kept: a long replay has more than fit into one line."""
_TYPES = tuple(Row.__annotations__.values())


class TraceStreamError(LabkitError):
    """What came is no trace: another program listens there, or another version of labkit."""


class TraceServer:
    """Sends every row of a node to every connection, as long as it lasts.

    With `from_start`, what the node records before anybody connects is kept for the first that
    does: a bookie replays its journal before it can be asked anything.
    """

    def __init__(self, recorder: Recorder, *, from_start: bool = False) -> None:
        self._recorder = recorder
        self._early: list[Row] = []
        self._stop_keeping = recorder.listen(self._early.extend) if from_start else None

    async def start(self) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop, home = asyncio.get_running_loop(), threading.get_ident()

        def send(rows: list[Row]) -> None:
            line = json.dumps(rows).encode() + b"\n"
            if threading.get_ident() == home:
                writer.write(line)
            else:
                # A flush reports from its own thread, and two writers would mix up their lines.
                loop.call_soon_threadsafe(writer.write, line)

        stop = self._recorder.listen(send)
        if self._stop_keeping is not None:
            self._stop_keeping()
            self._stop_keeping = None
        early, self._early = self._early, []
        for start in range(0, len(early) or 1, _ROWS_A_LINE):
            send(early[start : start + _ROWS_A_LINE])
        try:
            with suppress(ConnectionError):
                await reader.read()
        finally:
            stop()
            writer.close()


class TraceStream:
    """The rows of one remote node, handed to a sink as they come."""

    def __init__(self, host: str, port: int, sink: Sink) -> None:
        self._host, self._port, self._sink = host, port, sink
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect and return once the node is recording.  Raises `OSError`."""
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
        while line := await self._next_line(reader):
            self._sink(decode_rows(line))
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

    Raises `TraceStreamError` when it is no list of rows, or names a kind that nobody knows.
    """
    try:
        rows = [Row(*values) for values in json.loads(line or b"[]")]
    except (ValueError, TypeError, RecursionError) as error:
        raise TraceStreamError(f"no line of trace rows: {error}") from None
    for row in rows:
        if tuple(map(type, row)) != _TYPES or row.kind not in KINDS:
            raise TraceStreamError(f"no row of a trace: {str(row)[:200]}")
    return rows
