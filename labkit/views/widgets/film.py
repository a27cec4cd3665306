"""Encodes a run as a film: one scene for each beat, as data that a browser can play without Python.

Consecutive scenes share the parts that did not change, and the film preserves that sharing. Each
distinct mark is one row of a table. A row refers to its children by row number, and is encoded as
the difference from the same mark one beat earlier, so each beat adds only a few numbers. The
browser draws any beat by comparing two trees of row numbers. No patches must be applied or undone
in order, so the cost of a jump over ten thousand beats depends only on the visible difference.

The tables only grow, so the film of a running cluster can be sent in increments.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from labkit.views.widgets.drawing.scene import Mark


class Beat(NamedTuple):
    """One scene of a film.

    at: the position on the clock, in milliseconds of display time.
    words: what has just happened.
    seq: the last event that the scene shows, or -1 if it shows none.
    """

    at: float
    scene: Mark
    words: str = ""
    seq: int = -1


class Film:
    def __init__(self) -> None:
        self.beats: list[Beat] = []
        self._clear()

    def _clear(self) -> None:
        self._tables: dict[str, list[Any]] = {
            name: [] for name in ("words", "pairs", "attributes", "heads", "rows", "beats")
        }
        self._numbers: dict[object, int] = {}
        self._rows_by_id: dict[int, tuple[int, Mark]] = {}
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
        """Return the rows and beats added since the last call of `whole` or `growth`."""
        fresh = {name: table[self._sent[name] :] for name, table in self._tables.items()}
        self._sent = {name: len(table) for name, table in self._tables.items()}
        return fresh

    def keep_last(self, count: int) -> None:
        """Discard all but the last `count` beats; the browser then needs the whole film."""
        # Rebuild the tables, because they still contain marks that only the discarded beats use.
        kept = self.beats[-count:]
        self.beats = []
        self._clear()
        for beat in kept:
            self.add(beat)

    def number(self, legend: Mark | None) -> int:
        """Return the row number of a legend, or -1 if there is none."""
        return self._row(legend, None) if legend else -1

    def _row(self, mark: Mark, before: Mark | None) -> int:
        rows = self._rows_by_id
        if id(mark) in rows:
            return rows[id(mark)][0]
        olds: dict[str, Mark] = {}
        if before and before.children is not mark.children:
            olds = {child.key: child for child in before.children}
        children = tuple(
            rows[id(child)][0] if id(child) in rows else self._row(child, olds.get(child.key))
            for child in mark.children
        )
        head = self._head(mark)
        number = self._numbers.get((head, children))
        if number is None:
            number = self._numbers[head, children] = len(self._children)
            self._tables["rows"].append(self._encoded(head, children, before))
            self._children.append(children)
        # Keep a reference to the mark, because its id is unique only while the mark exists.
        rows[id(mark)] = number, mark
        return number

    def _encoded(self, head: int, children: tuple[int, ...], before: Mark | None) -> list[int]:
        """Return [head, similar row or -1, index of the first changed child, number of children to
        remove, children to insert].
        """
        similar = self._rows_by_id.get(id(before)) if before else None
        # If there is only one child, the difference would be longer than the child itself.
        if similar is None or len(children) < 2:
            return [head, -1, 0, 0, *children]
        old = self._children[similar[0]]
        start, end = _common(old, children)
        return [
            head,
            similar[0],
            start,
            len(old) - start - end,
            *children[start : len(children) - end],
        ]

    def _head(self, mark: Mark) -> int:
        """Return the number assigned to a mark's head, which consists of its key, tag, attributes,
        text and movement. An attribute is stored as the number of its (name, value) pair, because
        many marks differ in only one attribute.
        """
        pairs = tuple(self._intern("pairs", pair, pair) for pair in mark.attributes.items())
        attributes = self._intern("attributes", pairs, pairs)
        head = (mark.key, mark.tag, attributes, self._text(mark.text), mark.move)
        return self._intern("heads", head, head)

    def _text(self, words: str) -> int:
        return self._intern("words", words, words)

    def _intern(self, name: str, key: object, value: object) -> int:
        table = self._tables[name]
        number = self._numbers.setdefault((name, key), len(table))
        if number == len(table):
            table.append(value)
        return number


def _common(old: Sequence[int], new: Sequence[int]) -> tuple[int, int]:
    """Return the lengths of the common prefix and, without overlap, the common suffix."""
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return start, end
