"""Code shared by the trials of lessons 12 and 13.

The code creates small streams for a job to process, and rows that show where the job's result is
wrong.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from labkit.course.checking.refused import Refused
from labkit.course.runs.topics.stored_batches import BatchFolder
from labkit.views.spark import flights
from labkit.views.spark.session import spark_session

Job = Callable[[DataFrame], DataFrame]
Place = tuple[str, int, int, int, int]
"""Topic, partition, ledger id, entry id and batch index."""

SHOWN = ["seq", "topic", "partition", "ledger", "entry", "batch_index"]

_COLUMNS = (*SHOWN, "producer", "sequence_id")
_SCHEMA = pa.schema([flights.SCHEMA.field(name) for name in _COLUMNS])


@dataclass(frozen=True, slots=True, repr=False)
class WrongRows:
    """Rows of a stream in order of arrival, and a description of what the job got wrong."""

    words: str
    rows: pd.DataFrame = field(compare=False)

    def __str__(self) -> str:
        return f"{self.words}\n{self.rows.to_string(index=False)}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.words)}</p>{self.rows.to_html(index=False, border=0)}"


def stream_of(places: Iterable[Place], senders: Sequence[tuple[str, int]] = ()) -> pa.Table:
    """Return a table of messages in order of arrival. Without `senders`, each message counts as a
    message that producer `p` sent once.
    """
    rows = [
        dict(zip(("topic", "partition", "ledger", "entry", "batch_index"), place, strict=True))
        for place in places
    ]
    for seq, row in enumerate(rows):
        producer, sequence_id = senders[seq] if senders else ("p", seq)
        row |= {"seq": seq, "producer": producer, "sequence_id": sequence_id}
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def one_stream(*ids: tuple[int, int, int]) -> list[Place]:
    """Return positions in partition 0 of topic `t`, each given as ledger id, entry id and batch
    index.
    """
    return [("t", 0, *parts) for parts in ids]


_far: ContextVar[Any] = ContextVar("_far", default=None)


@contextmanager
def using_session(far: Any) -> Iterator[None]:
    """Run jobs in the given Spark session, which may belong to another process."""
    before = _far.set(far)
    try:
        yield
    finally:
        _far.reset(before)


def trial_session() -> Any:
    """Return the session set by `using_session` or, if there is none, a session in this process."""
    return _far.get() or spark_session("lesson")


@contextmanager
def trial_folder() -> Iterator[Any]:
    """Provide a new folder for batches, in this process or in the one that runs the jobs."""
    if (far := _far.get()) is not None:
        with far.folder() as folder:
            yield folder
    else:
        with TemporaryDirectory(prefix="labkit-sink-") as path:
            yield BatchFolder(Path(path))


def answer(job: Job, messages: pa.Table, columns: Sequence[str]) -> pd.DataFrame:
    """Run the learner's job on the messages, and return these columns of its result.

    Raises `Refused` if a column is missing or Spark cannot run the job.
    """
    try:
        result = job(trial_session().createDataFrame(messages))
        missing = [name for name in columns if name not in result.columns]
        if missing:
            raise Refused(
                f"Your job must return the columns {', '.join(columns)};"
                f" it returned {', '.join(result.columns) or 'none'}."
            )
        # Fetch one row more than there are messages, because no correct result has that many rows.
        return result.select(*columns).limit(messages.num_rows + 1).toPandas()
    except PySparkException as error:
        raise Refused(f"Spark cannot run your job: {first_line(error)}") from None


def first_line(error: PySparkException) -> str:
    return str(error).partition("\n")[0].partition(" SQLSTATE")[0]


def neighbours(messages: pd.DataFrame, seq: int) -> pd.DataFrame:
    """Return a message, the message that arrived before it, and the previous message of the same
    stream.
    """
    arrived = messages[messages["seq"] <= seq].sort_values("seq")
    row = arrived.iloc[-1]
    of_stream = (arrived["topic"] == row["topic"]) & (arrived["partition"] == row["partition"])
    shown = pd.concat([arrived.tail(2), arrived[of_stream].tail(2)]).drop_duplicates("seq")
    return shown.sort_values("seq")[SHOWN]
