"""What a client asks of a bookie in protocol version 2: adds and reads.

A response names only the operation, the ledger and the entry: the request's key.  Therefore

    the oldest request with that key that still waits gets the response
    if none waits, it is the late response to a read that has timed out
    reads with the flag FENCE and reads without it must not be mistaken for each other: a read with
    a key that the other kind uses goes over a second connection

In BookKeeper: `proto/PerChannelBookieClient.java` (its V2 parts).
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from labkit.system.client.protocol.per_channel_bookie_client import (
    FindEndpoint,
    PerChannelBookieClient,
)
from labkit.system.model.errors import BKException, BKTimeoutException
from labkit.system.model.net import Network
from labkit.system.model.wire import ANSWER, Answer, Code, Opcode, error_of

T = TypeVar("T")

OnAnswer = Callable[[Answer | BKException], None]
OnAdded = Callable[[Sequence[T], BKException | None], None]
"""Takes what was pushed with some adds, and their error, if there is one."""

_MONITOR_INTERVAL_S = 1.0
"""How often deadlines are checked: a request may wait a second more than its time."""
_MOST_LATE = 10_000
"""A connection that owes more responses than this to timed-out reads is closed."""

_Key = tuple[int, int, int]
"""Opcode, ledger and entry."""

# Looking a member up in its enumeration costs as much as unpacking a response.
_ADD: int = Opcode.ADD
_OK: int = Code.OK


@dataclass(slots=True, eq=False)
class _Request:
    """A request whose response has not come."""

    deadline: float
    on_done: Callable[[Sequence[Any], Any], None]
    """Takes the `caller`s of requests that end together, and what they end with."""
    caller: Any
    fences: bool
    timed_out: bool = False
    """Its caller has got an error, and its response may still come."""
    younger: Sequence["_Request"] = ()
    """If this is the oldest request with its key: the others, oldest first.  They are rare."""


class PerChannelBookieClientV2(PerChannelBookieClient):
    """One connection to a bookie in version 2.

    Invariant: each request is answered exactly once: by the bookie, by
    `BKBookieHandleNotAvailableException` when the connection is lost or cannot be made, by
    `BKTimeoutException`, or by `BKClientClosedException`.
    """

    def __init__(
        self, bookie: str, network: Network, find_endpoint: FindEndpoint, timeout_s: float
    ) -> None:
        super().__init__(bookie, network, find_endpoint, timeout_s)
        self._pending: dict[_Key, _Request] = {}
        """The oldest request with each key.  Of those with one key all fence, or none does.
        Without a connection all of them are in `outbox`, too.
        """
        self._second: PerChannelBookieClientV2 | None = None
        self._deadline = 0.0
        """That of the requests which leave in this turn of the loop."""
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
        """Send a request; `on_answer` is called later, never from within this call.
        `fences`: whether a read carries the FENCE flag.
        """
        key = (opcode, ledger_id, entry_id)
        oldest = self._pending.get(key)
        if oldest is not None and oldest.fences != fences:
            if self._second is None:
                self._second = PerChannelBookieClientV2(
                    self.bookie, self.network, self.find_endpoint, self.timeout_s
                )
            self._second.ask(opcode, ledger_id, entry_id, body, on_answer, fences=fences)
        else:
            self._send(key, body, _call_each, on_answer, fences=fences)

    def add(
        self, ledger_id: int, entry_id: int, body: bytes, on_added: OnAdded[T], pending: T
    ) -> None:
        """Send an add; `on_added` is called later with a list that contains `pending`, and with the
        error, if there is one.

        Adds that share an `on_added` are given to it together when their responses come together:
        a call for each would cost more than the response.
        """
        self._send((_ADD, ledger_id, entry_id), body, on_added, pending)

    def _send(
        self,
        key: _Key,
        body: bytes,
        on_done: Callable[[Sequence[T], Any], None],
        caller: T,
        *,
        fences: bool = False,
    ) -> None:
        if not self.outbox or self.connection is None:
            self._deadline = self.loop.time() + self.timeout_s
            if not self.outbox and (error := self.schedule_send()) is not None:
                self.loop.call_soon(on_done, (caller,), error)
                return
            if self._monitor is None:
                # One timer for all of them: a timer for each would cost more than the add.
                self._monitor = self.loop.call_later(_MONITOR_INTERVAL_S, self._expire)
        request = _Request(self._deadline, on_done, caller, fences)
        oldest = self._pending.setdefault(key, request)
        if oldest is not request:
            oldest.younger = [*oldest.younger, request]
        self.outbox.append(body)

    def close(self) -> None:
        """Close the second connection, too."""
        if self._second is not None:
            self._second.close()
        super().close()

    def received(self, bodies: Sequence[bytes]) -> None:
        """Give each response to the oldest request that it fits."""
        on_added: Callable[[Any, Any], None] | None = None
        added: list[Any] = []
        for body in bodies:
            if len(body) < ANSWER.size:
                self.disconnect(f"it answered with {len(body)} bytes, fewer than any answer has")
                break
            head, code, ledger_id, entry_id = ANSWER.struct.unpack_from(body)
            opcode = head >> 16 & 0xFF
            key = opcode, ledger_id, entry_id
            request = self._pending.pop(key, None)
            if request is not None and (request.younger or request.timed_out):
                request = self._choose(key, [request, *request.younger])
            if request is None:
                continue
            is_added = opcode == _ADD and code == _OK
            if on_added is not None and not (is_added and request.on_done is on_added):
                on_added(added, None)
                on_added, added = None, []
            if is_added:
                on_added = request.on_done
                added.append(request.caller)
                continue
            answer = Answer(opcode, code, ledger_id, entry_id, body[ANSWER.size :])
            result = answer if code == _OK else error_of(answer, self.bookie)
            request.on_done((request.caller,), result)
        if on_added is not None:
            on_added(added, None)

    def _choose(self, key: _Key, requests: Sequence[_Request]) -> _Request | None:
        """The one of all requests with a key that a response is for; None if the response is late.
        The others stay pending.
        """
        chosen = next((each for each in requests if not each.timed_out), requests[0])
        self._keep(key, [each for each in requests if each is not chosen])
        return None if chosen.timed_out else chosen

    def _keep(self, key: _Key, requests: Sequence[_Request]) -> None:
        """These, oldest first, are all requests with the key that are still pending."""
        if requests:
            self._pending[key] = requests[0]
            requests[0].younger = requests[1:]
        else:
            self._pending.pop(key, None)

    def fail_pending(self, error: BKException) -> None:
        """Answer everything that was asked with the error."""
        waiting = _oldest_first(self._waiting())
        self._pending = {}
        for _, request in waiting:
            request.on_done((request.caller,), error)

    def _expire(self) -> None:
        """Fail the requests whose time is up; later ones with the same key go on waiting."""
        now = self.loop.time()
        overdue = [(key, request) for key, request in self._waiting() if request.deadline <= now]
        if self.connection is None:
            del self.outbox[: len(overdue)]
        for key, request in overdue:
            request.timed_out = True
            # What was not sent gets no response, and a late one to an add needs no record.
            if self.connection is None or key[0] == _ADD:
                oldest = self._pending[key]
                rest = [each for each in (oldest, *oldest.younger) if each is not request]
                self._keep(key, rest)
        for (_, ledger_id, entry_id), request in _oldest_first(overdue):
            error = BKTimeoutException(
                f"{self.bookie} did not answer for entry {entry_id} of ledger {ledger_id}"
                f" within {self.timeout_s:g} s"
            )
            request.on_done((request.caller,), error)
        # Each is kept until its response comes, so a silent bookie would cost memory without bound.
        late_count = sum(request.timed_out for _, request in self._all())
        if late_count > _MOST_LATE:
            self.disconnect(f"it owes the answers to {late_count} reads")
        self._monitor = None
        if self._waiting():
            self._monitor = self.loop.call_later(_MONITOR_INTERVAL_S, self._expire)

    def _waiting(self) -> list[tuple[_Key, _Request]]:
        return [(key, request) for key, request in self._all() if not request.timed_out]

    def _all(self) -> Iterator[tuple[_Key, _Request]]:
        for key, oldest in self._pending.items():
            yield key, oldest
            for request in oldest.younger:
                yield key, request


def _oldest_first(requests: Iterable[tuple[_Key, _Request]]) -> list[tuple[_Key, _Request]]:
    """By deadline.  Of the requests of one turn adds come first: a client writes an entry before it
    asks for the next.
    """
    return sorted(requests, key=lambda each: (each[1].deadline, each[0][0] != _ADD))


def _call_each(callbacks: Sequence[OnAnswer], answer: Answer | BKException) -> None:
    for on_answer in callbacks:
        on_answer(answer)
