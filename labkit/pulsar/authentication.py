"""Who a client is, and how long that is valid.

A client says who it is when it connects.  What it shows may expire while it is connected: it is
asked for something new then, and loses the connection if it has nothing.

In Pulsar: `broker/authentication/AuthenticationState.java`.
"""

from collections.abc import Callable
from dataclasses import dataclass

REFRESH = b"PulsarAuthRefresh"
"""The data by which Pulsar's clients recognise the request for a new token."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A client that has proved who it is.  `expires_at_ms` is wall-clock time; None: never."""

    role: str
    expires_at_ms: int | None = None

    def is_expired(self, now_ms: int) -> bool:
        """Whether it has to prove it again."""
        return self.expires_at_ms is not None and self.expires_at_ms <= now_ms


ANONYMOUS = Identity("")
"""Every client of a broker without authentication."""

Authenticate = Callable[[str, bytes], Identity]
"""Returns who a client is, by the method and the data that it gives.  Raises `BrokerError`."""
