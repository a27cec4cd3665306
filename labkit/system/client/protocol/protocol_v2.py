"""The client side of protocol version 2: adds and reads.

Responses have no request ids. A response contains only a key (operation, ledger and entry), so:

- A response belongs to the oldest request with that key that has not timed out.
- If there is no such request, the response belongs to a read that has already timed out.
- A read with the FENCE flag and one without it could be confused, because they have the same key.
  If a read of one kind is pending, a read of the other kind is sent on a second connection.

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
from labkit.system.model.wire import RESPONSE, Code, Opcode, Response, error_of

T = TypeVar("T")

OnResponse = Callable[[Response | BKException], None]
OnAdded = Callable[[Sequence[T], BKException | None], None]
"""Called with the `pending` arguments of one or more adds, and the error they share, if any."""

_MONITOR_INTERVAL_S = 1.0
"""How often deadlines are checked. A request may therefore time out up to a second late."""
_MAX_OVERDUE_RESPONSES = 10_000
"""If more timed-out reads than this are still waiting for responses, the connection is closed."""

_Key = tuple[int, int, int]
"""Opcode, ledger and entry."""

# Use plain integers, because looking up an enum member takes as long as unpacking a response.
_ADD: int = Opcode.ADD
_OK: int = Code.OK


@dataclass(slots=True, eq=False)
class _Request:
    deadline: float
    on_done: Callable[[Sequence[Any], Any], None]
    """Called with the `argument` of each request that completes in this call, and their result."""
    argument: Any
    """The `pending` argument of `add`, or the callback of `ask`."""
    fences: bool
    timed_out: bool = False
    """Whether the caller has already received the error; a response may still arrive."""
    younger: Sequence["_Request"] = ()
    """If this is the oldest request with its key: the other requests with that key, oldest first.
    There are rarely any.
    """


class PerChannelBookieClientV2(PerChannelBookieClient):
    """Completes each request exactly once: with the bookie's response, with
    `BKBookieHandleNotAvailableException` if the connection is lost or cannot be made, with
    `BKTimeoutException`, or with `BKClientClosedException`.
    """

    def __init__(
        self, bookie_id: str, network: Network, find_endpoint: FindEndpoint, timeout_s: float
    ) -> None:
        super().__init__(bookie_id, network, find_endpoint, timeout_s)
        self._pending: dict[_Key, _Request] = {}
        """The oldest request with each key. For each key, either all pending requests have the
        FENCE flag, or none does.
        """
        self._second: PerChannelBookieClientV2 | None = None
        self._deadline = 0.0
        """The deadline of all requests sent in this iteration of the event loop."""
        self._monitor: asyncio.TimerHandle | None = None

    def ask(
        self,
        opcode: Opcode,
        ledger_id: int,
        entry_id: int,
        body: bytes,
        on_response: OnResponse,
        *,
        fences: bool = False,
    ) -> None:
        """Send a request. `on_response` is called later, never from within this call.

        Set `fences` if the request is a read with the FENCE flag.
        """
        key = (opcode, ledger_id, entry_id)
        oldest = self._pending.get(key)
        if oldest is not None and oldest.fences != fences:
            if self._second is None:
                self._second = PerChannelBookieClientV2(
                    self.bookie_id, self.network, self.find_endpoint, self.timeout_s
                )
            self._second.ask(opcode, ledger_id, entry_id, body, on_response, fences=fences)
        else:
            self._send(key, body, _call_each, on_response, fences=fences)

    def add(
        self, ledger_id: int, entry_id: int, body: bytes, on_added: OnAdded[T], pending: T
    ) -> None:
        """Send an add. `on_added` is called later, with a list that contains `pending`, and with
        the error, if any.

        When several responses arrive together, there is only one call for all of them, because
        a separate call for each add would cost much more.
        """
        self._send((_ADD, ledger_id, entry_id), body, on_added, pending)

    def _send(
        self,
        key: _Key,
        body: bytes,
        on_done: Callable[[Sequence[T], Any], None],
        argument: T,
        *,
        fences: bool = False,
    ) -> None:
        if not self.outbox or self.connection is None:
            self._deadline = self.loop.time() + self.timeout_s
            if not self.outbox and (error := self.schedule_send()) is not None:
                self.loop.call_soon(on_done, (argument,), error)
                return
            if self._monitor is None:
                # Use one timer for all requests, because a timer per request would cost more than
                # an add.
                self._monitor = self.loop.call_later(_MONITOR_INTERVAL_S, self._expire)
        request = _Request(self._deadline, on_done, argument, fences)
        oldest = self._pending.setdefault(key, request)
        if oldest is not request:
            oldest.younger = [*oldest.younger, request]
        self.outbox.append(body)

    def close(self) -> None:
        if self._second is not None:
            self._second.close()
        super().close()

    def received(self, bodies: Sequence[bytes]) -> None:
        on_added: Callable[[Any, Any], None] | None = None
        added: list[Any] = []
        for body in bodies:
            if len(body) < RESPONSE.size:
                self.disconnect(
                    f"invalid response: {len(body)} bytes, expected at least {RESPONSE.size}"
                )
                break
            head, code, ledger_id, entry_id = RESPONSE.struct.unpack_from(body)
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
                added.append(request.argument)
                continue
            response = Response(opcode, code, ledger_id, entry_id, body[RESPONSE.size :])
            result = response if code == _OK else error_of(response, self.bookie_id)
            request.on_done((request.argument,), result)
        if on_added is not None:
            on_added(added, None)

    def _choose(self, key: _Key, requests: Sequence[_Request]) -> _Request | None:
        """Choose the request that the response belongs to, or None if the response is late."""
        chosen = next((each for each in requests if not each.timed_out), requests[0])
        self._set_pending(key, [each for each in requests if each is not chosen])
        return None if chosen.timed_out else chosen

    def _set_pending(self, key: _Key, requests: Sequence[_Request]) -> None:
        if requests:
            self._pending[key] = requests[0]
            requests[0].younger = requests[1:]
        else:
            self._pending.pop(key, None)

    def fail_pending(self, error: BKException) -> None:
        waiting = _oldest_first(self._waiting())
        self._pending = {}
        for _, request in waiting:
            request.on_done((request.argument,), error)

    def _expire(self) -> None:
        now = self.loop.time()
        overdue = [(key, request) for key, request in self._waiting() if request.deadline <= now]
        if self.connection is None:
            del self.outbox[: len(overdue)]
        for key, request in overdue:
            request.timed_out = True
            # Forget requests that were never sent, because they will get no response. Also forget
            # adds, because a late response to an add cannot be mistaken for another one.
            if self.connection is None or key[0] == _ADD:
                oldest = self._pending[key]
                self._set_pending(key, [e for e in (oldest, *oldest.younger) if e is not request])
        for (_, ledger_id, entry_id), request in _oldest_first(overdue):
            error = BKTimeoutException(
                f"{self.bookie_id} did not respond for entry {entry_id} of ledger {ledger_id}"
                f" within {self.timeout_s:g} s"
            )
            request.on_done((request.argument,), error)
        # Timed-out reads are kept until their responses arrive, so their memory must be limited.
        overdue_count = sum(request.timed_out for _, request in self._all())
        if overdue_count > _MAX_OVERDUE_RESPONSES:
            self.disconnect(f"responses to {overdue_count} reads are missing")
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
    """Sort requests by deadline. Within one iteration of the event loop, put adds first, because
    a client writes an entry before it reads the next one.
    """
    return sorted(requests, key=lambda each: (each[1].deadline, each[0][0] != _ADD))


def _call_each(callbacks: Sequence[OnResponse], response: Response | BKException) -> None:
    for on_response in callbacks:
        on_response(response)
