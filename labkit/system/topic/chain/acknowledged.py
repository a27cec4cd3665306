"""What a subscription has acknowledged: everything up to the mark-delete position, ranges above it,
and of some batches a part.

The ranges are open-closed, as Pulsar has them: from (L, 2) to (L, 5) means entries 3, 4 and 5 of
ledger L.  A range lies within one ledger.  Once nothing unacknowledged is left between mark-delete
and the first range, the range is swallowed and mark-delete moves on.

Of a batch the messages are kept that are *not* acknowledged yet, a bit each.

In Pulsar: `ManagedCursorImpl.java`, `LongPairRangeSet.java`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from labkit.system.topic.chain.chain import Position

NextPosition = Callable[[Position], Position]
"""The first entry behind a position, or the place of the entry to come."""


@dataclass(frozen=True, slots=True)
class Range:
    """Acknowledged entries, from behind `lower` up to and with `upper`, of one ledger."""

    lower: Position
    upper: Position


@dataclass(frozen=True, slots=True)
class CursorState:
    """A cursor at one moment: what is stored of it.

    `batches` has the messages left of each batch that is partly acknowledged, lowest bit first.
    `properties` belong to the mark-delete position and are stored together with it.
    """

    mark_delete: Position
    ranges: tuple[Range, ...] = ()
    batches: tuple[tuple[Position, int], ...] = ()
    properties: tuple[tuple[str, int], ...] = ()


class Acknowledged:
    """The acknowledgements of one cursor.

    Invariants: mark-delete < the first range's entries; ranges ascend, none touches the next; no
    batch with something left is acknowledged.
    """

    def __init__(self, state: CursorState, next_position: NextPosition) -> None:
        self.mark_delete = state.mark_delete
        self._next_position = next_position
        self._lowers: list[Position] = []
        self._uppers: list[Position] = []
        self._left: dict[Position, int] = {}
        for each in state.ranges:
            self._add_range(each.lower, each.upper)
        self._left.update((position, left) for position, left in state.batches if left)
        self._advance()

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The acknowledged ranges above mark-delete, ascending."""
        return tuple(map(Range, self._lowers, self._uppers))

    @property
    def batches(self) -> tuple[tuple[Position, int], ...]:
        """What is left of each batch that is partly acknowledged, ascending."""
        return tuple(sorted(self._left.items()))

    def contains(self, position: Position) -> bool:
        """Whether the whole entry is acknowledged."""
        if position <= self.mark_delete:
            return True
        at = bisect_left(self._uppers, position)
        return at < len(self._uppers) and self._lowers[at] < position

    @property
    def batch_count(self) -> int:
        """How many batches are partly acknowledged."""
        return len(self._left)

    def left_in_batch(self, position: Position) -> int | None:
        """The messages of the batch that are not acknowledged; None if that is none or all."""
        return self._left.get(position)

    def add(self, position: Position) -> None:
        """Acknowledge the whole entry."""
        if not self.contains(position):
            self._add_range((position[0], position[1] - 1), position)
            self._left.pop(position, None)
            self._advance()

    def add_batch(self, position: Position, batch_size: int, left: int) -> None:
        """Acknowledge all messages of the batch but those in `left`; earlier ones stay so."""
        if self.contains(position):
            return
        left &= self._left.get(position, (1 << batch_size) - 1)
        if left:
            self._left[position] = left
        else:
            self.add(position)

    def add_up_to(self, position: Position) -> None:
        """Acknowledge everything up to and with the position.  (L, -1): nothing of L."""
        if position > self.mark_delete:
            self.mark_delete = position
            self._drop_up_to(position)
            self._advance()

    def reset(self, mark_delete: Position) -> None:
        """Acknowledge everything up to there, and nothing after it."""
        self.mark_delete = mark_delete
        self._lowers, self._uppers, self._left = [], [], {}

    def _add_range(self, lower: Position, upper: Position) -> None:
        """Put it in its place, joined with those that it touches."""
        first = bisect_left(self._uppers, lower)
        last = bisect_right(self._lowers, upper)
        if first < last:
            lower = min(lower, self._lowers[first])
            upper = max(upper, self._uppers[last - 1])
        self._lowers[first:last] = [lower]
        self._uppers[first:last] = [upper]

    def _advance(self) -> None:
        """Swallow the first range while no entry lies between it and mark-delete."""
        swallowed = 0
        while swallowed < len(self._lowers):
            if self._next_position(self.mark_delete) <= self._lowers[swallowed]:
                break
            self.mark_delete = max(self.mark_delete, self._uppers[swallowed])
            swallowed += 1
        if swallowed:
            self._drop_up_to(self.mark_delete)

    def _drop_up_to(self, position: Position) -> None:
        at = bisect_right(self._uppers, position)
        del self._lowers[:at], self._uppers[:at]
        if self._lowers:
            # The position may lie inside the first range.
            self._lowers[0] = max(self._lowers[0], position)
        for batch in [batch for batch in self._left if batch <= position]:
            del self._left[batch]
