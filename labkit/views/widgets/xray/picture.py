"""Draws the byte X-ray: the pieces of a file or record side by side, at one moment of the run or at
every moment.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest

from labkit.system.model.layout import Span
from labkit.views.widgets.drawing.legend import SAMPLE, Symbol, legend
from labkit.views.widgets.drawing.scene import Mark, group, hatch, path, picture, rect, text
from labkit.views.widgets.drawing.text_metrics import fitted, width_of
from labkit.views.widgets.xray.pieces import (
    AS_BEFORE,
    PieceStyle,
    field_kin,
    height_of,
    piece_mark,
    tint_of,
)
from labkit.views.widgets.xray.rows import field_of
from labkit.views.xray.byte_region import Piece

WIDTH, MARGIN, STEP = 860, 10, 30
Moments = Mapping[str, Sequence[Piece]]


class XRayPicture:
    """Draws the pieces of several moments.

    width: the number of bytes in a row.
    positions: the positions of the moments on the clock.
    """

    def __init__(self, moments: Moments, width: int, positions: Sequence[float]) -> None:
        self._moments, self._positions = moments, positions
        most = max(len(pieces) for pieces in moments.values())
        self._columns = 2 if most > 1 and width <= 8 else 1
        panel = (WIDTH - MARGIN * (self._columns + 1)) / self._columns
        self._look = PieceStyle(width, panel, _fill_of, field_kin)
        pieces = [piece for some in moments.values() for piece in some]
        self._has_key = any(p.safe_size < len(p.data) for p in pieces)
        self._steps, self._top = _steps(tuple(moments)) if len(moments) > 1 else ([], 8.0)
        heights = [self._heights_of(pieces) for pieces in moments.values()]
        self._heights = [max(each) for each in zip_longest(*heights, fillvalue=0.0)]
        self._height = self._top + self._tallest(self._heights) + (26 if self._has_key else 0)

    def scene(self, shown: int, words: str) -> Mark:
        labels = list(self._moments)
        steps = [
            _step(label, at == shown, self._positions[at], *self._steps[at])
            for at, label in enumerate(labels)
            if self._steps
        ]
        pieces = self._pieces(self._moments[labels[shown]], self._heights, self._top)
        key = [_key(self._height - 22)] if self._has_key else []
        return picture(WIDTH, self._height, words, group("steps", *steps), *pieces, *key)

    def all(self, words: str) -> Mark:
        """Return all moments, one below another. Pieces that have not changed are drawn without
        bytes.
        """
        marks, y, before = list[Mark](), 4.0, tuple[Piece, ...]()
        for label, pieces in self._moments.items():
            parts = [text("label", MARGIN, 18, label, size=14, bold=True)] if label else []
            shown = [
                Piece(piece.title, piece.file, absent=AS_BEFORE)
                if piece.data and piece in before
                else piece
                for piece in pieces
            ]
            top, heights = 26.0 if label else 4.0, self._heights_of(shown)
            marks.append(group(label, *parts, *self._pieces(shown, heights, top), y=y))
            y, before = y + top + self._tallest(heights), tuple(pieces)
        key = [_key(y + 2)] if self._has_key else []
        return picture(WIDTH, y + (26 if self._has_key else 4), words, *marks, *key)

    def _heights_of(self, pieces: Sequence[Piece]) -> list[float]:
        return [height_of(piece, self._look.width) for piece in pieces]

    def _tallest(self, heights: Sequence[float]) -> float:
        """Return the total height of the pieces, which are arranged side by side in bands."""
        starts = range(0, len(heights), self._columns)
        return sum(max(heights[at : at + self._columns]) + MARGIN for at in starts)

    def _pieces(self, pieces: Sequence[Piece], heights: Sequence[float], y: float) -> list[Mark]:
        marks = []
        for at, (piece, height) in enumerate(zip(pieces, heights, strict=False)):
            x = MARGIN + at % self._columns * (self._look.panel + MARGIN)
            top = y + self._tallest(heights[: at - at % self._columns])
            mark = piece_mark(piece, self._look, x, top, height)
            marks.append(mark._replace(key=f"piece {at}"))
        return marks


def _fill_of(_piece: Piece, span: Span) -> str:
    field = field_of(span)
    return tint_of(field) if field else "box"


def _steps(labels: tuple[str, ...]) -> tuple[list[tuple[float, float]], float]:
    places, x, y = list[tuple[float, float]](), float(MARGIN), 6.0
    for label in labels:
        width = _step_width(label)
        if x + width > WIDTH - MARGIN:
            x, y = MARGIN, y + STEP
        places.append((x, y))
        x += width + 4
    return places, y + STEP + 8


def _step_width(label: str) -> float:
    return min(width_of(label, bold=True) + 24, WIDTH - 2 * MARGIN)


def _step(label: str, is_shown: bool, position: float, x: float, y: float) -> Mark:
    width = _step_width(label)
    fill, ink = ("ink", "page") if is_shown else ("page", "ink")
    words = fitted(label, width - 20, bold=True)
    return group(
        label,
        rect("box", 0, 0, width, 26, rx=4, fill=fill, stroke="line"),
        text("label", width / 2, 17.5, words, fill=ink, bold=is_shown, anchor="middle"),
        x=x,
        y=y,
        title=f"{label} (shown)" if is_shown else label,
        act="seek",
        on=f"{position:.10g}",
    )


def _key(y: float) -> Mark:
    return group(
        "key",
        rect("box", 0, 0, 22, 14, fill="page", stroke="lost"),
        path("lines", hatch(22, 14, step=5), stroke="lost"),
        text("words", 30, 11.5, "not synced: a power cut may destroy these bytes", fill="faint"),
        x=MARGIN,
        y=y,
    )


@lru_cache(1)
def legend_of() -> Mark | None:
    box = rect("box", 0, 0, SAMPLE, 17, fill="tint0")
    first = rect("first", 0, 0, 2, 17, fill="faint")
    zeros = rect("box", 0, 0, SAMPLE, 17, fill="box")
    lines = path("lines", hatch(SAMPLE, 17, step=5), stroke="lost")
    return legend(
        [
            Symbol("field", [box, first], "a field, starting at the bar", 17),
            Symbol("zeros", [zeros], "zeros without a meaning", 17),
            Symbol("unsynced", [box, lines], "not synced", 17),
        ]
    )
