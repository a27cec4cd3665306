"""A rate-limited log for the errors of a server's peers, written to standard error.

A peer can cause any number of errors, so at most `LINES` messages are logged per `PERIOD_S`,
followed by a message that says how many were suppressed.
"""

import asyncio
import errno
import logging
import time
import traceback
from collections.abc import Callable
from typing import Any

from labkit.worlds.live.host.printable import printable
from labkit.worlds.live.host.safe_output import print_error

LINES = 20
PERIOD_S = 10.0
_MAX_LINE_LENGTH = 500

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_ACCEPTING = (
    "socket.accept() out of system resource",
    "Exception in callback BaseAsyncIOLoop._handle_events",
)
"""How asyncio's messages start when it or tornado cannot accept a connection."""


class PeerLog(logging.Handler):
    """Writes the lines that are passed to it and, as a logging handler, the log messages of
    libraries.
    """

    def __init__(
        self,
        name: str,
        clock_s: Callable[[], float] = time.monotonic,
        write: Callable[[str], object] = print_error,
    ) -> None:
        super().__init__(logging.INFO)
        self._name = name
        self._clock_s = clock_s
        self._write = write
        self._period_ends_s = 0.0
        self._left = self._suppressed = 0

    def __call__(self, line: str) -> None:
        """Write one line, unless the limit for this period has been reached."""
        now = self._clock_s()
        if now >= self._period_ends_s:
            suppressed, self._suppressed = self._suppressed, 0
            self._period_ends_s, self._left = now + PERIOD_S, LINES
            if suppressed:
                self._print(f"{suppressed} more messages were suppressed")
        if self._left:
            self._left -= 1
            self._print(line)
        else:
            self._suppressed += 1

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record on one line, with only the last frame of a traceback."""
        message = record.getMessage()
        if record.exc_info and (error := record.exc_info[1]) is not None:
            # An error that was passed on without being raised has no frames.
            for frame in traceback.extract_tb(error.__traceback__)[-1:]:
                message = f"at {frame.filename}:{frame.lineno}: {message}"
            message = f"{error!r} {message}"
        self(message)

    def _print(self, line: str) -> None:
        self._write(f"labkit: {self._name}: {printable(line[:_MAX_LINE_LENGTH])}")


def report_failed_accepts(log: Callable[[str], None]) -> None:
    """Make the running event loop log one line for each connection that it cannot accept.

    By default, asyncio writes a traceback for each of them, which amounts to a hundred per second
    while the process is out of file descriptors.
    """

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        has_no_room = isinstance(error, OSError) and error.errno in _NO_ROOM
        if has_no_room and context["message"].startswith(_ACCEPTING):
            log(f"cannot accept a connection: {error}")
        else:
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(handle)
