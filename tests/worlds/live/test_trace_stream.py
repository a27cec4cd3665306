"""A node streams its events to each connected client over a real socket."""

import asyncio
import socket
import struct
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from labkit.system.trace.events import Event, unnumbered_event
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.trace_stream import (
    TraceServer,
    TraceStream,
    TraceStreamError,
    decode_rows,
)
from tests.until import until, until_true


def recorder() -> Recorder:
    return Recorder("b0", lambda: 42)


class Follower(TraceStream):
    """A connection to a trace server, and the rows that it has received."""

    def __init__(self, port: int) -> None:
        self.rows: list[Event] = []
        super().__init__(LOOPBACK, port, self.rows.extend)


async def followed(port: int) -> Follower:
    follower = Follower(port)
    await follower.start()
    return follower


async def test_nothing_is_recorded_without_a_listener() -> None:
    node = recorder()
    port = await TraceServer(node).start()
    assert not node.listening
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    await reader.readline()
    assert node.listening
    writer.close()
    await until(lambda: not node.listening)


async def test_every_listener_gets_every_row_from_its_connection_on() -> None:
    node = recorder()
    port = await TraceServer(node).start()
    first = await followed(port)
    node.record("add.pushed", 7, 0, size=3)
    second = await followed(port)
    node.record("recovery.started", 7, segments=((0, ("b0", "b1")),))
    await until(lambda: len(first.rows) == 2 and len(second.rows) == 1)
    assert first.rows == [
        unnumbered_event(42, "b0", "add.pushed", 7, 0, size=3),
        unnumbered_event(42, "b0", "recovery.started", 7, segments=((0, ("b0", "b1")),)),
    ]
    assert second.rows == first.rows[1:]


async def test_a_listener_that_is_gone_disturbs_neither_the_node_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = recorder()
    port = await TraceServer(node).start()
    listener = socket.create_connection((LOOPBACK, port))
    follower = await followed(port)
    # Reset the connection, as happens when a client is killed before it has read all rows.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    listener.close()
    for number in range(100):
        node.record("memtable.put", 7, number)
    await until(lambda: len(follower.rows) == 100)
    assert caplog.text == ""


async def test_rows_of_the_start_are_kept_for_the_first_listener_only() -> None:
    node = recorder()
    server = TraceServer(node, from_start=True)
    node.record("journal.replayed", size=5)
    port = await server.start()
    first, second = await followed(port), await followed(port)
    assert [row.kind for row in first.rows] == ["journal.replayed"]
    assert second.rows == []
    node.record("memtable.put", 7, 0)
    await until(lambda: len(first.rows) == 2 and len(second.rows) == 1)


async def test_a_start_may_have_more_rows_than_fit_into_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("labkit.worlds.live.trace_stream.LINE_LIMIT", 1024 * 1024)
    node, count = recorder(), 20_000
    server = TraceServer(node, from_start=True)
    for number in range(count):
        node.record("entry_log.written", 7, number, file="0.log", offset=number, size=100)
    follower = await followed(await server.start())
    await until(lambda: len(follower.rows) == count)
    assert [row.entry for row in follower.rows] == list(range(count))


async def test_rows_of_another_thread_are_written_by_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writers, write = set[int](), asyncio.StreamWriter.write

    def noting_write(writer: asyncio.StreamWriter, data: bytes) -> None:
        writers.add(threading.get_ident())
        write(writer, data)

    monkeypatch.setattr(asyncio.StreamWriter, "write", noting_write)
    node = recorder()
    follower = await followed(await TraceServer(node).start())
    await asyncio.to_thread(node.record, "memtable.flushed", size=3)
    await until(lambda: len(follower.rows) == 1)
    assert writers == {threading.get_ident()}


async def test_rows_of_another_thread_wake_the_event_loop_once_for_all_listeners(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = recorder()
    port = await TraceServer(node).start()
    first, second = await followed(port), await followed(port)
    loop, calls = asyncio.get_running_loop(), list[object]()
    wake = loop.call_soon_threadsafe

    def noting_wake(call: Callable[[], None]) -> asyncio.Handle:
        calls.append(call)
        return wake(call)

    monkeypatch.setattr(loop, "call_soon_threadsafe", noting_wake)

    def flush() -> None:
        for number in range(100):
            node.record("memtable.flushed", size=number)

    # The event loop does not run until the thread has finished.
    thread = threading.Thread(target=flush)
    thread.start()
    thread.join()
    assert len(calls) == 1
    await until(lambda: len(first.rows) == len(second.rows) == 100)
    assert [row.size for row in first.rows] == list(range(100))
    assert second.rows == first.rows


@pytest.mark.promise("A trace listener that does not read is dropped with a log message")
async def test_listener_that_never_reads_is_dropped_with_a_line_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("labkit.worlds.live.trace_stream.MAX_WAITING_ROWS", 1000)
    node, count = recorder(), 10_000
    port = await TraceServer(node).start()
    _, deaf = await asyncio.open_connection(LOOPBACK, port, limit=1)
    await until(lambda: node.listening)
    follower = await followed(port)
    for number in range(count):
        node.record("read.failed", 7, number, error="x" * 2000)
        if number % 100 == 0:
            await until(partial(lambda count: len(follower.rows) >= count, number - 100))
    await until(lambda: len(follower.rows) == count)
    [line] = [record.getMessage() for record in caplog.records]
    assert "1001 trace rows are queued for ('127.0.0.1'" in line
    deaf.close()


async def test_listener_that_is_dropped_learns_it_when_it_reads_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("labkit.worlds.live.trace_stream.MAX_WAITING_ROWS", 1000)
    node = recorder()
    follower = await followed(await TraceServer(node).start())
    for number in range(100_000):
        node.record("read.failed", 7, number, error="x" * 100)
    assert not node.listening
    await follower.drain()
    assert [row.entry for row in follower.rows] == list(range(len(follower.rows)))
    assert 0 < len(follower.rows) < 100_000
    assert "not sent" in caplog.records[-1].getMessage()


async def test_rows_without_a_listener_are_not_kept_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("labkit.worlds.live.trace_stream.MAX_WAITING_ROWS", 1000)
    node = recorder()
    server = TraceServer(node, from_start=True)
    for number in range(1001):
        node.record("memtable.put", 7, number)
    assert not node.listening
    assert len(caplog.records) == 1
    follower = await followed(await server.start())
    node.record("memtable.put", 8, 0)
    await until(lambda: follower.rows)
    assert [row.ledger for row in follower.rows] == [8]


async def test_listeners_above_the_limit_are_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("labkit.worlds.live.trace_stream.MAX_LISTENERS", 3)
    node, rows = recorder(), list[Event]()
    port = await TraceServer(node).start()
    first = [await asyncio.open_connection(LOOPBACK, port) for _ in range(3)]
    for reader, _ in first:
        await reader.readline()
    with pytest.raises(TraceStreamError, match="listeners, the maximum"):
        await followed(port)
    first[0][1].close()

    async def is_free() -> bool:
        with suppress(TraceStreamError):
            await TraceStream(LOOPBACK, port, rows.extend).start()
            return True
        return False

    await until_true(is_free)
    node.record("memtable.put", 7, 0)
    await until(lambda: rows)


async def test_listener_that_sends_its_end_and_does_not_read_keeps_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("labkit.worlds.live.trace_stream.MAX_LISTENERS", 1)
    node = recorder()
    port = await TraceServer(node).start()
    with socket.create_connection((LOOPBACK, port)) as deaf:
        await until(lambda: node.listening)
        for number in range(10_000):
            node.record("read.failed", 7, number, error="x" * 1000)
        deaf.shutdown(socket.SHUT_WR)
        await until(lambda: not node.listening)
        await followed(port)
        assert node.listening
        received = 0
        while part := await asyncio.to_thread(deaf.recv, 1 << 20):
            received += len(part)
    assert received < 10_000 * 1000


async def test_what_a_listener_says_is_not_kept() -> None:
    node = recorder()
    _, talker = await asyncio.open_connection(LOOPBACK, await TraceServer(node).start())
    tracemalloc.start()
    try:
        for _ in range(50):
            talker.write(bytes(1024 * 1024))
            await talker.drain()
        assert tracemalloc.get_traced_memory()[0] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()
        talker.close()


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"7",
        b"[7]",
        b'[["2", "b0", "node.started"]]',
        b'[[2, "b0", "no such kind"]]',
        b"[" * 10_000,
        b"\xff",
    ],
)
def test_a_line_without_rows_is_refused(line: bytes) -> None:
    with pytest.raises(TraceStreamError, match=r"not a (line|row) of"):
        decode_rows(line + b"\n")


def test_no_line_has_no_rows() -> None:
    assert decode_rows(b"") == []


async def test_rows_that_are_recorded_at_once_may_fill_many_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("labkit.worlds.live.trace_stream.LINE_LIMIT", 64 * 1024)
    node, count = recorder(), 20_000
    follower = await followed(await TraceServer(node).start())
    node.record_entries("memtable.put", [(7, number) for number in range(count)])
    await until(lambda: len(follower.rows) == count)


async def test_a_trace_that_cannot_be_decoded_ends_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.write(b"[]\n{\n"), LOOPBACK)
    async with server:
        stream = await followed(server.sockets[0].getsockname()[1])
        await stream.drain()
    assert "ends here: not a line of trace rows" in caplog.text
