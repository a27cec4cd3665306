"""Servers log errors caused by their peers in one line, without a traceback."""

import asyncio
import logging
import socket
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from labkit.worlds.live.peer_log import LINES, PERIOD_S, PeerLog, report_failed_accepts
from tests.until import DEADLINE_S

WITHOUT_FILES = """
import asyncio, resource, sys, time
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from labkit.worlds.live.peer_log import PeerLog, report_failed_accepts

async def main():
    report_failed_accepts(PeerLog("b0", time.monotonic))
    if sys.argv[1] == "tornado":
        [listener] = bind_sockets(0, "127.0.0.1")
        HTTPServer(lambda request: None).add_socket(listener)
        server = None
    else:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1")
        [listener] = server.sockets
    resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
    print(listener.getsockname()[1], flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_many_mistakes_are_few_lines_and_their_number() -> None:
    now, lines = [0.0], list[str]()
    log = PeerLog("broker-1", lambda: now[0], lines.append)
    for number in range(1000):
        log(f"mistake {number}")
    assert lines == [f"labkit: broker-1: mistake {number}" for number in range(LINES)]
    now[0] = PERIOD_S
    log("another")
    assert lines[LINES:] == [
        f"labkit: broker-1: {1000 - LINES} more messages were suppressed",
        "labkit: broker-1: another",
    ]


def test_a_mistake_is_one_short_line_whatever_it_quotes() -> None:
    lines = list[str]()
    PeerLog("b", lambda: 0.0, lines.append)("name\nlabkit: b: forged \x1b[2J" + "x" * 10_000)
    [line] = lines
    assert line.startswith("labkit: b: name\\u000alabkit: b: forged \\u001b[2Jxxx")
    assert "\n" not in line
    assert len(line) < 1000


def test_a_log_on_a_full_disk_does_not_disturb_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        PeerLog("broker-1", lambda: 0.0)("a mistake")
        monkeypatch.undo()
        # Closing the text file would write the line again.
        full.buffer.raw.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("library", ["asyncio", "tornado"])
async def test_connections_that_find_no_open_file_left_are_few_lines(library: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WITHOUT_FILES, library, stdout=PIPE, stderr=PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    peers: list[socket.socket] = []
    try:
        async with asyncio.timeout(DEADLINE_S):
            port = int(await process.stdout.readline())
            peers = [socket.create_connection(("127.0.0.1", port)) for _ in range(30)]
            lines = [await process.stderr.readline() for _ in range(LINES)]
            process.kill()
            rest = await process.stderr.read()
    finally:
        for peer in peers:
            peer.close()
        if process.returncode is None:
            process.kill()
        await process.wait()
    line = b"labkit: b0: cannot accept a connection: [Errno 24] Too many open files\n"
    assert (set(lines), rest) == ({line}, b"")


async def test_any_other_error_of_the_loop_keeps_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines: list[str] = []
    report_failed_accepts(lines.append)
    asyncio.get_running_loop().call_exception_handler(
        {"message": "Exception in callback save", "exception": OSError(24, "Too many open files")}
    )
    assert lines == []
    assert "Exception in callback save" in caplog.text


def test_an_error_that_was_never_raised_is_logged_without_a_place() -> None:
    lines = list[str]()
    error = ValueError("wrong")
    logger = logging.Logger("tornado.application")
    logger.addHandler(PeerLog("b", lambda: 0.0, lines.append))
    logger.error("Exception after Future was cancelled", exc_info=error)
    assert lines == ["labkit: b: ValueError('wrong') Exception after Future was cancelled"]
