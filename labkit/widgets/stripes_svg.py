"""Stripes as a still picture."""

from textwrap import wrap

from labkit.widgets.drawing import BOX, FAINT, INK, LINE, LOST, STORED, Drawing
from labkit.widgets.stripes_rules import COPY, ENOUGH, FAILED, SAFE, Striping

WIDTH = 900
MARGIN = 16
GUTTER = 78  # left of the columns: entry ids
TOP = 84
ROW = 23
CELL = 18
MOST_PITCH = 70
STORY_WIDTH = 300
STORY_CHAR = 6.1
WELL = "#007a5a"
TINT = "#cfe3f1"

LEGEND = (
    (ENOUGH, "counts towards Qa"),
    (COPY, "one copy more"),
    (FAILED, "does not answer"),
)
"""How the legend names what a cell can look like."""
FATES = {"safe": ("✓", "there"), "perhaps": ("?", "perhaps lost"), "lost": ("✕", "lost")}

_DEFS = f"""<defs><pattern id='failed' width='6' height='6' patternUnits='userSpaceOnUse' \
patternTransform='rotate(45)'><rect width='6' height='6' fill='#fff'/>\
<rect width='1.2' height='6' fill='{LOST}'/></pattern></defs>"""
_SHAPES = {
    ENOUGH: f"rx='3' fill='{STORED}'",
    COPY: f"rx='3' fill='{TINT}' stroke='{STORED}'",
    FAILED: f"rx='3' fill='url(#failed)' stroke='{LOST}'",
}


def summary(striping: Striping, entries: int) -> str:
    """The picture in one line of words."""
    e, qw, qa = striping.ensemble_size, striping.write_quorum, striping.ack_quorum
    failed = ", ".join(f"b{place}" for place in sorted(striping.failed)) or "none"
    answers = "; ".join(
        f"{title} {'yes' if is_well else 'no'}" for title, is_well, _ in striping.answers(entries)
    )
    return f"Stripes: E={e} Qw={qw} Qa={qa}, {entries} entries; failed: {failed}; {answers}"


def stripes_svg(striping: Striping, entries: int) -> str:
    """The matrix and what holds, as a self-contained SVG document."""
    return _Picture(striping, entries).draw()


class _Picture(Drawing):
    def __init__(self, striping: Striping, entries: int) -> None:
        super().__init__()
        self.striping, self.entries = striping, entries
        self.size = striping.ensemble_size
        self.story = WIDTH - MARGIN - STORY_WIDTH
        room = self.story - 110 - GUTTER
        self.pitch = min(MOST_PITCH, room // self.size)
        self.right = GUTTER + self.pitch * self.size

    def draw(self) -> str:
        bottom = TOP + ROW * self.entries + 10
        self.begin(WIDTH, max(bottom + 12, 322), summary(self.striping, self.entries), _DEFS)
        self._head()
        for place in range(self.size):
            self._column(place, bottom)
        for entry in range(self.entries):
            self._row(entry)
        self._story()
        return self.end()

    def _head(self) -> None:
        striping = self.striping
        sizes = (
            f"E {striping.ensemble_size}",
            f"Qw {striping.write_quorum}",
            f"Qa {striping.ack_quorum}",
        )
        x: float = MARGIN
        for badge in sizes:
            width = 18 + 7.2 * len(badge)
            self.rect(x, 12, width, 20, f"rx='10' fill='none' stroke='{LINE}'")
            self.text(x + width / 2, 26, badge, middle=True)
            x += width + 8
        x += 10
        for look, words in LEGEND:
            self._cell(x, 15, 22, look)
            self.text(x + 28, 26, words, fill=FAINT, size=10.5)
            x += 46 + 6 * len(words)

    def _column(self, place: int, bottom: float) -> None:
        is_down = place in self.striping.failed
        x, ink = GUTTER + place * self.pitch, LOST if is_down else INK
        style = f"rx='6' fill='{'#fff' if is_down else BOX}' stroke='{LOST if is_down else LINE}'"
        style += " stroke-dasharray='6 3'" if is_down else ""
        self.rect(x + 3, TOP - 34, self.pitch - 6, bottom - TOP + 34, style)
        label = f"b{place} ✕" if is_down else f"b{place}"
        self.text(x + self.pitch / 2, TOP - 14, label, fill=ink, bold=True, middle=True)

    def _row(self, entry: int) -> None:
        y = TOP + ROW * entry
        self.text(GUTTER - 12, y + 13.5, f"entry {entry}", fill=FAINT, anchor="end", size=11)
        for place, look in self.striping.cells(entry).items():
            self._cell(GUTTER + place * self.pitch + 9, y, self.pitch - 18, look, str(entry))
        fate = self.striping.fate(entry)
        glyph, words = FATES[fate]
        ink = WELL if fate == SAFE else LOST
        self.text(self.right + 8, y + 13.5, f"{glyph} {words}", fill=ink, size=11)

    def _cell(self, x: float, y: float, width: float, look: str, label: str = "") -> None:
        height = CELL if label else 14
        self.rect(x, y, width, height, _SHAPES[look])
        if look == FAILED and label:
            plate = 8 + 7 * len(label)
            style = "rx='3' fill='#fff'"
            self.rect(x + (width - plate) / 2, y + 2, plate, height - 4, style)
        ink = {ENOUGH: "#fff", FAILED: LOST}.get(look, INK)
        text = f"{label} ✓" if look == ENOUGH and label and width > 34 else label
        self.text(x + width / 2, y + 13, text, fill=ink, size=11, bold=True, middle=True)

    def _story(self) -> None:
        x, y, chars = self.story, 62.0, int(STORY_WIDTH / STORY_CHAR)
        for title, is_well, words in self.striping.answers(self.entries):
            self.text(x, y, title, bold=True)
            ink = WELL if is_well else LOST
            for line in wrap(words, chars):
                y += 15
                self.text(x, y, line, fill=ink, size=11)
            y += 25
        self.text(x, y, "Whichever fail", bold=True)
        for count, words in self.striping.tolerances():
            y += 18
            self.text(x, y, f"any {count}", bold=True, size=11)
            for line in wrap(words, chars - 8):
                self.text(x + 42, y, line, fill=FAINT, size=11)
                y += 14
            y -= 14
