"""The folder below which a learner's function stores batches: what is in it, and what a crash in
mid-write leaves there.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from labkit.course.checking.exercise import Refused

Row = tuple[int, int, int]
"""Partition, ledger and entry."""
COLUMNS = ["partition", "ledger", "entry"]
_MOST_ROWS = 10_000
"""Of one file.  A file of a few bytes can say that it has billions."""


def table_of(rows: Collection[Row]) -> pa.Table:
    """The rows as a table."""
    return pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))


def rows_in(folder: Path) -> list[Row]:
    """All rows of the Parquet files below the folder.  Raises `Refused` for a file without them."""
    found: list[Row] = []
    for file in _data_files(folder):
        try:
            columns = _opened(file).read(COLUMNS, use_threads=False).to_pydict()
            found += zip(*(columns[name] for name in COLUMNS), strict=True)
        except (pa.ArrowException, KeyError):
            needed, where = ", ".join(COLUMNS), file.relative_to(folder)
            raise Refused(f"Each file must have the columns {needed}: {where}") from None
    return found


def halve(folder: Path, rows: Collection[Row]) -> None:
    """What a crash in mid-write leaves of these rows: all but the last, and no mark of success."""
    lost = max(rows)[-1]
    for file in _data_files(folder):
        table = _opened(file).read(use_threads=False)
        there = zip(*(table[name].to_pylist() for name in COLUMNS), strict=True)
        if set(rows) & set(there):
            (file.parent / "_SUCCESS").unlink(missing_ok=True)
            # Its checksum would be that of the whole file.
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            kept = [entry != lost for entry in table["entry"].to_pylist()]
            pq.write_table(table.filter(pa.array(kept)), file)


def _opened(file: Path) -> pq.ParquetFile:
    opened = pq.ParquetFile(file)
    if opened.metadata.num_rows > _MOST_ROWS:
        raise Refused(f"{file.name} has {opened.metadata.num_rows:,} rows; few were to be stored.")
    return opened


def _data_files(folder: Path) -> list[Path]:
    """As Spark reads a folder: names that begin with a dot or an underscore are not data."""
    return [
        file
        for file in sorted(folder.rglob("*.parquet"))
        if file.is_file() and not any(part[0] in "._" for part in file.relative_to(folder).parts)
    ]


class BatchFolder:
    """A new folder of this machine, which goes when it is left."""

    def __init__(self) -> None:
        self._place = TemporaryDirectory(prefix="labkit-sink-")
        self._path = Path(self._place.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._place.cleanup()

    def store(self, learner: Callable[..., Any], rows: Any, batch: int) -> None:
        """Let the learner's function store a DataFrame."""
        learner(rows, batch, str(self._path))

    def halve(self, rows: Collection[Row]) -> None:
        """See `halve`."""
        halve(self._path, rows)

    def rows(self) -> list[Row]:
        """See `rows_in`."""
        return rows_in(self._path)
