"""A client's connection as the bookie sees it: what was asked on it and is not answered yet.

In BookKeeper: `proto/BookieRequestHandler.java`, on whose Netty channel `setAutoRead(false)` holds
back a client.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from labkit.bookie.commit import Pending
from labkit.model.net import Connection

REQUEST_COST = 4096
"""Of a request beside its answer's bytes: about as many as are copied in the same time."""
MOST_OWED = 1024 * 1024
"""A channel is served no further while answers of that cost are under way."""

R = TypeVar("R")
Step = Callable[["Batch", R], None]
"""Does what a request asks for and leaves the answer in the batch."""


class Pause(Enum):
    """Why a bookie receives nothing more from a client for now."""

    TURN = "its requests wait for their turn, or it does not take its answers"
    SPACE = "the memtable or the journal is full"


class Channel:
    """One connection, its requests that wait, and why it is paused.

    `wake` says that what was in its way may be gone.
    """

    def __init__(self, connection: Connection, wake: Callable[["Channel"], None]) -> None:
        self.connection = connection
        self.waiting: deque[tuple[Step[Any], Any]] = deque()
        """Requests that are not done yet, oldest first."""
        self.is_queued = False
        """Whether it has a place among the channels whose turn comes."""
        self.is_closed = False
        self._wake = wake
        self._owed = 0
        self._pauses: set[Pause] = set()

    @property
    def is_blocked(self) -> bool:
        """Whether too much that it asked for is under way."""
        return self._owed >= MOST_OWED

    @property
    def may_be_served(self) -> bool:
        """Whether its client takes its answers, and not too much is under way."""
        return not self.is_blocked and self.connection.is_writable

    def wait(self, step: Step[R], request: R) -> None:
        """Keep a request until its turn; nothing, once the connection is closed."""
        if not self.is_closed:
            self.waiting.append((step, request))

    def owe(self, cost: int) -> None:
        """An answer of that cost will leave later: when the journal is synced, for example."""
        self._owed += cost

    def pay(self, cost: int) -> None:
        """It has left."""
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
    """What requests of one channel lead to.

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
        paid = Pending(_Paid(self.channel, cost), (), pending.ledger_id, (), (), pending.mark)
        self.others += (pending, paid)


@dataclass(slots=True)
class _Paid:
    """Stands behind answers that wait for the journal, and learns so that they have left."""

    channel: Channel
    cost: int

    def send(self, bodies: Sequence[bytes]) -> None:
        """The answers before this have left."""
        self.channel.pay(self.cost)
