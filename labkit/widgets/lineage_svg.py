"""The lineage of a message as a still picture."""

from functools import partial

from labkit.model.lineage import Lineage
from labkit.model.piece import Piece
from labkit.widgets.drawing import BOX, FAINT, INK, LINE
from labkit.widgets.lineage_rows import (
    BATCH,
    BOOKIE,
    ENTRY,
    LEDGER,
    PARTITION,
    Box,
    Row,
    hue_of,
    id_boxes,
    legend_of,
    rows_of,
)
from labkit.widgets.xray_svg import PieceDrawing

WIDTH = 900
MARGIN = 14
LEFT, RIGHT = 118, 862
MOST_BOX = 150
ID_TOP, ID_HEIGHT, ID_WIDTH = 14, 40, 150
ID_LEFT, ID_PITCH = 57, 212
ROWS_TOP = 128
BOX_HEIGHT = {PARTITION: 22, LEDGER: 36, ENTRY: 24, BATCH: 24, BOOKIE: 38}
NOTE, GAP = 17, 26
LEGEND_HEIGHT = 12

# As in lineage.css: a part of the id has one colour everywhere; bytes have it thinned.
COLOURS = {
    LEDGER: "#0072b2",
    ENTRY: "#b84e00",
    PARTITION: "#00795a",
    BATCH: "#8f4a86",
    BOOKIE: "#57606a",
}
TINTS = ("#b7d6ea", "#f6cfae", "#e9e5de", "#f3eaa6", "#d3ecd9", "#ecdcea", "#d6b3d1")


def lineage_svg(lineage: Lineage, piece: Piece, words: str) -> str:
    """From the id down to the bytes of one copy, as a self-contained SVG document."""
    return _Picture(lineage, piece).draw(words)


class _Picture(PieceDrawing):
    def __init__(self, lineage: Lineage, piece: Piece) -> None:
        hues = partial(hue_of, lineage, piece_offset=piece.offset)
        super().__init__(16, WIDTH - 2 * MARGIN, hues, TINTS)
        self.lineage, self.shown = lineage, piece

    def draw(self, words: str) -> str:
        rows = rows_of(self.lineage)
        heights = [BOX_HEIGHT[row.part] + NOTE + GAP for row in rows]
        bytes_top = ROWS_TOP + sum(heights) + LEGEND_HEIGHT
        self.begin(WIDTH, bytes_top + self.height_of(self.shown) + MARGIN, words)
        self._id()
        top: float = ROWS_TOP
        for place, (row, height) in enumerate(zip(rows, heights, strict=True)):
            below = rows[place + 1] if place + 1 < len(rows) else None
            self._row_of_boxes(top, row, below, top + height)
            top += height
        self._legend(bytes_top - 9)
        self.piece(MARGIN, bytes_top, self.shown)
        return self.end()

    def _id(self) -> None:
        for place, (part, number, name, origin) in enumerate(id_boxes(self.lineage)):
            x, colour = ID_LEFT + ID_PITCH * place, COLOURS[part]
            self.rect(x, ID_TOP, ID_WIDTH, ID_HEIGHT, f"rx='6' fill='{colour}'")
            middle = x + ID_WIDTH / 2
            self.text(middle, ID_TOP + 27, number, fill="#fff", size=19, bold=True, middle=True)
            self.text(middle, ID_TOP + 58, name, fill=colour, size=13, bold=True, middle=True)
            self.text(middle, ID_TOP + 75, origin, fill=FAINT, size=11, middle=True)
            if place < 3:
                self.text(x + (ID_WIDTH + ID_PITCH) / 2, ID_TOP + 27, ":", size=19, middle=True)

    def _legend(self, y: float) -> None:
        x: float = MARGIN + 2
        for hue, words in legend_of(self.lineage):
            self.rect(x, y - 9, 18, 11, f"fill='{TINTS[hue] if hue >= 0 else BOX}'")
            self.rect(x, y - 9, 2, 11, f"fill='{INK}' fill-opacity='.55'")
            self.text(x + 24, y, words, fill=FAINT, size=10.5)
            x += 34 + 6 * len(words)

    def _row_of_boxes(self, y: float, row: Row, below: Row | None, next_y: float) -> None:
        width, height = _pitch(row), BOX_HEIGHT[row.part]
        colour = COLOURS[row.part]
        self.text(MARGIN + 2, y + height / 2 + 4, row.label, fill=_label_ink(row.part), bold=True)
        if row.before:
            self.text(LEFT - 6, y + height / 2 + 4, "…", fill=FAINT, anchor="end")
        if row.after:
            x = LEFT + width * len(row.boxes)
            self.text(x, y + height / 2 + 4, f"+{row.after:,}", fill=FAINT, size=10)
        chosen = [place for place, box in enumerate(row.boxes) if box.is_chosen]
        if below is not None and chosen:
            self._wedge(
                LEFT + width * chosen[0],
                LEFT + width * (chosen[-1] + 1) - 6,
                y + height,
                LEFT + _pitch(below) * len(below.boxes) - 6,
                next_y,
                colour,
            )
        for place, box in enumerate(row.boxes):
            self._box_of(LEFT + width * place, y, width - 6, height, box, colour)
        self.text(LEFT, y + height + 13, row.note, fill=FAINT, size=10.5)

    def _wedge(
        self, left: float, right: float, y: float, below: float, next_y: float, colour: str
    ) -> None:
        """From a chosen box to all that is in it."""
        points = f"{left:g},{y:g} {right:g},{y:g} {below:g},{next_y:g} {LEFT},{next_y:g}"
        self.add(f"<polygon points='{points}' fill='{colour}' fill-opacity='.1'/>")

    def _box_of(self, x: float, y: float, width: float, height: float, box: Box, ink: str) -> None:
        fill = ink if box.is_chosen else "#fff" if box.is_dashed else BOX
        dash = " stroke-dasharray='5 3'" if box.is_dashed and not box.is_chosen else ""
        line = ink if box.is_chosen else LINE
        self.rect(x, y, width, height, f"rx='4' fill='{fill}' stroke='{line}'{dash}")
        text = "#fff" if box.is_chosen else INK
        middle = x + width / 2
        baseline = y + height / 2 + (-3 if box.small else 4)
        self.text(middle, baseline, box.title, fill=text, size=11, bold=box.is_chosen, middle=True)
        if box.small:
            faint = "#fff" if box.is_chosen else FAINT
            self.text(middle, baseline + 13, box.small, fill=faint, size=9.5, middle=True)


def _pitch(row: Row) -> float:
    return min(MOST_BOX, (RIGHT - LEFT) / len(row.boxes))


def _label_ink(part: str) -> str:
    """A row's label names what was chosen in the row above."""
    above = {LEDGER: PARTITION, ENTRY: LEDGER, BATCH: ENTRY}.get(part)
    return COLOURS[above] if above else INK
