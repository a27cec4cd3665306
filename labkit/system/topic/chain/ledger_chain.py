"""The chain of ledgers as a sequence of positions.

A position is a ledger id and an entry id. (L, -1) is the position before the first entry of ledger
L. Acknowledging up to (L, -1) acknowledges nothing in L, so (L, -1) must not become (L, 0).

In Pulsar: `managed-ledger/.../ManagedLedgerImpl.java` (`getNextValidPosition` and related methods).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate

Position = tuple[int, int]
"""Where an entry is stored: ledger id and entry id."""

NOWHERE: Position = (-1, -1)
"""The position before all others."""


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """A ledger of a chain. Its entry count, size and closing time are 0 while it is open."""

    ledger_id: int
    entry_count: int = 0
    size_bytes: int = 0
    closed_at_ms: int = 0


class LedgerChain:
    """The ledgers of a partition, oldest first.

    The ledger ids ascend, because an owner reads the chain before it requests the id of its next
    ledger. The methods that use `bisect` rely on this.

    `open_entry_count` and `open_size_bytes` are the number and the total size of the open ledger's
    confirmed entries.
    """

    def __init__(self, links: Iterable[LedgerInfo] = ()) -> None:
        self.open_entry_count = self.open_size_bytes = 0
        self._ids: list[int] = []
        self.replace(links)

    def replace(self, links: Iterable[LedgerInfo]) -> None:
        previous_last = self._ids[-1] if self._ids else -1
        self.stored_ledgers = tuple(links)
        """The ledgers as stored in the metadata store, without the counts of the open one."""
        is_still_open = self.stored_ledgers[-1:] == (LedgerInfo(previous_last),)
        if not is_still_open:
            self.open_entry_count = self.open_size_bytes = 0
        self._ids = [link.ledger_id for link in self.stored_ledgers]
        self._before = [0, *accumulate(link.entry_count for link in self.stored_ledgers)]

    @property
    def ledgers(self) -> tuple[LedgerInfo, ...]:
        """The chain's ledgers. For the open ledger, the entry and byte counts are current."""
        if not self.open_entry_count:
            return self.stored_ledgers
        *closed, last = self.stored_ledgers
        entry_count, size_bytes = self.open_entry_count, self.open_size_bytes
        return (*closed, replace(last, entry_count=entry_count, size_bytes=size_bytes))

    @property
    def start(self) -> Position:
        return (self._ids[0], -1) if self._ids else NOWHERE

    @property
    def end(self) -> Position:
        """The last confirmed entry or, if there is none, (L, -1), where L is the last ledger."""
        if not self._ids:
            return NOWHERE
        last = self._ids[-1]
        return self.last_before((last, self.entry_count_of(last))) or (last, -1)

    def has_ledger(self, ledger_id: int) -> bool:
        at = bisect_left(self._ids, ledger_id)
        return at < len(self._ids) and self._ids[at] == ledger_id

    def entry_count_of(self, ledger_id: int) -> int:
        """Return the ledger's entry count, or 0 if it is not part of the chain."""
        return self._count(bisect_left(self._ids, ledger_id)) if self.has_ledger(ledger_id) else 0

    def first_from(self, position: Position) -> Position | None:
        at = bisect_left(self._ids, position[0])
        entry_id = max(position[1], 0) if self.has_ledger(position[0]) else 0
        while at < len(self._ids):
            if entry_id < self._count(at):
                return self._ids[at], entry_id
            at, entry_id = at + 1, 0
        return None

    def last_before(self, position: Position) -> Position | None:
        at = bisect_left(self._ids, position[0])
        if self.has_ledger(position[0]):
            before = min(position[1], self._count(at))
            if before > 0:
                return position[0], before - 1
        while at > 0:
            at -= 1
            if self._count(at):
                return self._ids[at], self._count(at) - 1
        return None

    def next_position(self, position: Position) -> Position:
        """Return the first entry after the position, or else the next free position."""
        behind = self.first_from((position[0], position[1] + 1))
        if behind is not None:
            return behind
        return (self._ids[-1], self._count(len(self._ids) - 1)) if self._ids else NOWHERE

    def previous_position(self, position: Position) -> Position:
        """Return (L, -1) for (L, 0); for (L, -1), return the last entry before ledger L, if any."""
        if position[1] >= 0:
            return position[0], position[1] - 1
        return self.last_before(position) or position

    def nth_after(self, position: Position, count: int) -> Position | None:
        rank = self._rank(position) + count - 1
        # If several ledgers start at the same rank, only the last one can have entries.
        at = min(bisect_right(self._before, rank), len(self._ids)) - 1
        if at < 0 or rank - self._before[at] >= self._count(at):
            return None
        return self._ids[at], rank - self._before[at]

    def entry_count(self, after: Position, up_to: Position) -> int:
        """Return the number of entries in (after, up_to]."""
        return max(0, self._rank(up_to) - self._rank(after))

    def _rank(self, position: Position) -> int:
        """Return the number of entries up to and including the position."""
        at = bisect_left(self._ids, position[0])
        if self.has_ledger(position[0]):
            return self._before[at] + max(0, min(position[1] + 1, self._count(at)))
        return self._before[at] + (self.open_entry_count if at == len(self._ids) else 0)

    def _count(self, at: int) -> int:
        is_last = at == len(self._ids) - 1
        return self.stored_ledgers[at].entry_count + (self.open_entry_count if is_last else 0)
