"""A client's identity and its expiry time.

A client authenticates when it connects. If its credentials expire while it is connected, the broker
asks for new ones and closes the connection if the client does not provide any.

In Pulsar: `broker/authentication/AuthenticationState.java`.
"""

from collections.abc import Callable
from dataclasses import dataclass

REFRESH = b"PulsarAuthRefresh"
"""The challenge that asks Pulsar's clients for a new token."""


@dataclass(frozen=True, slots=True)
class Identity:
    """`expires_at_ms` is a wall-clock time, or None if the identity does not expire."""

    role: str
    expires_at_ms: int | None = None

    def is_expired(self, now_ms: int) -> bool:
        return self.expires_at_ms is not None and self.expires_at_ms <= now_ms


ANONYMOUS = Identity("")
"""The identity of every client if authentication is disabled."""

Authenticate = Callable[[str, bytes], Identity]
"""Maps an authentication method and its data to an identity, or raises `BrokerError`."""
