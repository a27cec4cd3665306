"""The network interface: connections that deliver the bodies of frames in order and in batches.

Sending never blocks and never fails. A closed connection discards the frames.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

OnBodies = Callable[[Sequence[bytes]], None]
"""Called with the bodies of frames that were received together."""
OnClose = Callable[[], None]
OnWritable = Callable[[], None]


class Connection(Protocol):
    def send(self, bodies: Sequence[bytes]) -> None:
        """Send a frame for each body, in a single write."""

    @property
    def is_writable(self) -> bool:
        """Whether the other end is receiving fast enough.

        If it is not, this side buffers everything in memory. So before you send large amounts of
        data, wait until the connection is writable (`when_writable`).
        """

    def when_writable(self, on_writable: OnWritable) -> None:
        """Call `on_writable` whenever the connection becomes writable again."""

    def pause(self) -> None:
        """Stop receiving until `resume` is called."""

    def resume(self) -> None: ...

    def close(self) -> None:
        """Close the connection. This calls `on_close` on both ends."""

    def when_closed(self, on_close: OnClose) -> None:
        """Call `on_close` once when the connection is closed, in addition to other callbacks."""


class Network(Protocol):
    async def connect(
        self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> Connection:
        """Open a connection that calls `on_close` once when it is closed.

        Raises an `OSError`, such as `ConnectionRefusedError` or `TimeoutError`. If the connection
        is closed before this method returns, the method calls `on_close` and raises
        `ConnectionResetError`.
        """
