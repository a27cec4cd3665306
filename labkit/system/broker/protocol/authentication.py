"""Who a client is, and how long that is valid.

A client proves its identity when it connects.  If its credentials expire while it is connected, the
broker asks for new ones, and closes the connection if the client has none.

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
        """Whether the client has to prove its identity again."""
        return self.expires_at_ms is not None and self.expires_at_ms <= now_ms


ANONYMOUS = Identity("")
"""The identity of every client of a broker without authentication."""

Authenticate = Callable[[str, bytes], Identity]
"""Returns a client's identity, by the method and the data that it sends.  Raises `BrokerError`."""
