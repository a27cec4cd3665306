"""Decides whether a client's connection is read, so that its requests do not pile up here.

A connection is not read while too many of its messages wait for the bookies, too many of its
requests are under way, its frames wait for their turn, or the client does not read its answers;
what the client sends then waits on the client's side.  The connection is read again when half of
each limit is free.

In Pulsar: `maxPendingPublishRequestsPerConnection`, `broker/service/ServerCnxThrottleTracker.java`.
"""

from collections.abc import Callable

from labkit.system.model.net import Connection as Wire

MOST_MESSAGES = 1000
MOST_BYTES = 64 * 1024 * 1024
MOST_REQUESTS = 100
"""Limits of a connection: with higher ones a few clients would keep all others waiting."""


class Backpressure:
    """Counts the messages and requests that a connection has under way."""

    def __init__(self, wire: Wire, on_resumed: Callable[[], None]) -> None:
        self.is_paused = False
        self._wire = wire
        self._on_resumed = on_resumed
        self._messages = self._bytes = self._requests = 0
        self._is_over_limit = self._frames_are_waiting = False

    def add_message(self, size_bytes: int) -> None:
        """Count a message to be stored, without `update`: that follows its turn's last message."""
        self._messages += 1
        self._bytes += size_bytes

    def remove_messages(self, count: int, size_bytes: int) -> None:
        """Count no longer messages that are stored or given up."""
        self._messages -= count
        self._bytes -= size_bytes
        self.update()

    def add_requests(self, count: int) -> None:
        """Count requests; a negative number: requests that are done."""
        self._requests += count
        self.update()

    def set_frames_waiting(self, are_waiting: bool) -> None:
        """Note whether frames that have been read wait for their turn."""
        self._frames_are_waiting = are_waiting
        self.update()

    def update(self) -> None:
        """Pause or resume reading the connection."""
        if self._is_full:
            self._is_over_limit = True
        elif self._is_half_empty:
            self._is_over_limit = False
        is_paused = self._is_over_limit or self._frames_are_waiting or not self._wire.is_writable
        if is_paused == self.is_paused:
            return
        self.is_paused = is_paused
        if is_paused:
            self._wire.pause()
        else:
            self._on_resumed()
            self._wire.resume()

    @property
    def _is_full(self) -> bool:
        return (
            self._messages >= MOST_MESSAGES
            or self._bytes >= MOST_BYTES
            or self._requests >= MOST_REQUESTS
        )

    @property
    def _is_half_empty(self) -> bool:
        return (
            self._messages <= MOST_MESSAGES // 2
            and self._bytes <= MOST_BYTES // 2
            and self._requests <= MOST_REQUESTS // 2
        )
