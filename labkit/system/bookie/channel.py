"""A client's connection as the bookie sees it: the requests on it that have no answer yet.

In BookKeeper: `proto/BookieRequestHandler.java`, on whose Netty channel `setAutoRead(false)` holds
back a client.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from labkit.system.bookie.commit import Pending
from labkit.system.model.net import Connection

REQUEST_COST = 4096
"""What a request costs beside its answer's bytes: about the bytes copied in the same time."""
MOST_OWED = 1024 * 1024
"""A channel is served no further while answers of that cost are under way."""

R = TypeVar("R")
Serve = Callable[["Batch", R], None]
"""Serves a request and leaves its answer in the batch."""


class Pause(Enum):
    """Why a bookie receives nothing more from a client for now."""

    TURN = "its requests wait for their turn, or it does not take its answers"
    SPACE = "the memtable or the journal is full"


class Channel:
    """One connection, its requests that wait, and why it is paused.

    `wake` is called when it may be served again.
    """

    def __init__(self, connection: Connection, wake: Callable[["Channel"], None]) -> None:
        self.connection = connection
        self.waiting: deque[tuple[Serve[Any], Any]] = deque()
        """Requests that are not done yet, oldest first."""
        self.is_queued = False
        """Whether it is in the queue of channels to serve."""
        self.is_closed = False
        self._wake = wake
        self._owed = 0
        self._pauses: set[Pause] = set()

    @property
    def is_blocked(self) -> bool:
        """Whether too many of its answers are under way."""
        return self._owed >= MOST_OWED

    @property
    def may_be_served(self) -> bool:
        """Whether its client takes its answers, and not too much is under way."""
        return not self.is_blocked and self.connection.is_writable

    def wait(self, serve: Serve[R], request: R) -> None:
        """Keep a request until its turn; nothing, once the connection is closed."""
        if not self.is_closed:
            self.waiting.append((serve, request))

    def owe(self, cost: int) -> None:
        """Count an answer that will leave later: when the journal is synced, for example."""
        self._owed += cost

    def pay(self, cost: int) -> None:
        """Count an owed answer as sent."""
        self._owed -= cost
        self._wake(self)

    def pause(self, why: Pause) -> None:
        """Receive nothing more: what the client sends waits on its side."""
        if not self._pauses:
            self.connection.pause()
        self._pauses.add(why)

    def resume(self, why: Pause) -> None:
        """Receive again, if this was the last reason not to."""
        if why in self._pauses:
            self._pauses.remove(why)
            if not self._pauses:
                self.connection.resume()

    def close(self) -> None:
        """The client is gone: what it asked for is forgotten."""
        self.is_closed = True
        self.waiting.clear()


@dataclass(slots=True)
class Batch:
    """The outcome of some requests of one channel.

    The answers of `adds` and `others` (fences, explicit LACs, forces) wait for the journal's sync,
    those of `deferred` adds for its write, and `answers` for nothing.  `cost` is that of all but
    the adds.
    """

    channel: Channel
    answers: list[bytes] = field(default_factory=list)
    adds: list[Pending] = field(default_factory=list)
    deferred: list[Pending] = field(default_factory=list)
    others: list[Pending] = field(default_factory=list)
    cost: int = 0

    def answer(self, body: bytes, requests: int = 1) -> None:
        """Answer at once; finding the answer cost as much as `requests` requests."""
        self.answers.append(body)
        self.cost += len(body) + REQUEST_COST * requests

    def answer_when_synced(self, pending: Pending) -> None:
        """Answer when the journal is synced; the channel owes the answers until then."""
        cost = REQUEST_COST + sum(map(len, pending.answers))
        self.cost += cost
        self.channel.owe(cost)
        paid = Pending(_Paid(self.channel, cost), (), pending.ledger_ids, (), (), pending.mark)
        self.others += (pending, paid)


@dataclass(slots=True)
class _Paid:
    """Queued behind answers that wait for the journal: it is sent when they have left."""

    channel: Channel
    cost: int

    def send(self, bodies: Sequence[bytes]) -> None:
        """The answers before this have left."""
        self.channel.pay(self.cost)
