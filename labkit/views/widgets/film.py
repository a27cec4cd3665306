"""A run as a film: the scene at each of its beats, as data that a browser plays by itself.

Scenes share the parts that did not change, and so does the film: every distinct mark is one row,
and a scene is the number of its root's row.  A row names its children by number, and is sent as the
difference from the same mark a beat before, so a beat costs a few numbers.  The browser draws any
beat by comparing two trees of numbers.  There are no patches to apply in order or to undo, so the
cost of a jump over ten thousand beats is that of the visible difference.

Tables only grow, so the film of a running cluster is sent in pieces.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from labkit.views.widgets.scene import Mark


class Beat(NamedTuple):
    """at: the position on the clock, in milliseconds of display.  words: what just happened. seq:
    the last event that the scene shows, -1 before the first.
    """

    at: float
    scene: Mark
    words: str = ""
    seq: int = -1


class Film:
    """Takes beats in the order of their positions and sends them to a browser."""

    def __init__(self) -> None:
        self.beats: list[Beat] = []
        self._clear()

    def _clear(self) -> None:
        self._tables: dict[str, list[Any]] = {
            name: [] for name in ("words", "pairs", "attributes", "heads", "rows", "beats")
        }
        self._numbers: dict[object, int] = {}
        self._known: dict[int, tuple[int, Mark]] = {}
        self._children: list[tuple[int, ...]] = []
        self._sent = dict.fromkeys(self._tables, 0)

    def add(self, beat: Beat) -> None:
        before = self.beats[-1].scene if self.beats else None
        row = self._row(beat.scene, before)
        words = self._text(beat.words)
        self._tables["beats"].append([round(beat.at, 1), row, words, beat.seq])
        self.beats.append(beat)

    def whole(self) -> dict[str, Any]:
        self._sent = {name: len(table) for name, table in self._tables.items()}
        return {name: list(table) for name, table in self._tables.items()}

    def growth(self) -> dict[str, Any]:
        """The new rows and beats since the last call of `whole` or `growth`."""
        fresh = {name: table[self._sent[name] :] for name, table in self._tables.items()}
        self._sent = {name: len(table) for name, table in self._tables.items()}
        return fresh

    def keep_last(self, count: int) -> None:
        """Forget all beats except the last ones; the browser then needs the whole film again."""
        # All numbers change: marks that only forgotten beats had would stay in the tables.
        kept = self.beats[-count:]
        self.beats = []
        self._clear()
        for beat in kept:
            self.add(beat)

    def number(self, scene: Mark) -> int:
        """The row of a scene that is not a beat, such as a legend."""
        return self._row(scene, None)

    def _row(self, mark: Mark, before: Mark | None) -> int:
        known = self._known
        if id(mark) in known:
            return known[id(mark)][0]
        olds: dict[str, Mark] = {}
        if before and before.children is not mark.children:
            olds = {child.key: child for child in before.children}
        children = tuple(
            known[id(child)][0] if id(child) in known else self._row(child, olds.get(child.key))
            for child in mark.children
        )
        head = self._head(mark)
        number = self._numbers.get((head, children))
        if number is None:
            number = self._numbers[head, children] = len(self._children)
            self._tables["rows"].append(self._encoded(head, children, before))
            self._children.append(children)
        # The mark is kept as well: an object's id is unique only while the object lives.
        known[id(mark)] = number, mark
        return number

    def _encoded(self, head: int, children: tuple[int, ...], before: Mark | None) -> list[int]:
        """[head, similar row or -1, index at which children differ, number to drop, children to
        put].
        """
        known = self._known.get(id(before)) if before else None
        # With a single child the difference is longer than the child.
        if known is None or len(children) < 2:
            return [head, -1, 0, 0, *children]
        old = self._children[known[0]]
        start, end = _common(old, children)
        return [
            head,
            known[0],
            start,
            len(old) - start - end,
            *children[start : len(children) - end],
        ]

    def _head(self, mark: Mark) -> int:
        """The number of a mark's attributes and texts, stored by the numbers of their parts, since
        many marks differ in only one of these.
        """
        pairs = tuple(self._keep("pairs", pair, pair) for pair in mark.attributes.items())
        attributes = self._keep("attributes", pairs, pairs)
        head = (mark.key, mark.tag, attributes, self._text(mark.text), mark.move)
        return self._keep("heads", head, head)

    def _text(self, words: str) -> int:
        return self._keep("words", words, words)

    def _keep(self, name: str, key: object, value: object) -> int:
        table = self._tables[name]
        number = self._numbers.setdefault((name, key), len(table))
        if number == len(table):
            table.append(value)
        return number


def _common(old: Sequence[int], new: Sequence[int]) -> tuple[int, int]:
    """The number of equal items at the beginning, and of the rest at the end."""
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, end
