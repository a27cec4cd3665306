"""One run of the timeline at one moment: its promises, its clients, its bookies with their entries,
its cut links.
"""

from collections.abc import Sequence
from functools import lru_cache

from labkit.system.trace.events import Event
from labkit.system.trace.fold import ClusterState, Ledger, fold
from labkit.views.widgets.cluster.grid import Grid
from labkit.views.widgets.cluster.heads import GLYPHS
from labkit.views.widgets.run import Places
from labkit.views.widgets.scene import Mark, PartCache, group, rect, text
from labkit.views.widgets.text_metrics import fitted, lines_of, width_of
from labkit.views.widgets.timeline.fold import NodeState, Surroundings
from labkit.views.widgets.timeline.runs import PlayedRun

LINE, CHIP = 18, 28
MOST_ROWS, FEWEST_ROWS = 5, 3
MOST_CLIENTS = 4
WIDE = 600
_EPILOGUE = "epilogue"


class Panel:
    """Folds a run's events and draws it with the given width.

    rows: the number of visible entries.  lines: the lines of words about its promises.  clients:
    the number of clients that have room.
    """

    def __init__(
        self, run: PlayedRun, places: Places, width: float, acts: tuple[str, ...], which: int
    ) -> None:
        self.run, self.places, self.width = run, places, width
        end = fold(run.events, bookies=run.bookies)
        self.bookies = tuple(end.bookies)
        last = max((each.last_add_pushed for each in end.ledgers.values()), default=0)
        self.rows = min(max(last + 1, FEWEST_ROWS), MOST_ROWS)
        nodes = dict.fromkeys(event.node for event in run.events)
        clients = sum(name not in end.bookies and name != _EPILOGUE for name in nodes)
        self.clients = min(clients, MOST_CLIENTS)
        self._words = lines_of(run.broken[0].reason if run.broken else run.words, width)[:3]
        self.lines = len(self._words)
        self._acts, self._which = acts, f"{which}:"
        self._kept = PartCache()

    def begin(self, ledger: int | None, rows: int, lines: int, clients: int) -> None:
        """Set the sizes before the first event; panels beside each other have the same sizes."""
        gutter = 84 if self.width > WIDE else 74
        self.grid = Grid(
            self.places,
            self.width,
            gutter,
            self.bookies,
            ledger=ledger,
            acts=self._acts,
            rows=rows,
            run=self._which,
        )
        self.around = Surroundings()
        per_line = 2 if self.width > WIDE else 1
        self._clients_y = 56 + LINE * lines
        self._grid_y = self._clients_y + CHIP * -(-max(clients, 1) // per_line) + 4
        self._clients, self._per_line = clients, per_line

    @property
    def height(self) -> float:
        """Of all."""
        return self._grid_y + self.grid.layout.bottom + LINE + 4

    def take(self, event: Event) -> None:
        """Take the next event."""
        self.grid.take(event)
        self.around.take(event)

    def marks(self, x: float, y: float) -> Mark:
        """The picture now."""
        state, ledger_id, around = self.grid.fold.state(), self.grid.shown(), self.around
        shown = state.ledgers.get(ledger_id, Ledger())
        words = _ledger_words(ledger_id, shown, around.ledgers.get(ledger_id, ""))
        remarks = {name: _remark(around.nodes.get(name), ledger_id) for name in state.bookies}
        part = self._kept.part
        parts = (
            part("about", self._about),
            text("ledger", 0, self._clients_y - 12, fitted(words, self.width), fill="faint"),
            part("clients", self._chips, *self._shown(state)),
            part("grid", _placed, self._grid_y, self.grid.marks(state, remarks)),
            part("cuts", self._cuts, *around.cuts),
        )
        return part("panel", _panel, x, y, *parts)

    def _about(self) -> Mark:
        """The title and the verdict on the promises; a chip for each broken one leads to its
        event.
        """
        title = fitted(self.run.title, self.width, 14, bold=True)
        parts = [group("title", text("t", 0, 16, title, size=14, bold=True), title=self.run.title)]
        x = width_of(title, 14, bold=True) + 12
        for each in self.run.broken:
            label = f"✘ {each.name}"
            width = width_of(label, bold=True) + 16
            if x + width > self.width:
                break
            box = rect("box", 0, 0, width, 24, rx=4, fill="page", stroke="lost")
            words = text("words", 8, 16.5, label, fill="lost", bold=True)
            at = str(round(self.places.at(each.seq), 1))
            said = f"Go to where {each.name} broke"
            parts.append(group(each.name, box, words, x=x, title=said, act="seek", on=at))
            x += width + 6
        ink = "lost" if self.run.broken else "well"
        for at_line, line in enumerate(self._words):
            parts.append(text(f"line {at_line}", 0, 38 + LINE * at_line, line, fill=ink))
        return group("about", *parts)

    def _shown(self, state: ClusterState) -> Sequence[tuple[str, str, str]]:
        """Each client's name, state and work."""
        return [
            (name, node.state, _doing(node))
            for name, node in self.around.nodes.items()
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
        said = ", ".join(cut.replace(">", " → ") for cut in cuts)
        words = fitted(f"✂ cut: {said}", self.width) if cuts else ""
        title = f"cut: {said}" if cuts else ""
        y = self._grid_y + self.grid.layout.bottom + 15
        return group("cuts", text("words", 0, y, words, fill="lost"), title=title)


def _panel(x: float, y: float, *parts: Mark) -> Mark:
    return group(f"panel {x:g} {y:g}", *parts, x=x, y=y + 6)


def _placed(y: float, mark: Mark) -> Mark:
    return group("bookies", mark, y=y)


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
        kin=f"n-{name}",
    )


def _doing(node: NodeState) -> str:
    """A client's knowledge and action, in words."""
    parts = [node.state] if node.state in ("down", "paused") else []
    parts += [node.doing] if node.doing else []
    parts += [f"LAP {node.last_add_pushed}"] if node.last_add_pushed >= 0 else []
    parts += [f"LAC {node.last_add_confirmed}"] if node.last_add_confirmed >= 0 else []
    return " · ".join([*parts, *node.troubles])


def _remark(node: NodeState | None, ledger_id: int) -> str:
    """A bookie's fences, its action, and the faults of its machine."""
    if node is None:
        return ""
    parts = ["⊘ fenced"] if ledger_id in node.fenced else []
    parts += ["◎ auditor"] if node.is_auditor else []
    parts += [node.doing] if node.doing else []
    return ", ".join([*parts, *(f"! {trouble}" for trouble in node.troubles)])


def _ledger_words(ledger_id: int, ledger: Ledger, state: str) -> str:
    if ledger_id < 0:
        return "no ledger yet"
    numbers = (
        ("E", ledger.ensemble_size),
        ("Qw", ledger.write_quorum),
        ("Qa", ledger.ack_quorum),
        ("LAP", ledger.last_add_pushed),
        ("LAC", ledger.last_add_confirmed),
    )
    parts = [f"{name} {'none' if value < 0 else value}" for name, value in numbers]
    return " · ".join((f"ledger {ledger_id}", *parts, *([state] if state else [])))
