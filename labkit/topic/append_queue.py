"""The unconfirmed entries of a managed ledger: pushed into the open ledger, or waiting to be.

In Pulsar: `ManagedLedgerImpl.pendingAddEntries`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labkit.client.writer import LedgerWriter
from labkit.model.errors import LabkitError
from labkit.topic.chain import Position

_PUSHED_TOGETHER = 32
"""At most this many entries are pushed with one callback, which runs when the last is confirmed."""


@dataclass(slots=True)
class PendingEntry:
    """An unconfirmed entry; once pushed, `entry_id` is its id in the open ledger."""

    data: bytes
    stored: asyncio.Future[Position]
    entry_id: int = -1


class AppendQueue:
    """Entries in the order of `append`: pushed and unconfirmed ones, then those that wait.

    `on_stored` gets the position and the bytes of each entry when it is confirmed.
    """

    def __init__(self, on_stored: Callable[[Position, bytes], None]) -> None:
        self._on_stored = on_stored
        self._pushed: deque[PendingEntry] = deque()
        self._waiting: deque[PendingEntry] = deque()

    @property
    def is_waiting(self) -> bool:
        """Whether an entry waits to be pushed."""
        return bool(self._waiting)

    def add(self, entries: Sequence[bytes]) -> list[asyncio.Future[Position]]:
        """Let entries wait; each future gives the position under which the entry is stored."""
        create_future = asyncio.get_running_loop().create_future
        added = [PendingEntry(data, create_future()) for data in entries]
        self._waiting.extend(added)
        return [pending.stored for pending in added]

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

    def stored(self, ledger_id: int, last_entry_id: int) -> None:
        """Note that the pushed entries up to this one are confirmed."""
        while self._pushed and self._pushed[0].entry_id <= last_entry_id:
            pending = self._pushed.popleft()
            position = ledger_id, pending.entry_id
            self._on_stored(position, pending.data)
            if not pending.stored.done():
                pending.stored.set_result(position)

    def requeue(self) -> None:
        """Let the entries that the ledger has not stored wait for the next ledger."""
        self._waiting = deque(self.order_for_next_ledger(list(self._pushed), list(self._waiting)))
        self._pushed.clear()

    def fail(self, error: LabkitError) -> None:
        """Fail all entries and forget them."""
        abandoned = [*self._pushed, *self._waiting]
        self._pushed.clear()
        self._waiting.clear()
        for pending in abandoned:
            if not pending.stored.done():
                pending.stored.set_exception(error)

    # Rules

    def order_for_next_ledger(
        self, unstored: list[PendingEntry], waiting: list[PendingEntry]
    ) -> list[PendingEntry]:
        """The order in which entries go into the next ledger: that of `append`."""
        return [*unstored, *waiting]
