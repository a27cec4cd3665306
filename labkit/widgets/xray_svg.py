"""The byte X-ray as a still picture: all moments, one below the other."""

from collections.abc import Callable, Mapping, Sequence
from html import escape

from labkit.model.layout import Span
from labkit.model.piece import Piece
from labkit.widgets.drawing import BOX, FAINT, INK, LINE, LOST, Drawing
from labkit.widgets.xray_rows import Row, bytes_of, notes_of, rows_of, text_of

WIDTH = 900
MARGIN = 14
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
_DEFS = f"""<defs><pattern id='unsynced' width='5' height='5' patternUnits='userSpaceOnUse' \
patternTransform='rotate(45)'><rect width='1.2' height='5' fill='{LOST}' \
fill-opacity='.6'/></pattern></defs>"""

AS_BEFORE = "as before"

Moments = Mapping[str, Sequence[Piece]]


def xray_svg(moments: Moments, width: int, hue_of: Callable[[Span], int], words: str) -> str:
    """The pieces of every moment; `width` bytes a row, `hue_of` gives a span its tint."""
    return _Picture(moments, width, hue_of).draw(words)


def _without_repetitions(moments: Moments) -> Moments:
    """A piece that is what it was in the moment before is only named."""
    shorter: dict[str, Sequence[Piece]] = {}
    before: Sequence[Piece] = ()
    for label, pieces in moments.items():
        shorter[label] = [
            Piece(piece.title, piece.file, absent=AS_BEFORE)
            if piece.data and piece in before
            else piece
            for piece in pieces
        ]
        before = pieces
    return shorter


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
        dash = "" if piece.data or piece.absent == AS_BEFORE else " stroke-dasharray='5 3'"
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


class _Picture(PieceDrawing):
    def __init__(self, moments: Moments, width: int, hue_of: Callable[[Span], int]) -> None:
        most = max(len(pieces) for pieces in moments.values())
        self.columns = 2 if most > 1 and width <= 8 else 1
        super().__init__(width, (WIDTH - MARGIN * (self.columns + 1)) // self.columns, hue_of)
        self.moments = _without_repetitions(moments)
        pieces = [piece for some in moments.values() for piece in some]
        self.has_legend = any(p.safe_size < len(p.data) for p in pieces)

    def draw(self, words: str) -> str:
        heights = [self._moment_height(*moment) for moment in self.moments.items()]
        top: float = 30 if self.has_legend else 6
        self.begin(WIDTH, top + sum(heights) + 4, words, _DEFS)
        if self.has_legend:
            self._legend()
        for (label, pieces), height in zip(self.moments.items(), heights, strict=True):
            self._moment(top, label, pieces)
            top += height
        return self.end()

    def _legend(self) -> None:
        self.rect(MARGIN, 9, 20, 12, "fill='#fff'")
        self.rect(MARGIN, 9, 20, 12, f"fill='url(#unsynced)' stroke='{LOST}'")
        self.text(
            MARGIN + 26, 19, "not synced: a power cut may take these bytes", fill=FAINT, size=11
        )

    def _bands(self, pieces: Sequence[Piece]) -> list[Sequence[Piece]]:
        return [pieces[i : i + self.columns] for i in range(0, len(pieces), self.columns)]

    def _moment_height(self, label: str, pieces: Sequence[Piece]) -> float:
        bands = (max(map(self.height_of, band)) + 10 for band in self._bands(pieces))
        return (26 if label else 4) + sum(bands)

    def _moment(self, top: float, label: str, pieces: Sequence[Piece]) -> None:
        if label:
            self.text(MARGIN, top + 17, label, size=14, bold=True)
        y: float = top + (26 if label else 4)
        for band in self._bands(pieces):
            for place, piece in enumerate(band):
                self.piece(MARGIN + place * (self.panel + MARGIN), y, piece)
            y += max(map(self.height_of, band)) + 10
