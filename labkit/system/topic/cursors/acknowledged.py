"""The acknowledgements of a subscription: everything up to the mark-delete position, ranges after
that, and parts of some batches.

Ranges are open-closed, as in Pulsar: from (L, 2) to (L, 5) means entries 3, 4 and 5 of ledger L. A
range never spans two ledgers. If every entry between mark-delete and the first range has been
acknowledged, mark-delete advances to the end of that range, and the range is removed.

For a partly acknowledged batch, a bit mask marks the messages that are still *un*acknowledged.

In Pulsar: `ManagedCursorImpl.java`, `LongPairRangeSet.java`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from labkit.system.topic.chain.ledger_chain import Position

NextPosition = Callable[[Position], Position]
"""Returns the first entry after a position, or the next free position."""


@dataclass(frozen=True, slots=True)
class Range:
    """Acknowledged entries of one ledger, after `lower` and up to `upper` (inclusive)."""

    lower: Position
    upper: Position


@dataclass(frozen=True, slots=True)
class CursorState:
    """The stored state of a cursor.

    `batches` maps each partly acknowledged batch to a bit mask of its unacknowledged messages; the
    lowest bit is the first message. `properties` belong to the mark-delete position.
    """

    mark_delete: Position
    ranges: tuple[Range, ...] = ()
    batches: tuple[tuple[Position, int], ...] = ()
    properties: tuple[tuple[str, int], ...] = ()


class Acknowledged:
    """The acknowledgements of a cursor in memory.

    Invariants: mark-delete is before the entries of the first range; ranges ascend and are not
    adjacent; no acknowledged entry has a bit mask of unacknowledged messages.
    """

    def __init__(self, state: CursorState, next_position: NextPosition) -> None:
        self.mark_delete = state.mark_delete
        self._next_position = next_position
        self._lowers: list[Position] = []
        self._uppers: list[Position] = []
        self._unacknowledged_bits: dict[Position, int] = {}
        for each in state.ranges:
            self._add_range(each.lower, each.upper)
        self._unacknowledged_bits.update(
            (position, bits) for position, bits in state.batches if bits
        )
        self._advance()

    @property
    def ranges(self) -> tuple[Range, ...]:
        return tuple(map(Range, self._lowers, self._uppers))

    @property
    def batches(self) -> tuple[tuple[Position, int], ...]:
        return tuple(sorted(self._unacknowledged_bits.items()))

    def contains(self, position: Position) -> bool:
        """Return whether the complete entry has been acknowledged."""
        if position <= self.mark_delete:
            return True
        at = bisect_left(self._uppers, position)
        return at < len(self._uppers) and self._lowers[at] < position

    @property
    def batch_count(self) -> int:
        return len(self._unacknowledged_bits)

    def unacknowledged_in_batch(self, position: Position) -> int | None:
        """Return the bit mask of a partly acknowledged batch, or None for any other entry."""
        return self._unacknowledged_bits.get(position)

    def add(self, position: Position) -> None:
        if not self.contains(position):
            self._add_range((position[0], position[1] - 1), position)
            self._unacknowledged_bits.pop(position, None)
            self._advance()

    def add_batch(self, position: Position, batch_size: int, unacknowledged_bits: int) -> None:
        """Acknowledge all messages of the batch except the ones in `unacknowledged_bits`."""
        if self.contains(position):
            return
        unacknowledged_bits &= self._unacknowledged_bits.get(position, (1 << batch_size) - 1)
        if unacknowledged_bits:
            self._unacknowledged_bits[position] = unacknowledged_bits
        else:
            self.add(position)

    def add_up_to(self, position: Position) -> None:
        """Acknowledge everything up to and including the position. (L, -1) is before ledger L."""
        if position > self.mark_delete:
            self.mark_delete = position
            self._drop_up_to(position)
            self._advance()

    def reset(self, mark_delete: Position) -> None:
        """Acknowledge everything up to the position, and nothing after it."""
        self.mark_delete = mark_delete
        self._lowers, self._uppers, self._unacknowledged_bits = [], [], {}

    def _add_range(self, lower: Position, upper: Position) -> None:
        """Insert a range, and merge it with adjacent and overlapping ones."""
        first = bisect_left(self._uppers, lower)
        last = bisect_right(self._lowers, upper)
        if first < last:
            lower = min(lower, self._lowers[first])
            upper = max(upper, self._uppers[last - 1])
        self._lowers[first:last] = [lower]
        self._uppers[first:last] = [upper]

    def _advance(self) -> None:
        """Advance mark-delete past acknowledged entries, and drop the ranges that it passes."""
        passed = 0
        while passed < len(self._lowers):
            first_unacknowledged = self._next_position(self.mark_delete)
            # The lower bound of a range is not part of it, so that entry is unacknowledged.
            if first_unacknowledged <= self._lowers[passed]:
                break
            self.mark_delete = max(self.mark_delete, self._uppers[passed])
            passed += 1
        if passed:
            self._drop_up_to(self.mark_delete)

    def _drop_up_to(self, position: Position) -> None:
        at = bisect_right(self._uppers, position)
        del self._lowers[:at], self._uppers[:at]
        if self._lowers:
            # The position may be inside the first range.
            self._lowers[0] = max(self._lowers[0], position)
        for batch in [batch for batch in self._unacknowledged_bits if batch <= position]:
            del self._unacknowledged_bits[batch]
