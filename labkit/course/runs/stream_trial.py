"""What the trials of lessons 12 and 13 share: small streams to ask a job of, and rows that show
where its answer is wrong.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from html import escape
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from labkit.course.checking.exercise import Refused
from labkit.course.runs.stored_batches import BatchFolder
from labkit.views.spark import flights
from labkit.views.spark.session import spark_session

Job = Callable[[DataFrame], DataFrame]
Place = tuple[str, int, int, int, int]
"""Topic, partition, ledger, entry and batch index."""

SHOWN = ["seq", "topic", "partition", "ledger", "entry", "batch_index"]

_COLUMNS = (*SHOWN, "producer", "sequence_id")
_SCHEMA = pa.schema([flights.SCHEMA.field(name) for name in _COLUMNS])


@dataclass(frozen=True, slots=True, repr=False)
class WrongRows:
    """Rows of a stream in the order of their arrival, and what is wrong about the answer."""

    words: str
    rows: pd.DataFrame = field(compare=False)

    def __str__(self) -> str:
        return f"{self.words}\n{self.rows.to_string(index=False)}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.words)}</p>{self.rows.to_html(index=False, border=0)}"


def stream_of(places: Iterable[Place], senders: Sequence[tuple[str, int]] = ()) -> pa.Table:
    """Messages that arrive in this order; without `senders`, each was sent once by `p`."""
    rows = [
        dict(zip(("topic", "partition", "ledger", "entry", "batch_index"), place, strict=True))
        for place in places
    ]
    for seq, row in enumerate(rows):
        producer, sequence_id = senders[seq] if senders else ("p", seq)
        row |= {"seq": seq, "producer": producer, "sequence_id": sequence_id}
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def one_stream(*ids: tuple[int, int, int]) -> list[Place]:
    """Ledger, entry and batch index, all of partition 0 of the topic `t`."""
    return [("t", 0, *parts) for parts in ids]


_far: ContextVar[Any] = ContextVar("_far", default=None)


@contextmanager
def asked_in(far: Any) -> Iterator[None]:
    """Run jobs in the given Spark session, which may belong to another process, while inside."""
    before = _far.set(far)
    try:
        yield
    finally:
        _far.reset(before)


def session_of_trials() -> Any:
    """The session that runs, whose master and settings are its owner's; else a new one."""
    return _far.get() or spark_session("lesson")


def folder_of_trials() -> Any:
    """A new folder for batches, as a context: a `BatchFolder`, or the other process's."""
    return BatchFolder() if _far.get() is None else _far.get().folder()


def answer(job: Job, messages: pa.Table, columns: Sequence[str]) -> pd.DataFrame:
    """These columns of what the learner's job says, as it says them.

    Raises `Refused` when a column is missing or Spark cannot run the job.
    """
    try:
        told = job(session_of_trials().createDataFrame(messages))
        missing = [name for name in columns if name not in told.columns]
        if missing:
            raise Refused(
                f"What your job returns needs the columns {', '.join(columns)};"
                f" yours has {', '.join(told.columns) or 'none'}."
            )
        # One row more than there are messages: no right answer has as many.
        return told.select(*columns).limit(messages.num_rows + 1).toPandas()
    except PySparkException as error:
        first_line = str(error).partition("\n")[0].partition(" SQLSTATE")[0]
        raise Refused(f"Spark cannot run your job: {first_line}") from None


def neighbours(messages: pd.DataFrame, seq: int) -> pd.DataFrame:
    """A message, the one that arrived before it, and the one that did in its own stream."""
    arrived = messages[messages["seq"] <= seq].sort_values("seq")
    row = arrived.iloc[-1]
    of_stream = (arrived["topic"] == row["topic"]) & (arrived["partition"] == row["partition"])
    shown = pd.concat([arrived.tail(2), arrived[of_stream].tail(2)]).drop_duplicates("seq")
    return shown.sort_values("seq")[SHOWN]
