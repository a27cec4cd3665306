"""Pauses reading from a client's connection, so that requests do not pile up in the broker.

The broker stops reading from a connection while

- too many of its messages are waiting to be stored,
- too many of its requests are in progress,
- received frames are waiting for their turn, or
- the client does not read its responses.

Reading resumes when every count has dropped to half of its limit.

In Pulsar: `maxPendingPublishRequestsPerConnection`, `broker/service/ServerCnxThrottleTracker.java`.
"""

from collections.abc import Callable

from labkit.system.model.net import Connection as Wire

MAX_MESSAGES = 1000
MAX_BYTES = 64 * 1024 * 1024
MAX_REQUESTS = 100
"""Limits per connection. With higher limits, a few clients could keep all others waiting."""


class Backpressure:
    def __init__(self, wire: Wire, mark_heard: Callable[[], None]) -> None:
        """`mark_heard` is called before reading resumes, because the client could not show that it
        was alive while reading was paused.
        """
        self.is_paused = False
        self._wire = wire
        self._mark_heard = mark_heard
        self._messages = self._bytes = self._requests = 0
        self._is_over_limit = self._frames_are_waiting = False

    def add_message(self, size_bytes: int) -> None:
        """Count a message to be stored. After each turn of the event loop, the connection calls
        `set_frames_waiting`, which compares the counts with the limits.
        """
        self._messages += 1
        self._bytes += size_bytes

    def remove_messages(self, count: int, size_bytes: int) -> None:
        self._messages -= count
        self._bytes -= size_bytes
        self.update()

    def add_requests(self, count: int) -> None:
        """Count new requests, or completed ones if the number is negative."""
        self._requests += count
        self.update()

    def set_frames_waiting(self, are_waiting: bool) -> None:
        self._frames_are_waiting = are_waiting
        self.update()

    def update(self) -> None:
        counts = (
            (self._messages, MAX_MESSAGES),
            (self._bytes, MAX_BYTES),
            (self._requests, MAX_REQUESTS),
        )
        if any(count >= limit for count, limit in counts):
            self._is_over_limit = True
        elif all(count <= limit // 2 for count, limit in counts):
            self._is_over_limit = False
        is_paused = self._is_over_limit or self._frames_are_waiting or not self._wire.is_writable
        if is_paused == self.is_paused:
            return
        self.is_paused = is_paused
        if is_paused:
            self._wire.pause()
        else:
            self._mark_heard()
            self._wire.resume()
