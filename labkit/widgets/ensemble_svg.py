"""The ensemble history as a still picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap

from labkit.widgets.drawing import BOX, FAINT, INK, LINE, LOST, STORED, Drawing
from labkit.widgets.ensemble_moments import Moment, Place, Stretch

WIDTH = 900
MARGIN = 14
STORY = 250  # width of the words at the left
TOP = 76
BOX_HEIGHT = 19
GAP = 14  # between two moments
LEAST_COLUMN = 62
FIRST_MOMENTS = 4
MOST_MOMENTS = 20  # of a long history its first ones and its last are drawn
WORDS_A_LINE = 38
STORED_TINT = "#cfe3f1"

GLYPHS = {
    "created": "+",
    "change": "●",
    "deferred": "◌",
    "closed": "■",
    "down": "✕",
    "back": "▲",
    "recovery": "◆",
    "lost": "✕",
    "marked": "!",
    "repaired": "✓",
}
LEGEND = (
    ("full", "has all its copies"),
    ("part", "has a part of them"),
    ("none", "has none"),
    ("new", "took a place"),
    ("down", "does not answer"),
    ("deferred", "not in the metadata yet"),
)
"""How the legend names what a box can look like."""

_DEFS = f"""<defs><pattern id='away' width='6' height='6' patternUnits='userSpaceOnUse' \
patternTransform='rotate(45)'><rect width='1.2' height='6' fill='{LOST}'/></pattern></defs>"""


@dataclass(frozen=True, slots=True)
class Column:
    """Entries that were always in one segment together; the last column has no end while the
    ledger is open.
    """

    first: int
    last: int
    words: str


def columns_of(moments: Sequence[Moment]) -> list[Column]:
    """The entries, cut wherever a segment ever began."""
    firsts = sorted({stretch.first for moment in moments for stretch in moment.stretches})
    end = moments[-1].stretches[-1].last
    lasts = [*(first - 1 for first in firsts[1:]), end]
    open_end = "" if moments[-1].is_closed else " …"
    return [
        Column(first, last, _range(first, last) + (open_end if first == firsts[-1] else ""))
        for first, last in zip(firsts, lasts, strict=True)
    ]


def _range(first: int, last: int) -> str:
    if last < first:
        return f"from {first}"
    return f"{first}" if first == last else f"{first} to {last}"


def summary(moments: Sequence[Moment], ledger_id: int) -> str:
    """The picture in one line of words."""
    last = moments[-1]
    stored = "; ".join(
        f"{_range(each.first, each.last)} on {', '.join(place.bookie for place in each.places)}"
        for each in last.stretches
    )
    state = "closed" if last.is_closed else "open"
    return f"Ensemble history: ledger {ledger_id}, {len(moments)} moments; {state}, {stored}"


def ensemble_svg(moments: Sequence[Moment], ledger_id: int) -> str:
    """The history as a self-contained SVG document."""
    return _Picture(moments, ledger_id).draw()


def look_of(place: Place) -> str:
    """How far a box is filled."""
    if place.held == place.due:
        return "full"
    return "part" if place.held else "none"


class _Picture(Drawing):
    def __init__(self, moments: Sequence[Moment], ledger_id: int) -> None:
        super().__init__()
        self.moments, self.ledger_id = moments, ledger_id
        self.columns = columns_of(moments)
        room = max(WIDTH - 2 * MARGIN - STORY, LEAST_COLUMN * len(self.columns))
        self.width = room + STORY + 2 * MARGIN
        spare = room - LEAST_COLUMN * len(self.columns)
        counts = [column.last - column.first + 1 for column in self.columns]
        self.x: list[float] = [MARGIN + STORY]
        for count in counts:
            share = spare * count / max(sum(counts), 1)
            self.x.append(self.x[-1] + LEAST_COLUMN + share)
        self.size = len(moments[0].stretches[0].places)
        self.pitch = max(self.size, 3) * (BOX_HEIGHT + 2) + GAP

    def draw(self) -> str:
        shown = self._shown()
        height = TOP + len(shown) * self.pitch + 6
        self.begin(self.width, height, summary(self.moments, self.ledger_id), _DEFS)
        self.text(MARGIN, 27, f"Ledger {self.ledger_id}: where it is stored", size=14, bold=True)
        self._legend()
        for at, column in enumerate(self.columns):
            self.text(self.x[at] + 4, TOP - 8, f"entries {column.words}", fill=FAINT, size=10.5)
        for row, moment in enumerate(shown):
            y = TOP + row * self.pitch
            self.add(f"<path d='M{MARGIN} {y - 4:g}H{self.width - MARGIN:g}' stroke='{LINE}'/>")
            if moment is None:
                left_out = len(self.moments) - len(shown) + 1
                self.text(MARGIN, y + 30, f"⋮ {left_out} moments", fill=FAINT)
            else:
                self._moment(y, moment)
        return self.end()

    def _shown(self) -> list[Moment | None]:
        if len(self.moments) <= MOST_MOMENTS:
            return list(self.moments)
        last = MOST_MOMENTS - FIRST_MOMENTS - 1
        return [*self.moments[:FIRST_MOMENTS], None, *self.moments[-last:]]

    def _legend(self) -> None:
        x: float = MARGIN
        samples = {
            "full": Place("", "up", 2, 2),
            "part": Place("", "up", 1, 2),
            "none": Place("", "up", 0, 2),
            "new": Place("", "up", 2, 2, is_new=True),
            "down": Place("", "down", 2, 2),
            "deferred": Place("", "up", 0, 2),
        }
        for look, words in LEGEND:
            self._box(x, 38, 26, samples[look], look == "deferred")
            self.text(x + 31, 50, words, fill=FAINT, size=10.5)
            x += 48 + 6.1 * len(words)

    def _moment(self, y: float, moment: Moment) -> None:
        since_ms = (moment.time_us - self.moments[0].time_us) / 1000
        ink = LOST if moment.kind in ("down", "lost", "marked") else INK
        self.text(MARGIN, y + 13, GLYPHS[moment.kind], fill=ink)
        self.text(MARGIN + 18, y + 13, f"{since_ms:,.1f} ms", fill=FAINT, size=10.5)
        lines = wrap(moment.words, WORDS_A_LINE)
        for at, line in enumerate(lines[:3]):
            more = " …" if at == 2 and len(lines) > 3 else ""
            self.text(MARGIN + 18, y + 28 + 13.5 * at, line + more, fill=ink, size=11)
        for stretch in moment.stretches:
            self._stretch(y, stretch)

    def _stretch(self, y: float, stretch: Stretch) -> None:
        firsts = [column.first for column in self.columns]
        begin = firsts.index(stretch.first)
        after = [at for at, first in enumerate(firsts) if first > max(stretch.last, stretch.first)]
        end = after[0] if after else len(firsts)
        for at, place in enumerate(stretch.places):
            words = f"{place.bookie}: {place.held} of {place.due} copies, {place.state}"
            self.add(f"<g><title>{escape(words)}</title>")
            top, left = y + at * (BOX_HEIGHT + 2), self.x[begin] + 2
            self._box(left, top, self.x[end] - left - 4, place, stretch.is_deferred)
            self.add("</g>")

    def _box(self, x: float, y: float, width: float, place: Place, deferred: bool) -> None:
        height = BOX_HEIGHT if place.bookie else 16
        away = place.state in ("down", "paused")
        filled = width * place.held / place.due if place.due else 0
        self.rect(x, y, width, height, f"rx='3' fill='{BOX}'")
        self.rect(x, y, filled, height, f"rx='3' fill='{STORED_TINT}'")
        if away:
            self.rect(x, y, width, height, "rx='3' fill='url(#away)'")
        stroke = LOST if away else INK if place.is_new else STORED
        dash = " stroke-dasharray='4 3'" if deferred else ""
        thick = 2 if place.is_new else 1
        style = f"rx='3' fill='none' stroke='{stroke}' stroke-width='{thick}'{dash}"
        self.rect(x, y, width, height, style)
        if not place.bookie:
            return
        count = "" if look_of(place) == "full" else f"{place.held}/{place.due}"
        label = f"{place.bookie} ✕" if away else place.bookie
        if len(label) * 7 + len(count) * 6.5 + 14 > width:
            label = label[-max(int((width - len(count) * 6.5 - 14) / 7), 3) :]
        if away:
            self.rect(x + 4, y + 3, 7 * len(label) + 6, height - 6, "rx='3' fill='#fff'")
        ink = LOST if away else INK
        self.text(x + 7, y + 13.5, label, fill=ink, size=11, bold=place.is_new)
        self.text(x + width - 6, y + 13.5, count, fill=ink, size=10.5, anchor="end")
