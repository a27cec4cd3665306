"""Network interface: connections that deliver frame bodies in order and in batches.

Sending never blocks and never fails.  A closed connection silently discards whatever is sent; its
owner learns of the closing from `on_close`, which is called once.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

OnBodies = Callable[[Sequence[bytes]], None]
"""Takes the bodies of frames that came together."""
OnClose = Callable[[], None]
OnWritable = Callable[[], None]


class Connection(Protocol):
    """One end of a connection."""

    def send(self, bodies: Sequence[bytes]) -> None:
        """Send a frame for each of these bodies, all in one write."""

    @property
    def is_writable(self) -> bool:
        """Whether the other end is receiving fast enough.

        If it is not, everything that is sent is buffered in memory on this side, so whoever sends
        large amounts of data should wait for `when_writable`.
        """

    def when_writable(self, on_writable: OnWritable) -> None:
        """Call `on_writable` whenever the connection becomes writable again."""

    def pause(self) -> None:
        """Stop receiving until `resume`; data from the other end is held back on its side."""

    def resume(self) -> None:
        """Resume receiving after `pause`."""

    def close(self) -> None:
        """Close the connection; `on_close` is called on both ends."""

    def when_closed(self, on_close: OnClose) -> None:
        """Also call `on_close` once when the connection is closed."""


class Network(Protocol):
    """Opens connections to named endpoints."""

    async def connect(
        self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> Connection:
        """Open a connection and call `on_bodies` once per receive, with all frames that it
        completed.

        Raises an `OSError`, such as `ConnectionRefusedError` or `TimeoutError`.  If the connection
        is closed again before this call returns, `on_close` is called, and this call raises
        `ConnectionResetError`.
        """
