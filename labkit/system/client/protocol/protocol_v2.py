"""What a client asks of a bookie in protocol version 2: adds and reads.

An answer names only the operation, the ledger and the entry, so requests that share all three are
answered in the order in which they were asked.

In BookKeeper: `proto/PerChannelBookieClient.java` (its V2 parts).
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
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
"""How often deadlines are looked at: a request may wait a second more than its time."""
_MOST_LATE = 10_000
"""A connection that owes more answers than this to timed-out reads is closed."""


_Asked = tuple[float, Callable[[Any, Any], None], Any]
"""A deadline, a function, and who asked.  The function's first argument is all who get the same
answer, its second that answer.  Plain tuples: they are many.
"""

_SentAdd = tuple[float, Callable[[Any, Any], None], Any, int, int]
"""An add that was asked, with its ledger and its entry."""

_Fields = tuple[int, int, int, int, bytes]
"""Those of an answer: packet header, code, ledger, entry, and the entry's bytes."""

_Key = tuple[int, int, int]
"""Opcode, ledger and entry: version 2 has nothing else to match an answer by."""

_ADD: int = Opcode.ADD
_OK: int = Code.OK


class PerChannelBookieClientV2(PerChannelBookieClient):
    """One connection to a bookie in version 2.

    Invariant: each request is answered exactly once: by the bookie, by
    `BKBookieHandleNotAvailableException` when the connection is lost or cannot be made, by
    `BKTimeoutException`, or by `BKClientClosedException`.  A fencing read never takes a plain
    read's answer: where the keys clash, a second connection is used.
    """

    def __init__(
        self, bookie: str, network: Network, find_endpoint: FindEndpoint, timeout_s: float
    ) -> None:
        super().__init__(bookie, network, find_endpoint, timeout_s)
        self._adds: deque[_SentAdd] = deque()
        """Adds, oldest first, as bookies answer them; when one does not, they move to `_asked`."""
        self._asked: dict[_Key, _Asked] = {}
        """Without a connection the same requests as in `outbox`, with those in `_asked_again` and
        in `_adds`.
        """
        self._asked_again: dict[_Key, list[_Asked]] = {}
        """Further callers waiting for the same key as `_asked`, oldest first; rarely several."""
        self._late: Counter[_Key] = Counter()
        """How many late answers this connection may still bring to reads that have timed out."""
        self._fencing: set[_Key] = set()
        """Keys of pending reads that carry the FENCE flag."""
        self._like_this = partial(
            PerChannelBookieClientV2, bookie, network, find_endpoint, timeout_s
        )
        self._second: PerChannelBookieClientV2 | None = None
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
        """Send a request; `on_answer` is called later, never from within this call.
        `fences`: whether a read carries the FENCE flag.
        """
        key = (opcode, ledger_id, entry_id)
        if key not in self._asked and key not in self._late:
            self._fencing.discard(key)  # One that was refused at once has left it there.
            if fences:
                self._fencing.add(key)
        elif fences != (key in self._fencing):
            second = self._second_connection()
            second.ask(opcode, ledger_id, entry_id, body, on_answer, fences=fences)
            return
        if (self.outbox and self.connection is not None) or self._is_ready(_tell, on_answer):
            self._wait_by_key(key, (self._deadline, _tell, on_answer))
            self.outbox.append(body)

    def add(
        self, ledger_id: int, entry_id: int, body: bytes, on_added: OnAdded[T], pending: T
    ) -> None:
        """Send an add; `on_added` is called later with a list that contains `pending`, and with the
        error, if there is one.

        Adds that share an `on_added` are given to it together when their answers come together:
        a call for each would cost more than the answer.
        """
        if (self.outbox and self.connection is not None) or self._is_ready(on_added, pending):
            self._adds.append((self._deadline, on_added, pending, ledger_id, entry_id))
            self.outbox.append(body)

    def _is_ready(self, on_done: Callable[[Sequence[T], Any], None], who: T) -> bool:
        """Whether a request may go into the `outbox`, as the first of this turn or without a
        connection; if not, the caller will hear why.
        """
        # What is asked in the same turn has the same deadline.
        self._deadline = self.loop.time() + self.timeout_s
        if not self.outbox and (error := self.get_ready()) is not None:
            self.loop.call_soon(on_done, (who,), error)
            return False
        if self._monitor is None:
            # One timer for all of them: a timer for each would cost more than the add.
            self._monitor = self.loop.call_later(_MONITOR_INTERVAL_S, self._expire)
        return True

    def _wait_by_key(self, key: _Key, asked: _Asked) -> None:
        if self._asked.setdefault(key, asked) is not asked:
            self._asked_again.setdefault(key, []).append(asked)

    def _second_connection(self) -> "PerChannelBookieClientV2":
        if self._second is None:
            self._second = self._like_this()
        return self._second

    def close(self) -> None:
        """Close the second connection, too."""
        if self._second is not None:
            self._second.close()
        super().close()

    def received(self, bodies: Sequence[bytes]) -> None:
        """Give each answer to the oldest request that it fits."""
        answers = self._fields_of(bodies)
        for answer in answers:
            other = self._take_adds(chain((answer,), answers)) if self._adds else answer
            if other is not None:
                self._take_other(other)

    def _take_adds(self, answers: Iterator[_Fields]) -> _Fields | None:
        """Answer adds, as long as each answer is a good one to the oldest; returns the first answer
        that is not.
        """
        sent, asked = self._adds, self._asked
        on_added: Callable[[Any, Any], None] | None = None
        added: list[Any] = []
        other = None
        for answer in answers:
            head, code, ledger_id, entry_id, _ = answer
            is_next = (
                sent
                and sent[0][4] == entry_id
                and sent[0][3] == ledger_id
                and code == _OK
                and head >> 16 & 0xFF == _ADD
                # What waits by its key was asked before.
                and not (asked and (_ADD, ledger_id, entry_id) in asked)
            )
            if not is_next:
                other = answer
                break
            _, on_done, who, _, _ = sent.popleft()
            if on_done is not on_added:
                if on_added is not None:
                    on_added(added, None)
                on_added, added = on_done, []
            added.append(who)
        if on_added is not None:
            on_added(added, None)
        return other

    def _take_other(self, fields: _Fields) -> None:
        head, code, ledger_id, entry_id, entry = fields
        opcode = head >> 16 & 0xFF
        asked = self._take(opcode, ledger_id, entry_id)
        if asked is None:
            return
        on_done, who = asked[1], asked[2]
        if code == _OK:
            done = None if opcode == _ADD else Answer(opcode, code, ledger_id, entry_id, entry)
            on_done((who,), done)
        else:
            answer = Answer(opcode, code, ledger_id, entry_id, entry)
            on_done((who,), error_of(answer, self.bookie))

    def _fields_of(self, answers: Sequence[bytes]) -> Iterator[_Fields]:
        for answer in answers:
            if len(answer) < ANSWER.size:
                self.leave(f"it answered with {len(answer)} bytes, fewer than any answer has")
                return
            yield (*ANSWER.struct.unpack_from(answer), answer[ANSWER.size :])

    def _take(self, opcode: int, ledger_id: int, entry_id: int) -> _Asked | None:
        """Remove the oldest request that an answer fits, if there is one."""
        key = (opcode, ledger_id, entry_id)
        if opcode == _ADD and self._adds:
            self._find_adds_by_key()
        asked = self._take_by_key(key) if self._asked_again else self._asked.pop(key, None)
        # Rarely: counting would cost as much as the rest of an answer.
        if asked is None or self._fencing:
            self._owes_less(key, late=asked is None)
        return asked

    def _find_adds_by_key(self) -> None:
        """The oldest is not the next to be answered."""
        for deadline, on_done, who, ledger_id, entry_id in self._adds:
            self._wait_by_key((_ADD, ledger_id, entry_id), (deadline, on_done, who))
        self._adds.clear()

    def _take_by_key(self, key: _Key) -> _Asked | None:
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

    def give_up(self, error: BKException) -> None:
        """Answer everything that was asked with the error."""
        self._find_adds_by_key()
        keys = _oldest_first(self._asked)
        given_up, self._asked = self._asked, {}
        again, self._asked_again = self._asked_again, {}
        self._fencing.clear()
        self._late.clear()
        for key in keys:
            for _, on_done, who in (given_up[key], *again.get(key, ())):
                on_done((who,), error)

    def _expire(self) -> None:
        """Fail the requests whose time is up; later ones with the same key go on waiting."""
        self._monitor = None
        now = self.loop.time()
        if self._adds and self._adds[0][0] <= now:
            self._find_adds_by_key()
        for key in _oldest_first({k: asked for k, asked in self._asked.items() if asked[0] <= now}):
            _, ledger_id, entry_id = key
            error = BKTimeoutException(
                f"{self.bookie} did not answer for entry {entry_id} of ledger {ledger_id}"
                f" within {self.timeout_s:g} s"
            )
            waiting = [self._asked.pop(key), *self._asked_again.pop(key, ())]
            overdue = [asked for asked in waiting if asked[0] <= now]
            self._wait_no_more(key, len(overdue))
            if in_time := waiting[len(overdue) :]:
                self._asked[key] = in_time.pop(0)
                self._asked_again[key] = in_time
            for _, on_done, who in overdue:
                on_done((who,), error)
        # Each is kept until its answer comes, so a silent bookie would cost memory without bound.
        if self._late.total() > _MOST_LATE:
            self.leave(f"it owes the answers to {self._late.total()} reads")
        if self._asked or self._adds:
            self._monitor = self.loop.call_later(_MONITOR_INTERVAL_S, self._expire)

    def _wait_no_more(self, key: _Key, count: int) -> None:
        """Give up `count` timed-out requests: the unsent are dropped, late answers are expected."""
        if self.connection is None:
            del self.outbox[:count]
        elif key[0] != _ADD:
            self._late[key] += count


def _oldest_first(asked: Mapping[_Key, _Asked]) -> list[_Key]:
    """By deadline.  Of the requests of one turn adds come first: a client writes an entry before it
    asks for the next.
    """
    return sorted(asked, key=lambda key: (asked[key][0], key[0] != _ADD))


def _tell(who: Sequence[OnAnswer], answer: Answer | BKException) -> None:
    for on_answer in who:
        on_answer(answer)
