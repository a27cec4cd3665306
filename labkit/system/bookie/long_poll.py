"""Readers that wait, each until a ledger's LastAddConfirmed moves beyond what the reader knows.

A wait costs a timer and no task, so thousands of readers may wait.  It ends in one of five ways:
LastAddConfirmed moves, the ledger is fenced (its writer will confirm no more), the time is up, too
many wait, or the connection is gone.  Only the last one has no answer.

In BookKeeper: `proto/LongPollReadEntryProcessorV3.java`, `common/util/Watchable.java`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from labkit.system.model.net import Connection

MOST_WAITS = 10_000
"""Of all connections.  Beyond that the connection with most of them has its oldest answered, as if
its time were up: so one client can take little from the others.
"""


class _Wait(NamedTuple):
    connection: Connection
    ledger_id: int
    previous_lac: int
    answer: Callable[[], None]
    timer: asyncio.TimerHandle


class LongPolls:
    """All waits of one bookie, by number.

    Invariant: each wait is answered once, or its connection is gone.
    """

    def __init__(self) -> None:
        self._last_number = self._count = 0
        self._by_ledger: dict[int, dict[int, _Wait]] = {}
        self._by_connection: dict[Connection, dict[int, _Wait]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no request waits."""
        return not self._by_ledger

    def is_waited_for(self, ledger_id: int) -> bool:
        """Whether a request waits for news of the ledger."""
        return ledger_id in self._by_ledger

    def begin(
        self,
        connection: Connection,
        ledger_id: int,
        previous_lac: int,
        timeout_ms: int,
        answer: Callable[[], None],
    ) -> None:
        """Call `answer` later, once: when more than `previous_lac` is confirmed, or in
        `timeout_ms`.
        """
        self._last_number += 1
        number = self._last_number
        loop = asyncio.get_running_loop()
        timer = loop.call_later(timeout_ms / 1000, self._answer, connection, number)
        wait = _Wait(connection, ledger_id, previous_lac, answer, timer)
        self._by_ledger.setdefault(ledger_id, {})[number] = wait
        if connection not in self._by_connection:
            self._by_connection[connection] = {}
            # Once for a connection, not for each of its waits.
            connection.when_closed(partial(self._closed, connection))
        self._by_connection[connection][number] = wait
        self._count += 1
        if self._count > MOST_WAITS:
            most = max(self._by_connection, key=lambda each: len(self._by_connection[each]))
            self._answer(most, next(iter(self._by_connection[most])))

    def moved(self, ledger_id: int, last_add_confirmed: int) -> None:
        """Answer the polls whose readers know less than this LastAddConfirmed."""
        # A copy: each answer takes its wait out.
        for number, wait in list(self._by_ledger.get(ledger_id, {}).items()):
            if last_add_confirmed > wait.previous_lac:
                self._answer(wait.connection, number)

    def fenced(self, ledger_id: int) -> None:
        """Answer all polls of the ledger: its writer confirms nothing more."""
        for number, wait in list(self._by_ledger.get(ledger_id, {}).items()):
            self._answer(wait.connection, number)

    def _answer(self, connection: Connection, number: int) -> None:
        wait = self._by_connection[connection].pop(number)
        self._forget(number, wait)
        wait.answer()

    def _closed(self, connection: Connection) -> None:
        for number, wait in self._by_connection.pop(connection).items():
            self._forget(number, wait)

    def _forget(self, number: int, wait: _Wait) -> None:
        wait.timer.cancel()
        self._count -= 1
        waits = self._by_ledger[wait.ledger_id]
        del waits[number]
        if not waits:
            del self._by_ledger[wait.ledger_id]
