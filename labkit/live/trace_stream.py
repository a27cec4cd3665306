"""A node's trace over a loopback connection: rows as lines of JSON, to whoever connects.

While nobody is connected the node's recorder listens to nothing and records nothing.
"""

import asyncio
import json
from collections.abc import Callable

from labkit.live.net import LOOPBACK
from labkit.trace.recorder import Recorder, Row, Sink

_LINE_LIMIT = 64 * 1024 * 1024


async def serve_trace(recorder: Recorder) -> asyncio.Server:
    """Send every row to every connection, as long as it lasts."""

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def send(rows: list[Row]) -> None:
            writer.write(json.dumps(rows).encode() + b"\n")

        stop = recorder.listen(send)
        writer.write(b"[]\n")
        try:
            await reader.read()
        finally:
            stop()
            writer.close()

    return await asyncio.start_server(on_connection, LOOPBACK, 0)


class TraceStream:
    """The rows of one remote node, handed to a sink as they come."""

    def __init__(self, host: str, port: int, sink: Sink) -> None:
        self._host, self._port, self._sink = host, port, sink
        self._stop: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Connect and return once the node is recording.  Raises `OSError`."""
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=_LINE_LIMIT)
        await reader.readline()
        task = asyncio.create_task(self._follow(reader))

        def stop() -> None:
            task.cancel()
            writer.close()

        self._stop = stop

    def stop(self) -> None:
        """Disconnect; the node stops recording if nobody else listens."""
        self._stop()

    async def _follow(self, reader: asyncio.StreamReader) -> None:
        while line := await self._next_line(reader):
            self._sink([Row(*values) for values in json.loads(line)])

    async def _next_line(self, reader: asyncio.StreamReader) -> bytes:
        """The next whole line; empty when the node is gone."""
        try:
            line = await reader.readline()
        except ConnectionError:
            return b""
        return line if line.endswith(b"\n") else b""
