"""Sequences of acknowledgements, and the cursor state that results from each sequence."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from labkit.system.topic.chain.ledger_chain import LedgerChain, LedgerInfo, Position
from labkit.system.topic.cursors.acknowledged import Acknowledged, CursorState, Range
from labkit.views.widgets.drawing.scene import Mark, group, picture, rect, text
from labkit.views.widgets.view import StillPicture


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledgement of an entry, of messages in a batch, or of everything up to the position
    `up_to`.
    """

    position: Position
    indexes: tuple[int, ...] = ()
    up_to: bool = False

    def __str__(self) -> str:
        where = f"{self.position[0]}:{self.position[1]}"
        if self.up_to:
            return f"all up to {where}"
        some = f"message{'s' * (len(self.indexes) > 1)} {', '.join(map(str, self.indexes))} of "
        return f"{some if self.indexes else ''}{where}"


CHAIN = LedgerChain([LedgerInfo(4, 3, 300, 1), LedgerInfo(7, 4, 400, 2)])
BATCH_SIZES = {(4, 0): 3, (4, 1): 0, (4, 2): 3, (7, 0): 3, (7, 1): 3, (7, 2): 0, (7, 3): 3}
"""The number of messages in each entry; 0 stands for a single message that is not in a batch."""
Message = tuple[Position, int]
"""The position of an entry, and a batch index."""
MESSAGES: list[Message] = [
    (position, index)
    for position, size in BATCH_SIZES.items()
    for index in (range(size) if size else (-1,))
]
SCRIPTS: tuple[tuple[Ack, ...], ...] = (
    (),
    (Ack((4, 1), up_to=True),),
    (Ack((4, 2)),),
    (Ack((4, 0)), Ack((4, 2))),
    (Ack((7, -1), up_to=True),),
    (Ack((4, 2), up_to=True), Ack((7, 1)), Ack((7, 2))),
    (Ack((4, 0), up_to=True), Ack((7, 0)), Ack((7, 2))),
    (Ack((7, 1), (0, 2)),),
    (Ack((4, 1), up_to=True), Ack((7, 0), (1,)), Ack((7, 3), (0,)), Ack((7, 2))),
    (Ack((7, 3), (0,)), Ack((7, 3), (1,)), Ack((7, 3), (2,))),
)


@dataclass(frozen=True, slots=True, repr=False)
class CursorCase(StillPicture):
    acks: tuple[Ack, ...]
    state: CursorState
    acknowledged: frozenset[Message]
    asked: Message | None = None
    answer: bool = False

    @property
    def title(self) -> str:
        return "acknowledged: " + (" then ".join(map(str, self.acks)) or "nothing")

    @property
    def question(self) -> str:
        if self.asked is None:
            return ""
        (ledger, entry), index = self.asked
        return f"asked: {ledger}:{entry}:-1:{index}; answered {self.answer}"

    def __str__(self) -> str:
        lines = (
            self.title,
            *map(self._line, CHAIN.stored_ledgers),
            f"stored: {stored_words(self.state)}",
        )
        return "\n".join(filter(None, (*lines, self.question)))

    __repr__ = __str__

    def scene(self) -> Mark:
        """Draw every message of the chain, whether acknowledged or not, above the cursor's stored
        state.
        """
        return _CursorPicture(self).scene()

    def _line(self, link: LedgerInfo) -> str:
        entries = []
        for position, size in BATCH_SIZES.items():
            if position[0] == link.ledger_id:
                indexes = range(size) if size else (-1,)
                signs = "".join("✔·"[(position, i) not in self.acknowledged] for i in indexes)
                entries.append(f"{position[1]} {signs}".ljust(7))
        return f"  ledger {link.ledger_id}:  {''.join(entries)}".rstrip()


def stored_words(state: CursorState) -> str:
    parts = [f"mark-delete {_text(state.mark_delete)}"]
    if state.ranges:
        ranges = (f"({_text(r.lower)}, {_text(r.upper)}]" for r in state.ranges)
        parts.append(f"ranges {', '.join(ranges)}")
    parts += [
        f"left of {_text(position)}: {', '.join(map(str, _bits(left)))}"
        for position, left in state.batches
    ]
    return "; ".join(parts)


def _text(position: Position) -> str:
    return f"{position[0]}:{position[1]}"


def _bits(left: int) -> list[int]:
    return [index for index in range(left.bit_length()) if left >> index & 1]


def after(acks: Sequence[Ack]) -> CursorCase:
    state = Acknowledged(CursorState(CHAIN.start), CHAIN.next_position)
    done: set[Message] = set()
    for ack in acks:
        size = BATCH_SIZES.get(ack.position, 0)
        if ack.up_to:
            state.add_up_to(ack.position)
            done |= {message for message in MESSAGES if message[0] <= ack.position}
        elif ack.indexes:
            left = (1 << size) - 1 & ~sum(1 << index for index in ack.indexes)
            state.add_batch(ack.position, size, left)
            done |= {(ack.position, index) for index in ack.indexes}
        else:
            state.add(ack.position)
            done |= {message for message in MESSAGES if message[0] == ack.position}
    stored = CursorState(state.mark_delete, state.ranges, state.batches)
    return CursorCase(tuple(acks), stored, frozenset(done))


# The picture

_CELL, _GAP, _LEDGER_GAP = 24, 14, 34
_LEFT, _TOP, _WIDTH = 20, 92, 590


class _CursorPicture:
    def __init__(self, case: CursorCase) -> None:
        self.case = case
        self.bounds: dict[Position, tuple[float, float]] = {}
        """The x coordinates at which an entry begins and ends."""
        x, ledger_id = float(_LEFT), CHAIN.stored_ledgers[0].ledger_id
        for position, messages in groupby(MESSAGES, key=lambda message: message[0]):
            x += _LEDGER_GAP * (position[0] != ledger_id)
            ledger_id = position[0]
            end = x + _CELL * len(list(messages))
            self.bounds[position] = x, end
            x = end + _GAP

    def scene(self) -> Mark:
        case = self.case
        marks = [text("title", _LEFT, 24, case.title, bold=True)]
        for link in CHAIN.stored_ledgers:
            x, label = self.bounds[link.ledger_id, 0][0], f"ledger {link.ledger_id}"
            marks.append(text(label, x, 48, label, fill="faint"))
        marks += [self._entry(position, *bounds) for position, bounds in self.bounds.items()]
        marks.append(self._mark_delete())
        marks += [self._range(each) for each in case.state.ranges]
        marks.append(text("stored", _LEFT, 174, f"stored: {stored_words(case.state)}"))
        if case.asked:
            marks.append(text("question", _LEFT, 194, case.question, fill="lost", bold=True))
        return picture(_WIDTH, 210 if case.asked else 190, str(case), *marks)

    def _entry(self, position: Position, x: float, end: float) -> Mark:
        label, size = f"entry {position[1]}", _CELL - 2
        parts = [text("name", (x + end) / 2, 66, label, anchor="middle")]
        for column, message in enumerate(m for m in MESSAGES if m[0] == position):
            is_done, left = message in self.case.acknowledged, x + _CELL * column
            fill, line = ("stored", "stored") if is_done else ("page", "faint")
            sign = "✔" if is_done else str(message[1]) if message[1] >= 0 else ""
            ink, middle = "page" if is_done else "faint", left + _CELL / 2
            parts += [
                rect(
                    f"{column} box", left + 1, _TOP - 16, size, size, rx=3, fill=fill, stroke=line
                ),
                text(f"{column} sign", middle, _TOP - 0.5, sign, fill=ink, anchor="middle"),
            ]
            if message == self.case.asked:
                bounds = left - 2, _TOP - 19, size + 6, size + 6
                parts.append(rect("asked", *bounds, rx=5, stroke="lost", thick=2.5))
        return group(_text(position), *parts)

    def _behind(self, position: Position) -> float:
        """Return the x coordinate just after the entry or, if the position is (L, -1), just before
        the first entry of ledger L.
        """
        if position[1] < 0:
            return self.bounds[position[0], 0][0] - _GAP / 2
        return self.bounds[position][1] + _GAP / 2

    def _mark_delete(self) -> Mark:
        x = self._behind(self.case.state.mark_delete)
        label = f"mark-delete {_text(self.case.state.mark_delete)}"
        return group(
            "mark-delete",
            rect("line", x - 1.5, 71, 3, 51, fill="confirmed"),
            text("label", max(x - 4, _LEFT), 136, label, fill="confirmed", bold=True),
        )

    def _range(self, each: Range) -> Mark:
        left, right = self._behind(each.lower), self._behind(each.upper) - _GAP / 2
        label, middle = f"({_text(each.lower)}, {_text(each.upper)}]", (left + right) / 2
        return group(
            label,
            rect("span", left, 112, right - left, 4, rx=2, fill="stored"),
            rect("line", middle - 0.5, 116, 1, 24, fill="line"),
            text("label", middle, 152, label, fill="stored", bold=True, anchor="middle"),
        )
