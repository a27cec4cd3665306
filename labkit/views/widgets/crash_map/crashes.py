"""A crash map as plain data, and the description of each cell."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from labkit.views.widgets.drawing.plurals import counted

SAFE, LOST, REFUSED, INVENTED = "safe", "lost", "refused", "invented"
VERDICTS = {
    SAFE: "everything acknowledged is still there",
    LOST: "an acknowledged entry is lost",
    REFUSED: "the bookie does not start",
    INVENTED: "an entry appears that was never added",
}
_NOTHING = "empty"
"""The description of an empty file."""


class CrashMapSource(Protocol):
    def as_dict(self) -> dict[str, Any]:
        """Return `variants`, `points`, `cells`, `ends`, `files` and `texts` as plain data."""

    def link(self, at: int) -> str:
        """Return a link to the map, opened at the cell with this number, or ""."""


class FileAtRestart(NamedTuple):
    """A file as the bookie finds it after the crash: a description of its contents, and the first
    bytes after its header in hexadecimal.
    """

    path: str
    size: int
    words: str
    offset: int
    data: str


def short(operation: str) -> str:
    """Shorten the description of an operation. Omit the directory that all files share, abbreviate
    "bytes", and omit the directory from the new name of a renamed file, because a rename does not
    change the directory.
    """
    words = operation.replace("current/", "").replace(" bytes at ", " B at ")
    old, to, new = words.partition(" to ")
    return f"{old}{to}{new.rpartition('/')[2]}"


class Crashes:
    """Provides access to the cells by row (`points`) and column (`variants`)."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self.points: list[dict[str, Any]] = data["points"]
        self.variants: list[tuple[str, str]] = data["variants"]
        rows, columns = range(len(self.points)), range(len(self.variants))
        self.cells = [(row, column) for row in rows for column in columns]
        self.unsafe = [cell for cell in self.cells if self.verdict(*cell) != SAFE]

    def end(self, row: int, column: int) -> dict[str, Any]:
        found: dict[str, Any] = self._data["ends"][self._data["cells"][row][column][0]]
        return found

    def verdict(self, row: int, column: int) -> str:
        return str(self.end(row, column)["verdict"])

    def first_unsafe(self) -> tuple[int, int]:
        return self.unsafe[0] if self.unsafe else (len(self.points) - 1, 0)

    def next_unsafe(self, row: int, column: int) -> tuple[int, int]:
        """Return the next unsafe cell, wrapping around at the end."""
        return next((cell for cell in self.unsafe if cell > (row, column)), self.unsafe[0])

    def operation(self, row: int) -> str:
        return short(self.points[row]["operation"]) or "(the script has ended)"

    def place(self, row: int, column: int) -> str:
        point, (name, _) = self.points[row], self.variants[column]
        if not point["operation"]:
            return f"after the last operation, {name}"
        return f"before {short(point['operation'])}, during {point['step']}, {name}"

    def words(self, row: int, column: int) -> str:
        return f"Crash {self.place(row, column)}: {self.end(row, column)['words']}"

    def promised(self, row: int) -> str:
        texts = self._data["texts"]
        return ", ".join(texts[at] for at in self.points[row]["promised"]) or "nothing"

    def unsynced(self, row: int, column: int) -> Iterator[str]:
        for at, share in self._data["cells"][row][column][1]:
            fate = {0: "lost", 1: "kept"}.get(share, "torn")
            yield f"{fate}: {short(self._data['texts'][at])}"

    def files(self, row: int, column: int) -> list[FileAtRestart]:
        return [file for file in self._files(row, column) if file.words != _NOTHING]

    def empty_files(self, row: int, column: int) -> str:
        found = self._files(row, column)
        return ", ".join(file.path for file in found if file.words == _NOTHING)

    def replay(self, row: int, column: int) -> str:
        replayed = self.end(row, column)["replayed"]
        if not replayed:
            return "none, because the bookie does not start"
        records = counted(replayed[0], "record")
        if len(replayed) < 2:
            return records
        return f"{records}; {replayed[1]} after another power cut"

    def summary(self, row: int, column: int) -> str:
        found = [self.verdict(*cell) for cell in self.cells]
        counts = [f"{found.count(v)} {v}" for v in VERDICTS if v in found]
        return (
            f"Crash map: {counted(len(self.points), 'crash point')}, {counted(len(found), 'cell')},"
            f" {', '.join(counts)};"
            f" {self.place(row, column)}: {self.end(row, column)['words']}"
        )

    def _files(self, row: int, column: int) -> list[FileAtRestart]:
        return [FileAtRestart(*self._data["files"][at]) for at in self.end(row, column)["files"]]
