"""A piece of bytes in the still picture of the lineage."""

from collections.abc import Callable, Sequence
from html import escape

from labkit.model.layout import Span
from labkit.model.piece import Piece
from labkit.widgets.drawing import BOX, FAINT, INK, LINE, LOST, Drawing
from labkit.widgets.xray.rows import Row, bytes_of, notes_of, rows_of, text_of

ROW = 19
BYTE = 18
CHAR = 6.7
HEAD = 30
MONO = "DejaVu Sans Mono, Consolas, monospace"
NOTE_CHAR = 6.3  # of a note, on average

# As in xray.css: hues that stay apart for colour-blind eyes, thinned so that ink reads on them.
TINTS = (
    *("#cfe3f1", "#f9dfc4", "#cdeadd", "#ecd6ea", "#f7efb5"),
    *("#d7ecf8", "#f5d3cf", "#dadcf3", "#e3ecc6", "#e6ddd2"),
)


class PieceDrawing(Drawing):
    """Draws pieces into panels; `hue_of` gives a span its place in `tints`, -1 for none."""

    def __init__(
        self, width: int, panel: float, hue_of: Callable[[Span], int], tints: Sequence[str] = TINTS
    ) -> None:
        super().__init__()
        self.width, self.panel = width, panel
        self._hue_of, self._tints = hue_of, tints
        self._offset = 40 if width <= 8 else 58

    def height_of(self, piece: Piece) -> float:
        """How much room a piece takes."""
        return HEAD + ROW * len(list(rows_of(piece, self.width))) + (8 if piece.data else 0)

    def piece(self, x: float, y: float, piece: Piece) -> None:
        """Draw a piece with its frame."""
        dash = "" if piece.data else " stroke-dasharray='5 3'"
        self.rect(
            x, y, self.panel, self.height_of(piece), f"rx='6' fill='#fff' stroke='{LINE}'{dash}"
        )
        self.text(x + 8, y + 19, piece.title, bold=True)
        after = x + 20 + 7.9 * len(piece.title)
        self.text(after, y + 19, piece.file.removeprefix("current/"), fill=FAINT, size=11)
        lost = piece.state in ("not synced", "partly synced")
        self.text(
            x + self.panel - 8,
            y + 19,
            piece.words,
            fill=LOST if lost else FAINT,
            size=11,
            anchor="end",
            bold=lost,
        )
        for place, row in enumerate(rows_of(piece, self.width)):
            self._row(x + 8, y + HEAD + ROW * place, piece, row)

    def _row(self, x: float, y: float, piece: Piece, row: Row) -> None:
        if row.left_out:
            self.text(x + self._offset, y + 13, f"⋮ {row.left_out:,} bytes", fill=FAINT, size=11)
            return
        self.text(
            x + self._offset - 8,
            y + 13,
            str(row.offset),
            fill=FAINT,
            size=10.5,
            anchor="end",
            family=MONO,
        )
        self._fields_of(x + self._offset, y, piece, row)
        text_x = x + self._offset + BYTE * self.width + 6
        for place, byte in enumerate(bytes_of(piece, row)):
            self.text(
                x + self._offset + BYTE * (row.lead + place) + BYTE / 2,
                y + 13,
                f"{byte:02x}",
                size=11,
                middle=True,
                family=MONO,
            )
        text = text_of(bytes_of(piece, row))
        self.text(text_x + CHAR * row.lead, y + 13, text, fill=FAINT, size=11, family=MONO)
        self._note(text_x + CHAR * self.width + 6, y, x + self.panel - 16, piece, row)

    def _fields_of(self, x: float, y: float, piece: Piece, row: Row) -> None:
        first, end = row.offset, row.offset + row.size
        unsafe = piece.offset + piece.safe_size
        for span in piece.spans:
            a, b = max(first, span.offset), min(end, span.offset + span.size)
            if a >= b:
                continue
            left = x + BYTE * (row.lead + a - first)
            hue = self._hue_of(span)
            tint = self._tints[hue % len(self._tints)] if hue >= 0 else BOX
            self._box(left, y, BYTE * (b - a), f"fill='{tint}'", span.name)
            if b > unsafe:
                cut = max(a, unsafe)
                self._box(left + BYTE * (cut - a), y, BYTE * (b - cut), "fill='url(#unsynced)'")
            if a == span.offset:
                self.rect(left, y + 1, 2, ROW - 3, f"fill='{INK}' fill-opacity='.55'")

    def _box(self, x: float, y: float, width: float, style: str, title: str = "") -> None:
        inside = f"<title>{escape(title)}</title>" if title else ""
        self.add(
            f"<rect x='{x:g}' y='{y + 1:g}' width='{width:g}' height='{ROW - 3}' {style}>"
            f"{inside}</rect>"
        )

    def _note(self, x: float, y: float, right: float, piece: Piece, row: Row) -> None:
        words = " · ".join(f"{name} {value}".rstrip() for name, value in notes_of(piece, row))
        most = int((right - x) / NOTE_CHAR)
        if len(words) > most:
            words = words[: most - 1] + "…"
        self.text(x, y + 13, words, size=11)
