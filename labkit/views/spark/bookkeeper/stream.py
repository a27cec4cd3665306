"""The stream's reader, as Spark calls it, in a separate process that lives as long as the query.

    initialOffset   called once, for a query without a checkpoint
    latestOffset    called at each trigger: how far to read now
    partitions      the tasks between two offsets; after a crash, between those of the checkpoint
    read            in a worker: a task's rows

Spark writes an offset to the checkpoint before it reads up to it, so a failed batch is read again
with the same rows.  A sink that keeps one result for each batch id gets every row exactly once.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from labkit.views.spark.bookkeeper.batches import Task, read_task
from labkit.views.spark.bookkeeper.cluster import connected, without_traceback
from labkit.views.spark.bookkeeper.columns import check_schema
from labkit.views.spark.bookkeeper.directory import LedgerDirectory
from labkit.views.spark.bookkeeper.following import StreamFollower
from labkit.views.spark.bookkeeper.offsets import Offset, decode_offset, encode_offset
from labkit.views.spark.bookkeeper.options import OptionError, Options, read_options
from labkit.views.spark.bookkeeper.spans import tasks

T = TypeVar("T")


class _Session:
    """A connection to the cluster, and its event loop, which runs while Spark calls."""

    def __init__(self, options: Options) -> None:
        self._runner = asyncio.Runner()
        self._open = AsyncExitStack()
        self.follower = self.run(self._connect(options))

    def run(self, question: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(question)

    def close(self) -> None:
        self.run(self._open.aclose())
        self._runner.close()

    async def _connect(self, options: Options) -> StreamFollower:
        client = await self._open.enter_async_context(connected(options))
        return StreamFollower(LedgerDirectory(client, options), options)


class LedgerStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a topic, or ledgers, from offset to offset."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        """Checks nothing: the first method that Spark calls raises `OptionError`."""
        self._given = given
        self._schema = schema
        self._opened: _Session | None = None
        self._target: Offset | None = None

    @cached_property
    def _options(self) -> Options:
        """Raises `OptionError`, also for options that are only for batch queries."""
        options = read_options(self._given)
        if options.end != "latest":
            raise OptionError(
                "option 'end' is for spark.read: a stream goes on until it is stopped"
            )
        check_schema(self._schema, options)
        return options

    @without_traceback
    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        """The offset that option `start` names."""
        session = self._session()
        return encode_offset(session.run(session.follower.initial()))

    @without_traceback
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit that option `maxRowsPerTrigger` sets."""
        rows = self._options.max_rows_per_trigger
        return ReadMaxRows(rows) if rows else ReadAllAvailable()

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the query's end at the entries confirmed now."""
        session = self._session()
        self._target = session.run(session.follower.newest())

    @without_traceback
    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        """How far the next batch reads; `start` if there is nothing new."""
        session = self._session()
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        follower = session.follower
        end = session.run(follower.next_offset(decode_offset(start), self._target, max_rows))
        return encode_offset(end)

    def reportLatestOffset(self) -> dict[str, str] | None:  # noqa: N802
        """The newest offset that was seen, for the query's progress."""
        newest = self._opened.follower.seen if self._opened else {}
        return encode_offset(newest) if newest else None

    @without_traceback
    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        session = self._session()
        spans = session.run(session.follower.spans(decode_offset(start), decode_offset(end)))
        return [Task(each) for each in tasks(spans, self._options.split_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._options, self._schema)

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _session(self) -> _Session:
        if self._opened is None:
            self._opened = _Session(self._options)
        return self._opened
