"""The timeline as a still picture: one moment of a run, or of two side by side.

The same look as the moving view (`timeline.css`): nodes and entries above, below them the events
around the moment, with a dot at those that led to it.
"""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from labkit.trace.events import Event
from labkit.trace.fold import Bookie, ClusterState, Copy, Ledger, fold
from labkit.trace.sentence import describe
from labkit.widgets.cluster_svg import GLYPHS, copy_title, newest_ledger
from labkit.widgets.drawing import BOX, CONFIRMED, FAINT, INK, LINE, LOST, STORED, Drawing
from labkit.widgets.timeline_fold import NodeState, Surroundings, surroundings
from labkit.widgets.timeline_steps import BOTH, OTHER, Step

if TYPE_CHECKING:
    from labkit.widgets.timeline import PlayedRun

WIDTH = 860
WELL = "#007a5a"
ROW, CELL = 22, 18
GUTTER = 56
MOST_ROWS = 12
BEFORE, AFTER, LED = 7, 3, 7
"""How many events are told before and after the moment, and of those that led there."""
_LETTER = 6.1
"""The width of a letter at size 11, about."""
_EPILOGUE = "epilogue"

_SHAPES = {
    "sent": f"rx='8' fill='#fff' stroke='{STORED}' stroke-width='1.6'",
    "memtable": f"rx='3' fill='#fff' stroke='{STORED}' stroke-width='2'",
    "durable": f"rx='3' fill='{STORED}'",
    "flushed": f"rx='3' fill='{STORED}'",
    "failed": f"rx='3' fill='none' stroke='{LOST}' stroke-dasharray='4 2'",
    "lost": f"rx='3' fill='none' stroke='{LOST}' stroke-dasharray='1 3'",
    "hatched": f"rx='3' fill='#fff' stroke='{LOST}' stroke-dasharray='6 3'",
}


def timeline_svg(runs: Sequence["PlayedRun"], steps: Sequence[Step], at: int, words: str) -> str:
    """The picture after the first `at` steps as a self-contained SVG document."""
    step = steps[at - 1] if at else Step(BOTH, 0, 0)
    scenes = [_Scene(run, (step.of_first, step.of_other)[n]) for n, run in enumerate(runs)]
    width = (WIDTH - 32 - 16 * (len(runs) - 1)) / len(runs)
    picture = Drawing()
    heights = [scene.draw(picture, 16 + n * (width + 16), width) for n, scene in enumerate(scenes)]
    bottom = max(heights) + 14
    bottom = _events(picture, runs, steps, at, bottom)
    frame = Drawing()
    frame.begin(WIDTH, bottom + 8, words)
    return "\n".join([*frame.parts, *picture.parts, "</svg>"])


def _events(
    picture: Drawing, runs: Sequence["PlayedRun"], steps: Sequence[Step], at: int, top: float
) -> float:
    """The events around the moment; returns where they end."""
    picture.add(f"<path d='M16 {top:g}H{WIDTH - 16}' stroke='{LINE}'/>")
    led = _lineage(runs, steps, at)
    for n in _told(steps, at, led):
        top += 17
        which, event = _event(runs, steps[n])
        broken = any(each.seq == event.seq for each in runs[which].broken)
        half = (WIDTH - 48) / 2 if steps[n].which != BOTH else WIDTH - 32
        x = 16 + (half + 16 if steps[n].which == OTHER else 0)
        if n == at - 1:
            style = f"rx='3' fill='{STORED}' fill-opacity='.15'"
            picture.rect(x, top - 12.5, half, 17, style)
        glyph = "✘" if broken else "▶" if n == at - 1 else "•" if n in led else ""
        ink = LOST if broken else INK if n < at else FAINT
        picture.text(x + 10, top, glyph, fill=LOST if broken else STORED, middle=True, size=11)
        picture.text(
            x + 80, top, f"{event.time_us / 1000:.2f} ms", fill=FAINT, size=11, anchor="end"
        )
        words = _short(describe(event), half - 92)
        picture.text(x + 90, top, words, fill=ink, size=11, bold=n == at - 1)
    return top


def _told(steps: Sequence[Step], at: int, led: Sequence[int]) -> list[int]:
    """The steps around the moment, and the last of those that led there."""
    around = range(max(0, at - BEFORE), min(len(steps), at + AFTER))
    return [*[n for n in led if n < around.start][-LED:], *around]


def _event(runs: Sequence["PlayedRun"], step: Step) -> tuple[int, Event]:
    """Which run a step tells of, and the event."""
    if step.which == OTHER:
        return 1, runs[1].events[step.of_other - 1]
    return 0, runs[0].events[step.of_first - 1]


def _lineage(runs: Sequence["PlayedRun"], steps: Sequence[Step], at: int) -> list[int]:
    """The steps that led to the moment's event: its causes, and what a broken promise speaks of."""
    if not at:
        return []
    which, event = _event(runs, steps[at - 1])
    by_seq = {each.seq: row for row, each in enumerate(runs[which].events, 1)}
    broke = next((each for each in runs[which].broken if each.seq == event.seq), None)
    rows = [by_seq[seq] for seq in (broke.lineage if broke else ())]
    while event.cause in by_seq:
        rows.append(by_seq[event.cause])
        event = runs[which].events[rows[-1] - 1]
    counts = [step.of_other if which else step.of_first for step in steps]
    return sorted({counts.index(row) for row in rows})


class _Scene:
    """One run at the moment."""

    def __init__(self, run: "PlayedRun", count: int) -> None:
        self.run = run
        self.state: ClusterState = fold(run.events, count, run.bookies)
        self.around: Surroundings = surroundings(run.events, count)
        self.ledger_id = newest_ledger(self.state)
        self.ledger = self.state.ledgers.get(self.ledger_id, Ledger())
        held = [max(b.entries.get(self.ledger_id, {}), default=-1) for b in self._bookies.values()]
        last = max([self.ledger.last_add_pushed, self.ledger.last_add_confirmed, *held])
        self.first = max(0, last + 1 - MOST_ROWS)
        self.rows = range(self.first, last + 1)

    @property
    def _bookies(self) -> dict[str, Bookie]:
        return self.state.bookies

    def draw(self, picture: Drawing, x: float, width: float) -> float:
        """Draw it there; returns where it ends."""
        self.picture = picture
        picture.text(x, 26, _short(self.run.title, width, 8.4), size=13, bold=True)
        bad = self.run.words.startswith("✘")
        picture.text(
            x,
            44,
            _short(self.run.words, width, 7.4 if bad else _LETTER),
            fill=LOST if bad else WELL,
            size=11,
            bold=bad,
        )
        picture.text(x, 61, _short(self._ledger_words(), width), fill=FAINT, size=11)
        y = self._clients(x, width, 70)
        return self._grid(x, width, y + 10)

    def _ledger_words(self) -> str:
        if self.ledger_id < 0:
            return "no ledger yet"
        ledger = self.ledger
        numbers = (
            ("E", ledger.ensemble_size),
            ("Qw", ledger.write_quorum),
            ("Qa", ledger.ack_quorum),
            ("LAP", ledger.last_add_pushed),
            ("LAC", ledger.last_add_confirmed),
        )
        said = " · ".join(f"{name} {value if value >= 0 else 'none'}" for name, value in numbers)
        return f"ledger {self.ledger_id}: {said} · {self.around.ledgers.get(self.ledger_id, '')}"

    def _clients(self, x: float, width: float, y: float) -> float:
        right, at = x + width, x
        clients = {
            name: node
            for name, node in self.around.nodes.items()
            if name not in self._bookies and (name != _EPILOGUE or node.doing)
        }
        cuts = ", ".join(cut.replace(">", " → ") for cut in self.around.cuts)
        for name, node in clients.items():
            words = _short(f"{GLYPHS[node.state]} {name} {_doing(node)}".rstrip(), width - 18)
            wide = 16 + _LETTER * len(words)
            if at + wide > right and at > x:
                at, y = x, y + 23
            ink = LOST if node.state == "down" else INK
            self.picture.rect(
                at, y, wide, 19, f"rx='9.5' fill='none' stroke='{LOST if ink == LOST else LINE}'"
            )
            self.picture.text(at + 8, y + 13.5, words, fill=ink, size=11)
            at += wide + 6
        y += 19
        if cuts:
            y += 18
            self.picture.text(x, y - 2, _short(f"✂ cut: {cuts}", width), fill=LOST, size=11)
        return y

    def _grid(self, x: float, width: float, y: float) -> float:
        count = max(len(self._bookies), 1)
        pitch = min(140.0, (width - GUTTER) / count)
        top = y + 38
        bottom = top + ROW * max(len(self.rows), 2) + 6
        for place, (name, bookie) in enumerate(self._bookies.items()):
            self._column(name, bookie, (x + GUTTER + pitch * place, y), (pitch, bottom - y))
            for row, entry in enumerate(self.rows):
                copy = bookie.entries.get(self.ledger_id, {}).get(entry)
                if copy is not None:
                    cell = (x + GUTTER + pitch * place + 7, top + ROW * row)
                    self._cell(name, bookie, entry, copy, (*cell, pitch - 18))
        right = x + GUTTER + pitch * count
        for row, entry in enumerate(self.rows):
            self.picture.text(
                x + GUTTER - 14, top + ROW * row + 13, str(entry), fill=FAINT, anchor="end"
            )
        self._line(self.ledger.last_add_confirmed, "LAC", CONFIRMED, (x, right, top))
        if self.ledger.last_add_pushed > self.ledger.last_add_confirmed:
            self._line(self.ledger.last_add_pushed, "LAP", FAINT, (x, right, top))
        return bottom

    def _column(
        self, name: str, bookie: Bookie, at: tuple[float, float], size: tuple[float, float]
    ) -> None:
        (x, y), (pitch, height) = at, size
        node = self.around.nodes.get(name, NodeState())
        fragments = self.ledger.fragments
        away = bookie.state in ("down", "paused")
        edge = LOST if bookie.state == "down" else FAINT if away else LINE
        if not away and fragments and name in fragments[-1].ensemble:
            edge = INK
        dash = " stroke-dasharray='6 3'" if away else ""
        fill = "#fff" if away else BOX
        self.picture.rect(
            x,
            y,
            pitch - 4,
            height,
            f"rx='6' fill='{fill}' stroke='{edge}' stroke-width='1.5'{dash}",
        )
        ink = LOST if bookie.state == "down" else INK
        label = f"{GLYPHS[bookie.state]} {name}{f' {bookie.state}' if away else ''}"
        self.picture.text(x + 8, y + 17, label, fill=ink, bold=True)
        marks = ["⊘ fenced"] if self.ledger_id in node.fenced else []
        marks += ["◎ auditor"] if node.is_auditor else []
        marks += [f"! {trouble}" for trouble in node.troubles]
        text = _short(", ".join(marks), pitch - 14, 5.6)
        self.picture.text(x + 8, y + 31, text, fill=LOST, size=10, bold=True)

    def _cell(
        self,
        name: str,
        bookie: Bookie,
        entry: int,
        copy: Copy,
        place: tuple[float, float, float],
    ) -> None:
        x, y, width = place
        stored = copy.state in ("memtable", "durable", "flushed")
        look = "hatched" if stored and bookie.state == "down" else copy.state
        title = copy_title(copy, entry, self.ledger_id, name, bookie.state)
        self.picture.add(f"<g><title>{escape(title)}</title>")
        if look == "sent":
            x, width = x - 16, 26
        self.picture.rect(x, y, width, CELL, _SHAPES[look])
        if look == "flushed":
            for inset in (4, 7):
                self.picture.rect(x + inset, y, 1.2, CELL, "fill='#fff'")
        ink = {"durable": "#fff", "flushed": "#fff", "sent": INK, "memtable": STORED}.get(
            look, LOST
        )
        label = {"failed": f"{entry} ?", "lost": f"{entry} ✕"}.get(look, str(entry))
        self.picture.text(x + width / 2, y + 13, label, fill=ink, middle=True, bold=True, size=11)
        if copy.acked and look != "hatched":
            self.picture.text(x + width - 9, y + 13, "✓", fill=ink, middle=True, size=10)
        self.picture.add("</g>")

    def _line(self, entry: int, label: str, colour: str, place: tuple[float, float, float]) -> None:
        left, right, top = place
        if entry not in self.rows:
            return
        y = top + ROW * (entry - self.first + 1) - 2
        style = "stroke-width='2'" if label == "LAC" else "stroke-dasharray='8 4'"
        self.picture.add(f"<path d='M{left:g} {y:g}H{right:g}' stroke='{colour}' {style}/>")
        self.picture.text(left, y - 3, label, fill=colour, bold=True, size=10)


def _doing(node: NodeState) -> str:
    parts = [node.state] if node.state in ("down", "paused") else []
    parts += [node.doing] if node.doing else []
    parts += [f"LAP {node.last_add_pushed}"] if node.last_add_pushed >= 0 else []
    parts += [f"LAC {node.last_add_confirmed}"] if node.last_add_confirmed >= 0 else []
    return " · ".join([*parts, *node.troubles])


def _short(text: str, width: float, letter: float = _LETTER) -> str:
    """As much of the text as that width has room for."""
    most = int(width / letter)
    return text if len(text) <= most else text[: most - 1] + "…"
