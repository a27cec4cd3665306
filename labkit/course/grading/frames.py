"""Runs a Spark job in the submission's process.

A trial creates a DataFrame from a session, calls the job with the DataFrame, and reads the result.
In grading, the session is a `RemoteSession`: the DataFrame is a table that is sent to the
submission's process, where Spark runs the job, and the resulting rows are sent back as numbers and
strings.
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

from labkit.course.checking.exercise import RaisedThereError
from labkit.course.checking.refused import Refused
from labkit.course.grading.values import PLAIN
from labkit.course.runs.topics.stored_batches import Row, rows_in, simulate_crash

_PLAIN_TYPES = ["tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string"]
"""Spark types whose values JSON can represent."""


@dataclass(frozen=True, slots=True)
class RemoteFrame:
    """A table, encoded as an Arrow stream, that is sent to the submission's Spark session."""

    arrow: bytes

    def within(self, spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(pa.ipc.open_stream(self.arrow).read_all())


@dataclass(frozen=True, slots=True)
class RemoteRows:
    """The contents of the DataFrame that the job returned; a trial uses this object as if it were
    the DataFrame.

    `values` contains the columns of numbers, strings and booleans. Raises `ValueError` if a column
    contains other values, or if the columns have different lengths.
    """

    columns: list[str]
    values: dict[str, list[Any]]

    def __post_init__(self) -> None:
        cells = [cell for column in self.values.values() for cell in column]
        if not all(type(cell) in PLAIN for cell in cells):
            raise ValueError("a column holds values that are neither numbers nor strings")
        if len({len(column) for column in self.values.values()}) > 1:
            raise ValueError("the columns have different lengths")

    @property
    def stands_for(self) -> type[DataFrame]:
        """The type of the object that the job actually returned."""
        return DataFrame

    def select(self, *names: str) -> "RemoteRows":
        """Return only the given columns. Raises `Refused` if the values of a column are neither
        numbers nor strings.
        """
        for name in names:
            if name not in self.values:
                raise Refused(f"The column {name} must contain numbers or strings.")
        return RemoteRows(list(names), {name: self.values[name] for name in names})

    def limit(self, most: int) -> "RemoteRows":
        return RemoteRows(
            self.columns, {name: column[:most] for name, column in self.values.items()}
        )

    def toPandas(self) -> pd.DataFrame:  # noqa: N802 - Spark's name
        return pd.DataFrame(self.values, columns=self.columns)


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a folder in a form that can be sent: a mapping from each file's relative path to
    its contents.

    Raises `ValueError` if a path is outside the folder.
    """

    content: dict[str, bytes]

    def __post_init__(self) -> None:
        for path, data in self.content.items():
            if ".." in Path(path).parts or Path(path).is_absolute() or type(data) is not bytes:
                raise ValueError(f"not a file inside the folder: {path}")

    @classmethod
    def read_from(cls, folder: Path) -> Self:
        """Read all files in a folder and its subfolders, ignoring links and empty folders."""
        files = [each for each in folder.rglob("*") if each.is_file() and not each.is_symlink()]
        return cls({str(each.relative_to(folder)): each.read_bytes() for each in files})

    @contextmanager
    def written_out(self) -> Iterator[Path]:
        """Write the files to a temporary folder, which is deleted on exit."""
        with TemporaryDirectory() as folder:
            for path, data in self.content.items():
                file = Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            yield Path(folder)


def stored_rows(files: Files) -> list[Row]:
    """Return the rows in the folder's Parquet files. Raises `Refused` if a file is invalid."""
    with files.written_out() as folder:
        return rows_in(folder)


def after_crash(files: Files, rows: list[Row]) -> Files:
    """Return the folder as a crash would leave it while these rows are being written."""
    with files.written_out() as folder:
        simulate_crash(folder, rows)
        return Files.read_from(folder)


READER = [
    "from labkit.course.grading.frames import after_crash, stored_rows",
    "from labkit.course.lessons import check",
    "check('streaming.after_crash', after_crash)\ncheck('streaming.stored_rows', stored_rows)",
]
"""Cells that the reader process of a `RemoteFolder` runs instead of a submission."""


class RemoteFolder:
    """The folder in which the submission's process stores batches; the trial itself does not read
    the folder's files.

    `ask` calls `stored_rows` and `after_crash` in a separate sandboxed process that runs none of
    the submission's code, so only that process parses the submission's Parquet files.
    """

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._files = Files({})

    def store(self, learner: Callable[..., Any], rows: RemoteFrame, batch: int) -> None:
        """Let the submission's function store the rows in addition to those that are already
        stored.
        """
        files = learner(rows, batch, self._files)
        if not isinstance(files, Files):
            raise RaisedThereError("the process did not send the folder back", "")
        self._files = files

    def simulate_crash(self, rows: list[Row]) -> None:
        self._files = self._ask("streaming.after_crash", (self._files, rows))

    def rows(self) -> list[Row]:
        """Return all stored rows. Raises `Refused` if a file is invalid."""
        try:
            rows: list[Row] = self._ask("streaming.stored_rows", (self._files,))
        except RaisedThereError as error:
            raise Refused(error.problem.removeprefix(f"{Refused.__name__}: ")) from None
        return rows


class RemoteSession:
    """A proxy for the Spark session of the submission's process.

    `reader` starts a process that reads the submission's stored files (see `RemoteFolder`).
    """

    def __init__(self, reader: Callable[[], AbstractContextManager[Any]]) -> None:
        self._reader = reader

    @contextmanager
    def folder(self) -> Iterator[RemoteFolder]:
        with self._reader() as reader:
            yield RemoteFolder(reader.ask)

    def createDataFrame(self, table: pa.Table) -> RemoteFrame:  # noqa: N802 - Spark's name
        """Return the table in a form that can be sent to the submission's process."""
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        return RemoteFrame(stream.getvalue().to_pybytes())


def in_spark(spark: SparkSession, job: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Call the learner's function with DataFrames of the given Spark session, and run the job that
    it returns.

    A job that stores files receives the path of a folder in place of `Files`, and the contents of
    this folder are its result.
    """
    arguments = [
        each.within(spark) if isinstance(each, RemoteFrame) else each for each in arguments
    ]
    files = next((each for each in arguments if isinstance(each, Files)), None)
    if files is None:
        result = job(*arguments)
        return _rows_of(result) if isinstance(result, DataFrame) else result
    with files.written_out() as folder:
        job(*(str(folder) if each is files else each for each in arguments))
        return Files.read_from(folder)


def _rows_of(frame: DataFrame) -> RemoteRows:
    plain = [name for name, kind in frame.dtypes if kind in _PLAIN_TYPES]
    return RemoteRows(frame.columns, frame.select(*plain).toArrow().to_pydict())
