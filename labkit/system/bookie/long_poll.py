"""Long polls, with which readers wait until a ledger's LastAddConfirmed exceeds the value that they
already have.

A poll ends when one of the following happens:

- LastAddConfirmed advances
- the ledger is fenced, so its writer can no longer confirm anything
- the timeout expires
- there are too many polls
- the connection is closed

In BookKeeper: `proto/LongPollReadEntryProcessorV3.java`, `common/util/Watchable.java`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from labkit.system.model.net import Connection

MAX_POLLS = 10_000
"""If there are more polls, the oldest poll of the connection with the most polls gets an early
response. As a result, a single client cannot displace many polls of other clients.
"""


class _Poll(NamedTuple):
    connection: Connection
    ledger_id: int
    previous_lac: int
    respond: Callable[[], None]
    timer: asyncio.TimerHandle


class LongPolls:
    """Pending long polls. Each poll gets exactly one response, unless its connection is closed."""

    def __init__(self) -> None:
        self._last_number = self._count = 0
        self._by_ledger: dict[int, dict[int, _Poll]] = {}
        self._by_connection: dict[Connection, dict[int, _Poll]] = {}

    @property
    def is_empty(self) -> bool:
        return not self._by_ledger

    def is_waited_for(self, ledger_id: int) -> bool:
        return ledger_id in self._by_ledger

    def begin(
        self,
        connection: Connection,
        ledger_id: int,
        previous_lac: int,
        timeout_ms: int,
        respond: Callable[[], None],
    ) -> None:
        """Start a poll: call `respond` once LastAddConfirmed exceeds `previous_lac`, or after
        `timeout_ms`.
        """
        self._last_number += 1
        number = self._last_number
        loop = asyncio.get_running_loop()
        timer = loop.call_later(timeout_ms / 1000, self._end, connection, number)
        poll = _Poll(connection, ledger_id, previous_lac, respond, timer)
        self._by_ledger.setdefault(ledger_id, {})[number] = poll
        if connection not in self._by_connection:
            self._by_connection[connection] = {}
            connection.when_closed(partial(self._closed, connection))
        self._by_connection[connection][number] = poll
        self._count += 1
        if self._count > MAX_POLLS:
            busiest = max(self._by_connection, key=lambda each: len(self._by_connection[each]))
            self._end(busiest, next(iter(self._by_connection[busiest])))

    def advance(self, ledger_id: int, last_add_confirmed: int) -> None:
        """End the polls of this ledger whose readers have a lower LastAddConfirmed."""
        # Iterate over a copy, because ending a poll removes it from the dictionary.
        for number, poll in list(self._by_ledger.get(ledger_id, {}).items()):
            if last_add_confirmed > poll.previous_lac:
                self._end(poll.connection, number)

    def end_all(self, ledger_id: int) -> None:
        for number, poll in list(self._by_ledger.get(ledger_id, {}).items()):
            self._end(poll.connection, number)

    def _end(self, connection: Connection, number: int) -> None:
        poll = self._by_connection[connection].pop(number)
        self._forget(number, poll)
        poll.respond()

    def _closed(self, connection: Connection) -> None:
        for number, poll in self._by_connection.pop(connection).items():
            self._forget(number, poll)

    def _forget(self, number: int, poll: _Poll) -> None:
        poll.timer.cancel()
        self._count -= 1
        polls = self._by_ledger[poll.ledger_id]
        del polls[number]
        if not polls:
            del self._by_ledger[poll.ledger_id]
