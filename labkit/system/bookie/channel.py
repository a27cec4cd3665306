"""A client's connection and its pending requests.

Flow control prevents a client from filling the memory or stalling other clients:

    the turn has no time left               requests wait        `Turns.serve_or_queue`
    delayed responses cost too much         requests wait        `Channel.is_blocked`
    the client does not read its responses  requests wait, TURN  `Turns.hold_back`
    requests wait                           TURN                 `Turns.hold_back`
    the memtable or a journal is full       SPACE                `Bookie._must_hold`

TURN and SPACE are values of `Pause`: the bookie stops reading from the client. Adds of version 2
never wait for a turn. A read-only bookie rejects adds instead of pausing for SPACE.

In BookKeeper: `proto/BookieRequestHandler.java`, which pauses a client by calling
`setAutoRead(false)` on its Netty channel.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from labkit.system.bookie.commit import Pending
from labkit.system.model.entry import NO_ENTRY_ID
from labkit.system.model.net import Connection
from labkit.system.storage.log_mark import LogMark

REQUEST_COST = 4096
"""A fixed cost per request. The unit of cost is the time it takes to copy one byte."""
MAX_DELAYED_COST = 1024 * 1024
"""A channel is not served while its delayed responses cost at least this much."""

R = TypeVar("R")
Serve = Callable[["Batch", R], None]
"""Serves a request and adds the response to the batch."""


class Pause(Enum):
    """A reason why a bookie has stopped reading from a client."""

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
        """Add the cost of a response that is sent later, for example after a journal sync."""
        self._delayed_cost += cost

    def remove_delayed_cost(self, cost: int) -> None:
        self._delayed_cost -= cost
        self._wake(self)

    def pause(self, why: Pause) -> None:
        """Stop reading from the client, for this reason."""
        if not self._pauses:
            self.connection.pause()
        self._pauses.add(why)

    def resume(self, why: Pause) -> None:
        """Remove a reason for pausing. Resume reading if there is no other reason."""
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

    `responses` can be sent immediately. `deferred` adds wait until they have been written to the
    journal; `adds` and `others` (fences, explicit LACs, forces) wait until it has been synced.
    `cost` is the total cost of the requests, except version 2 adds.
    """

    channel: Channel
    responses: list[bytes] = field(default_factory=list)
    adds: list[Pending] = field(default_factory=list)
    deferred: list[Pending] = field(default_factory=list)
    others: list[Pending] = field(default_factory=list)
    cost: int = 0

    def respond(self, body: bytes, requests: int = 1) -> None:
        """Add a response that can be sent immediately, and add the cost of `requests` requests."""
        self.responses.append(body)
        self.cost += len(body) + REQUEST_COST * requests

    def respond_when_synced(
        self, body: bytes, ledger_id: int, mark: LogMark, entry_ids: Sequence[int] = (NO_ENTRY_ID,)
    ) -> None:
        """Add a response that is sent once everything appended so far has been synced. Until then,
        its cost counts as delayed. The trace reports the record at `mark` as synced.

        If the request has no journal record, pass an empty `entry_ids`.
        """
        cost = REQUEST_COST + len(body)
        self.cost += cost
        self.channel.add_delayed_cost(cost)
        release = partial(self.channel.remove_delayed_cost, cost)
        connection, ids = self.channel.connection, [ledger_id]
        self.others.append(Pending(connection, [body], ids, entry_ids, [b""], mark, release))
