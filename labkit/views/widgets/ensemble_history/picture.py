"""The ensemble history as a scene: moments from top to bottom, entries from left to right, and a
cell for each entry on every bookie that should have it.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from labkit.system.trace.events import Event
from labkit.views.widgets.acts import Acts
from labkit.views.widgets.bookie_row import Chips
from labkit.views.widgets.drawing.kin import entry_kin, node_kin
from labkit.views.widgets.drawing.legend import SAMPLE, Symbol, legend
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
from labkit.views.widgets.ensemble_history.moments import (
    History,
    HistoryMoment,
    SegmentBookie,
    SegmentEntries,
    history_of,
)
from labkit.views.widgets.run import time_words

WIDTH, MARGIN, STORY = 860, 8, 226
BOX, GAP, LINE = 22, 12, 15
"""The height of a bookie, the gap between two moments, and the height of a line of text."""
MAX_CELL, MIN_COLUMN = 48, 58
MAX_COLUMNS = 8
"""The maximum number of columns. If a history has more, only the last ones are drawn."""
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
    ("held", "durable here"),
    ("missing", "missing"),
    ("new", "new in the ensemble"),
    ("down", "down or paused"),
    ("deferred", "not in the metadata yet"),
)


class Column(NamedTuple):
    """A range of entries that belong to one segment at every moment.

    The last column is open-ended while the ledger is open.

    x: the left edge.
    cell: the width of an entry.
    """

    first: int
    last: int
    words: str
    x: float
    end: float
    cell: float
    names: float


def columns_of(moments: Sequence[HistoryMoment]) -> tuple[Column, ...]:
    """Return the ranges of entries, split at every entry with which some segment has started."""
    if not moments:  # The trace ends before the first ensemble is known.
        return ()
    firsts = sorted({segment.first for moment in moments for segment in moment.segments})
    end = moments[-1].segments[-1].last
    lasts = [*(first - 1 for first in firsts[1:]), end]
    open_end = "" if moments[-1].is_closed else " …"
    spans = list(zip(firsts, lasts, strict=True))[-MAX_COLUMNS:]
    names = {
        bookie.name for moment in moments for each in moment.segments for bookie in each.bookies
    }
    wanted = max(width_of(name + " ✕", bold=True) for name in names) + 14
    left, room = MARGIN + STORY, WIDTH - 2 * MARGIN - STORY
    label = min(wanted, room / len(spans) * 0.6)
    spare = room - max(label + 8, MIN_COLUMN) * len(spans)
    count = sum(max(last - first + 1, 1) for first, last in spans)
    cell = max(min(MAX_CELL, spare / count), 0.4)
    columns, x = list[Column](), float(left)
    for first, last in spans:
        width = max(label + 8, MIN_COLUMN) + cell * max(last - first + 1, 1)
        words = span_of(first, last) + (open_end if first == firsts[-1] else "")
        columns.append(Column(first, last, words, x, x + width, cell, label))
        x += width
    return tuple(columns)


def span_of(first: int, last: int) -> str:
    if last < first:
        return f"from {first}"
    return f"{first}" if first == last else f"{first} to {last}"


class EnsemblePicture:
    explainers = ()
    """Nothing is explained, because each moment has its own text."""

    def __init__(self, events: Sequence[Event], ledger_id: int, acts: Acts, rows: int) -> None:
        self.history = History(ledger_id)
        end = history_of(events, ledger_id)
        self.columns = columns_of(end.moments)
        size = len(end.moments[0].segments[0].bookies) if end.moments else 0
        lines = max((len(lines_of(each.words, STORY - 30)) for each in end.moments), default=0)
        self._pitch = max(BOX * size, LINE * (1 + min(lines, 4))) + GAP
        self._rows = min(rows, len(end.moments))
        self._chips = Chips(end.nodes, acts, WIDTH - 2 * MARGIN)
        self._cache = PartCache()

    def take(self, event: Event) -> None:
        self.history.take(event)

    def legend(self) -> Mark | None:
        return _legend()

    def scene(self) -> Mark:
        """Return the picture. The last moment shows the current state, and the other moments no
        longer change.
        """
        top = 34 + self._chips.height + 20
        first = max(len(self.history.moments) - self._rows, 0)
        parts = [_head(self.history.ledger_id, self.columns, top, first)]
        parts += self._chips.marks(self.history.nodes, MARGIN, 32)
        bands = [
            self._band(number, number == len(self.history.moments) - 1)
            for number in range(first, len(self.history.moments))
        ]
        sheet = group("moments", *bands, y=top - self._pitch * first)
        height = top + self._pitch * self._rows + 4
        return picture(WIDTH, height, self.summary(), *parts, sheet)

    def summary(self) -> str:
        ledger_id, moments = self.history.ledger_id, self.history.moments
        if not moments:
            return f"Ensemble history: ledger {ledger_id} does not exist yet"
        last = moments[-1]
        stored = "; ".join(
            f"{span_of(each.first, each.last)} on {', '.join(b.name for b in each.bookies)}"
            for each in self.history.now()
        )
        state = "closed" if last.is_closed else "open"
        return f"Ensemble history: ledger {ledger_id}, {len(moments)} moments; {state}, {stored}"

    def _band(self, number: int, is_last: bool) -> Mark:
        moment = self.history.moments[number]
        segments = self.history.now() if is_last else moment.segments
        return self._cache.part(number, self._draw_band, number, moment, segments, is_last)

    def _draw_band(
        self,
        number: int,
        moment: HistoryMoment,
        segments: Sequence[SegmentEntries],
        is_last: bool,
    ) -> Mark:
        ink = "lost" if moment.kind in ("down", "lost", "marked") else "ink"
        lines = lines_of(moment.words, STORY - 30)
        shown = (*lines[:3], fitted(" ".join(lines[3:]), STORY - 30)) if len(lines) > 4 else lines
        behind = [rect("now", 2, -4, WIDTH - 4, self._pitch - 4, rx=5, fill="box")]
        story = group(
            "story",
            text("glyph", MARGIN + 2, 13, GLYPHS[moment.kind], fill=ink, bold=True),
            text("time", MARGIN + 20, 13, time_words(moment.time_us), fill="faint"),
            *(
                text(f"line {at}", MARGIN + 20, 13 + LINE * (at + 1), line, fill=ink)
                for at, line in enumerate(shown)
            ),
            title=f"{time_words(moment.time_us)}: {moment.words}",
        )
        return group(
            str(number),
            *(behind if is_last else []),
            path("rule", f"M{MARGIN} -5H{WIDTH - MARGIN}", stroke="line"),
            story,
            *(_segment(each, self.columns, self.history.ledger_id) for each in segments),
            y=self._pitch * number,
        )


def _head(ledger_id: int, columns: Sequence[Column], top: float, before: int) -> Mark:
    parts = [
        text("title", MARGIN, 21, f"Ledger {ledger_id}: where it is stored", size=14, bold=True),
        *(
            text(str(each.first), each.x + 4, top - 8, _fit(each, columns), fill="faint")
            for each in columns
        ),
    ]
    if before:
        parts.append(text("before", MARGIN, top - 8, f"⋮ {before} earlier", fill="faint"))
    return group("head", *parts)


def _fit(column: Column, columns: Sequence[Column]) -> str:
    room = column.end - column.x - 6
    words = f"entries {column.words}" if column is columns[0] else column.words
    return fitted(words if width_of(words) <= room else column.words, room)


@lru_cache(1024)
def _segment(segment: SegmentEntries, columns: tuple[Column, ...], ledger_id: int) -> Mark:
    covered = [c for c in columns if segment.first <= c.first <= max(segment.last, segment.first)]
    if not covered:
        return group(str(segment.first))
    return group(
        str(segment.first),
        *(
            _bookie(bookie, at, segment, tuple(covered), ledger_id)
            for at, bookie in enumerate(segment.bookies)
        ),
    )


@lru_cache(4096)
def _bookie(
    bookie: SegmentBookie,
    at: int,
    segment: SegmentEntries,
    columns: tuple[Column, ...],
    ledger_id: int,
) -> Mark:
    left, right = columns[0].x + 2, columns[-1].end - 4
    parts = [frame(right - left, bookie, segment.is_deferred)]
    is_away = bookie.state in ("down", "paused")
    name = f"{bookie.name} ✕" if is_away else bookie.name
    ink = "lost" if is_away else "ink"
    shown = fitted(name, columns[0].names - 8, bold=True)
    if is_away:
        width = width_of(shown, bold=bookie.is_new) + 6
        parts.append(rect("plate", 3, 2, width, BOX - 7, rx=3, fill="page"))
    parts.append(text("name", 6, 14, shown, fill=ink, bold=bookie.is_new))
    for column in columns:
        expected = [entry for entry in bookie.expected if column.first <= entry <= column.last]
        x = column.x - left
        if column.cell >= 7:
            parts += [
                _cell(entry, entry in bookie.durable, column, x, ledger_id) for entry in expected
            ]
        else:
            parts += _runs(expected, frozenset(bookie.durable), column, x)
    return group(
        f"{at}",
        *parts,
        x=left,
        y=BOX * at,
        title=_words_of(bookie, segment),
        kin=node_kin(bookie.name),
    )


def _cell(entry: int, is_durable: bool, column: Column, x: float, ledger_id: int) -> Mark:
    width = column.cell - 2
    fill, dash = ("stored", "") if is_durable else ("page", "3 2")
    box = rect("box", 0, 3, width, 13, rx=2, fill=fill, stroke="stored", dash=dash)
    label = str(entry)
    has_room = width_of(label) <= width - 1
    ink = "page" if is_durable else "stored"
    words = [text("id", width / 2, 14, label, fill=ink, anchor="middle")] if has_room else []
    where = rounded(x + column.names + column.cell * (entry - column.first))
    title = f"entry {entry}: {'durable' if is_durable else 'missing'}"
    return group(f"e{entry}", box, *words, x=where, title=title, kin=entry_kin(ledger_id, entry))


def _runs(expected: Sequence[int], durable: frozenset[int], column: Column, x: float) -> list[Mark]:
    """Draw sequences of consecutive entries as bars. This is used for ledgers with many entries."""
    parts = []
    cells = ((entry in durable, at, entry) for at, entry in enumerate(expected))
    for (is_durable, _), run in groupby(cells, key=lambda cell: (cell[0], cell[2] - cell[1])):
        entries = [entry for _, _, entry in run]
        left = x + column.names + column.cell * (entries[0] - column.first)
        width = max(column.cell * len(entries) - 0.2, 0.5)
        fill = "stored" if is_durable else "page"
        parts.append(rect(f"e{entries[0]}", left, 4, width, 11, fill=fill, stroke="stored"))
    return parts


def frame(width: float, bookie: SegmentBookie, is_deferred: bool) -> Mark:
    is_away = bookie.state in ("down", "paused")
    stroke = "lost" if is_away else "ink" if bookie.is_new else "line"
    thick, dash = (2 if bookie.is_new else 1), ("4 3" if is_deferred else "")
    box = rect(
        "box", 0, 0, width, BOX - 3, rx=4, fill="page", stroke=stroke, thick=thick, dash=dash
    )
    lines = path("hatch", hatch(width, BOX - 3, step=9), stroke="lost")
    return group("frame", box, *([lines] if is_away else []))


def _words_of(bookie: SegmentBookie, segment: SegmentEntries) -> str:
    missing = [str(entry) for entry in bookie.expected if entry not in bookie.durable]
    lacks = (
        f", missing {' '.join(missing[:12])}{' …' if len(missing) > 12 else ''}" if missing else ""
    )
    entries = span_of(segment.first, segment.last)
    counts = f"{len(bookie.durable)} of {counted(len(bookie.expected), 'copy', 'copies')}"
    return f"{bookie.name}, entries {entries}: {counts}{lacks}; {bookie.state}"


@lru_cache(1)
def _legend() -> Mark | None:
    return legend([Symbol(look, [_sample(look)], words, BOX - 3) for look, words in LEGEND])


def _sample(look: str) -> Mark:
    if look == "held":
        return rect("box", 0, 3, SAMPLE, 13, rx=2, fill="stored", stroke="stored")
    if look == "missing":
        return rect("box", 0, 3, SAMPLE, 13, rx=2, fill="page", stroke="stored", dash="3 2")
    state = "down" if look == "down" else "up"
    bookie = SegmentBookie("", state, (), (), is_new=look == "new")
    return frame(SAMPLE, bookie, look == "deferred")
