"""The cluster as a scene: the parameters of a ledger, and its entries on the bookies."""

from collections.abc import Sequence
from functools import lru_cache

from labkit.system.trace.cluster_state import ClusterState, Ledger
from labkit.system.trace.events import Event
from labkit.views.widgets.acts import Acts
from labkit.views.widgets.cluster.cells import legend_of
from labkit.views.widgets.cluster.grid import Grid
from labkit.views.widgets.cluster.heads import header, id_words
from labkit.views.widgets.drawing.plurals import counted
from labkit.views.widgets.drawing.scene import Mark, PartCache, group, path, picture, rect, text
from labkit.views.widgets.drawing.text_metrics import width_of
from labkit.views.widgets.run import DisplayedRun

WIDTH, GUTTER, HEADS_Y = 860, 120, 38
_MIN_PITCH = 40
"""The minimum distance between columns. If the columns need more space, the picture gets wider and
scrolls.
"""


class ClusterPicture:
    """Draws one ledger of a run; the parameters are the same as for `Grid`."""

    def __init__(
        self,
        run: DisplayedRun,
        ledger: int | None,
        bookies: Sequence[str],
        acts: Acts,
        rows: tuple[int, int],
    ) -> None:
        width = max(WIDTH, GUTTER + 8 + _MIN_PITCH * len(bookies))
        self.grid = Grid(run, width, GUTTER, bookies, ledger=ledger, acts=acts, rows=rows)
        self._cache = PartCache()

        self.explainers = (self.grid.explainer,)

    def take(self, event: Event) -> None:
        self.grid.take(event)

    def legend(self) -> Mark | None:
        return legend_of(frozenset(self.grid.symbols))

    def scene(self) -> Mark:
        state, ledger_id, layout = self.grid.fold.state(), self.grid.shown(), self.grid.layout
        fenced = (name for name, each in state.bookies.items() if ledger_id in each.fenced)
        remarks = dict.fromkeys(fenced, "fenced")
        return picture(
            layout.width,
            HEADS_Y + layout.bottom + 6,
            summary(state, ledger_id),
            header(ledger_id, state.ledgers.get(ledger_id, Ledger())),
            _writer(self.grid.writer(), layout.top),
            self._cache.group("bookies", self.grid.marks(state, remarks), y=HEADS_Y),
        )


@lru_cache(32)
def _writer(name: str, top: float) -> Mark:
    words = f"writer {name}".strip()
    words = words if width_of(words, bold=True) < 74 else "writer"
    box = rect("box", 0, 0, 78, 24, rx=12, fill="ink")
    label = text("label", 39, 16.5, words, fill="page", bold=True, anchor="middle")
    wire = path("wire", f"M39 24V{top - 8:g}", stroke="line", thick=2)
    return group("writer", wire, box, label, x=10, y=HEADS_Y + 8)


def summary(state: ClusterState, ledger_id: int) -> str:
    parts = [counted(len(state.bookies), "bookie")]
    if ledger_id in state.ledgers:
        ledger = state.ledgers[ledger_id]
        pushed, confirmed = ledger.last_add_pushed, ledger.last_add_confirmed
        parts.append(f"ledger {ledger_id} with entries up to {id_words(pushed)}")
        parts.append(f"LAC {id_words(confirmed)}")
        parts += ["closed"] if ledger.closed else []
    else:
        parts.append("no ledger")
    parts += [f"{n} {b.state}" for n, b in state.bookies.items() if b.state in ("down", "paused")]
    return "Cluster: " + ", ".join(parts)
