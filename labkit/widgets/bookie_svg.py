"""A bookie's inside as a still picture, at one moment; `bookie_inside.css` has the same look."""

from collections.abc import Sequence
from html import escape

from labkit.trace.bookie_fold import BookieState
from labkit.widgets.bookie_bands import LEGEND, Band, Item
from labkit.widgets.drawing import BOX, CONFIRMED, FAINT, INK, LINE, LOST, Drawing

WIDTH = 860
GUTTER = 150
BLOCK = 40
HIGH = 22
GAP = 5
LINE_HEIGHT = HIGH + 19
WIDTHS = {"pad": 12, "mark": 14, "page": 50, "head": 50, "tail": 96, "gap": 36}

HUES = ("#0072b2", "#c07800", "#00805e", "#a8487f", "#8a7400", "#3d6fd0")
TINTS = ("#b9d7ea", "#f6d7a8", "#b5e2d2", "#e9c6dc", "#ece0a0", "#cdd8f5")
STATES = {"up": ("●", "#007a5a"), "down": ("✕", LOST), "unknown": ("?", FAINT)}
_DEFS = f"""<defs><pattern id='pad' width='5' height='5' patternUnits='userSpaceOnUse' \
patternTransform='rotate(45)'><rect width='1.2' height='5' fill='{FAINT}' fill-opacity='.6'/>\
</pattern></defs>"""
_HOLLOW = "fill='#fff' stroke-width='2'"


def bookie_svg(name: str, state: BookieState, bands: Sequence[Band], words: str) -> str:
    """The picture of these bands as a self-contained SVG document."""
    return _Picture(name, state, bands).draw(words)


class _Picture(Drawing):
    def __init__(self, name: str, state: BookieState, bands: Sequence[Band]) -> None:
        super().__init__()
        self.name = name
        self.state = state
        self.bands = bands

    def draw(self, words: str) -> str:
        lines = [_lines(band.items) for band in self.bands]
        heights = [14 + LINE_HEIGHT * max(len(each), 1) for each in lines]
        gaps = [10 if new else 0 for new in self._begins_part()]
        self.begin(WIDTH, 88 + sum(heights) + sum(gaps) + 36, words, _DEFS)
        self._header()
        y: float = 80
        for band, placed, height, gap in zip(self.bands, lines, heights, gaps, strict=True):
            y += gap
            self._band(y, height, band, placed, named=gap > 0)
            y += height
        self.text(16, y + 28, self.state.sentence, size=13)
        return self.end()

    def _begins_part(self) -> list[bool]:
        parts = [band.part for band in self.bands]
        return [i == 0 or part != parts[i - 1] for i, part in enumerate(parts)]

    def _header(self) -> None:
        glyph, colour = STATES[self.state.state]
        self.text(16, 27, glyph, fill=colour, bold=True)
        self.text(31, 27, self.name, size=14, bold=True)
        if self.state.state == "down":
            self.text(31 + 10 * len(self.name), 27, "down", fill=LOST)
        if self.state.found is not None:
            tailing = self.state.found.where == "memtable"
            words = (
                "tailing read: memtable, no disk"
                if tailing
                else "catch-up read: index, then entry log"
            )
            self.text(WIDTH - 16, 27, words, fill=CONFIRMED, bold=True, anchor="end")
        x, y = 16.0, 42
        for look, words in LEGEND:
            width = 42 + 6.2 * len(words)
            if x + width > WIDTH:
                x, y = 16.0, y + 19
            kind = look if look in ("special", "pad", "mark") else "entry"
            shown = {"found": "put", "special": "synced"}.get(look, look)
            item = Item(kind, shown, hue=0, found=look == "found")
            self._item(x + (4 if kind == "mark" else 0), y, item, 22, 13)
            self.text(x + 29, y + 11, words, fill=FAINT, size=11)
            x += width

    def _band(
        self,
        y: float,
        height: float,
        band: Band,
        lines: list[list[tuple[float, Item]]],
        named: bool,
    ) -> None:
        dash = " stroke-dasharray='6 3'" if self._is_dark(band) else ""
        colour = LOST if dash else LINE
        self.rect(
            GUTTER,
            y,
            WIDTH - GUTTER - 12,
            height - 4,
            f"rx='5' fill='{'#fff' if dash else BOX}' stroke='{colour}'{dash}",
        )
        if named:
            self.text(16, y + 8, band.part, fill=FAINT, size=10.5)
        self.text(16, y + 24, band.title, bold=True)
        self.text(16, y + 38, band.subtitle, fill=FAINT, size=10.5)
        for number, line in enumerate(lines):
            for x, item in line:
                self.add(f"<g><title>{escape(_title(item))}</title>")
                top = y + 7 + LINE_HEIGHT * number
                self._item(x, top, item, _width(item), HIGH)
                self.add("</g>")

    def _is_dark(self, band: Band) -> bool:
        """Memory that has no power."""
        return self.state.state == "down" and band.part == "memory"

    def _item(self, x: float, y: float, item: Item, width: float, height: float) -> None:
        if item.kind in ("entry", "special"):
            self._entry(x, y, item, width, height)
        elif item.kind == "pad":
            self.rect(x, y, width, height, "fill='url(#pad)'")
        elif item.kind == "mark":
            self._mark(x, y, item, height)
        else:
            style = f"fill='none' stroke='{LINE}'"
            style += " stroke-dasharray='3 3'" if item.kind in ("tail", "page") else ""
            self.rect(x, y, width, height, f"rx='3' {style}")
            self.text(x + width / 2, y + 15, item.label, fill=FAINT, size=10.5, middle=True)

    def _mark(self, x: float, y: float, item: Item, height: float) -> None:
        self.rect(x + 5, y - 3, 3, height + 6, f"fill='{CONFIRMED}'")
        self.add(f"<path d='M{x:g} {y - 5:g}h13l-6.5 8z' fill='{CONFIRMED}'/>")
        self.text(
            x + 6, y + height + 13, item.note, fill=CONFIRMED, size=9.5, middle=True, bold=True
        )

    def _entry(self, x: float, y: float, item: Item, width: float, height: float) -> None:
        hue, tint = HUES[item.hue % len(HUES)], TINTS[item.hue % len(TINTS)]
        styles = {
            "put": f"{_HOLLOW} stroke='{hue}'",
            "replayed": f"{_HOLLOW} stroke='{hue}'",
            "written": f"{_HOLLOW} stroke='{hue}' stroke-dasharray='5 3'",
            "synced": f"fill='{tint}' stroke='{hue}'",
            "stored": f"fill='{tint}' stroke='{hue}'",
            "slot": f"fill='{tint}' stroke='{hue}'",
            "done": f"fill='#fff' stroke='{hue}' stroke-opacity='.45'",
            "empty": f"fill='none' stroke='{LINE}' stroke-dasharray='2 2'",
            "unsure": f"fill='#fff' stroke='{LOST}' stroke-dasharray='4 2'",
            "lost": f"fill='none' stroke='{LOST}' stroke-dasharray='1 3'",
        }
        rounding = 3 if item.kind == "entry" else height / 2
        self.rect(x, y, width, height, f"rx='{rounding:g}' {styles[item.look]}")
        ink = LOST if item.look in ("unsure", "lost") else INK
        ink = FAINT if item.look in ("done", "empty") else ink
        text = item.label + SIGNS.get(item.look, "")
        self.text(
            x + width / 2, y + height / 2 + 4, text, fill=ink, middle=True, size=11, bold=True
        )
        if item.note:
            self.text(x + width / 2, y + height + 12, item.note, fill=FAINT, size=9.5, middle=True)
        if item.found:
            ring = f"rx='5' fill='none' stroke='{CONFIRMED}' stroke-width='2'"
            self.rect(x - 2.5, y - 2.5, width + 5, height + 5, ring)


SIGNS = {"unsure": "?", "lost": "✕", "replayed": "↺"}


def _title(item: Item) -> str:
    if item.kind == "entry":
        return f"entry {item.entry} of ledger {item.ledger}: {item.words}"
    return item.words or item.label or "padding"


def _width(item: Item) -> float:
    if item.kind == "special":
        return 18 + 6.5 * len(item.label + SIGNS.get(item.look, ""))
    return WIDTHS.get(item.kind, BLOCK)


def _lines(items: Sequence[Item]) -> list[list[tuple[float, Item]]]:
    """Items with their x, broken into lines that fit."""
    lines: list[list[tuple[float, Item]]] = []
    x = float(WIDTH)
    for item in items:
        width = _width(item)
        if x + width > WIDTH - 20:
            lines.append([])
            x = GUTTER + 8
        lines[-1].append((x, item))
        x += width + GAP
    return lines
