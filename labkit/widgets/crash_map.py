"""The crash map: every disk operation of a script as a row, every way to crash as a column, and in
each cell whether all that was acknowledged was there again after the restart.

Choose a cell to see the crash: what was not synced and what became of it, what lay on disk, what
replay did, and what is lost.
"""

from typing import Any, Protocol

import traitlets

from labkit.widgets.crash_map_svg import crash_map_svg, summary
from labkit.widgets.view import View, joined

SAFE = "safe"


class Crashes(Protocol):
    """What the view needs of a crash map."""

    def as_dict(self) -> dict[str, Any]:
        """`variants`, `points`, `cells`, `ends`, `files` and `texts` as plain data."""


class CrashMapView(View):
    """Shows a crash map.

    at: (row, column) of the cell that is chosen at first; by default the first that is not safe,
    or the last row's first.
    """

    _esm = joined("elements.js", "crash_map.js")
    _css = joined("view.css", "crash_map.css")

    crashes = traitlets.Dict().tag(sync=True)
    chosen: traitlets.List[int] = traitlets.List(traitlets.Int()).tag(sync=True)

    def __init__(self, source: Crashes, at: tuple[int, int] | None = None) -> None:
        crashes = source.as_dict()
        super().__init__(crashes=crashes, chosen=list(at or _first_unsafe(crashes)))

    def svg(self) -> str:
        """The map, and the crash of the chosen cell beside it."""
        row, column = self.chosen
        return crash_map_svg(self.crashes, row, column)

    def __repr__(self) -> str:
        row, column = self.chosen
        return summary(self.crashes, row, column)


def _first_unsafe(crashes: dict[str, Any]) -> tuple[int, int]:
    for row, cells in enumerate(crashes["cells"]):
        for column, (end, _) in enumerate(cells):
            if crashes["ends"][end]["verdict"] != SAFE:
                return row, column
    return len(crashes["cells"]) - 1, 0
