"""The space-time diagram as a still picture; `space_time_draw.js` draws the same."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any

from labkit.trace.sentence import describe
from labkit.widgets.drawing import CONFIRMED, FAINT, INK, LINE, LOST, STORED, Drawing
from labkit.widgets.space_time_layout import (
    ROW,
    TOP,
    Choice,
    Dot,
    chain_of,
    dots_of,
    median_of,
    past_of,
    rows_of,
    summary,
)
from labkit.widgets.space_time_model import METADATA, Diagram, Message
from labkit.widgets.space_time_words import METADATA_KINDS, label_of

WIDTH = 900
LEFT = 62
METADATA_WIDTH = 166
MOST_ROWS = 60
LONG = 6
"""A gap that is so many times as long as the median one is marked as quiet time."""
WELL = "#007a5a"

STYLES = {
    "add": (STORED, "stroke-width='1.4'"),
    "fence": (CONFIRMED, "stroke-width='2.2'"),
    "read": (FAINT, "stroke-width='1.3' stroke-dasharray='5 3'"),
}
BREAKS = {
    "down": (LOST, "1.5 5"),
    "paused": (FAINT, "2 7"),
    "cut off": (LOST, "10 5"),
}
LEGEND = (
    ("add", "add and its answer"),
    ("read", "read"),
    ("fence", "fencing request"),
    ("refused", "refused"),
    ("lost", "never answered"),
    ("down", "down"),
    ("paused", "paused"),
    ("cut off", "cut off"),
)


def space_time_svg(diagram: Diagram, choice: Choice, broken: Mapping[str, Any]) -> str:
    """The moment as a self-contained SVG document.  `broken`: a broken promise, or empty."""
    return _Picture(diagram, choice, broken).draw()


class _Picture(Drawing):
    def __init__(self, diagram: Diagram, choice: Choice, broken: Mapping[str, Any]) -> None:
        super().__init__()
        self.diagram, self.choice, self.broken = diagram, choice, broken
        self.events = diagram.events
        dots = dots_of(diagram, choice)
        past = [dot for dot in dots if dot.events[0] < choice.upto]
        times = sorted({dot.time_us for dot in dots})
        self.left_out = 0
        if len(times) > MOST_ROWS:
            now = max((dot.time_us for dot in past), default=times[0])
            until = max(times.index(now) + 1, MOST_ROWS)
            self.left_out = until - MOST_ROWS
            times = times[self.left_out : until]
        self.times = times
        self.rows = rows_of(times, choice.spacing)
        self.dots = [dot for dot in past if dot.time_us in self.rows]
        self.lit = chain_of(diagram, choice.follow) if choice.follow >= 0 else None
        plain = sum(name != METADATA for name in diagram.lanes)
        self.pitch = (WIDTH - LEFT - METADATA_WIDTH - 10) / max(plain, 1)
        self.bottom = (self.rows[times[-1]] if times else TOP) + 22

    def draw(self) -> str:
        story = wrap(self._story(), 122)
        height = self.bottom + 16 + 17 * len(story)
        self.begin(WIDTH, height, summary(self.diagram, self.choice), _definitions())
        self._legend()
        self._clock()
        for at, name in enumerate(self.diagram.lanes):
            self._lane(at, name)
        for message in self.diagram.messages:
            self._message(message)
        for dot in self.dots:
            self._to_metadata(dot)
        labelled: dict[int, float] = {}
        for dot in self.dots:
            self._dot(dot, labelled)
        for line, text in enumerate(story):
            ink = LOST if self._is_broken_by_now() and line < len(story) else INK
            self.text(16, self.bottom + 14 + 17 * line, text, size=12.5, fill=ink)
        return self.end()

    def x(self, lane: int) -> float:
        """Where a lane lies."""
        return LEFT + self.pitch * lane + 14

    def y(self, place: int) -> float | None:
        """Where an event lies; None if it is not shown or not yet past."""
        if place < 0 or place >= self.choice.upto or not self.choice.shows(self.diagram, place):
            return None
        return self.rows.get(self.events[place].time_us)

    def _is_broken_by_now(self) -> bool:
        seqs = (event.seq for event in self.events[: self.choice.upto])
        return bool(self.broken) and self.broken["seq"] in seqs

    def _story(self) -> str:
        if self._is_broken_by_now():
            return f"✕ {self.broken['name']}: {self.broken['reason']}"
        past = past_of(self.diagram, self.choice)
        return describe(past[-1]) if past else "Nothing has happened yet."

    def _legend(self) -> None:
        x = 16.0
        for look, words in LEGEND:
            path = f"<path d='M{x:g} 18h26' fill='none' "
            if look in STYLES:
                ink, style = STYLES[look]
                self.add(f"{path}stroke='{ink}' {style} marker-end='url(#{look})'/>")
            elif look in BREAKS:
                ink, dash = BREAKS[look]
                self.add(f"{path}stroke='{ink}' stroke-width='2.4' stroke-dasharray='{dash}'/>")
            else:
                dash = "" if look == "refused" else " stroke-dasharray='2 3'"
                end = " marker-end='url(#refused)'" if look == "refused" else ""
                self.add(f"{path}stroke='{LOST}' stroke-width='1.4'{dash}{end}/>")
                if look == "lost":
                    self.text(x + 22, 22, "✕", fill=LOST, size=10)
            self.text(x + 36, 22, words, fill=FAINT, size=10.5)
            x += 48 + 5.9 * len(words)

    def _clock(self) -> None:
        """Times of the run on the left; quiet time has its mark."""
        gaps = [b - a for a, b in zip(self.times, self.times[1:], strict=False)]
        median, last_y = median_of(gaps), 0.0
        if self.left_out:
            self.text(LEFT - 8, TOP - 14, f"⋮ {self.left_out} earlier", fill=FAINT, size=9.5)
        for at, time in enumerate(self.times):
            y = self.rows[time]
            if y - last_y >= 12:
                text = f"{time / 1000:.2f}"
                self.text(LEFT - 12, y + 4, text, fill=FAINT, size=10, anchor="end")
                last_y = y
            if at and gaps[at - 1] > LONG * median:
                self.add(
                    f"<path d='M{LEFT - 2} {y - ROW / 2:g}H{WIDTH - 12}' stroke='{LINE}'"
                    " stroke-dasharray='1 4' stroke-width='2'/>"
                )
        self.text(LEFT - 12, TOP - 28, "ms", fill=FAINT, size=10, anchor="end")

    def _lane(self, lane: int, name: str) -> None:
        x, bottom = self.x(lane), self.bottom - 6
        size = 12 if len(name) * 8 < self.pitch else 9.5
        self.text(x - 6, TOP - 28, name, bold=True, size=size)
        y = TOP - 20.0
        for each in self.diagram.breaks:
            if each.lane != lane or each.begin >= self.choice.upto:
                continue
            begin, end = self._row_near(each.begin), bottom
            if 0 <= each.end < self.choice.upto:
                end = self._row_near(each.end)
            ink, dash = BREAKS[each.state]
            self.add(f"<path d='M{x:g} {y:g}V{max(begin, y):g}' stroke='{LINE}' stroke-width='2'/>")
            self.add(
                f"<path d='M{x:g} {begin:g}V{end:g}' stroke='{ink}' stroke-width='2.4'"
                f" stroke-dasharray='{dash}'><title>{escape(name)} is {each.state}</title></path>"
            )
            y = end
        self.add(f"<path d='M{x:g} {y:g}V{bottom:g}' stroke='{LINE}' stroke-width='2'/>")

    def _row_near(self, place: int) -> float:
        """The row of that event, or of the first later one that is shown."""
        time = self.events[place].time_us
        return next((y for at, y in self.rows.items() if at >= time), self.bottom - 6)

    def _message(self, message: Message) -> None:
        begin = self.y(message.sent)
        if begin is None:
            return
        source, target = self.x(message.source), self.x(message.target)
        ink, style = STYLES[message.what]
        is_lit = self.lit is None or message.sent in self.lit
        self.add(f"<g opacity='{1 if is_lit else 0.13}'>")
        arrived, answered = self.y(message.arrived), self.y(message.answered)
        refused = message.end == "refused"
        answer = (LOST, "stroke-width='1.4'", "refused") if refused else (ink, style, message.what)
        if arrived is not None:
            self._arrow(source, begin, target, arrived, ink, style, message.what)
            left = self.y(message.left)
            if answered is not None and message.end != "silence":
                self._arrow(target, left or arrived, source, answered, *answer)
            elif left is not None and self._is_lost(message):
                self._lost(target, left, source)
        elif answered is not None and message.end != "silence":
            # Nobody told when it came.  A refusal is quick, so it was late rather than early.
            middle = max((begin + answered) / 2, answered - ROW / 2)
            self._arrow(source, begin, target, middle, ink, style, message.what)
            self._arrow(target, middle, source, answered, *answer)
        elif self._is_lost(message):
            self._lost(source, begin, target)
        else:
            half = source + (target - source) / 2
            self._arrow(source, begin, half, begin + ROW / 3, ink, style, message.what)
        self.add("</g>")

    def _is_lost(self, message: Message) -> bool:
        """Whether what is under way at this moment never comes."""
        at_all = message.left if message.arrived >= 0 else message.arrived
        never = at_all < 0 or message.arrived >= 0
        return never and message.end in ("", "silence") and message.arrived < self.choice.upto

    def _arrow(
        self, x1: float, y1: float, x2: float, y2: float, ink: str, style: str, head: str
    ) -> None:
        short = 6 if x2 > x1 else -6
        self.add(
            f"<path d='M{x1:g} {y1:g}L{x2 - short:g} {y2:g}' fill='none' stroke='{ink}' {style}"
            f" marker-end='url(#{head})'/>"
        )

    def _lost(self, x1: float, y1: float, x2: float) -> None:
        x, y = x1 + (x2 - x1) * 0.55, y1 + ROW * 0.5
        self.add(
            f"<path d='M{x1:g} {y1:g}L{x:g} {y:g}' fill='none' stroke='{LOST}' stroke-width='1.4'"
            " stroke-dasharray='2 3'/>"
        )
        self.text(x, y + 4, "✕", fill=LOST, size=11, bold=True, middle=True)

    def _shown(self, dot: Dot) -> list[int]:
        return [at for at in dot.events if at < self.choice.upto]

    def _to_metadata(self, dot: Dot) -> None:
        """A write of metadata goes straight across."""
        if self.diagram.lanes[dot.lane] != METADATA:
            return
        for at in self._shown(dot):
            y = self.rows[dot.time_us]
            x = self.x(self.diagram.lanes.index(self.events[at].node))
            opacity = 1.0 if self.lit is None or at in self.lit else 0.13
            self.add(
                f"<path d='M{x:g} {y:g}H{self.x(dot.lane) - 6:g}' stroke='{WELL}' fill='none'"
                " stroke-width='1.2' stroke-dasharray='1 3' marker-end='url(#metadata)'"
                f" opacity='{opacity:g}'/>"
            )

    def _dot(self, dot: Dot, labelled: dict[int, float]) -> None:
        shown, x, y = self._shown(dot), self.x(dot.lane), self.rows[dot.time_us]
        lit = [at for at in shown if self.lit is None or at in self.lit]
        is_metadata = self.diagram.lanes[dot.lane] == METADATA
        told = lit or shown
        words = [
            (self.diagram.words[at], self.events[at].entry)
            for at in told
            if is_metadata or self.events[at].kind not in METADATA_KINDS
        ]
        room = METADATA_WIDTH if is_metadata else self.pitch
        label = label_of(words, int((room - 10) / 5.7))
        kinds = {self.events[at].kind for at in shown}
        ink = WELL if is_metadata else CONFIRMED if "fenced" in label else _ink_of(kinds)
        self.add(f"<g opacity='{1 if lit else 0.18}'><title>{escape(self._title(shown))}</title>")
        radius = 4.5 if label else 2.5
        self.add(f"<circle cx='{x:g}' cy='{y:g}' r='{radius:g}' fill='{ink}'/>")
        if any(self.events[at].seq == self.broken.get("seq") for at in shown):
            self.add(
                f"<circle cx='{x:g}' cy='{y:g}' r='9' fill='none' stroke='{LOST}'"
                " stroke-width='2.5'/>"
            )
            label = "✕ " + label
        if label and y - labelled.get(dot.lane, 0) >= 12:
            labelled[dot.lane] = y
            ink = INK if ink == STORED else ink
            self.add(
                f"<text x='{x + 7:g}' y='{y - 4:g}' font-size='10.5' fill='{ink}' stroke='#fff'"
                f" stroke-width='5' stroke-linejoin='round' paint-order='stroke'>"
                f"{escape(label)}</text>"
            )
        self.add("</g>")

    def _title(self, places: Sequence[int]) -> str:
        return "\n".join(describe(self.events[at]) for at in places)


def _ink_of(kinds: set[str]) -> str:
    if any(kind in ("node.killed", "link.cut", "session.lost", "disk.rotted") for kind in kinds):
        return LOST
    if "lac.advanced" in kinds:
        return CONFIRMED
    return LOST if any(kind.endswith(".failed") for kind in kinds) else STORED


def _definitions() -> str:
    heads = {**{what: ink for what, (ink, _) in STYLES.items()}, "refused": LOST, "metadata": WELL}
    return "<defs>" + "".join(_heads(heads)) + "</defs>"


def _heads(inks: Mapping[str, str]) -> Iterator[str]:
    for name, ink in inks.items():
        yield (
            f"<marker id='{name}' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='8'"
            " markerHeight='8' markerUnits='userSpaceOnUse' orient='auto'>"
            f"<path d='M0 0L8 4L0 8z' fill='{ink}'/></marker>"
        )
