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
"""The cost of a request besides the size of its response; the unit is the time to copy a byte."""
MAX_DELAYED_COST = 1024 * 1024
"""While the total cost of its delayed responses is at least this high, a channel is not served."""

R = TypeVar("R")
Serve = Callable[["Batch", R], None]
"""Serves a request and adds the response to the batch."""


class Pause(Enum):
    """The reason why a bookie has stopped reading from a client."""

    TURN = "its requests wait for their turn, or it does not read its responses"
    SPACE = "the memtable or the journal is full"


class Channel:
    def __init__(self, connection: Connection, wake: Callable[["Channel"], None]) -> None:
        self.connection = connection
        self.waiting: deque[tuple[Serve[Any], Any]] = deque()
        """Requests that have not been served yet, oldest first."""
        self.is_queued = False
        """Whether `Turns` has queued the channel."""
        self.is_closed = False
        self._wake = wake
        self._delayed_cost = 0
        self._pauses: set[Pause] = set()

    @property
    def is_blocked(self) -> bool:
        """Whether the delayed responses cost so much that the channel must not be served yet."""
        return self._delayed_cost >= MAX_DELAYED_COST

    @property
    def may_be_served(self) -> bool:
        return not self.is_blocked and self.connection.is_writable

    def enqueue(self, serve: Serve[R], request: R) -> None:
        if not self.is_closed:
            self.waiting.append((serve, request))

    def add_delayed_cost(self, cost: int) -> None:
        """Add the cost of a response that is not sent immediately, but, for example, after a
        journal sync.
        """
        self._delayed_cost += cost

    def remove_delayed_cost(self, cost: int) -> None:
        self._delayed_cost -= cost
        self._wake(self)

    def pause(self, why: Pause) -> None:
        """Stop reading from the client."""
        if not self._pauses:
            self.connection.pause()
        self._pauses.add(why)

    def resume(self, why: Pause) -> None:
        """Remove a reason for pausing; if no reason is left, resume reading."""
        if why in self._pauses:
            self._pauses.remove(why)
            if not self._pauses:
                self.connection.resume()

    def close(self) -> None:
        self.is_closed = True
        self.waiting.clear()


@dataclass(slots=True)
class Batch:
    """The responses to a batch of requests on one channel.

    `responses` can be sent immediately. `deferred` adds wait until they are written to the
    journal; `adds` and `others` (fences, explicit LACs, forces) wait until the journal is synced.
    `cost` is the cost of all requests except adds.
    """

    channel: Channel
    responses: list[bytes] = field(default_factory=list)
    adds: list[Pending] = field(default_factory=list)
    deferred: list[Pending] = field(default_factory=list)
    others: list[Pending] = field(default_factory=list)
    cost: int = 0

    def respond(self, body: bytes, requests: int = 1) -> None:
        """Add a response that can be sent immediately, and account for the cost of `requests`
        requests.
        """
        self.responses.append(body)
        self.cost += len(body) + REQUEST_COST * requests

    def respond_when_synced(
        self, body: bytes, ledger_id: int, mark: LogMark, entry_ids: Sequence[int] = (NO_ENTRY_ID,)
    ) -> None:
        """Add a response that is sent after a journal sync, and count its cost until then.

        Pass no `entry_ids` if the request has no journal record.
        """
        cost = REQUEST_COST + len(body)
        self.cost += cost
        self.channel.add_delayed_cost(cost)
        ids = [ledger_id]
        self.others += (
            Pending(self.channel.connection, [body], ids, entry_ids, [b""], mark),
            Pending(_CostRelease(self.channel, cost), (), ids, (), (), mark),
        )


@dataclass(slots=True)
class _CostRelease:
    """Stands in for the connection in a `Pending` that is queued right after a response. When its
    turn comes, it subtracts the cost of that response from the channel's delayed cost.
    """

    channel: Channel
    cost: int

    def send(self, bodies: Sequence[bytes]) -> None:
        self.channel.remove_delayed_cost(self.cost)
