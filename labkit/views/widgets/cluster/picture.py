"""The cluster as a scene: a ledger's numbers, and its entries on the bookies."""

from collections.abc import Sequence
from functools import lru_cache

from labkit.system.trace.events import Event
from labkit.system.trace.fold import ClusterState, Ledger
from labkit.views.widgets.cluster.grid import Grid
from labkit.views.widgets.cluster.heads import header
from labkit.views.widgets.run import DisplayedRun
from labkit.views.widgets.scene import Mark, PartCache, group, path, picture, rect, text

WIDTH, GUTTER, HEADS_Y = 860, 120, 38
_LEAST_PITCH = 40
"""The least distance between columns: more bookies make the picture wider, and it scrolls."""


class ClusterPicture:
    """Draws one ledger of a run; the parameters are `Grid`'s."""

    def __init__(
        self,
        run: DisplayedRun,
        ledger: int | None,
        bookies: Sequence[str],
        acts: tuple[str, ...],
        rows: int,
    ) -> None:
        width = max(WIDTH, GUTTER + 8 + _LEAST_PITCH * len(bookies))
        self.grid = Grid(run, width, GUTTER, bookies, ledger=ledger, acts=acts, rows=rows)
        self._kept = PartCache()

    @property
    def hush_at(self) -> float | None:
        return self.grid.firsts.hush_at

    def hush(self) -> None:
        self.grid.firsts.hush()

    def take(self, event: Event) -> None:
        self.grid.take(event)

    def scene(self) -> Mark:
        state, ledger_id, layout = self.grid.fold.state(), self.grid.shown(), self.grid.layout
        return picture(
            layout.width,
            HEADS_Y + layout.bottom + 6,
            summary(state, ledger_id),
            header(ledger_id, state.ledgers.get(ledger_id, Ledger())),
            _writer(layout.top),
            self._kept.part("bookies", _bookies, self.grid.marks(state)),
        )


def _bookies(grid: Mark) -> Mark:
    return group("bookies", grid, y=HEADS_Y)


@lru_cache(8)
def _writer(top: float) -> Mark:
    box = rect("box", 0, 0, 78, 24, rx=12, fill="ink")
    label = text("label", 39, 16.5, "writer", fill="page", bold=True, anchor="middle")
    wire = path("wire", f"M39 24V{top - 8:g}", stroke="line", thick=2)
    return group("writer", wire, box, label, x=10, y=HEADS_Y + 8)


def summary(state: ClusterState, ledger_id: int) -> str:
    """The picture in one line of words."""
    bookie_count = len(state.bookies)
    parts = [f"{bookie_count} bookie{'' if bookie_count == 1 else 's'}"]
    if ledger_id in state.ledgers:
        ledger = state.ledgers[ledger_id]
        pushed, confirmed = ledger.last_add_pushed, ledger.last_add_confirmed
        parts.append(f"ledger {ledger_id} with entries up to {_id(pushed)}")
        parts.append(f"LAC {_id(confirmed)}")
        parts += ["closed"] if ledger.closed else []
    else:
        parts.append("no ledger")
    parts += [f"{n} {b.state}" for n, b in state.bookies.items() if b.state in ("down", "paused")]
    return "Cluster: " + ", ".join(parts)


def _id(entry: int) -> str:
    return "none" if entry < 0 else str(entry)
