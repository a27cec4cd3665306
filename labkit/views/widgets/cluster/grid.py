"""A grid with bookies as columns, entries as rows, and messages in flight between them and the
clients on the left. Both the cluster view and the timeline use this grid.

Only the rows around the latest adds and reads are visible.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from labkit.system.trace.bookie_state import Bookie, Copy
from labkit.system.trace.cluster_state import ClusterFold, ClusterState, Ledger, Read
from labkit.system.trace.events import Event
from labkit.views.widgets.acts import NO_ACTS, Acts
from labkit.views.widgets.captions import Explainer, note
from labkit.views.widgets.cluster.cells import CELL, ROW, cell, copy_title, sign, symbols_of
from labkit.views.widgets.cluster.heads import ACTS, HEAD, act_lines, column, head
from labkit.views.widgets.display_clock import Hop
from labkit.views.widgets.drawing.kin import entry_kin
from labkit.views.widgets.drawing.scene import Mark, Move, PartCache, group, path, rect, text
from labkit.views.widgets.run import EventPositions

MOST_PITCH = 150
DOOR = 3
"""The distance between the left edge of a column and the bar that shows that it is fenced."""
GROWTH = 4
"""The number of rows by which the grid grows, so that it does not change with every entry."""

_SHOWS = ("add.pushed", "read.sent", "entry.copied")
"""Kinds of events that make the grid scroll to the row of their entry."""
_FLIGHTS = {
    "memtable.put": "adds",
    "add.acked": "acks",
    "read.served": "reads",
    "read.done": "answers",
    "read.failed": "reads",
}
"""How to draw a message in flight, by the kind of event with which it arrives."""
_HOME = ("add.acked", "add.failed", "read.done", "read.failed")
"""Kinds of events with which a message arrives at the client."""


NONE: Mapping[str, str] = {}


class GridLayout(NamedTuple):
    """width: width of the whole picture.
    gutter: space to the left of the columns.
    pitch: distance between columns.
    top: top of the first row, relative to the top of the headings.
    """

    width: float
    gutter: float
    pitch: float
    top: float
    rows: int

    @property
    def column(self) -> float:
        return self.pitch - 6

    @property
    def bottom(self) -> float:
        return self.top + ROW * self.rows + 4


class Grid:
    """Folds the events of a run, and draws one ledger.

    places: the positions of the events on the clock.
    ledger: the ledger's id, or None for the newest ledger.
    acts: the buttons of the bookies.
    rows: the number of visible rows at the start, and the maximum.
    run: the prefix of the bookie's name in the message that a click sends.
    """

    def __init__(
        self,
        positions: EventPositions,
        width: float,
        gutter: float,
        bookies: Sequence[str],
        *,
        ledger: int | None = None,
        acts: Acts = NO_ACTS,
        rows: tuple[int, int],
        run: str = "",
    ) -> None:
        self.positions, self.ledger, self.acts = positions, ledger, acts
        self.fold = ClusterFold(bookies)
        self._width, self._gutter, self._run = width, gutter, run
        (self._rows, self._most_rows), self._first = rows, 0
        self._cache = PartCache()
        self._cut: dict[str, set[str]] = {}
        self._flying: dict[int, Hop] = {}
        self._writers: dict[int, str] = {}
        """The node that created each ledger."""
        self.symbols: set[str] = set()
        """The symbols that have been drawn so far."""
        self._lost: set[str] = set()
        self.explainer = Explainer(positions)

    def take(self, event: Event) -> None:
        self.fold.apply(event)
        self.explainer.take(event)
        if event.kind in _SHOWS and event.ledger == self.shown() and event.entry >= 0:
            grown = -(-(event.entry + 1) // GROWTH) * GROWTH
            self._rows = max(self._rows, min(grown, self._most_rows))
            self._first = min(max(self._first, event.entry - self._rows + 1), event.entry)
        elif event.kind == "ledger.created":
            self._writers[event.ledger] = event.node
            if event.ledger == self.shown():
                self._first = 0
        for hop in self.positions.departing.get(event.seq, ()):
            if hop.arrived.kind in _FLIGHTS:
                self._flying[hop.arrived.seq] = hop
        for hop in self.positions.refused.get(event.seq, ()):
            self._flying[hop.arrived.seq] = hop
        self._flying.pop(event.seq, None)
        if event.kind == "link.cut":
            self._cut.setdefault(event.peer, set()).add(event.node)
        elif event.kind == "link.healed":
            self._cut.get(event.peer, set()).discard(event.node)

    def shown(self) -> int:
        """Return the id of the displayed ledger, or -1 if there is none yet."""
        return max(self.fold.ledgers, default=-1) if self.ledger is None else self.ledger

    def writer(self) -> str:
        """Return the node that created the displayed ledger, or "" if the node is unknown."""
        return self._writers.get(self.shown(), "")

    @property
    def layout(self) -> GridLayout:
        pitch = (self._width - self._gutter - 8) // max(len(self.fold.bookies), 1)
        found = GridLayout(self._width, self._gutter, min(MOST_PITCH, pitch), 0, self._rows)
        acts = ACTS * act_lines(self.acts, found.column)
        return found._replace(top=HEAD + acts + 4)

    def marks(self, state: ClusterState, remarks: Mapping[str, str] = NONE) -> Mark:
        """Return the picture of a state. remarks: additional text for the headings, by bookie."""
        ledger_id, layout = self.shown(), self.layout
        ledger = state.ledgers.get(ledger_id, Ledger())
        x = {name: layout.gutter + layout.pitch * at for at, name in enumerate(state.bookies)}
        sight = range(self._first, self._first + self._rows)
        if any(each.first_entry in sight for each in ledger.segments[1:]):
            self.symbols.add("replaced")
        flying = [hop for hop in self._flying.values() if hop.arrived.ledger == ledger_id]
        columns = [
            self._column(name, bookie, ledger_id, ledger, x[name], remarks.get(name, ""))
            for name, bookie in state.bookies.items()
        ]
        cells = [
            self._cells(name, bookie, ledger, state.read, flying, (x[name], layout.column))
            for name, bookie in state.bookies.items()
        ]
        sheet = self._cache.group(
            "sheet",
            _ids(self._first, self._last(ledger, state, ledger_id), ledger_id, layout.gutter),
            _lines(ledger, self._first, layout, len(x)),
            self._cache.group("cells", *cells),
            self._flights(flying, x, layout),
            y=layout.top - ROW * self._first,
        )
        columns_mark = self._cache.group("columns", *columns)
        return self._cache.group("grid", columns_mark, sheet, *self._notes(ledger_id, x, layout))

    def _last(self, ledger: Ledger, state: ClusterState, ledger_id: int) -> int:
        held = (
            next(reversed(bookie.entries.get(ledger_id, {})), -1)
            for bookie in state.bookies.values()
        )
        last = max(ledger.last_add_pushed, ledger.last_add_confirmed, *held, -1)
        return min(last, self._first + self._rows - 1)

    def _column(
        self,
        name: str,
        bookie: Bookie,
        ledger_id: int,
        ledger: Ledger,
        x: float,
        remark: str,
    ) -> Mark:
        ensemble = ledger.segments[-1].ensemble if ledger.segments else ()
        place = ensemble.index(name) if name in ensemble else -1
        copies = bookie.entries.get(ledger_id, _NO_COPIES)
        is_lost = bookie.state == "down" or name in self._lost
        lost = sum(copy.state == "lost" for copy in copies.values()) if is_lost else 0
        if lost:
            self._lost.add(name)
        words = [f"{lost} lost"] if lost else []
        words += ["cut off"] if self._cut.get(name) else []
        all_remarks = ", ".join((*words, remark) if remark else words)
        return _column(name, bookie.state, place, all_remarks, x, self.layout, self.acts, self._run)

    def _cells(
        self,
        name: str,
        bookie: Bookie,
        ledger: Ledger,
        read: Read | None,
        flying: Sequence[Hop],
        place: tuple[float, float],
    ) -> Mark:
        latest, ledger_id = -1, self.shown()
        if read and read.state != "failed" and (read.ledger, read.bookie) == (ledger_id, name):
            latest = read.entry
        coming = tuple(
            hop.arrived.entry
            for hop in flying
            if hop.arrived.node == name and hop.arrived.kind == "memtable.put"
        )
        sight = range(self._first, self._first + self._rows)
        copies = bookie.entries.get(ledger_id, _NO_COPIES)
        return self._cache.part(
            ("cells", name),
            self._draw_cells,
            *(name, bookie.state, copies, ledger_id, sight, latest, coming, place),
            ledger_id in bookie.fenced,
            ledger.last_entry if ledger.closed else None,
        )

    def _draw_cells(
        self,
        name: str,
        state: str,
        copies: dict[int, Copy],
        ledger_id: int,
        sight: range,
        latest: int,
        coming: Sequence[int],
        place: tuple[float, float],
        is_fenced: bool,
        end: int | None,
    ) -> Mark:
        x, width = place
        cells = []
        for entry in sight:
            copy = copies.get(entry)
            if copy and not (copy.state == "sent" and entry in coming):
                is_latest, is_past_end = entry == latest, end is not None and entry > end
                symbols = symbols_of(copy, state, is_past_end=is_past_end)
                label = entry_kin(ledger_id, entry), copy_title(copy, entry, ledger_id, name, state)
                cells.append(cell(entry, *label, symbols, width - 12, is_latest=is_latest))
                self.symbols.update(symbols, ["reading"] * is_latest)
        if is_fenced:
            cells.append(_door(sight))
            self.symbols.add("fenced")
        return group(name, *cells, x=x + 6)

    def _flights(self, flying: Sequence[Hop], x: dict[str, float], layout: GridLayout) -> Mark:
        sight, drawn = range(self._first, self._first + self._rows), list[Mark]()
        for hop in flying:
            arrived = hop.arrived
            bookie = arrived.peer if arrived.kind in _HOME else arrived.node
            if arrived.entry not in sight or bookie not in x:
                continue
            if arrived.kind == "add.failed":
                what = "refused"
                drawn.append(_bounce(hop, x[bookie] + DOOR, layout.gutter))
            else:
                completes = arrived.seq in self.positions.completing
                what = "quorum" if completes else _FLIGHTS[arrived.kind]
                drawn.append(_flight(hop, what, x[bookie] + layout.column / 2, layout.gutter))
            self.symbols.add(what)
        return group("flights", *drawn)

    def _notes(self, ledger_id: int, x: dict[str, float], layout: GridLayout) -> list[Mark]:
        event = self.explainer.event
        if event is None:
            return []
        bookie = next((name for name in (event.peer, event.node) if name in x), "")
        if event.ledger not in (-1, ledger_id):
            return []
        left, row = x.get(bookie, 0.0) + 10, event.entry - self._first
        # Place the note below all headings, so that it does not cover the buttons of any bookie.
        y = layout.top + ROW * (row + 1) if 0 <= row < layout.rows else layout.top - 4
        if event.kind == "ledger.closed":
            y = layout.bottom
        return [note(self.explainer.words, left, y + 3, layout.width - 6, layout.bottom)]


_NO_COPIES: dict[int, Copy] = {}


@lru_cache(2048)
def _column(
    name: str,
    state: str,
    place: int,
    words: str,
    x: float,
    layout: GridLayout,
    acts: Acts,
    run: str,
) -> Mark:
    box = column(state, place >= 0, layout.column, layout.bottom)
    return group(name, box, head(name, state, place, words, layout.column, acts, run), x=x)


@lru_cache(512)
def _ids(first: int, last: int, ledger_id: int, gutter: float) -> Mark:
    return group(
        "ids",
        *(
            group(
                str(entry),
                text("id", gutter - 8, 14.5, str(entry), fill="faint", anchor="end"),
                y=ROW * entry,
                kin=entry_kin(ledger_id, entry),
            )
            for entry in range(first, last + 1)
        ),
    )


@lru_cache(1024)
def _lines(ledger: Ledger, first: int, layout: GridLayout, count: int) -> Mark:
    right, sight = layout.gutter + layout.pitch * count, range(first, first + layout.rows)
    lac, lap = ledger.last_add_confirmed, ledger.last_add_pushed
    parts = [
        _line(
            f"from {first}",
            first,
            right,
            "faint",
            f"from entry {first} on: {', '.join(ensemble)}",
        )
        for first, ensemble in ledger.segments[1:]
        if first in sight
    ]
    if lap > lac and lap in sight:
        parts.append(
            _line(
                "lap",
                lap + 1,
                right,
                "faint",
                "LastAddPushed: the last entry that the writer has sent",
                f"LAP {lap}",
            )
        )
    if ledger.closed and ledger.last_entry < lap and ledger.last_entry + 1 in sight:
        words = "the ledger is closed: nobody can read the entries below this line"
        parts.append(_line("end", ledger.last_entry + 1, right, "lost", words, "ledger ends"))
    if lac in sight:
        words = "LastAddConfirmed: the last entry that readers may read"
        parts.append(_line("lac", lac + 1, right, "confirmed", words, f"LAC {lac}"))
    return group("lines", *parts)


def _line(key: str, row: int, right: float, colour: str, title: str, label: str = "") -> Mark:
    dash = {"lac": "", "lap": "8 4", "end": ""}.get(key, "2 3")
    thick = 2 if key in ("lac", "end") else 1
    line = path("line", f"M0 0H{right:g}", stroke=colour, thick=thick, dash=dash)
    words = (text("label", 0, -4, label, fill=colour, bold=True, halo=True),) if label else ()
    kin = f"line-{key.replace(' ', '-')}"
    return group(key, line, *words, y=ROW * row - 1, title=title, kin=kin)


@lru_cache(256)
def _door(sight: range) -> Mark:
    """Return the bar that marks a bookie on which the ledger is fenced."""
    height = ROW * len(sight) - 4
    bar = rect("bar", DOOR - 8, ROW * sight.start - 2, 4, height, rx=2, fill="confirmed")
    title = "fenced: from now on, this bookie accepts adds only from recovery"
    return group("door", bar, title=title, came=f"0 -{height}")


@lru_cache(4096)
def _flight(hop: Hop, what: str, x: float, gutter: float) -> Mark:
    """Return a message in flight, at its destination and shifted back by the remaining distance.

    what: the message's symbol.
    """
    wire, home = ROW * hop.arrived.entry + CELL + 4, gutter * 0.4
    is_home = hop.arrived.kind in _HOME
    here, there = (home, x) if is_home else (x, home)
    move = Move(round(hop.start, 1), round(hop.end, 1), there - here, 0)
    return group(f"{hop.arrived.seq}", sign(what, here, wire), move=move)


@lru_cache(4096)
def _bounce(hop: Hop, x: float, gutter: float) -> Mark:
    """Return an add that travels to a fenced bookie, is rejected, and travels back.

    The add is drawn at the writer. The outer group moves it to the bookie, and then the inner group
    moves it back.
    """
    wire, home = ROW * hop.arrived.entry + CELL + 4, gutter * 0.4
    middle = (hop.start + hop.end) / 2
    there = Move(round(hop.start, 1), round(middle, 1), home - x, 0)
    back = Move(round(middle, 1), round(hop.end, 1), x - home, 0)
    add = group("back", sign("refused", home, wire), move=back)
    return group(f"{hop.arrived.seq}", add, move=there)
