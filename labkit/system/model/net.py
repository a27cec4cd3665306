"""The port to the network: connections that carry frame bodies, in order, in batches.

Sending never blocks and never fails: a connection that is gone drops what it is given and says so
once, through `on_close`.
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
        """Send frames with these bodies, in one write."""

    @property
    def is_writable(self) -> bool:
        """Whether the other end takes its bytes.  If not, more is kept in memory here: a sender
        of much waits for `when_writable`.
        """

    def when_writable(self, on_writable: OnWritable) -> None:
        """Call this whenever the connection is writable again."""

    def pause(self) -> None:
        """Receive nothing more for now: what the other end sends waits on its side."""

    def resume(self) -> None:
        """Receive again after `pause`."""

    def close(self) -> None:
        """End the connection; `on_close` is called on both ends."""

    def when_closed(self, on_close: OnClose) -> None:
        """Call this, too, once, when the connection is gone."""


class Network(Protocol):
    """Opens connections to named endpoints."""

    async def connect(
        self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> Connection:
        """Connect; `on_bodies` gets all frames of each receive at once.

        Raises `OSError` (`ConnectionRefusedError`, `TimeoutError`, ...); `ConnectionResetError`
        when the connection is gone again before this returns: `on_close` was called then.
        """
