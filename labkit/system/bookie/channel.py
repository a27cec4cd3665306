"""A client's connection and its pending requests.

In BookKeeper: `proto/BookieRequestHandler.java`, which pauses a client by calling
`setAutoRead(false)` on its Netty channel.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from labkit.system.bookie.commit import Pending
from labkit.system.model.entry import NO_ENTRY_ID
from labkit.system.model.net import Connection
from labkit.system.storage.log_mark import LogMark

REQUEST_COST = 4096
"""Cost of a request besides the size of its response; the unit is the time to copy a byte."""
MAX_OWED = 1024 * 1024
"""While the cost of a channel's delayed responses is at least this, the channel is not served."""

R = TypeVar("R")
Serve = Callable[["Batch", R], None]
"""Serves a request and adds the response to the batch."""


class Pause(Enum):
    """Why a bookie has stopped reading from a client."""

    TURN = "its requests wait for their turn, or it does not read its responses"
    SPACE = "the memtable or the journal is full"


class Channel:
    """A connection, its waiting requests, and the reasons why the bookie does not read from it."""

    def __init__(self, connection: Connection, wake: Callable[["Channel"], None]) -> None:
        self.connection = connection
        self.waiting: deque[tuple[Serve[Any], Any]] = deque()
        """Requests that have not been served yet, oldest first."""
        self.is_queued = False
        """Whether the channel is in the queue of channels to serve."""
        self.is_closed = False
        self._wake = wake
        self._owed = 0
        self._pauses: set[Pause] = set()

    @property
    def is_blocked(self) -> bool:
        """Whether its delayed responses cost so much that the channel must not be served."""
        return self._owed >= MAX_OWED

    @property
    def may_be_served(self) -> bool:
        """Whether the client reads its responses, and the channel is not blocked."""
        return not self.is_blocked and self.connection.is_writable

    def wait(self, serve: Serve[R], request: R) -> None:
        """Queue a request, unless the connection is closed."""
        if not self.is_closed:
            self.waiting.append((serve, request))

    def owe(self, cost: int) -> None:
        """Add the cost of a response that will be sent later, such as after a journal sync."""
        self._owed += cost

    def pay(self, cost: int) -> None:
        self._owed -= cost
        self._wake(self)

    def pause(self, why: Pause) -> None:
        """Stop reading from the client, so that its requests wait on its side."""
        if not self._pauses:
            self.connection.pause()
        self._pauses.add(why)

    def resume(self, why: Pause) -> None:
        """Remove a reason for pausing, and resume reading if it was the last one."""
        if why in self._pauses:
            self._pauses.remove(why)
            if not self._pauses:
                self.connection.resume()

    def close(self) -> None:
        self.is_closed = True
        self.waiting.clear()


@dataclass(slots=True)
class Batch:
    """The responses to some of the requests on one channel.

    `responses` can be sent immediately.  `deferred` adds wait until they are written to the
    journal; `adds` and `others` (fences, explicit LACs, forces) wait until the journal is synced.
    `cost` is the cost of all requests except the adds.
    """

    channel: Channel
    responses: list[bytes] = field(default_factory=list)
    adds: list[Pending] = field(default_factory=list)
    deferred: list[Pending] = field(default_factory=list)
    others: list[Pending] = field(default_factory=list)
    cost: int = 0

    def respond(self, body: bytes, requests: int = 1) -> None:
        """Add a response that can be sent immediately, and the cost of `requests` requests."""
        self.responses.append(body)
        self.cost += len(body) + REQUEST_COST * requests

    def respond_when_synced(
        self, body: bytes, ledger_id: int, mark: LogMark, entry_ids: Sequence[int] = (NO_ENTRY_ID,)
    ) -> None:
        """Add a response that is sent after a journal sync, and count its cost until then.

        Without `entry_ids`, the request has no journal record.
        """
        cost = REQUEST_COST + len(body)
        self.cost += cost
        self.channel.owe(cost)
        ids = [ledger_id]
        self.others += (
            Pending(self.channel.connection, [body], ids, entry_ids, [b""], mark),
            Pending(_Paid(self.channel, cost), (), ids, (), (), mark),
        )


@dataclass(slots=True)
class _Paid:
    """A sink queued after a response that waits for the journal; it subtracts the cost."""

    channel: Channel
    cost: int

    def send(self, bodies: Sequence[bytes]) -> None:
        self.channel.pay(self.cost)
