"""A channel from a client to a bookie; it connects on demand.

`protocol_v2` and `protocol_v3` define the requests, and match responses to requests.

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
"""Returns the endpoint of the bookie with this id; raises a `LabkitError` if it is unknown."""

_RETRY_AFTER_S = 0.1
"""After losing a connection, fail requests immediately for this long, instead of trying to
reconnect for each request.
"""


class PerChannelBookieClient(ABC):
    """Connects to a bookie, sends requests in batches, and reconnects if the connection is lost.

    Invariant: the requests in `outbox` are either sent once and in order, or they fail when their
    connection fails.
    """

    def __init__(
        self, bookie_id: str, network: Network, find_endpoint: FindEndpoint, timeout_s: float
    ) -> None:
        self.bookie_id = bookie_id
        self.timeout_s = timeout_s
        """A request fails if no response has arrived after this time."""
        self.connection_count = 0
        """The number of connections made. If it has not changed, the bookie has not restarted."""
        self.connected_at = 0.0
        """When the last connection was made, in the event loop's time."""
        self.connection: Connection | None = None
        self.outbox: list[bytes] = []
        """The requests to send, oldest first. While there is no connection, it contains all pending
        requests.
        """
        # Look up the loop only once, because each lookup costs a system call.
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
        """Fail all pending and future requests."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self.connection is not None:
            self.connection.close()
        self._end(BKClientClosedException(f"{self.bookie_id}: this client was closed"))

    # Implemented by each protocol version

    @abstractmethod
    def received(self, bodies: Sequence[bytes]) -> None:
        """Match responses to requests; call `disconnect` if a response is invalid."""

    @abstractmethod
    def fail_pending(self, error: BKException) -> None: ...

    # Called by the protocol versions

    def schedule_send(self) -> BKException | None:
        """Schedule a flush of the outbox. Call this before appending a request to an empty outbox.

        Return an error if the client was closed or the connection has just been lost.
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
        """Call `action` once, after the current attempt to connect has succeeded or failed."""
        self._after_connecting.append(action)

    def disconnect(self, why: str) -> None:
        """Close the connection, because its data can no longer be trusted."""
        self._why_lost = why
        if self.connection is not None:
            self.connection.close()

    # The connection

    async def _connect(self) -> None:
        self._why_lost = "the connection was lost"
        try:
            endpoint = await self.find_endpoint(self.bookie_id)
            self.connection = await self.network.connect(
                endpoint.host, endpoint.port, self.received, lambda: self._lost(self._why_lost)
            )
        except (OSError, LabkitError) as error:
            self._connecting = None
            self._lost(str(error) or type(error).__name__, error)
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
            self.outbox = []  # Do not clear the old list, because the connection may still use it.

    def _lost(self, why: str, cause: Exception | None = None) -> None:
        if not self._closed:
            error = BKBookieHandleNotAvailableException(
                f"{self.bookie_id} cannot be reached: {why}"
            )
            error.__cause__ = cause
            self._end(error)

    def _end(self, error: BKException) -> None:
        # Clear the state before reporting the error, because the caller that receives the error may
        # immediately send another request.
        self.connection = None
        self._retry_at = self.loop.time() + _RETRY_AFTER_S
        self._last_error = error
        self.outbox = []
        self.fail_pending(error)
