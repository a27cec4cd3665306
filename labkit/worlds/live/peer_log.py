"""Writes a line for each mistake of a peer into a server's log, which is standard error.

A peer can make any number of mistakes, so there are at most `LINES` lines in `PERIOD_S`, then one
with the number of lines left out.
"""

import asyncio
import errno
import logging
import traceback
from collections.abc import Callable
from typing import Any

from labkit.worlds.live.host.safe_output import print_error

LINES = 20
PERIOD_S = 10.0
_LONGEST_LINE = 500

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_ACCEPTING = (
    "socket.accept() out of system resource",
    "Exception in callback BaseAsyncIOLoop._handle_events",
)
"""The beginnings of what asyncio says when it, or tornado, cannot accept a connection."""


class PeerLog(logging.Handler):
    """Takes lines, and, as a logging handler, a library's messages."""

    def __init__(
        self,
        name: str,
        clock_s: Callable[[], float],
        write: Callable[[str], object] = print_error,
    ) -> None:
        """`name` is the server's name."""
        super().__init__(logging.INFO)
        self._name = name
        self._clock_s = clock_s
        self._write = write
        self._period_ends_s = 0.0
        self._left = self._suppressed = 0

    def __call__(self, line: str) -> None:
        """Write the text as one line, unless there were too many lines."""
        now = self._clock_s()
        if now >= self._period_ends_s:
            suppressed, self._suppressed = self._suppressed, 0
            self._period_ends_s, self._left = now + PERIOD_S, LINES
            if suppressed:
                self._say(f"{suppressed} more lines of this kind")
        if self._left:
            self._left -= 1
            self._say(line)
        else:
            self._suppressed += 1

    def emit(self, record: logging.LogRecord) -> None:
        """Called by a logger.  A traceback would be many lines, so only its end is written."""
        message = record.getMessage()
        if record.exc_info and (error := record.exc_info[1]) is not None:
            place = traceback.extract_tb(error.__traceback__)[-1]
            message = f"{error!r} at {place.filename}:{place.lineno}: {message}"
        self(message)

    def _say(self, line: str) -> None:
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line[:_LONGEST_LINE])
        self._write(f"labkit: {self._name}: {text}")


def report_failed_accepts(log: Callable[[str], None]) -> None:
    """Let the running loop report a connection that it cannot accept in a line of this log.

    asyncio by itself writes a traceback for each attempt: a hundred a second, while no file is
    left.
    """

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        has_no_room = isinstance(error, OSError) and error.errno in _NO_ROOM
        if has_no_room and context["message"].startswith(_ACCEPTING):
            log(f"a connection cannot be accepted: {error}")
        else:
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(handle)
