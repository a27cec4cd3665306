"""channel: messages between two processes, one of which may run a stranger's code.

A message is its length followed by JSON.  The receiver limits the size of each message, the number
and total size of all messages, and the time until a message is complete, so it survives a sender
that never stops, stops in the middle of a message or never reads.
"""

import json
import math
import os
import select
import struct
import time
from typing import Any

_LENGTH = struct.Struct("!I")
_PIECE_BYTES = 65_536
MOST_MESSAGES = 1_000_000
MOST_BYTES = 512 << 20
"""Of all messages that one end receives."""


class ChannelError(Exception):
    """The other process ended, was too slow, or sent something that is not a message."""


class PipeChannel:
    """One end: pipes to receive from and to send to (-1: none), and the largest messages."""

    def __init__(self, incoming: int, outgoing: int, most_in: int, most_out: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._most_in, self._most_out = most_in, most_out
        self._messages_left, self._bytes_left = MOST_MESSAGES, MOST_BYTES
        if outgoing >= 0:
            os.set_blocking(outgoing, False)

    def send(self, message: Any, until: float = math.inf) -> None:
        """Send one message, at most until this time of `time.monotonic`.

        Raises `ChannelError`, and ValueError for a message that is too large; nothing is sent then.
        """
        body = json.dumps(message).encode()
        if len(body) > self._most_out:
            raise ValueError(f"a message of {len(body):,} bytes; at most {self._most_out:,}")
        data = memoryview(_LENGTH.pack(len(body)) + body)
        try:
            while data:
                if not select.select([], [self._outgoing], [], _left(until))[1]:
                    raise ChannelError("its process does not read what it is asked")
                data = data[os.write(self._outgoing, data[:_PIECE_BYTES]) :]
        except OSError as error:
            raise ChannelError("its process has ended") from error

    def receive(self, until: float = math.inf) -> dict[str, Any]:
        """Return the next message.  Raises `ChannelError`."""
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size, until))
        self._messages_left -= 1
        self._bytes_left -= size
        if size > self._most_in:
            raise ChannelError(f"a message of {size:,} bytes; at most {self._most_in:,}")
        if self._messages_left < 0 or self._bytes_left < 0:
            raise ChannelError("it sends too many messages, or too large ones")
        try:
            message = json.loads(self._exactly(size, until))
        except (ValueError, RecursionError) as error:
            raise ChannelError("a message that is not JSON, or nested too deeply") from error
        if not isinstance(message, dict):
            raise ChannelError("a message that is not an object")
        return message

    def _exactly(self, size: int, until: float) -> bytes:
        pieces = []
        while size:
            left = _left(until)
            # Check the time even if data is available: a sender that never stops is late, too.
            if left == 0 or not select.select([self._incoming], [], [], left)[0]:
                raise ChannelError("it did not come to an end in time")
            piece = os.read(self._incoming, min(size, _PIECE_BYTES))
            if not piece:
                raise ChannelError("its process has ended")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _left(until: float) -> float | None:
    return None if until == math.inf else max(0.0, until - time.monotonic())
