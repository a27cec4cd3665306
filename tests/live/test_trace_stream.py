"""A node's events to whoever connects, over a real socket."""

import asyncio
import threading

import pytest

from labkit.live.net import LOOPBACK
from labkit.live.trace_stream import TraceServer, TraceStream, TraceStreamError, decode_rows
from labkit.trace.recorder import Recorder, Row
from tests.until import until


def recorder() -> Recorder:
    return Recorder("bookie-1", lambda: 42)


async def test_nothing_is_recorded_while_nobody_listens() -> None:
    node = recorder()
    port = await TraceServer(node).start()
    assert not node.listening
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    await reader.readline()
    assert node.listening
    writer.close()
    await until(lambda: not node.listening)


async def test_every_listener_gets_every_row_from_its_connection_on() -> None:
    node, first, second = recorder(), list[Row](), list[Row]()
    port = await TraceServer(node).start()
    streams = [TraceStream(LOOPBACK, port, sink.extend) for sink in (first, second)]
    await streams[0].start()
    node.record("memtable.put", 7, 0, size=3)
    await streams[1].start()
    node.record("memtable.put", 7, 1, note="later")
    await until(lambda: len(first) == 2 and len(second) == 1)
    assert first == [
        Row(42, "bookie-1", "memtable.put", 7, 0, size=3),
        Row(42, "bookie-1", "memtable.put", 7, 1, note="later"),
    ]
    assert second == first[1:]


async def test_rows_of_the_start_are_kept_for_the_first_listener_only() -> None:
    node, first, second = recorder(), list[Row](), list[Row]()
    server = TraceServer(node, from_start=True)
    node.record("journal.replayed", size=5)
    port = await server.start()
    for sink in (first, second):
        await TraceStream(LOOPBACK, port, sink.extend).start()
    assert [row.kind for row in first] == ["journal.replayed"]
    assert second == []


async def test_a_start_may_have_more_rows_than_fit_into_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("labkit.live.trace_stream.LINE_LIMIT", 1024 * 1024)
    node, rows, count = recorder(), list[Row](), 20_000
    server = TraceServer(node, from_start=True)
    for number in range(count):
        node.record("entry_log.written", 7, number, file="0.log", offset=number, size=100)
    await TraceStream(LOOPBACK, await server.start(), rows.extend).start()
    await until(lambda: len(rows) == count)
    assert [row.entry for row in rows] == list(range(count))


async def test_rows_of_another_thread_are_written_by_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writers, write = set[int](), asyncio.StreamWriter.write

    def noting_write(writer: asyncio.StreamWriter, data: bytes) -> None:
        writers.add(threading.get_ident())
        write(writer, data)

    monkeypatch.setattr(asyncio.StreamWriter, "write", noting_write)
    node, rows = recorder(), list[Row]()
    await TraceStream(LOOPBACK, await TraceServer(node).start(), rows.extend).start()
    await asyncio.to_thread(node.record, "memtable.flushed", size=3)
    await until(lambda: len(rows) == 1)
    assert writers == {threading.get_ident()}


async def test_listener_that_breaks_off_does_not_disturb_the_node() -> None:
    node, rows = recorder(), list[Row]()
    port = await TraceServer(node).start()
    polite = TraceStream(LOOPBACK, port, rows.extend)
    await polite.start()
    _, rude = await asyncio.open_connection(LOOPBACK, port)
    rude.transport.abort()
    for number in range(100):
        node.record("memtable.put", 7, number)
    await until(lambda: len(rows) == 100)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"7",
        b"[7]",
        b'[["2", "bookie-1", "node.started"]]',
        b'[[2, "bookie-1", "no such kind"]]',
        b"[" * 10_000,
        b"\xff",
    ],
)
def test_what_is_no_line_of_rows_is_refused(line: bytes) -> None:
    with pytest.raises(TraceStreamError, match=r"no (line|row) of"):
        decode_rows(line + b"\n")


def test_no_line_has_no_rows() -> None:
    assert decode_rows(b"") == []
