"""The cluster as a still picture: one ledger's entries on the bookies, at one moment.

The same look as the moving view (`cluster_view.css` has the same colours and shapes), for places
where no front end runs: GitHub, nbconvert, papermill.  The picture brings its own light background,
so it reads on a dark page too; the same state always gives the same text.
"""

from dataclasses import asdict
from html import escape

from labkit.trace.fold import Bookie, ClusterState, Copy, Ledger
from labkit.trace.sentence import COPIES, fill
from labkit.widgets.drawing import BOX, CONFIRMED, FAINT, INK, LINE, LOST, STORED, Drawing

WIDTH = 860
GUTTER = 124  # left of the columns: entry ids, LAC and LAP
TOP = 144
ROW = 24
CELL = 19
MOST_ROWS = 24
FIRST_ROWS = 5  # of a long ledger; the rest of MOST_ROWS are its last

GLYPHS = {"up": "●", "down": "✕", "paused": "‖", "unknown": "?"}

_DEFS = f"""<defs>
<pattern id='down' width='6' height='6' patternUnits='userSpaceOnUse' patternTransform='rotate(45)'>
<rect width='6' height='6' fill='#fff'/><rect width='1.2' height='6' fill='{LOST}'/></pattern>
<pattern id='paused' width='6' height='6' patternUnits='userSpaceOnUse' \
patternTransform='rotate(-45)'>
<rect width='6' height='6' fill='#fff'/><rect width='1.2' height='6' fill='{STORED}'/></pattern>
</defs>"""

LEGEND = (
    ("sent", "in flight"),
    ("memtable", "in memtable"),
    ("durable", "journal synced"),
    ("flushed", "flushed"),
    ("acked", "acknowledged"),
    ("read", "read from here"),
    ("reading", "latest read"),
    ("hatched", "bookie down"),
    ("stopped", "bookie paused"),
    ("failed", "not acknowledged"),
    ("lost", "lost with memory"),
)
"""How the legend names what a cell can look like, in its order."""


def newest_ledger(state: ClusterState) -> int:
    """The ledger that a view shows unless told otherwise; -1 when there is none."""
    return max(state.ledgers, default=-1)


def summary(state: ClusterState, ledger_id: int) -> str:
    """The picture in one line of words."""
    bookie_count = len(state.bookies)
    parts = [f"{bookie_count} bookie{'' if bookie_count == 1 else 's'}"]
    if ledger_id in state.ledgers:
        ledger = state.ledgers[ledger_id]
        parts.append(f"ledger {ledger_id} with entries up to {_id(ledger.last_add_pushed)}")
        parts.append(f"LAC {_id(ledger.last_add_confirmed)}")
        parts += ["closed"] if ledger.closed else []
    else:
        parts.append("no ledger")
    parts += [f"{n} {b.state}" for n, b in state.bookies.items() if b.state in ("down", "paused")]
    return "Cluster: " + ", ".join(parts)


def cluster_svg(state: ClusterState, ledger_id: int | None = None) -> str:
    """The picture of one ledger (the newest by default) as a self-contained SVG document."""
    return _Picture(state, newest_ledger(state) if ledger_id is None else ledger_id).draw()


def copy_title(copy: Copy, entry: int, ledger_id: int, bookie: str, bookie_state: str) -> str:
    """A cell in words, such as `entry 3 of ledger 7 on bookie-1: durable, journal 1a.txn`."""
    words = fill(COPIES[copy.state], asdict(copy))
    away = f" ({bookie} is {bookie_state})" if bookie_state in ("down", "paused") else ""
    return f"entry {entry} of ledger {ledger_id} on {bookie}: {words}{away}"


def _id(entry_id: int) -> str:
    return "none" if entry_id < 0 else str(entry_id)


class _Picture(Drawing):
    def __init__(self, state: ClusterState, ledger_id: int) -> None:
        super().__init__()
        self.state = state
        self.ledger_id = ledger_id
        self.ledger = state.ledgers.get(ledger_id, Ledger())
        held = [max(b.entries.get(ledger_id, {}), default=-1) for b in state.bookies.values()]
        last = max([self.ledger.last_add_pushed, self.ledger.last_add_confirmed, *held])
        self.rows = _rows(last)
        self.bottom = TOP + ROW * max(len(self.rows), 3) + 12
        self.pitch = min(150, (WIDTH - GUTTER - 16) // max(len(state.bookies), 1))
        self.x = {name: GUTTER + self.pitch * i for i, name in enumerate(state.bookies)}

    def draw(self) -> str:
        height = self.bottom + 44
        self.begin(WIDTH, height, summary(self.state, self.ledger_id), _DEFS)
        self._header()
        self._legend()
        for name, bookie in self.state.bookies.items():
            self._column(name, bookie)
        self._row_ids()
        self._fragments()
        self._confirmed()
        for name, bookie in self.state.bookies.items():
            self._cells(name, bookie)
        self.text(16, self.bottom + 26, self.state.sentence, size=13)
        return self.end()

    def _header(self) -> None:
        ledger = self.ledger
        self.text(16, 27, f"Ledger {_id(self.ledger_id)}", size=14, bold=True)
        badges = [
            f"E {_id(ledger.ensemble_size)}",
            f"Qw {_id(ledger.write_quorum)}",
            f"Qa {_id(ledger.ack_quorum)}",
            f"LAP {_id(ledger.last_add_pushed)}",
            f"LAC {_id(ledger.last_add_confirmed)}",
            "closed" if ledger.closed else "open",
        ]
        x: float = 36 + 9 * len(f"Ledger {self.ledger_id}")
        for badge in badges if self.ledger_id >= 0 else []:
            width = 18 + 7.2 * len(badge)
            self.rect(x, 13, width, 20, f"rx='10' fill='none' stroke='{LINE}'")
            self.text(x + width / 2, 27, badge, middle=True)
            x += width + 8

    def _legend(self) -> None:
        for place, (look, words) in enumerate(LEGEND):
            x, y = 16 + 140 * (place % 6), 44 + 20 * (place // 6)
            self._cell(x, y, 22, "", look, small=True)
            self.text(x + 27, y + 11, words, fill=FAINT, size=10.5)

    def _column(self, name: str, bookie: Bookie) -> None:
        fragments = self.ledger.fragments
        ensemble = fragments[-1].ensemble if fragments else ()
        colour, width = (INK, 2) if name in ensemble else (LINE, 1)
        dash = ""
        if bookie.state in ("down", "paused"):
            colour, dash = (LOST if bookie.state == "down" else FAINT), " stroke-dasharray='6 3'"
        self.rect(
            self.x[name] + 3,
            TOP - 47,
            self.pitch - 6,
            self.bottom - TOP + 47,
            f"rx='6' fill='{'#fff' if dash else BOX}' stroke='{colour}'"
            f" stroke-width='{width}'{dash}",
        )
        ink = LOST if bookie.state == "down" else INK
        glyph_ink = {"up": "#007a5a", "down": LOST}.get(bookie.state, FAINT)
        label = name if len(name) * 8 < self.pitch - 34 else name[-((self.pitch - 34) // 8) :]
        place = f"place {ensemble.index(name)}" if name in ensemble else ""
        words = bookie.state if bookie.state in ("down", "paused") else place
        self.text(self.x[name] + 12, TOP - 28, GLYPHS[bookie.state], fill=glyph_ink, bold=True)
        self.text(self.x[name] + 27, TOP - 28, label, fill=ink, bold=True)
        self.text(self.x[name] + 27, TOP - 13, words, fill=ink if dash else FAINT, size=11)

    def _row_ids(self) -> None:
        for row, entry in enumerate(self.rows):
            y = TOP + ROW * row + 14
            text = "⋮" if entry is None else str(entry)
            self.text(GUTTER - 10, y, text, fill=FAINT, anchor="end")

    def _fragments(self) -> None:
        for fragment in self.ledger.fragments[1:]:
            if fragment.first_entry in self.rows:
                y = TOP + ROW * self.rows.index(fragment.first_entry) - 2.5
                self._line(y, FAINT, "stroke-dasharray='2 3'")

    def _confirmed(self) -> None:
        lac, lap = self.ledger.last_add_confirmed, self.ledger.last_add_pushed
        if lac in self.rows:
            y = TOP + ROW * (self.rows.index(lac) + 1) - 2.5
            self._line(y, CONFIRMED, "stroke-width='2'")
            self.text(10, y - 3, f"LAC {lac}", fill=CONFIRMED, bold=True, size=11)
        if lap > lac and lap in self.rows:
            y = TOP + ROW * (self.rows.index(lap) + 1) - 2.5
            self._line(y, FAINT, "stroke-dasharray='8 4'")
            self.text(10, y - 3, f"LAP {lap}", fill=FAINT, bold=True, size=11)

    def _cells(self, name: str, bookie: Bookie) -> None:
        copies, read = bookie.entries.get(self.ledger_id, {}), self.state.read
        for row, entry in enumerate(self.rows):
            if entry is None or entry not in copies:
                continue
            copy, y = copies[entry], TOP + ROW * row
            title = copy_title(copy, entry, self.ledger_id, name, bookie.state)
            self.add(f"<g><title>{escape(title)}</title>")
            x, width = self.x[name] + 9, self.pitch - 18
            look = _look(copy, bookie.state)
            if look == "sent":
                x, width = self.x[name] - 12, 32
            self._cell(x, y, width, str(entry), look)
            if read and (read.ledger, read.entry, read.bookie) == (self.ledger_id, entry, name):
                self._ring(x, y, width, CELL)
            if copy.acked and look not in ("hatched", "stopped"):
                self._mark(x + width - 10, y, "acked", look)
            if copy.reads:
                self._mark(x + 10, y, "read", look)
            self.add("</g>")

    def _cell(
        self, x: float, y: float, width: float, label: str, look: str, *, small: bool = False
    ) -> None:
        height = 13 if small else CELL
        if look == "reading":
            self._ring(x + 2, y + 1, width - 4, height - 2)
            return
        if look in _MARKS:
            self.text(x + 11, y + 11, _MARKS[look], middle=True, bold=True)
            return
        self.rect(x, y, width, height, _SHAPES[look])
        if look == "flushed":
            for inset in (4, 7):
                self.rect(x + inset, y, 1.2, height, "fill='#fff'")
        ink = {"durable": "#fff", "flushed": "#fff", "sent": INK, "memtable": STORED}.get(
            look, LOST
        )
        ink = STORED if look == "stopped" else ink
        text = {"failed": f"{label} ?", "lost": f"{label} ✕"}.get(look, label)
        if label and look in ("hatched", "stopped"):
            plate = 10 + 8 * len(label)
            self.rect(x + (width - plate) / 2, y + 2, plate, height - 4, "rx='3' fill='#fff'")
        self.text(x + width / 2, y + 14, text, fill=ink, middle=True, bold=True)

    def _mark(self, x: float, y: float, mark: str, look: str) -> None:
        ink = "#fff" if look in ("durable", "flushed") else INK
        self.text(x, y + 13, _MARKS[mark], fill=ink, middle=True, size=10)

    # Shapes

    def _ring(self, x: float, y: float, width: float, height: float) -> None:
        style = f"rx='5' fill='none' stroke='{CONFIRMED}' stroke-width='2'"
        self.rect(x - 2.5, y - 2.5, width + 5, height + 5, style)

    def _line(self, y: float, colour: str, style: str) -> None:
        right = GUTTER + self.pitch * len(self.x)
        self.add(f"<path d='M10 {y:g}H{right:g}' stroke='{colour}' {style}/>")


_MARKS = {"acked": "✓", "read": "◂"}
_SHAPES = {
    "sent": f"rx='9' fill='#fff' stroke='{STORED}' stroke-width='2'",
    "memtable": f"rx='3' fill='#fff' stroke='{STORED}' stroke-width='2'",
    "durable": f"rx='3' fill='{STORED}'",
    "flushed": f"rx='3' fill='{STORED}'",
    "failed": f"rx='3' fill='none' stroke='{LOST}' stroke-dasharray='4 2'",
    "lost": f"rx='3' fill='none' stroke='{LOST}' stroke-dasharray='1 3'",
    "hatched": f"rx='3' fill='url(#down)' stroke='{LOST}'",
    "stopped": f"rx='3' fill='url(#paused)' stroke='{STORED}'",
}


def _look(copy: Copy, bookie_state: str) -> str:
    """How a copy is drawn: what is stored on a bookie that answers nobody is hatched."""
    if copy.state in ("memtable", "durable", "flushed"):
        return {"down": "hatched", "paused": "stopped"}.get(bookie_state, copy.state)
    return copy.state


def _rows(last_entry: int) -> list[int | None]:
    """The entry ids that get a row; None stands for those between that are not drawn."""
    if last_entry < MOST_ROWS:
        return list(range(last_entry + 1))
    tail = MOST_ROWS - FIRST_ROWS - 1
    return [*range(FIRST_ROWS), None, *range(last_entry + 1 - tail, last_entry + 1)]
