"""One connection from a client to a bookie: made at the first request, and again after a loss.

The requests, and how answers are matched to them, are in `protocol_v2` and `protocol_v3`.

In BookKeeper: `proto/PerChannelBookieClient.java`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence

from labkit.system.metadata.registration import Endpoint
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKClientClosedException,
    BKException,
    LabkitError,
)
from labkit.system.model.net import Connection, Network

FindEndpoint = Callable[[str], Awaitable[Endpoint]]
"""Where a bookie listens, by its id; raises a `LabkitError` when it is unknown."""

_RETRY_AFTER_S = 0.1
"""Within this time after a loss requests fail at once: a bookie that is down is not worth a
connection for each of them.
"""


class PerChannelBookieClient(ABC):
    """Connects, sends requests in batches, and connects again after a loss.

    Invariant: what stands in `outbox` is sent once, in order, or given up together with the
    connection that it was meant for.
    """

    def __init__(
        self, bookie: str, network: Network, find_endpoint: FindEndpoint, timeout_s: float
    ) -> None:
        self.bookie = bookie
        self.timeout_s = timeout_s
        """How long an answer may take, in seconds."""
        self.connection_count = 0
        """Connections made so far: a bookie that restarts needs at least one more."""
        self.connected_at = 0.0
        """When the last connection was made, by the loop's clock."""
        self.connection: Connection | None = None
        """None before it is made and after it is lost."""
        self.outbox: list[bytes] = []
        """Requests that are not sent yet, oldest first; without a connection, all pending ones."""
        # Kept: looking for it is a system call, and requests need it.
        self.loop = asyncio.get_running_loop()
        self.network = network
        self.find_endpoint = find_endpoint
        self._connecting: asyncio.Task[None] | None = None
        self._after_connecting: list[Callable[[], None]] = []
        self._closed = False
        self._retry_at = 0.0
        self._last_error: BKException | None = None
        self._why_lost = ""

    def close(self) -> None:
        """Give up the connection, everything that was asked, and whatever is asked later."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self.connection is not None:
            self.connection.close()
        self._end(BKClientClosedException(f"{self.bookie}: this client was closed"))

    # What a version of the protocol adds

    @abstractmethod
    def received(self, bodies: Sequence[bytes]) -> None:
        """Match answers to requests; `disconnect` if they are invalid."""

    @abstractmethod
    def fail_pending(self, error: BKException) -> None:
        """Answer every pending request with the error."""

    # What a version of the protocol calls

    def schedule_send(self) -> BKException | None:
        """Call this before a request goes into an empty `outbox`: it will be sent with all that
        follow it in the same turn.  Returns the error of a client that was closed or has just lost
        its bookie: then nothing can be sent.
        """
        if self.connection is not None:
            self.loop.call_soon(self._send_outbox)
        elif self._connecting is None:
            is_too_soon = self._closed or self.loop.time() < self._retry_at
            if self._last_error is not None and is_too_soon:
                return self._last_error
            self._connecting = self.loop.create_task(self._connect())
        return None

    def after_connecting(self, action: Callable[[], None]) -> None:
        """Call `action` once, when the connection has been made or could not be made."""
        self._after_connecting.append(action)

    def disconnect(self, why: str) -> None:
        """Close the connection: nothing that comes on it can be used."""
        self._why_lost = why
        if self.connection is not None:
            self.connection.close()

    # The connection

    async def _connect(self) -> None:
        self._why_lost = "the connection was lost"
        try:
            endpoint = await self.find_endpoint(self.bookie)
            self.connection = await self.network.connect(
                endpoint.host, endpoint.port, self.received, lambda: self._lost(self._why_lost)
            )
        except (OSError, LabkitError) as error:
            self._connecting = None
            self._lost(str(error) or type(error).__name__)
        else:
            self.connection_count += 1
            self.connected_at = self.loop.time()
            self._connecting = None
            self._send_outbox()
        actions, self._after_connecting = self._after_connecting, []
        for action in actions:
            action()

    def _send_outbox(self) -> None:
        if self.connection is not None and self.outbox:
            self.connection.send(self.outbox)
            # A new list: the connection may keep the old one.
            self.outbox = []

    def _lost(self, why: str) -> None:
        if not self._closed:
            why = f"{self.bookie} cannot be reached: {why}"
            self._end(BKBookieHandleNotAvailableException(why))

    def _end(self, error: BKException) -> None:
        # All state first: a caller that gets the error may ask again at once.
        self.connection = None
        self._retry_at = self.loop.time() + _RETRY_AFTER_S
        self._last_error = error
        self.outbox = []
        self.fail_pending(error)
