"""Draws the lineage of a message as a scene: its id, rows of boxes, and below them the bytes of one
copy.

Each number of the id has the same colour in the id, in the rows and in the bytes, and is
highlighted in all three at the same time.
"""

from collections.abc import Sequence
from itertools import pairwise

from labkit.system.model.layout import Span
from labkit.views.widgets.drawing.legend import SAMPLE, Symbol, legend
from labkit.views.widgets.drawing.scene import Mark, Style, group, path, picture, rect, text
from labkit.views.widgets.drawing.text_metrics import fitted, lines_of
from labkit.views.widgets.lineage.rows import (
    BATCH,
    BOOKIE,
    ENTRY,
    FRAME,
    HEADER,
    LEDGER,
    LEGEND,
    METADATA,
    OWN,
    PARTITION,
    PAYLOAD,
    REST,
    Box,
    BoxRow,
    belongs_to,
    id_boxes,
    legend_of,
    rows_of,
)
from labkit.views.widgets.xray.pieces import PieceStyle, field_kin, height_of, piece_mark, tint_of
from labkit.views.xray.byte_region import Piece
from labkit.views.xray.message_location import Lineage

WIDTH, MARGIN = 860, 10
BYTES_PER_ROW = 16
"""The number of bytes in a row."""
ID_LEFT, ID_PITCH, ID_WIDTH, ID_HEIGHT = 44, 206, 154, 40
ROWS_TOP = 112
LEFT, RIGHT, MAX_BOX_WIDTH, BETWEEN = 112, 814, 150, 6
"""Boxes are drawn between LEFT and RIGHT. They are at most MAX_BOX_WIDTH wide and BETWEEN apart."""
HEIGHTS = {PARTITION: 26, LEDGER: 40, ENTRY: 26, BATCH: 26, BOOKIE: 56}
LINE, GAP = 16, 12

COLOURS = {PARTITION: "hue2", LEDGER: "hue0", ENTRY: "hue6", BATCH: "hue3", BOOKIE: "faint"}
TINTS = {
    LEDGER: tint_of("ledger id"),
    ENTRY: tint_of("entry id"),
    HEADER: "tint9",
    FRAME: "tint4",
    METADATA: "tint2",
    OWN: "tint3",
    PAYLOAD: tint_of("payload"),
    REST: "box",
}
_PART_OF = {LEDGER: LEDGER, ENTRY: ENTRY, OWN: BATCH, PAYLOAD: BATCH}
"""The number of the id to which bytes belong, by the kind of bytes."""


class LineagePicture:
    def __init__(self, lineage: Lineage) -> None:
        self._lineage, self._rows = lineage, rows_of(lineage)
        self._look = PieceStyle(BYTES_PER_ROW, WIDTH - 2 * MARGIN, self._fill_of, self._kin_of)
        self._tops = [float(ROWS_TOP)]
        for row in self._rows:
            self._tops.append(self._tops[-1] + HEIGHTS[row.part] + LINE * len(_note(row)) + GAP)
        self._bytes_height = max(height_of(copy.piece, BYTES_PER_ROW) for copy in lineage.copies)
        self._height = self._tops[-1] + self._bytes_height + MARGIN

    def scene(self, shown: int, positions: Sequence[float], words: str) -> Mark:
        """Return the picture with the bytes of the copy with index `shown`. positions: the
        positions of the copies on the clock.
        """
        piece = self._lineage.copies[shown].piece
        wedges = [
            _wedge(row, below, top + HEIGHTS[row.part], end)
            for (row, below), (top, end) in zip(
                pairwise(self._rows), pairwise(self._tops[:-1]), strict=True
            )
        ]
        rows = [
            group(row.part, *_words_of(row), *self._boxes(row, shown, positions), y=top, block=True)
            for row, top in zip(self._rows, self._tops, strict=False)
        ]
        return picture(
            WIDTH,
            self._height,
            words,
            self._id(),
            group("wedges", *wedges),
            *rows,
            piece_mark(piece, self._look, MARGIN, self._tops[-1], self._bytes_height)._replace(
                key="bytes"
            ),
        )

    def legend(self) -> Mark | None:
        first = rect("first", 0, 0, 2, 17, fill="faint")
        return legend(
            [
                Symbol(
                    name, [rect("box", 0, 0, SAMPLE, 17, fill=TINTS[name]), first], LEGEND[name], 17
                )
                for name in legend_of(self._lineage)
            ]
        )

    def _fill_of(self, piece: Piece, span: Span) -> str:
        return TINTS[belongs_to(self._lineage, piece, span)]

    def _kin_of(self, piece: Piece, span: Span) -> str:
        part = _PART_OF.get(belongs_to(self._lineage, piece, span))
        return _kin(part) if part else field_kin(piece, span)

    def _id(self) -> Mark:
        parts = []
        for place, (part, number, name, origin) in enumerate(id_boxes(self._lineage)):
            fill, middle = COLOURS[part], ID_WIDTH / 2
            colon = text("colon", (ID_WIDTH + ID_PITCH) / 2, 27, ":", size=19, anchor="middle")
            parts.append(
                group(
                    part,
                    rect("box", 0, 0, ID_WIDTH, ID_HEIGHT, rx=6, fill=fill),
                    text(
                        "number",
                        middle,
                        27,
                        number,
                        fill="page",
                        size=19,
                        bold=True,
                        anchor="middle",
                    ),
                    text("name", middle, 58, name, fill=fill, size=13, bold=True, anchor="middle"),
                    text("origin", middle, 75, origin, fill="faint", anchor="middle"),
                    x=ID_LEFT + ID_PITCH * place,
                    title=f"{name} {number}: {origin}",
                    kin=_kin(part),
                )
            )
            if place < 3:
                parts.append(group(f"after {part}", colon, x=ID_LEFT + ID_PITCH * place))
        return group("id", *parts, y=14, block=True)

    def _boxes(self, row: BoxRow, shown: int, positions: Sequence[float]) -> list[Mark]:
        pitch, marks = _pitch(row), []
        for place, box in enumerate(row.boxes):
            is_part = box.is_chosen and row.part != BOOKIE
            can_be_shown = box.copy >= 0
            words = f"{box.words} (shown)" if can_be_shown and box.copy == shown else box.words
            marks.append(
                group(
                    box.title,
                    *_box(row.part, box, pitch - BETWEEN, is_filled=is_part or box.copy == shown),
                    x=LEFT + pitch * place,
                    title=words,
                    kin=f"{_kin(row.part)} {box.kin}" if is_part else box.kin,
                    act="seek" if can_be_shown else "",
                    on=f"{positions[box.copy]:.10g}" if can_be_shown else "",
                )
            )
        return marks


def _kin(part: str) -> str:
    return f"id-{part}"


def _pitch(row: BoxRow) -> float:
    return min(MAX_BOX_WIDTH, (RIGHT - LEFT) / len(row.boxes))


def _note(row: BoxRow) -> tuple[str, ...]:
    return lines_of(row.note, WIDTH - LEFT - MARGIN)


def _words_of(row: BoxRow) -> list[Mark]:
    """Return a row's label (the same text as the chosen box in the row above), the number of
    omitted boxes, and the row's note.
    """
    above = {LEDGER: PARTITION, ENTRY: LEDGER, BATCH: ENTRY}.get(row.part)
    ink, base = COLOURS[above] if above else "ink", HEIGHTS[row.part] / 2 + 4
    label = fitted(row.label, LEFT - MARGIN - 20, bold=True)
    marks = [text("label", MARGIN, base, label, fill=ink, bold=True)]
    if row.before:
        marks.append(text("before", LEFT - 6, base, "…", fill="faint", anchor="end"))
    if row.after:
        x = LEFT + _pitch(row) * len(row.boxes)
        marks.append(text("after", x, base, f"+{row.after:,}", fill="faint"))
    for at, line in enumerate(_note(row)):
        y = HEIGHTS[row.part] + LINE * at + 14
        marks.append(text(f"note {at}", LEFT, y, line, fill="faint", halo=True))
    return marks


def _box(part: str, box: Box, width: float, *, is_filled: bool) -> list[Mark]:
    fill = COLOURS[part] if is_filled else "page" if box.is_dashed else "box"
    style: Style = {"fill": fill, "stroke": COLOURS[part] if box.is_chosen else "line"}
    if box.is_dashed and not box.is_chosen:
        style["dash"] = "5 3"
    ink, faint = ("page", "page") if is_filled else ("ink", "faint")
    small = [fitted(x, width - 4) for line in box.small for x in lines_of(line, width - 4)][:2]
    middle, base = width / 2, HEIGHTS[part] / 2 + 4.5 - 7.5 * len(small)
    title = fitted(box.title, width - 4, bold=box.is_chosen)
    return [
        rect("box", 0, 0, width, HEIGHTS[part], rx=4, **style),
        text("name", middle, base, title, fill=ink, bold=box.is_chosen, anchor="middle"),
        *(
            text(f"small {at}", middle, base + 15 * (at + 1), line, fill=faint, anchor="middle")
            for at, line in enumerate(small)
        ),
    ]


def _wedge(row: BoxRow, below: BoxRow, top: float, bottom: float) -> Mark:
    chosen = [place for place, box in enumerate(row.boxes) if box.is_chosen]
    left = LEFT + _pitch(row) * chosen[0]
    right = LEFT + _pitch(row) * (chosen[-1] + 1) - BETWEEN
    end = LEFT + _pitch(below) * len(below.boxes) - BETWEEN
    d = f"M{left:g} {top:g}H{right:g}L{end:g} {bottom:g}H{LEFT}z"
    return path(row.part, d, fill=f"{COLOURS[row.part]} wash")
