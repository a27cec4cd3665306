"""Exchanges messages between two processes, one of which may run a student's code.

A message consists of its length, followed by JSON. The receiver limits the size of each message,
the number and total size of all messages, and the time until a message is complete. The other
process can therefore do no harm by sending endlessly, stopping in the middle of a message, or never
reading.
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
MAX_MESSAGES = 1_000_000
MAX_BYTES = 512 << 20
"""Total size of all messages that one end receives. Each trial counts from its own start, because
it is a copy of the judge.
"""


class ChannelError(Exception):
    """Raised if the other process has exited, was too slow, or sent something that is not a
    message.
    """


class PipeChannel:
    """One end of a channel: the file descriptors of two pipes (-1: none), and the maximum message
    sizes.
    """

    def __init__(self, incoming: int, outgoing: int, max_in_bytes: int, max_out_bytes: int) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._max_in_bytes, self._max_out_bytes = max_in_bytes, max_out_bytes
        self._messages_left, self._bytes_left = MAX_MESSAGES, MAX_BYTES
        if outgoing >= 0:
            os.set_blocking(outgoing, False)

    def send(self, message: Any, until: float = math.inf) -> None:
        """Send one message, giving up when `time.monotonic()` reaches `until`.

        Raises `ChannelError` if the message cannot be sent. Raises `ValueError`, without sending
        anything, if the message is too large.
        """
        body = json.dumps(message).encode()
        if len(body) > self._max_out_bytes:
            raise ValueError(
                f"the message has {len(body):,} bytes; the limit is {self._max_out_bytes:,}"
            )
        data = memoryview(_LENGTH.pack(len(body)) + body)
        try:
            while data:
                if not select.select([], [self._outgoing], [], _left(until))[1]:
                    raise ChannelError("its process is not reading requests")
                data = data[os.write(self._outgoing, data[:_PIECE_BYTES]) :]
        except OSError as error:
            raise ChannelError("its process has ended") from error

    def receive(self, until: float = math.inf) -> dict[str, Any]:
        """Return the next message. Raises `ChannelError` if no valid message arrives in time."""
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size, until))
        self._messages_left -= 1
        self._bytes_left -= size
        if size > self._max_in_bytes:
            raise ChannelError(
                f"it sent a message of {size:,} bytes; the limit is {self._max_in_bytes:,}"
            )
        if self._messages_left < 0 or self._bytes_left < 0:
            raise ChannelError("it sent too many messages, or too much data in total")
        try:
            message = json.loads(self._exactly(size, until))
        except (ValueError, RecursionError) as error:
            raise ChannelError(
                "it sent a message that is not JSON, or nested too deeply"
            ) from error
        if not isinstance(message, dict):
            raise ChannelError("it sent a message that is not a JSON object")
        return message

    def _exactly(self, size: int, until: float) -> bytes:
        pieces = []
        while size:
            left = _left(until)
            # Check the time even if data is available, because a sender may never stop.
            if left == 0 or not select.select([self._incoming], [], [], left)[0]:
                raise ChannelError("it did not finish in time")
            piece = os.read(self._incoming, min(size, _PIECE_BYTES))
            if not piece:
                raise ChannelError("its process has ended")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def _left(until: float) -> float | None:
    return None if until == math.inf else max(0.0, until - time.monotonic())
