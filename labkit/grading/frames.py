"""frames: a Spark job that runs in the submission's process.

A trial makes a DataFrame of a session, calls the job with it, and reads what it returns.  Here the
session is `FarSession`: the DataFrame is a table that crosses the border, the job runs in the Spark
of the submission's process, and the rows that it returns cross back as numbers and texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit.grading.values import PLAIN
from labkit.lessons.exercise import Refused

if TYPE_CHECKING:  # Most submissions need none of these, and each takes a second to import.
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_PLAIN_TYPES = ["tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string"]
"""Spark's types whose values are JSON's."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A table on its way to the submission's Spark, as a stream of Arrow's."""

    arrow: bytes

    def within(self, spark: "SparkSession") -> "DataFrame":
        """The table as a DataFrame of this session."""
        import pyarrow as pa  # noqa: PLC0415 - see above

        return spark.createDataFrame(pa.ipc.open_stream(self.arrow).read_all())


@dataclass(frozen=True, slots=True)
class Rows:
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
    def stands_for(self) -> "type[DataFrame]":
        """What the job returned."""
        from pyspark.sql import DataFrame  # noqa: PLC0415 - see above

        return DataFrame

    def select(self, *names: str) -> "Rows":
        """These columns.  Raises `Refused` for one of other values."""
        for name in names:
            if name not in self.values:
                raise Refused(f"The column {name} must hold numbers or texts.")
        return Rows(list(names), {name: self.values[name] for name in names})

    def toPandas(self) -> "pd.DataFrame":  # noqa: N802 - Spark's name
        """The columns as pandas has them."""
        import pandas as pd  # noqa: PLC0415 - see above

        return pd.DataFrame(self.values, columns=self.columns)


class FarSession:
    """Stands for the Spark session of the submission's process."""

    def createDataFrame(self, table: "pa.Table") -> Frame:  # noqa: N802 - Spark's name
        """The table, ready to cross."""
        import pyarrow as pa  # noqa: PLC0415 - see above

        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        return Frame(stream.getvalue().to_pybytes())


def in_spark(spark: "SparkSession", job: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Call the job with DataFrames of this session, and run what it returns."""
    from pyspark.sql import DataFrame  # noqa: PLC0415 - see above

    told = job(*(each.within(spark) if isinstance(each, Frame) else each for each in arguments))
    return _rows_of(told) if isinstance(told, DataFrame) else told


def _rows_of(frame: "DataFrame") -> Rows:
    plain = [name for name, kind in frame.dtypes if kind in _PLAIN_TYPES]
    return Rows(frame.columns, frame.select(*plain).toArrow().to_pydict())
