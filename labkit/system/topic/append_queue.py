"""The queue of a managed ledger's unconfirmed entries: pushed entries, followed by waiting ones.

In Pulsar: `ManagedLedgerImpl.pendingAddEntries`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol

from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import LabkitError
from labkit.system.topic.chain.ledger_chain import Position

_PUSHED_TOGETHER = 32
"""The maximum number of entries with a common callback, which is called once all are confirmed."""


@dataclass(slots=True, eq=False)
class PendingEntry:
    """An unconfirmed entry. After it has been pushed, `entry_id` is its id in the open ledger."""

    data: bytes
    appender: "Appender"
    entry_id: int = field(default=-1, init=False)


class Appender(Protocol):
    """Receives the outcomes of its entries, usually of many entries in one call.

    The managed ledger calls these methods while it is changing its own state, so an implementation
    must only record the outcome, and react to it later.
    """

    def entries_stored(self, ledger_id: int, entries: Sequence[Any]) -> None: ...

    def entries_failed(self, entries: Sequence[Any], error: LabkitError) -> None:
        """Called when the entries have failed. Even so, some bookies may have stored them."""


class AwaitedEntry(PendingEntry):
    """An entry with a future, `stored`, that the caller awaits."""

    __slots__ = ("stored",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data, _AWAITED)
        self.stored: asyncio.Future[Position] = asyncio.get_running_loop().create_future()


class _Awaited:
    def entries_stored(self, ledger_id: int, entries: Sequence[AwaitedEntry]) -> None:
        for entry in entries:
            if not entry.stored.done():
                entry.stored.set_result((ledger_id, entry.entry_id))

    def entries_failed(self, entries: Sequence[AwaitedEntry], error: LabkitError) -> None:
        for entry in entries:
            if not entry.stored.done():
                entry.stored.set_exception(error)


_AWAITED = _Awaited()


class AppendQueue:
    def __init__(self, on_stored: Callable[[Position, bytes], None]) -> None:
        """`on_stored` is called with the position and the bytes of each confirmed entry."""
        self._on_stored = on_stored
        self._pushed: deque[PendingEntry] = deque()
        self._waiting: deque[PendingEntry] = deque()
        self.stored_count = 0

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def add(self, entries: Iterable[PendingEntry]) -> None:
        self._waiting.extend(entries)

    def push(self, writer: LedgerWriter, is_full: Callable[[], object]) -> asyncio.Future[int]:
        """Push up to `_PUSHED_TOGETHER` waiting entries, or fewer if the ledger becomes full.

        Return the future of the entry that was pushed last, which is confirmed after all others.
        """
        for _ in range(min(len(self._waiting), _PUSHED_TOGETHER)):
            pending = self._waiting.popleft()
            confirmed = writer.add(pending.data)
            pending.entry_id = writer.last_add_pushed
            self._pushed.append(pending)
            if is_full():
                break
        return confirmed

    def confirm(self, ledger_id: int, last_entry_id: int) -> int:
        """Mark pushed entries up to `last_entry_id` as confirmed. Return their total size."""
        pushed, on_stored = self._pushed, self._on_stored
        stored: list[PendingEntry] = []
        while pushed and pushed[0].entry_id <= last_entry_id:
            pending = pushed.popleft()
            on_stored((ledger_id, pending.entry_id), pending.data)
            stored.append(pending)
        for appender, entries in group_by_appender(stored):
            appender.entries_stored(ledger_id, entries)
        self.stored_count += len(stored)
        return sum(len(pending.data) for pending in stored)

    def requeue(self) -> None:
        """Make the pushed entries wait again, so that they are pushed to the next ledger."""
        self._waiting = deque(self.order_for_next_ledger(list(self._pushed), list(self._waiting)))
        self._pushed.clear()

    def fail(self, error: LabkitError) -> None:
        abandoned = [*self._pushed, *self._waiting]
        self._pushed.clear()
        self._waiting.clear()
        for appender, entries in group_by_appender(abandoned):
            appender.entries_failed(entries, error)

    # Rules

    def order_for_next_ledger(
        self, unstored: list[PendingEntry], waiting: list[PendingEntry]
    ) -> list[PendingEntry]:
        return [*unstored, *waiting]


def group_by_appender(
    entries: Sequence[PendingEntry],
) -> list[tuple[Appender, list[PendingEntry]]]:
    return [(appender, list(each)) for appender, each in groupby(entries, attrgetter("appender"))]
