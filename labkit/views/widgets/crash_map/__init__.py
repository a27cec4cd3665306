"""The crash map: a row for every disk operation of a script, a column for every way to crash, and
in each cell whether everything acknowledged was there again after the restart.

It plays down a column: the machine stops before one operation after the other.  Choose a cell to
see the crash: the unsynced operations and what became of them, the files on disk, the replay, and
what is lost.

Read in this order: `crashes`, `picture`.
"""

from typing import Any

from labkit.views.widgets.crash_map.crashes import SAFE, Crashes, CrashMapSource
from labkit.views.widgets.crash_map.picture import CrashMapPicture, legend
from labkit.views.widgets.film import Beat, Film
from labkit.views.widgets.scene import Mark
from labkit.views.widgets.scene_view import Message, SceneView

ROW_MS, COLUMN_MS = 400, 10_000
"""Time in ms that a row is shown while the map plays, and the longest time for a column."""


class CrashMapView(SceneView):
    """Shows a crash map.

    at: (row, column) of the cell that is chosen at first; by default the first unsafe cell, or the
    first cell of the last row.
    """

    at: tuple[int, int]
    """The row and the column of the shown cell."""

    def __init__(self, source: CrashMapSource, at: tuple[int, int] | None = None) -> None:
        self.crashes = Crashes(source.as_dict())
        self.at = at or self.crashes.first_unsafe()
        self._shoot()
        super().__init__()

    def scene(self) -> Mark:
        """The map, and the crash of the chosen cell beside it."""
        return self.reel.beats[self._number_of(*self.at)].scene

    def legend(self) -> Mark:
        """The legend of cells and columns."""
        return legend(self.crashes)

    def whole(self) -> Message:
        """The film: each cell is a beat, and it opens at the chosen one."""
        return {
            **self.of_choices(self.reel, self._number_of(*self.at), "Crash"),
            "signs": self._signs(),
        }

    def turned_to(self, number: int) -> None:
        """Called when the browser shows another cell."""
        self.at = self.cells[number]
        self.open_at(self.reel.beats[number].at)

    def __repr__(self) -> str:
        return self.crashes.summary(*self.at)

    def _shoot(self) -> None:
        """The beats column by column, beginning with the column that is shown at first."""
        rows, columns = len(self.crashes.points), len(self.crashes.variants)
        self._row_ms = round(min(ROW_MS, COLUMN_MS / rows))
        first = self.at[1]
        self._columns = [(first + place) % columns for place in range(columns)]
        self.cells = [(row, column) for column in self._columns for row in range(rows)]
        """Row and column of each beat."""
        picture, self.reel = CrashMapPicture(self.crashes, self._position_of), Film()
        for number, cell in enumerate(self.cells):
            words = self.crashes.words(*cell)
            self.reel.add(Beat(self._position_of(*cell), picture.scene(*cell), words, number))

    def _number_of(self, row: int, column: int) -> int:
        return self._columns.index(column) * len(self.crashes.points) + row

    def _position_of(self, row: int, column: int) -> int:
        return self._number_of(row, column) * self._row_ms

    def _signs(self) -> list[list[Any]]:
        """The signs at the first unsafe cell of each run of unsafe cells in a column."""
        return [
            [self._position_of(row, column), "✕", self.crashes.words(row, column), "lost"]
            for row, column in self.cells
            if self.crashes.verdict(row, column) != SAFE
            and (row == 0 or self.crashes.verdict(row - 1, column) == SAFE)
        ]
