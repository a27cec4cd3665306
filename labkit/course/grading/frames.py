"""frames: a Spark job that runs in the submission's process.

A trial makes a DataFrame of a session, calls the job with it, and reads what it returns.  Here the
session is `RemoteSession`: the DataFrame is a table that crosses the border, the job runs in the
Spark of the submission's process, and the rows that it returns cross back as numbers and texts.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from labkit.course.checking.exercise import RaisedThereError, Refused
from labkit.course.grading.values import PLAIN
from labkit.course.runs.stored_batches import Row, halve, rows_in

_PLAIN_TYPES = ["tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string"]
"""Spark's types whose values are JSON's."""


@dataclass(frozen=True, slots=True)
class RemoteFrame:
    """A table on its way to the submission's Spark, as a stream of Arrow's."""

    arrow: bytes

    def within(self, spark: SparkSession) -> DataFrame:
        """Return the table as a DataFrame of the given Spark session."""
        return spark.createDataFrame(pa.ipc.open_stream(self.arrow).read_all())


@dataclass(frozen=True, slots=True)
class RemoteRows:
    """What the job's DataFrame holds; a trial uses it as that DataFrame.

    `values` has the columns of numbers, texts and truth values, all of one length.  Raises
    ValueError for anything else.
    """

    columns: list[str]
    values: dict[str, list[Any]]

    def __post_init__(self) -> None:
        cells = [cell for column in self.values.values() for cell in column]
        if not all(type(cell) in PLAIN for cell in cells):
            raise ValueError("a column holds other values than numbers and texts")
        if len({len(column) for column in self.values.values()}) > 1:
            raise ValueError("its columns differ in length")

    @property
    def stands_for(self) -> type[DataFrame]:
        """What the job returned."""
        return DataFrame

    def select(self, *names: str) -> "RemoteRows":
        """These columns.  Raises `Refused` for one of other values."""
        for name in names:
            if name not in self.values:
                raise Refused(f"The column {name} must hold numbers or texts.")
        return RemoteRows(list(names), {name: self.values[name] for name in names})

    def limit(self, most: int) -> "RemoteRows":
        """The first rows."""
        return RemoteRows(
            self.columns, {name: column[:most] for name, column in self.values.items()}
        )

    def toPandas(self) -> pd.DataFrame:  # noqa: N802 - Spark's name
        """The columns as pandas has them."""
        return pd.DataFrame(self.values, columns=self.columns)


@dataclass(frozen=True, slots=True)
class Files:
    """A folder as a value: each file's path below it, and its bytes.  Raises ValueError for a path
    that leads out of it.
    """

    content: dict[str, bytes]

    def __post_init__(self) -> None:
        for path, data in self.content.items():
            if ".." in Path(path).parts or Path(path).is_absolute() or type(data) is not bytes:
                raise ValueError(f"no file below a folder: {path}")

    @classmethod
    def below(cls, folder: Path) -> Self:
        """What is below a folder now; empty folders and links are left out."""
        files = [each for each in folder.rglob("*") if each.is_file() and not each.is_symlink()]
        return cls({str(each.relative_to(folder)): each.read_bytes() for each in files})

    @contextmanager
    def laid_out(self) -> Iterator[Path]:
        """A folder with these files, which goes at the end."""
        with TemporaryDirectory() as folder:
            for path, data in self.content.items():
                file = Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            yield Path(folder)


def rows_there(files: Files) -> list[Row]:
    """The rows of a folder's Parquet files.  Raises `Refused`."""
    with files.laid_out() as folder:
        return rows_in(folder)


def halved(files: Files, rows: list[Row]) -> Files:
    """The folder after a crash in the middle of these rows."""
    with files.laid_out() as folder:
        halve(folder, rows)
        return Files.below(folder)


READER = [
    "from labkit.course.grading.frames import halved, rows_there",
    "from labkit.course.lessons import check",
    "check('streaming.halved', halved)\ncheck('streaming.rows_there', rows_there)",
]
"""The cells of a `RemoteFolder`'s other process, in the place of a submission's."""


class RemoteFolder:
    """The folder below which the submission's process stores batches, kept here as a value.

    `ask` calls `rows_there` and `halved` in a separate process, which has no code of the
    submission: what Parquet's reader makes of a stranger's files stays in that sandbox.
    """

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._files = Files({})

    def store(self, learner: Callable[..., Any], rows: RemoteFrame, batch: int) -> None:
        """Let the submission's function store the rows beside what it stored before."""
        files = learner(rows, batch, self._files)
        if not isinstance(files, Files):
            raise RaisedThereError("its process did not send the folder back", "")
        self._files = files

    def halve(self, rows: list[Row]) -> None:
        """As a crash in the middle of these rows."""
        self._files = self._ask("streaming.halved", (self._files, rows))

    def rows(self) -> list[Row]:
        """All rows that are stored.  Raises `Refused`."""
        try:
            rows: list[Row] = self._ask("streaming.rows_there", (self._files,))
        except RaisedThereError as error:
            raise Refused(error.problem.removeprefix(f"{Refused.__name__}: ")) from None
        return rows


class RemoteSession:
    """Stands for the Spark session of the submission's process.

    `reader` starts a process that reads what the submission stored: see `RemoteFolder`.
    """

    def __init__(self, reader: Callable[[], AbstractContextManager[Any]]) -> None:
        self._reader = reader

    @contextmanager
    def folder(self) -> Iterator[RemoteFolder]:
        """A new folder for batches."""
        with self._reader() as reader:
            yield RemoteFolder(reader.ask)

    def createDataFrame(self, table: pa.Table) -> RemoteFrame:  # noqa: N802 - Spark's name
        """The table, ready to cross."""
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        return RemoteFrame(stream.getvalue().to_pybytes())


def in_spark(spark: SparkSession, job: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Call the job with DataFrames of the given Spark session, and run what it returns.

    A job that stores into `Files` gets them as a folder; the folder is then the result.
    """
    arguments = [
        each.within(spark) if isinstance(each, RemoteFrame) else each for each in arguments
    ]
    files = next((each for each in arguments if isinstance(each, Files)), None)
    if files is None:
        told = job(*arguments)
        return _rows_of(told) if isinstance(told, DataFrame) else told
    with files.laid_out() as folder:
        job(*(str(folder) if each is files else each for each in arguments))
        return Files.below(folder)


def _rows_of(frame: DataFrame) -> RemoteRows:
    plain = [name for name, kind in frame.dtypes if kind in _PLAIN_TYPES]
    return RemoteRows(frame.columns, frame.select(*plain).toArrow().to_pydict())
