"""The folder in which a learner's function stores batches, and the simulation of a crash during a
write.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from labkit.course.checking.refused import Refused

Row = tuple[int, int, int]
"""Partition, ledger and entry id."""
COLUMNS = ["partition", "ledger", "entry"]
_MAX_ROWS = 10_000
"""Limit per file, because a file of a few bytes can claim to have billions of rows."""


def table_of(rows: Collection[Row]) -> pa.Table:
    return pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))


def rows_in(folder: Path) -> list[Row]:
    """Return all rows of the Parquet files in the folder and its subfolders. Raises `Refused` if a
    file is invalid.
    """
    found: list[Row] = []
    for file in _data_files(folder):
        try:
            columns = _opened(file).read(COLUMNS, use_threads=False).to_pydict()
            found += zip(*(columns[name] for name in COLUMNS), strict=True)
        except (pa.ArrowException, KeyError):
            needed, where = ", ".join(COLUMNS), file.relative_to(folder)
            raise Refused(f"Each file must have the columns {needed}: {where}") from None
    return found


def simulate_crash(folder: Path, rows: Collection[Row]) -> None:
    """Remove the last row and the success marker, as if a crash had interrupted the write."""
    lost = max(rows)[-1]
    for file in _data_files(folder):
        table = _opened(file).read(use_threads=False)
        there = zip(*(table[name].to_pylist() for name in COLUMNS), strict=True)
        if set(rows) & set(there):
            (file.parent / "_SUCCESS").unlink(missing_ok=True)
            # Delete the checksum, because it is valid only for the complete file.
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            kept = [entry != lost for entry in table["entry"].to_pylist()]
            pq.write_table(table.filter(pa.array(kept)), file)


def _opened(file: Path) -> pq.ParquetFile:
    opened = pq.ParquetFile(file)
    if opened.metadata.num_rows > _MAX_ROWS:
        raise Refused(
            f"{file.name} has {opened.metadata.num_rows:,} rows; the limit is {_MAX_ROWS:,}."
        )
    return opened


def _data_files(folder: Path) -> list[Path]:
    """Return the data files, ignoring names that start with a dot or an underscore, as Spark
    does.
    """
    return [
        file
        for file in sorted(folder.rglob("*.parquet"))
        if file.is_file() and not any(part[0] in "._" for part in file.relative_to(folder).parts)
    ]


@dataclass(frozen=True, slots=True)
class BatchFolder:
    path: Path

    def store(self, learner: Callable[..., Any], rows: Any, batch: int) -> None:
        learner(rows, batch, str(self.path))

    def simulate_crash(self, rows: Collection[Row]) -> None:
        simulate_crash(self.path, rows)

    def rows(self) -> list[Row]:
        return rows_in(self.path)
