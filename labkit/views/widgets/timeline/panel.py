"""Draws one run of the timeline at one moment: its promises, its clients, its bookies with their
entries, and its cut links.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from labkit.system.trace.cluster_state import ClusterState, Ledger
from labkit.system.trace.events import Event
from labkit.views.widgets.acts import Acts
from labkit.views.widgets.cluster.grid import Grid
from labkit.views.widgets.cluster.heads import GLYPHS
from labkit.views.widgets.drawing.kin import node_kin
from labkit.views.widgets.drawing.plurals import quorum_words
from labkit.views.widgets.drawing.scene import Mark, PartCache, group, narrowed, rect, text
from labkit.views.widgets.drawing.text_metrics import fitted, lines_of, width_of
from labkit.views.widgets.late_syncs import DelayedSyncs
from labkit.views.widgets.run import EventPositions
from labkit.views.widgets.timeline.fold import NodeState, RunState
from labkit.views.widgets.timeline.runs import RUN_COLOURS, PlayedRun
from labkit.views.widgets.verdict_words import failure_of

LINE, CHIP, MARGIN = 18, 28, 8
MAX_ROWS, MIN_ROWS = 5, 3
MAX_CLIENTS = 4
WIDE = 600
GUTTER, WIDE_GUTTER = 74, 84
"""The space to the left of the bookies, in panels up to the width WIDE and in wider ones."""
MIN_PITCH = 40
"""The minimum distance between bookies in a wide panel."""
_EPILOGUE = "epilogue"


class PanelSize(NamedTuple):
    """rows: the number of visible entries.
    lines: the number of lines for the verdict on the run's promises.
    clients: the number of clients for which there is room.
    """

    rows: int
    lines: int
    clients: int


def size_for(run: PlayedRun, end: ClusterState, width: float) -> PanelSize:
    """Return the panel size for this run. `end` is the cluster's state after the last event."""
    last = max((each.last_add_pushed for each in end.ledgers.values()), default=0)
    nodes = dict.fromkeys(event.node for event in run.events)
    clients = sum(name not in end.bookies and name != _EPILOGUE for name in nodes)
    rows = min(max(last + 1, MIN_ROWS), MAX_ROWS)
    return PanelSize(rows, len(_verdict_lines(run, width)), min(clients, MAX_CLIENTS))


class Panel:
    """Folds the events of a run, and draws it at the given width.

    ledger, bookies, acts: see `Grid`.
    which: the run's number, 0 or 1.
    """

    def __init__(
        self,
        run: PlayedRun,
        positions: EventPositions,
        width: float,
        size: PanelSize,
        *,
        ledger: int | None,
        bookies: Sequence[str],
        acts: Acts,
        which: int,
        is_alone: bool,
    ) -> None:
        self.run, self.positions, self.width = run, positions, width
        self.grid = Grid(
            positions,
            width,
            WIDE_GUTTER if width > WIDE else GUTTER,
            bookies,
            ledger=ledger,
            acts=acts,
            rows=(size.rows, size.rows),
            run=f"{which}:",
        )
        self.run_state = RunState(self.grid.fold)
        self._syncs = DelayedSyncs(run.late_syncs)
        self._colour = "" if is_alone else RUN_COLOURS[which]
        self._cache = PartCache()
        self._clients, self._per_line = size.clients, 2 if width > WIDE else 1
        self._clients_y = 56 + LINE * size.lines
        self._grid_y = self._clients_y + CHIP * -(-max(size.clients, 1) // self._per_line) + 4

    @property
    def height(self) -> float:
        return self._grid_y + self.grid.layout.bottom + LINE + 4

    def take(self, event: Event) -> None:
        for each in self._syncs.due_with(event):
            self.grid.take(each)
            self.run_state.take(each)

    def marks(self, x: float, y: float, narrow_y: float) -> Mark:
        """Return the panel at (x, y) or, on narrow pages, at the left edge."""
        state, ledger_id, run_state = self.grid.fold.state(), self.grid.shown(), self.run_state
        shown = state.ledgers.get(ledger_id, Ledger())
        words = _ledger_words(ledger_id, shown)
        remarks = {
            name: _remark(run_state.nodes.get(name), ledger_id in bookie.fenced)
            for name, bookie in state.bookies.items()
        }
        part = self._cache.part
        parts = (
            part("about", self._about),
            text("ledger", 0, self._clients_y - 12, fitted(words, self.width), fill="faint"),
            part("clients", self._chips, *self._shown(state)),
            self._cache.group("bookies", self.grid.marks(state, remarks), y=self._grid_y),
            part("cuts", self._cuts, *run_state.cuts),
        )
        return part("panel", _panel, x, y, narrow_y, *parts)

    def _about(self) -> Mark:
        """Return the title and the verdict on the promises. There is a chip for each broken
        promise; a click on it leads to the event that broke the promise.
        """
        left = 12 if self._colour else 0
        title = fitted(self.run.title, self.width - left, 14, bold=True)
        words = text("t", left, 16, title, size=14, bold=True)
        bar = [rect("run", 0, 1, 4, 20, rx=2, fill=self._colour)] if self._colour else []
        parts = [group("title", *bar, words, title=self.run.title)]
        x = left + width_of(title, 14, bold=True) + 12
        for each in self.run.broken:
            label = f"✘ {failure_of(each.name)}"
            width = width_of(label, bold=True) + 16
            if x + width > self.width:
                break
            box = rect("box", 0, 0, width, 24, rx=4, fill="page", stroke="lost")
            chip = text("words", 8, 16.5, label, fill="lost", bold=True)
            at = str(round(self.positions.at(each.seq), 1))
            hint = f"Go to where {each.name} was broken"
            parts.append(group(each.name, box, chip, x=x, title=hint, act="seek", on=at))
            x += width + 6
        ink = "lost" if self.run.broken else "well"
        lines = [
            text(f"line {at}", 0, 38 + LINE * at, line, fill=ink)
            for at, line in enumerate(_verdict_lines(self.run, self.width))
        ]
        parts.append(group("verdict", *lines, title=self.run.details))
        return group("about", *parts)

    def _shown(self, state: ClusterState) -> Sequence[tuple[str, str, str]]:
        states = self.grid.fold.nodes
        return [
            (name, states.get(name, "unknown"), _doing(states.get(name, "unknown"), node))
            for name, node in self.run_state.nodes.items()
            if name not in state.bookies and name != _EPILOGUE
        ][: self._clients]

    def _chips(self, *clients: tuple[str, str, str]) -> Mark:
        room = self.width / self._per_line
        return group(
            "clients",
            *(
                _chip(*client, room - 8, at % self._per_line * room, at // self._per_line * CHIP)
                for at, client in enumerate(clients)
            ),
            y=self._clients_y,
        )

    def _cuts(self, *cuts: str) -> Mark:
        links = ", ".join(cut.replace(">", " → ") for cut in cuts)
        words = fitted(f"✂ cut: {links}", self.width) if cuts else ""
        title = f"cut: {links}" if cuts else ""
        y = self._grid_y + self.grid.layout.bottom + 15
        return group("cuts", text("words", 0, y, words, fill="lost"), title=title)


def _verdict_lines(run: PlayedRun, width: float) -> tuple[str, ...]:
    return lines_of(run.broken[0].reason if run.broken else run.words, width)[:3]


def min_width(bookie_count: int) -> float:
    return WIDE_GUTTER + 8 + MIN_PITCH * bookie_count


def _panel(x: float, y: float, narrow_y: float, *parts: Mark) -> Mark:
    panel = group(f"panel {x:g} {y:g}", *parts, x=x, y=y + 6)
    return narrowed(panel, group("", x=MARGIN, y=narrow_y + 6))


@lru_cache(1024)
def _chip(name: str, state: str, doing: str, room: float, x: float, y: float) -> Mark:
    words = f"{GLYPHS[state]} {name} {doing}".rstrip()
    width = min(width_of(words) + 24, room)
    ink = "lost" if state == "down" else "ink"
    return group(
        name,
        rect("box", 0, 0, width, 24, rx=12, fill="page", stroke="line"),
        text("words", 10, 16.5, fitted(words, width - 20), fill=ink),
        x=x,
        y=y,
        title=f"{name}: {doing or state}",
        kin=node_kin(name),
    )


def _doing(state: str, node: NodeState) -> str:
    parts = [state] if state in ("down", "paused") else []
    parts += [node.doing] if node.doing else []
    parts += [f"sent {node.last_add_pushed}"] if node.last_add_pushed >= 0 else []
    parts += [f"confirmed {node.last_add_confirmed}"] if node.last_add_confirmed >= 0 else []
    return " · ".join([*parts, *node.faults])


def _remark(node: NodeState | None, is_fenced: bool) -> str:
    if node is None:
        return ""
    parts = ["⊘ fenced"] if is_fenced else []
    parts += ["◎ auditor"] if node.is_auditor else []
    parts += [node.doing] if node.doing else []
    return ", ".join([*parts, *(f"! {fault}" for fault in node.faults)])


def _ledger_words(ledger_id: int, ledger: Ledger) -> str:
    if ledger_id < 0:
        return "no ledger yet"
    ends = (("sent", ledger.last_add_pushed), ("confirmed", ledger.last_add_confirmed))
    parts = [f"{name} {'none' if value < 0 else value}" for name, value in ends]
    parts += quorum_words(ledger.ensemble_size, ledger.write_quorum, ledger.ack_quorum)
    return " · ".join((f"ledger {ledger_id}", *_ledger_state(ledger), *parts))


def _ledger_state(ledger: Ledger) -> tuple[str, ...]:
    if ledger.in_recovery:
        return ("in recovery",)
    if ledger.closed:
        last = ledger.last_entry
        return (f"closed at entry {last}" if last >= 0 else "closed, empty",)
    return ("open",) if ledger.ensemble_size >= 0 else ()
