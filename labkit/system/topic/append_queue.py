"""The unconfirmed entries of a managed ledger: pushed into the open ledger, or waiting to be.

In Pulsar: `ManagedLedgerImpl.pendingAddEntries`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import LabkitError
from labkit.system.topic.chain.chain import Position

_PUSHED_TOGETHER = 32
"""At most this many entries are pushed with one callback, which runs when the last is confirmed."""


E_contra = TypeVar("E_contra", contravariant=True)


class PendingEntry:
    """An unconfirmed entry; once pushed, `entry_id` is its id in the open ledger."""

    __slots__ = ("appender", "data", "entry_id")

    def __init__(self, data: bytes, appender: "Appender[Any]") -> None:
        self.data = data
        self.appender = appender
        self.entry_id = -1


class Appender(Protocol[E_contra]):
    """A part that appends entries, and learns of many at once how they went.

    The calls come in the middle of the ledger's work, so they note it, and act on it later.
    """

    def entries_stored(self, ledger_id: int, entries: Sequence[E_contra]) -> None:
        """These are stored in that ledger, each under its entry id."""

    def entries_failed(self, entries: Sequence[E_contra], error: LabkitError) -> None:
        """These cannot be stored any more; the bookies may have them."""


class AwaitedEntry(PendingEntry):
    """An entry whose caller awaits `stored`."""

    __slots__ = ("stored",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data, _AWAITED)
        self.stored: asyncio.Future[Position] = asyncio.get_running_loop().create_future()


class _Awaited:
    """Gives each entry's future its position.  A caller may have cancelled it."""

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
    """Entries in the order of `append`: pushed and unconfirmed ones, then those that wait.

    `on_stored` gets the position and the bytes of each entry when it is confirmed.
    """

    def __init__(self, on_stored: Callable[[Position, bytes], None]) -> None:
        self._on_stored = on_stored
        self._pushed: deque[PendingEntry] = deque()
        self._waiting: deque[PendingEntry] = deque()
        self.stored_count = 0
        """How many entries were stored through this queue."""

    @property
    def is_waiting(self) -> bool:
        """Whether an entry waits to be pushed."""
        return bool(self._waiting)

    def add(self, entries: Iterable[PendingEntry]) -> None:
        """Let entries wait."""
        self._waiting.extend(entries)

    def push(self, writer: LedgerWriter, is_full: Callable[[], object]) -> asyncio.Future[int]:
        """Push waiting entries, up to a bound or until `is_full`; the confirmation of the last.

        Entries are confirmed in order, so the last confirmation stands for all of them.
        """
        # Checked after each entry: a ledger that is full must not get one more.
        for _ in range(min(len(self._waiting), _PUSHED_TOGETHER)):
            pending = self._waiting.popleft()
            confirmed = writer.add(pending.data)
            pending.entry_id = writer.last_add_pushed
            self._pushed.append(pending)
            if is_full():
                break
        return confirmed

    def stored(self, ledger_id: int, last_entry_id: int) -> int:
        """Note that the pushed entries up to this one are confirmed; returns their bytes."""
        pushed, on_stored = self._pushed, self._on_stored
        stored: list[PendingEntry] = []
        while pushed and pushed[0].entry_id <= last_entry_id:
            pending = pushed.popleft()
            on_stored((ledger_id, pending.entry_id), pending.data)
            stored.append(pending)
        for appender, entries in by_appender(stored):
            appender.entries_stored(ledger_id, entries)
        self.stored_count += len(stored)
        return sum(len(pending.data) for pending in stored)

    def requeue(self) -> None:
        """Let the entries that the ledger has not stored wait for the next ledger."""
        self._waiting = deque(self.order_for_next_ledger(list(self._pushed), list(self._waiting)))
        self._pushed.clear()

    def fail(self, error: LabkitError) -> None:
        """Fail all entries and forget them."""
        abandoned = [*self._pushed, *self._waiting]
        self._pushed.clear()
        self._waiting.clear()
        for appender, entries in by_appender(abandoned):
            appender.entries_failed(entries, error)

    # Rules

    def order_for_next_ledger(
        self, unstored: list[PendingEntry], waiting: list[PendingEntry]
    ) -> list[PendingEntry]:
        """The order in which entries go into the next ledger: that of `append`."""
        return [*unstored, *waiting]


def by_appender(
    entries: Sequence[PendingEntry],
) -> list[tuple["Appender[Any]", list[PendingEntry]]]:
    """The entries in their order; those of one appender that lie together go together."""
    return [(appender, list(each)) for appender, each in groupby(entries, attrgetter("appender"))]
