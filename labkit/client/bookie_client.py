"""The client's connections to bookies: requests out in batches, answers matched to who asked.

In BookKeeper: `proto/PerChannelBookieClient.java`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from labkit.client.bookie_client_v3 import BookieClientV3
from labkit.metadata.registration import Endpoint
from labkit.model.errors import (
    BKBookieHandleNotAvailableException,
    BKClientClosedException,
    BKException,
    BKTimeoutException,
    LabkitError,
)
from labkit.model.net import Connection, Network
from labkit.model.wire import ANSWER, Answer, Code, Opcode, error_of

T = TypeVar("T")

OnAnswer = Callable[[Answer | BKException], None]
OnAdded = Callable[[T, BKException | None], None]
FindEndpoint = Callable[[str], Awaitable[Endpoint]]

_RETRY_AFTER_S = 0.1
_MONITOR_INTERVAL_S = 1.0
_MOST_LATE = 10_000
"""Reads that a connection may leave unanswered beyond their time, before it is closed."""


_Asked = tuple[float, Callable[[Any, Any], None], Any]
"""A deadline, what to call, and with what before the answer.  Plain tuples: there are many."""

_Key = tuple[int, int, int]
"""Opcode, ledger and entry: version 2 has nothing else to match an answer by."""

_ADD: int = Opcode.ADD
_OK: int = Code.OK


class BookieClient:
    """The way to one bookie.  Connects at the first request, and again after a loss.

    Invariant: each request is answered exactly once: by the bookie, by
    `BKBookieHandleNotAvailableException` when the connection is lost or cannot be made, by
    `BKTimeoutException`, or by `BKClientClosedException`.  A fencing read never takes a plain
    read's answer: where the keys clash, a second connection is used.
    """

    def __init__(
        self, bookie: str, network: Network, find_endpoint: FindEndpoint, timeout_s: float
    ) -> None:
        self.bookie = bookie
        self._network = network
        self._find_endpoint = find_endpoint
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._closed = False
        self._retry_at = 0.0
        self._last_error: BKException | None = None
        self._why_lost = ""
        self._outbox: list[bytes] = []
        """Without a connection: the requests in `_asked` and `_asked_again`, oldest first."""
        self._asked: dict[_Key, _Asked] = {}
        self._asked_again: dict[_Key, list[_Asked]] = {}
        """Further callers waiting for the same key as `_asked`, oldest first; rarely several."""
        self._late: Counter[_Key] = Counter()
        """How many late answers this connection may still bring to reads that have timed out."""
        self._fencing: set[_Key] = set()
        """Keys of pending reads that carry the FENCE flag."""
        self._apart: BookieClient | None = None
        self._deadline = 0.0
        self._monitor: asyncio.TimerHandle | None = None

    def ask(
        self,
        opcode: Opcode,
        ledger_id: int,
        entry_id: int,
        body: bytes,
        on_answer: OnAnswer,
        *,
        fences: bool = False,
    ) -> None:
        """Send a request; `on_answer` is called later, never from within this call.  Of a read say
        whether it `fences`.
        """
        key = (opcode, ledger_id, entry_id)
        if key not in self._asked and key not in self._late:
            self._fencing.discard(key)  # One that was refused at once has left it there.
            if fences:
                self._fencing.add(key)
        elif fences != (key in self._fencing):
            self._way_apart().ask(opcode, ledger_id, entry_id, body, on_answer, fences=fences)
            return
        self._ask(key, body, _tell, on_answer)

    def add(
        self, ledger_id: int, entry_id: int, body: bytes, on_added: OnAdded[T], pending: T
    ) -> None:
        """Send an add; `on_added` is called later with `pending` and the error, if there is one.

        One `on_added` may serve any number of adds, so an add needs no object for itself.
        """
        self._ask((_ADD, ledger_id, entry_id), body, on_added, pending)

    def _ask(self, key: _Key, body: bytes, on_done: Callable[[T, Any], None], who: T) -> None:
        if not self._outbox or self._connection is None:
            # What is asked in the same turn has the same deadline.
            now = self._loop.time()
            self._deadline = now + self._timeout_s
            if self._connection is not None:
                self._loop.call_soon(self._send_outbox)
            elif self._connecting is None:
                if self._last_error is not None and (self._closed or now < self._retry_at):
                    self._loop.call_soon(on_done, who, self._last_error)
                    return
                self._connecting = self._loop.create_task(self._connect())
        asked = (self._deadline, on_done, who)
        if self._asked.setdefault(key, asked) is not asked:
            self._asked_again.setdefault(key, []).append(asked)
        self._outbox.append(body)
        if self._monitor is None:
            self._monitor = self._loop.call_later(_MONITOR_INTERVAL_S, self._expire)

    def _way_apart(self) -> "BookieClient":
        if self._apart is None:
            self._apart = BookieClient(
                self.bookie, self._network, self._find_endpoint, self._timeout_s
            )
        return self._apart

    def close(self) -> None:
        """Give up the connection, everything that was asked, and whatever is asked later."""
        self._closed = True
        if self._apart is not None:
            self._apart.close()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._connection is not None:
            self._connection.close()
        self._give_up(BKClientClosedException(f"{self.bookie}: this client was closed"))

    async def _connect(self) -> None:
        self._why_lost = "the connection was lost"
        try:
            endpoint = await self._find_endpoint(self.bookie)
            self._connection = await self._network.connect(
                endpoint.host,
                endpoint.port,
                self._received,
                lambda: self._lost(self._why_lost),
            )
        except (OSError, LabkitError) as error:
            self._connecting = None
            self._lost(str(error) or type(error).__name__)
        else:
            self._connecting = None
            self._send_outbox()

    def _send_outbox(self) -> None:
        if self._connection is not None and self._outbox:
            self._connection.send(self._outbox)
            self._outbox = []

    def _received(self, bodies: Sequence[bytes]) -> None:
        unpack = ANSWER.struct.unpack_from
        for body in bodies:
            if len(body) < ANSWER.size:
                self._leave(f"it answered with {len(body)} bytes, fewer than any answer has")
                return
            head, code, ledger_id, entry_id = unpack(body)
            opcode = head >> 16 & 0xFF
            key = (opcode, ledger_id, entry_id)
            asked = self._take(key) if self._asked_again else self._asked.pop(key, None)
            if asked is None or self._fencing:
                self._owes_less(key, late=asked is None)
            if asked is None:
                continue
            _, on_done, who = asked
            if code == _OK and opcode == _ADD:
                on_done(who, None)
                continue
            answer = Answer(opcode, code, ledger_id, entry_id, body[ANSWER.size :])
            on_done(who, answer if code == _OK else error_of(answer, self.bookie))

    def _take(self, key: _Key) -> _Asked | None:
        """Remove the oldest caller waiting for this key, if any; the next one moves up."""
        again = self._asked_again.get(key)
        if not again:
            self._asked_again.pop(key, None)
            return self._asked.pop(key, None)
        asked, self._asked[key] = self._asked[key], again.pop(0)
        return asked

    def _owes_less(self, key: _Key, *, late: bool) -> None:
        """An answer came; `late`: after its time was up."""
        if late:
            self._late[key] -= 1
            if self._late[key] <= 0:
                del self._late[key]
        if key not in self._asked and key not in self._late:
            self._fencing.discard(key)

    def _leave(self, why: str) -> None:
        """Close the connection: whatever else comes on it is of no use."""
        self._why_lost = why
        if self._connection is not None:
            self._connection.close()

    def _lost(self, why: str) -> None:
        if not self._closed:
            why = f"{self.bookie} cannot be reached: {why}"
            self._give_up(BKBookieHandleNotAvailableException(why))

    def _give_up(self, error: BKException) -> None:
        self._connection = None
        self._retry_at = self._loop.time() + _RETRY_AFTER_S
        self._last_error = error
        self._outbox = []
        given_up, self._asked = self._asked, {}
        again, self._asked_again = self._asked_again, {}
        self._fencing.clear()
        self._late.clear()
        for key, asked in given_up.items():
            for _, on_done, who in (asked, *again.get(key, ())):
                on_done(who, error)

    def _expire(self) -> None:
        """Tell those whose time is up; those who asked the same later go on waiting."""
        self._monitor = None
        now = self._loop.time()
        for key in [key for key, asked in self._asked.items() if asked[0] <= now]:
            _, ledger_id, entry_id = key
            error = BKTimeoutException(
                f"{self.bookie} did not answer for entry {entry_id} of ledger {ledger_id}"
                f" within {self._timeout_s:g} s"
            )
            waiting = [self._asked.pop(key), *self._asked_again.pop(key, ())]
            overdue = [asked for asked in waiting if asked[0] <= now]
            self._wait_no_more(key, len(overdue))
            if in_time := waiting[len(overdue) :]:
                self._asked[key] = in_time.pop(0)
                self._asked_again[key] = in_time
            for _, on_done, who in overdue:
                on_done(who, error)
        if self._late.total() > _MOST_LATE:
            self._leave(f"it owes the answers to {self._late.total()} reads")
        if self._asked:
            self._monitor = self._loop.call_later(_MONITOR_INTERVAL_S, self._expire)

    def _wait_no_more(self, key: _Key, count: int) -> None:
        """Give up `count` timed-out requests: the unsent are dropped, late answers are expected."""
        if self._connection is None:
            del self._outbox[:count]
        elif key[0] != _ADD:
            self._late[key] += count


def _tell(on_answer: OnAnswer, answer: Answer | BKException) -> None:
    on_answer(answer)


class BookieClients:
    """The ways to all bookies that a client has met."""

    def __init__(self, network: Network, find_endpoint: FindEndpoint, timeout_s: float) -> None:
        self._network = network
        self._find_endpoint = find_endpoint
        self._timeout_s = timeout_s
        self._clients: dict[str, BookieClient] = {}
        self._clients_v3: dict[str, BookieClientV3] = {}

    def get(self, bookie: str) -> BookieClient:
        """The way to a bookie."""
        client = self._clients.get(bookie)
        if client is None:
            client = BookieClient(bookie, self._network, self._find_endpoint, self._timeout_s)
            self._clients[bookie] = client
        return client

    def get_v3(self, bookie: str) -> BookieClientV3:
        """The client for a bookie in protocol version 3, on a separate connection."""
        client = self._clients_v3.get(bookie)
        if client is None:
            client = BookieClientV3(bookie, self._network, self._find_endpoint, self._timeout_s)
            self._clients_v3[bookie] = client
        return client

    def close(self) -> None:
        """Give up all connections."""
        for client in self._clients.values():
            client.close()
        for client_v3 in self._clients_v3.values():
            client_v3.close()
