"""The crash map: every disk operation of a script as a row, every way to crash as a column, and in
each cell whether all that was acknowledged was there again after the restart.

It plays down a column: the machine runs, and stops before one operation after the other.  Choose a
cell to see the crash: what was not synced and what became of it, what lay on disk, what replay did,
and what is lost.

Read in this order: `crashes`, `picture`.
"""

from typing import Any

from labkit.widgets.crash_map.crashes import SAFE, Crashes, Source
from labkit.widgets.crash_map.picture import CrashMapPicture, legend
from labkit.widgets.film import Beat, Film
from labkit.widgets.scene import Mark
from labkit.widgets.scene_view import Message, SceneView

ROW_MS, COLUMN_MS = 400, 10_000
"""How long a row is shown while the map plays, and a column at most."""


class CrashMapView(SceneView):
    """Shows a crash map.

    at: (row, column) of the cell that is chosen at first; by default the first that is not safe,
    or the last row's first.
    """

    at: tuple[int, int]
    """The row and the column of the cell that is shown."""

    def __init__(self, source: Source, at: tuple[int, int] | None = None) -> None:
        self.crashes = Crashes(source.as_dict())
        self.at = at or self.crashes.first_unsafe()
        self._shoot()
        super().__init__()

    def scene(self) -> Mark:
        """The map, and the crash of the chosen cell beside it."""
        return self._film.beats[self._number_of(*self.at)].scene

    def legend(self) -> Mark:
        """What a cell and a column say."""
        return legend(self.crashes)

    def whole(self) -> Message:
        """Each cell is a beat; it opens at the chosen one."""
        return {
            **self.of_choices(self._film, self._number_of(*self.at), "Crash"),
            "signs": self._signs(),
        }

    def turned_to(self, number: int) -> None:
        """The browser shows that cell."""
        self.at = self._cells[number]

    def __repr__(self) -> str:
        return self.crashes.summary(*self.at)

    def _shoot(self) -> None:
        """Column by column, and the one that is shown at first before the others."""
        rows, columns = len(self.crashes.points), len(self.crashes.variants)
        self._row_ms = round(min(ROW_MS, COLUMN_MS / rows))
        first = self.at[1]
        self._columns = [(first + place) % columns for place in range(columns)]
        self._cells = [(row, column) for column in self._columns for row in range(rows)]
        picture, self._film = CrashMapPicture(self.crashes, self._position_of), Film()
        for number, cell in enumerate(self._cells):
            words = self.crashes.words(*cell)
            self._film.add(Beat(self._position_of(*cell), picture.scene(*cell), words, number))

    def _number_of(self, row: int, column: int) -> int:
        return self._columns.index(column) * len(self.crashes.points) + row

    def _position_of(self, row: int, column: int) -> int:
        return self._number_of(row, column) * self._row_ms

    def _signs(self) -> list[list[Any]]:
        """Where the cells of a column begin to be unsafe."""
        return [
            [self._position_of(row, column), "✕", self.crashes.words(row, column), "lost"]
            for row, column in self._cells
            if self.crashes.verdict(row, column) != SAFE
            and (row == 0 or self.crashes.verdict(row - 1, column) == SAFE)
        ]
