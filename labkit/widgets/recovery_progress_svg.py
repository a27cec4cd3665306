"""The recovery progress as a still picture: the chart of the run, and one moment in full."""

from collections.abc import Sequence
from html import escape
from textwrap import wrap

from labkit.widgets.drawing import BOX, FAINT, INK, LINE, LOST, STORED, Drawing
from labkit.widgets.recovery_progress_chart import (
    BOOKIES,
    MOST_LEDGERS,
    Chart,
    Lane,
    Span,
    stage_words,
)
from labkit.widgets.recovery_progress_state import (
    FragmentCopies,
    LedgerRepair,
    Place,
    RecoveryState,
)

WIDTH = 900
MARGIN = 14
GUTTER = 104  # left of the lanes: their names
CHART_WIDTH = WIDTH - GUTTER - MARGIN
TOP = 100
HEIGHTS = {"auditor": 22, "bookie": 17, "ledger": 40}
STRIP = 15  # of a ledger's lane: who has it
TICK_ROOM = 42
BOX_WIDTH, BOX_HEIGHT = 92, 19
RANGE_ROOM = 104
WELL = "#007a5a"
STORED_TINT = "#a9cfe8"
COPIED_TINT = "#e3eff7"

LEGEND = (
    ("auditor", "auditor"),
    ("up", "bookie up"),
    ("down", "not there"),
    ("lost", "taken for lost"),
    ("dead", "dead auditor in office"),
    ("marked", "marked"),
    ("locked", "being repaired"),
    ("waiting", "put off"),
    ("present", "copies there"),
    ("copied", "copied, not named yet"),
)
"""How the legend names what is drawn."""

_DEFS = f"""<defs><pattern id='away' width='6' height='6' patternUnits='userSpaceOnUse' \
patternTransform='rotate(45)'><rect width='6' height='6' fill='#fff'/>\
<rect width='1.5' height='6' fill='{LOST}'/></pattern></defs>"""


def summary(state: RecoveryState) -> str:
    """The picture in one line of words."""
    away = [f"{name} {BOOKIES[each]}" for name, each in state.bookies.items() if each != "up"]
    ledgers = [
        f"ledger {ledger_id} {least_words(ledger)}, {stage_words(ledger)}"
        for ledger_id, ledger in state.ledgers.items()
    ]
    auditor = f"auditor {state.auditor}" if state.auditor else "no auditor"
    dead = " (dead)" if state.is_auditor_dead else ""
    return "Recovery: " + "; ".join([auditor + dead, *away, *ledgers])


def least_words(ledger: LedgerRepair) -> str:
    """How many copies each entry of the ledger has at least."""
    least = min((each.least for each in ledger.fragments), default=0)
    return f"at {least} of {ledger.write_quorum} copies"


def range_words(fragment: FragmentCopies) -> str:
    """Which entries."""
    if fragment.last < fragment.first:
        return f"from {fragment.first}"
    if fragment.last == fragment.first:
        return f"entry {fragment.first}"
    return f"{fragment.first} to {fragment.last}"


def recovery_svg(chart: Chart, state: RecoveryState) -> str:
    """The picture as a self-contained SVG document."""
    return _Picture(chart, state).draw()


class _Picture(Drawing):
    def __init__(self, chart: Chart, state: RecoveryState) -> None:
        super().__init__()
        self.chart, self.state = chart, state
        self.shown = dict(list(state.ledgers.items())[:MOST_LEDGERS])

    def draw(self) -> str:
        bottom = TOP + sum(HEIGHTS[lane.kind] for lane in self.chart.lanes)
        rows = [max(_row_height(each), 34) for each in self.shown.values()]
        self.begin(WIDTH, bottom + 54 + sum(rows), summary(self.state), _DEFS)
        self._header()
        self._ticks(bottom)
        y: float = TOP
        for lane in self.chart.lanes:
            self._lane(lane, y)
            y += HEIGHTS[lane.kind]
        self._now(bottom)
        y = bottom + 42
        for (ledger_id, ledger), height in zip(self.shown.items(), rows, strict=True):
            self._ledger(ledger_id, ledger, y)
            y += height
        return self.end()

    def _x(self, step: int) -> float:
        return GUTTER + CHART_WIDTH * self.chart.edges[step]

    def _header(self) -> None:
        self.text(MARGIN, 24, "Recovery progress", size=14, bold=True)
        if self.chart.hidden_ledger_count:
            count = self.chart.hidden_ledger_count
            self.text(
                WIDTH - MARGIN, 24, f"{count} more ledgers not drawn", fill=FAINT, anchor="end"
            )
        for place, (look, words) in enumerate(LEGEND):
            x, y = MARGIN + 160 * (place % 5), 36 + 18 * (place // 5)
            self._key(x, y, look)
            self.text(x + 28, y + 10, words, fill=FAINT, size=10.5)

    def _key(self, x: float, y: float, look: str) -> None:
        if look in ("present", "copied"):
            fill = STORED_TINT if look == "present" else COPIED_TINT
            self.rect(x, y, 22, 12, f"fill='{fill}' stroke='{STORED}' stroke-width='.6'")
        else:
            self._bar(x, y, 22, 12, look)

    def _ticks(self, bottom: float) -> None:
        free = 0.0
        for step, words in self.chart.ticks:
            x = self._x(step)
            self.add(
                f"<path d='M{x:g} {TOP - 6}V{bottom:g}' stroke='{LINE}' stroke-dasharray='2 3'/>"
            )
            if x >= free:
                self.text(x, TOP - 10, words, fill=FAINT, size=10.5, middle=step > 0)
                free = x + TICK_ROOM

    def _lane(self, lane: Lane, y: float) -> None:
        height = HEIGHTS[lane.kind]
        middle = y + (STRIP + 9 if lane.kind == "ledger" else height / 2 + 4)
        self.text(GUTTER - 10, middle, lane.name, size=11.5, anchor="end")
        if lane.kind == "ledger":
            self._levels(lane, y + STRIP + 1, height - STRIP - 7)
        bar = STRIP - 1 if lane.kind == "ledger" else height - 4
        for span in lane.spans:
            self.add(f"<g><title>{escape(span.words)}</title>")
            x = self._x(span.first)
            width = self._x(span.end) - x
            self._bar(x, y + 1, width, bar, span.look)
            self._label(span, x, y + 1 + bar / 2 + 3.8, width)
            self.add("</g>")

    def _levels(self, lane: Lane, y: float, height: float) -> None:
        """The copies as two areas, one on the other."""
        self.rect(GUTTER, y, CHART_WIDTH, height, f"fill='{BOX}'")
        sums = [a + b for a, b in zip(lane.present, lane.copied, strict=True)]
        for levels, fill in ((sums, COPIED_TINT), (lane.present, STORED_TINT)):
            path = "".join(
                f"V{y + height * (1 - level):g}H{self._x(step + 1):g}"
                for step, level in enumerate(levels)
            )
            self.add(
                f"<path d='M{GUTTER} {y + height:g}{path}V{y + height:g}Z' fill='{fill}'"
                f" stroke='{STORED}' stroke-width='.6'/>"
            )

    def _bar(self, x: float, y: float, width: float, height: float, look: str) -> None:
        if look == "up":
            self.rect(x, y + height / 2 - 2, width, 4, f"rx='2' fill='{WELL}'")
        elif look in _SHAPES:
            self.rect(x + 0.5, y, max(width - 1, 1), height, f"rx='3' {_SHAPES[look]}")

    def _label(self, span: Span, x: float, y: float, width: float) -> None:
        room = 7 * len(span.label) + 10
        if not span.label or room > width:
            return
        if span.look in ("down", "gone", "paused", "dead"):
            self.rect(x + 4, y - 9, room - 4, 11.5, "rx='3' fill='#fff'")
        ink = _INKS.get(span.look, INK)
        self.text(x + 6, y, span.label, fill=ink, size=11, bold=span.look == "auditor")

    def _now(self, bottom: float) -> None:
        """The moment that is told in full."""
        state, chart = self.state, self.chart
        x = self._x(state.step_count)
        self.add(f"<path d='M{x:g} {TOP - 6}V{bottom:g}' stroke='{INK}' stroke-width='1.5'/>")
        at = f"step {state.step_count} of {len(chart.edges) - 1}"
        words = f"{at}: {state.sentence}" if state.sentence else f"{at}: nothing has happened yet"
        lines = wrap(words, 120)
        self.text(MARGIN, bottom + 24, lines[0] + (" …" if len(lines) > 1 else ""), size=13)

    def _ledger(self, ledger_id: int, ledger: LedgerRepair, y: float) -> None:
        closed = "closed" if ledger.closed else "open"
        self.add(f"<path d='M{MARGIN} {y:g}H{WIDTH - MARGIN}' stroke='{LINE}'/>")
        self.text(MARGIN, y + 18, f"ledger {ledger_id}", bold=True)
        self.text(MARGIN + 64, y + 18, closed, fill=FAINT)
        ink = INK if ledger.stage == "whole" else LOST if ledger.stage == "marked" else STORED
        for at, line in enumerate(_stage_lines(ledger)):
            self.text(MARGIN, y + 33 + 13 * at, line, fill=ink, size=11)
        for at, fragment in enumerate(ledger.fragments):
            self._fragment(fragment, ledger.write_quorum, y + 4 + at * (BOX_HEIGHT + 5))

    def _fragment(self, fragment: FragmentCopies, quorum: int, y: float) -> None:
        x: float = MARGIN + 200
        self.text(x + RANGE_ROOM - 12, y + 14, range_words(fragment), fill=FAINT, anchor="end")
        x += RANGE_ROOM
        for place in fragment.places:
            self._place(x, y, place)
            x += BOX_WIDTH + 4
        for bookie, count in fragment.targets:
            self.rect(
                x + 14,
                y,
                BOX_WIDTH - 10,
                BOX_HEIGHT,
                f"rx='3' fill='{COPIED_TINT}' stroke='{STORED}' stroke-dasharray='4 3'",
            )
            self.text(x + 1, y + 14, "→")
            self.text(x + 21, y + 14, f"{bookie}: {count}", size=11)
            x += BOX_WIDTH + 8
        words = f"{fragment.least} of {quorum} copies"
        ink = INK if fragment.least >= quorum else LOST
        bold = fragment.least < quorum
        self.text(WIDTH - MARGIN, y + 14, words, fill=ink, bold=bold, anchor="end")

    def _place(self, x: float, y: float, place: Place) -> None:
        words = f"{place.bookie}: {place.held} of {place.due} copies, {BOOKIES[place.state]}"
        self.add(f"<g><title>{escape(words)}</title>")
        away = place.state != "up"
        filled = BOX_WIDTH * place.held / place.due if place.due else 0
        self.rect(x, y, BOX_WIDTH, BOX_HEIGHT, f"rx='3' fill='{BOX}'")
        self.rect(x, y, filled, BOX_HEIGHT, f"rx='3' fill='{STORED_TINT}'")
        if away:
            self.rect(x, y, BOX_WIDTH, BOX_HEIGHT, "rx='3' fill='url(#away)'")
            self.rect(x + 4, y + 3, BOX_WIDTH - 8, BOX_HEIGHT - 6, "rx='3' fill='#fff'")
        stroke = LOST if away else STORED
        self.rect(x, y, BOX_WIDTH, BOX_HEIGHT, f"rx='3' fill='none' stroke='{stroke}'")
        ink = LOST if away else INK
        count = f"{place.held}/{place.due}"
        room = int((BOX_WIDTH - 18 - 6.5 * len(count)) / 7)
        label = f"{place.bookie[-room:]} ✕" if away else place.bookie[-room:]
        self.text(x + 7, y + 13.5, label, fill=ink, size=11)
        self.text(x + BOX_WIDTH - 7, y + 13.5, count, fill=ink, size=10.5, anchor="end")
        self.add("</g>")


def _stage_lines(ledger: LedgerRepair) -> Sequence[str]:
    lines = wrap(stage_words(ledger), 31)
    return [*lines[:2], lines[2] + " …"] if len(lines) > 3 else lines


def _row_height(ledger: LedgerRepair) -> int:
    lines = 26 + 13 * len(_stage_lines(ledger))
    return max(lines, 10 + (BOX_HEIGHT + 5) * len(ledger.fragments))


_SHAPES = {
    "auditor": f"fill='{INK}'",
    "dead": f"fill='url(#away)' stroke='{INK}'",
    "nobody": f"fill='none' stroke='{LOST}' stroke-dasharray='2 3'",
    "paused": f"fill='url(#away)' stroke='{LINE}'",
    "down": f"fill='url(#away)' stroke='{LOST}' stroke-width='.6'",
    "gone": f"fill='url(#away)' stroke='{LOST}' stroke-width='.6'",
    "lost": f"fill='{LOST}'",
    "marked": f"fill='#fff' stroke='{LOST}' stroke-width='1.5'",
    "locked": f"fill='{STORED}'",
    "waiting": f"fill='#fff' stroke='{STORED}' stroke-dasharray='4 3'",
}
_INKS = {
    **dict.fromkeys(("auditor", "lost", "locked"), "#fff"),
    **dict.fromkeys(("down", "gone", "paused", "marked"), LOST),
    "waiting": STORED,
}
