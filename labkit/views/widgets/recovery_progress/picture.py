"""The recovery progress as a scene: a chart of the run so far, with the fragments of the ledgers
and the copies on each bookie below it.

The chart is drawn only once, and a shade hides the part after the current moment.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from math import ceil
from typing import Any

from labkit.system.trace.events import Event
from labkit.views.widgets.acts import Acts
from labkit.views.widgets.bookie_row import Chips
from labkit.views.widgets.drawing.kin import ledger_kin, node_kin
from labkit.views.widgets.drawing.legend import Symbol, legend
from labkit.views.widgets.drawing.plurals import counted
from labkit.views.widgets.drawing.scene import (
    Mark,
    PartCache,
    group,
    hatch,
    path,
    picture,
    rect,
    rounded,
    text,
)
from labkit.views.widgets.drawing.text_metrics import fitted, lines_of, width_of
from labkit.views.widgets.recovery_progress.chart import (
    BOOKIES,
    Chart,
    Lane,
    LaneSpan,
    chart_of,
    stage_words,
)
from labkit.views.widgets.recovery_progress.fold import Progress, first_bookies, steps_of
from labkit.views.widgets.recovery_progress.state import (
    EnsembleBookie,
    FragmentCopies,
    LedgerRepair,
    RecoveryState,
)
from labkit.views.widgets.run import span

WIDTH, MARGIN, GUTTER = 860, 8, 92
CHART = WIDTH - GUTTER - MARGIN
HEIGHTS = {"auditor": 26, "bookie": 22, "ledger": 24}
AXIS = 24
BOX_WIDTH, BOX_HEIGHT = 96, 20
LINE, BOXES_PER_LINE = BOX_HEIGHT + 6, 4
RANGE_X, BOXES_X = 316, 326
_AWAY = ("down", "gone", "paused", "dead")
_SHAPES: dict[str, dict[str, Any]] = {
    "auditor": {"fill": "ink"},
    "lost": {"fill": "lost"},
    "marked": {"fill": "page", "stroke": "lost", "thick": 1.5},
    "locked": {"fill": "stored"},
    "waiting": {"fill": "page", "stroke": "stored", "dash": "4 3"},
    "dead": {"fill": "page", "stroke": "ink"},
    "down": {"fill": "page", "stroke": "lost"},
    "gone": {"fill": "page", "stroke": "lost"},
    "paused": {"fill": "page", "stroke": "line"},
}
_LINES = {"up": "well", "whole": "stored", "none": "line"}
"""The looks that are drawn as a line: a bookie that is up, a ledger that is not marked, and no
auditor.
"""
_INKS = {
    **dict.fromkeys(("auditor", "lost", "locked"), "page"),
    **dict.fromkeys(("down", "gone", "paused", "marked"), "lost"),
    "waiting": "stored",
}
_STATES = {"gone": "down", "lost": "down"}
"""The state that a bookie's buttons expect, by the bookie's state in the chart."""


class RecoveryPicture:
    """Draws the recovery in a run. acts: the buttons of the bookies."""

    explainers = ()
    """Nothing is explained, because the bars have labels."""

    def __init__(self, events: Sequence[Event], acts: Acts) -> None:
        self._steps = steps_of(events)
        names = first_bookies(events)
        self._chart = chart_of(self._steps, names)
        self._progress, end = Progress(names), Progress(names)
        for step in self._steps:
            end.apply(step)
        state = end.state()
        self._rows = [
            max(44.0, 10 + sum(map(_height, state.ledgers[each].fragments)))
            for each in self._chart.ledgers
        ]
        self._chips = Chips(state.bookies, acts, WIDTH - 2 * MARGIN)
        self._cache = PartCache()
        self.state = self._progress.state()

    def take(self, event: Event) -> None:
        count = self.state.step_count
        if count < len(self._steps) and self._steps[count].event.seq == event.seq:
            self._progress.apply(self._steps[count])
            self.state = self._progress.state()

    def legend(self) -> Mark | None:
        return _legend()

    def scene(self) -> Mark:
        top = 34 + self._chips.height
        bottom = top + AXIS + sum(HEIGHTS[lane.kind] for lane in self._chart.lanes)
        states = {name: _STATES.get(s, s) for name, s in self.state.bookies.items()}
        parts = [_title(self._chart.hidden_ledger_count)]
        parts += self._chips.marks(states, MARGIN, 32)
        parts.append(_chart(self._chart, top))
        x = rounded(GUTTER + CHART * self._chart.edges[self.state.step_count])
        parts.append(_shade(x, top, bottom))
        y = bottom + 10.0
        for ledger_id, height in zip(self._chart.ledgers, self._rows, strict=True):
            if ledger_id in self.state.ledgers:
                ledger = self.state.ledgers[ledger_id]
                parts.append(self._cache.part(ledger_id, _ledger, ledger_id, ledger, y))
            y += height
        return picture(WIDTH, y + 2, summary(self.state), *parts)


def summary(state: RecoveryState) -> str:
    away = [f"{name} {BOOKIES[each]}" for name, each in state.bookies.items() if each != "up"]
    ledgers = [
        f"ledger {ledger_id} {min_copies_words(ledger)}, {stage_words(ledger)}"
        for ledger_id, ledger in state.ledgers.items()
    ]
    auditor = f"auditor {state.auditor}" if state.auditor else "no auditor"
    dead = " (dead)" if state.is_auditor_dead else ""
    return "Recovery: " + "; ".join([auditor + dead, *away, *ledgers])


def min_copies_words(ledger: LedgerRepair) -> str:
    min_copies = min((each.min_copies for each in ledger.fragments), default=0)
    return f"at {min_copies} of {counted(ledger.write_quorum, 'copy', 'copies')}"


def range_words(fragment: FragmentCopies) -> str:
    if fragment.last < fragment.first:
        return f"from {fragment.first}"
    if fragment.last == fragment.first:
        return f"entry {fragment.first}"
    return f"{fragment.first} to {fragment.last}"


# The chart


def _title(hidden_count: int) -> Mark:
    words = "One column per step, regardless of its duration; shaded columns are waits."
    words += f" Not shown: {counted(hidden_count, 'more ledger')}." if hidden_count else ""
    return group(
        "title",
        text("name", MARGIN, 21, "Recovery progress", size=14, bold=True),
        text("axis", WIDTH - MARGIN, 21, words, fill="faint", anchor="end"),
    )


@lru_cache(16)
def _chart(chart: Chart, top: float) -> Mark:
    height = sum(HEIGHTS[lane.kind] for lane in chart.lanes)
    waits = [_wait(chart, step, us, height) for step, us in chart.waits]
    lanes, y = list[Mark](), 0.0
    for lane in chart.lanes:
        lanes.append(_lane(chart, lane, y))
        y += HEIGHTS[lane.kind]
    return group("chart", *waits, *lanes, y=top + AXIS)


def _x(chart: Chart, step: int) -> float:
    return rounded(GUTTER + CHART * chart.edges[step])


def _wait(chart: Chart, step: int, us: int, height: float) -> Mark:
    x, end = _x(chart, step), _x(chart, step + 1)
    words = f"» {span(us)}"
    has_room = width_of(words) <= end - x + 8
    return group(
        f"wait {step}",
        rect("band", x, -2, end - x, height, fill="box"),
        text("words", (x + end) / 2, -8, words if has_room else "»", fill="faint", anchor="middle"),
        title=f"nothing changes for {span(us)}",
    )


def _lane(chart: Chart, lane: Lane, y: float) -> Mark:
    height = HEIGHTS[lane.kind]
    name = fitted(lane.name, GUTTER - 10 - MARGIN)
    parts = [text("name", GUTTER - 10, 15, name, anchor="end")]
    parts += [_span(chart, each, height - 4) for each in lane.spans]
    parts += _labels(chart, lane, height / 2 + 3.5)
    title = "" if name == lane.name else lane.name
    return group(lane.name, *parts, y=y, title=title, kin=lane.kin)


def _span(chart: Chart, each: LaneSpan, height: float) -> Mark:
    x = _x(chart, each.first)
    width = _x(chart, each.end) - x
    key = f"{each.first}"
    if each.look not in _SHAPES:
        fill = _LINES[each.look]
        return rect(key, x, height / 2, width, 3, rx=1.5, fill=fill)
    box = rect("box", x + 0.5, 1, max(width - 1, 1), height, rx=3, **_SHAPES[each.look])
    lines = path("hatch", hatch(round(max(width - 1, 1)), round(height)), stroke="lost")
    parts = [box, *([group("lines", lines, x=x + 0.5, y=1)] if each.look in _AWAY else [])]
    label = _fitting(each, width)
    if label:
        if each.look in _AWAY:
            parts.append(
                rect("plate", x + 4, 3, width_of(label) + 6, height - 4, rx=3, fill="page")
            )
        ink = _INKS.get(each.look, "ink")
        parts.append(text("label", x + 6, height / 2 + 5.5, label, fill=ink))
    return group(key, *parts, title=each.words)


def _fitting(each: LaneSpan, width: float) -> str:
    """Return the label or, if it does not fit into a box, its last word, or "" if neither fits."""
    labels = (each.label, each.label.rpartition(" ")[2])
    return next((label for label in labels if width_of(label) + 10 <= width), "")


def _labels(chart: Chart, lane: Lane, y: float) -> list[Mark]:
    """Return the labels that are written on lines: the labels of the lines themselves, and the
    labels that do not fit into their box and are written on the line before it.
    """
    parts = []
    for before, each in zip((None, *lane.spans), lane.spans, strict=False):
        x, end = _x(chart, each.first), _x(chart, each.end)
        room = x - _x(chart, before.first) - 8 if before and before.look in _LINES else 0.0
        ink = _INKS.get(each.look, "ink")
        if each.look in _LINES and width_of(each.label) + 10 <= end - x:
            parts.append(text(f"on {each.first}", x + 8, y, each.label, fill=ink, halo=True))
        elif each.look == "marked" and not _fitting(each, end - x) and width_of(each.label) < room:
            key = f"on {each.first}"
            parts.append(text(key, x - 4, y, each.label, fill=ink, anchor="end", halo=True))
    return parts


@lru_cache(2048)
def _shade(x: float, top: float, bottom: float) -> Mark:
    """Return the shade that hides the rest of the chart. The edge of the shade marks the current
    moment.
    """
    return group(
        "shade",
        rect("cover", x, top, WIDTH - x, bottom - top, fill="page"),
        rect("now", x - 0.75, top + 2, 1.5, bottom - top - 2, fill="ink"),
    )


# The current moment


def _height(fragment: FragmentCopies) -> float:
    return LINE * ceil(len(fragment.bookies) / BOXES_PER_LINE)


def _ledger(ledger_id: int, ledger: LedgerRepair, y: float) -> Mark:
    closed = "closed" if ledger.closed else "open"
    ink = {"whole": "ink", "marked": "lost"}.get(ledger.stage, "stored")
    lines = lines_of(stage_words(ledger), RANGE_X - 90)
    tops = accumulate(map(_height, ledger.fragments), initial=5.0)
    return group(
        f"ledger {ledger_id}",
        path("rule", f"M{MARGIN} 0H{WIDTH - MARGIN}", stroke="line"),
        text("name", MARGIN, 18, f"ledger {ledger_id}", bold=True),
        text("closed", MARGIN + 70, 18, closed, fill="faint"),
        text("stage", MARGIN, 34, fitted(" ".join(lines), RANGE_X - 80), fill=ink),
        *(
            _fragment(fragment, ledger.write_quorum, top)
            for fragment, top in zip(ledger.fragments, tops, strict=False)
        ),
        y=y,
        title=f"ledger {ledger_id}, {closed}: {stage_words(ledger)}",
        kin=ledger_kin(ledger_id),
    )


def _fragment(fragment: FragmentCopies, quorum: int, y: float) -> Mark:
    words = f"{fragment.min_copies} of {counted(quorum, 'copy', 'copies')}"
    is_short = fragment.min_copies < quorum
    parts = [text("range", RANGE_X - 6, 14.5, range_words(fragment), fill="faint", anchor="end")]
    room = WIDTH - MARGIN - width_of(words, bold=True) - 10
    x, line = float(BOXES_X), 0.0
    for at, bookie in enumerate(fragment.bookies):
        if at and at % BOXES_PER_LINE == 0:
            x, line = float(BOXES_X), line + LINE
        parts.append(_bookie(f"{at}", x, line, bookie))
        x += BOX_WIDTH + 4
    for name, count in fragment.targets:
        if x + BOX_WIDTH <= room:
            parts.append(_target(x, line, name, count))
        x += BOX_WIDTH + 10
    ink = "lost" if is_short else "ink"
    parts.append(text("least", WIDTH - MARGIN, 14.5, words, fill=ink, bold=is_short, anchor="end"))
    return group(f"{fragment.first}", *parts, y=y)


@lru_cache(2048)
def _bookie(key: str, x: float, y: float, bookie: EnsembleBookie) -> Mark:
    is_away = bookie.state != "up"
    filled = BOX_WIDTH * bookie.durable / bookie.expected if bookie.expected else 0
    count = f"{bookie.durable}/{bookie.expected}"
    label = fitted(f"{bookie.name} ✕" if is_away else bookie.name, BOX_WIDTH - 18 - width_of(count))
    ink = "lost" if is_away else "ink"
    parts = [rect("box", 0, 0, BOX_WIDTH, BOX_HEIGHT, rx=3, fill="page")]
    parts.append(rect("held", 0, 0, filled, BOX_HEIGHT, rx=3, fill="tint"))
    if is_away:
        parts.append(path("hatch", hatch(BOX_WIDTH, BOX_HEIGHT), stroke="lost"))
        parts.append(rect("plate", 4, 3, BOX_WIDTH - 8, BOX_HEIGHT - 6, rx=3, fill="page"))
    stroke = "lost" if is_away else "stored"
    parts.append(rect("frame", 0, 0, BOX_WIDTH, BOX_HEIGHT, rx=3, stroke=stroke))
    parts.append(text("name", 7, 14.5, label, fill=ink))
    parts.append(text("count", BOX_WIDTH - 7, 14.5, count, fill=ink, anchor="end"))
    durable = f"{bookie.durable} of {counted(bookie.expected, 'copy', 'copies')}"
    title = f"{bookie.name}: {durable}, {BOOKIES[bookie.state]}"
    return group(key, *parts, x=x, y=y, title=title, kin=node_kin(bookie.name))


def _target(x: float, y: float, bookie: str, count: int) -> Mark:
    box = {"fill": "tint", "stroke": "stored", "dash": "4 3"}
    copies = counted(count, "copy", "copies")
    return group(
        f"to {bookie}",
        text("arrow", 1, 14.5, "→"),
        rect("box", 16, 0, BOX_WIDTH - 16, BOX_HEIGHT, rx=3, **box),  # type: ignore[arg-type]
        text("words", 22, 14.5, fitted(f"{bookie}: {count}", BOX_WIDTH - 28)),
        x=x,
        y=y,
        title=f"{bookie} already has {copies}, but is not in the metadata yet",
        kin=node_kin(bookie),
    )


@lru_cache(1)
def _legend() -> Mark | None:
    marked = rect("box", 0, 1, 28, 15, rx=3, **_SHAPES["marked"])
    return legend(
        [
            Symbol("well", [rect("box", 0, 7, 28, 3, rx=1.5, fill="well")], "bookie is up"),
            Symbol(
                "stored", [rect("box", 0, 7, 28, 3, rx=1.5, fill="stored")], "ledger is not marked"
            ),
            Symbol("locked", [rect("box", 0, 2, 28, 13, fill="stored")], "being copied"),
            Symbol("marked", [marked], "marked as under-replicated"),
            Symbol("wait", [rect("box", 0, 2, 28, 13, fill="box")], "waiting"),
        ]
    )
