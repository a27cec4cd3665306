"""The crash map: a table with a row for each disk operation of a script and a column for each way
to crash. Each cell shows whether all acknowledged entries still existed after the restart.

The view plays the rows from top to bottom: the machine stops before the first operation, then
before the second, and so on. Choose a cell to see its crash: the unsynced operations and what
happened to them, the files on disk, the replay, and what was lost.

Read the modules in this order: `crashes`, `picture`.
"""

from typing import Any

from labkit.views.widgets.crash_map.crashes import Crashes, CrashMapSource
from labkit.views.widgets.crash_map.picture import CrashMapPicture, legend_of
from labkit.views.widgets.drawing.scene import Mark
from labkit.views.widgets.film import Beat, Film
from labkit.views.widgets.scene_view import Message, SceneView

ROW_MS, MAP_MS = 400, 10_000
"""The time in milliseconds for which each row is shown, and the maximum time for the whole map."""


class CrashMapView(SceneView):
    """Shows a crash map.

    at: the (row, column) of the cell at which the view opens. By default, this is the first unsafe
    cell or, if all cells are safe, the first cell of the last row.
    """

    question = (
        "Each row is a moment at which the machine may stop. Orange: an acknowledged entry is lost."
    )

    at: tuple[int, int]
    """The row and column of the selected cell."""

    def __init__(self, source: CrashMapSource, at: tuple[int, int] | None = None) -> None:
        self._source = source
        self.crashes = Crashes(source.as_dict())
        self.at = at or self.crashes.first_unsafe()
        self._record_cells()
        super().__init__()

    def scene(self) -> Mark:
        return self.reel.beats[self._number_of(*self.at)].scene

    def link(self) -> str:
        """Return the link to this map. The page adds the cell that is selected later."""
        return self._source.link(self._number_of(*self.at))

    def legend(self) -> Mark:
        return legend_of(self.crashes)

    def whole(self) -> Message:
        return {
            **self.choices_message(self.reel, self._number_of(*self.at), "Crash"),
            "signs": self._signs(),
            "link": self.link(),
        }

    def on_shown(self, number: int) -> None:
        self.at = self.crashes.cells[number]
        self.open_at(self.reel.beats[number].at)

    def __repr__(self) -> str:
        return self.crashes.summary(*self.at)

    def _record_cells(self) -> None:
        rows, columns = len(self.crashes.points), len(self.crashes.variants)
        self._cell_ms = max(round(min(ROW_MS, MAP_MS / rows) / columns), 1)
        picture, self.reel = CrashMapPicture(self.crashes, self._position_of), Film()
        for number, cell in enumerate(self.crashes.cells):
            words = self.crashes.words(*cell)
            self.reel.add(Beat(self._position_of(*cell), picture.scene(*cell), words, number))

    def _number_of(self, row: int, column: int) -> int:
        return row * len(self.crashes.variants) + column

    def _position_of(self, row: int, column: int) -> int:
        return self._number_of(row, column) * self._cell_ms

    def _signs(self) -> list[list[Any]]:
        """Return a sign for each run of consecutive rows that contain unsafe cells; the sign marks
        the first of these cells.
        """
        first = {row: (row, column) for row, column in reversed(self.crashes.unsafe)}
        return [
            [self._position_of(*cell), "✕", self.crashes.words(*cell), "lost"]
            for row, cell in sorted(first.items())
            if row - 1 not in first
        ]
