"""The reader of a streaming query, which Spark runs in a separate process until the query ends.

    initialOffset   called once, if the query has no checkpoint
    latestOffset    called at each trigger; returns how far to read this time
    partitions      returns the tasks between two offsets (after a crash: from the checkpoint)
    read            called in a worker; yields the rows of a task
    commit          called at the next trigger, when the rows up to an offset have been processed

Spark writes an offset to the checkpoint before it reads up to that offset, so a failed batch is
reread with the same rows. A sink that keeps one result per batch id receives every row exactly
once.
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
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from labkit.views.spark.bookkeeper.batches import Task, read_task
from labkit.views.spark.bookkeeper.cluster import connected, without_traceback
from labkit.views.spark.bookkeeper.columns import check_schema
from labkit.views.spark.bookkeeper.directory import LedgerDirectory
from labkit.views.spark.bookkeeper.following import StreamFollower
from labkit.views.spark.bookkeeper.offsets import (
    Json,
    Offset,
    by_topic,
    decode_offset,
    encode_offset,
)
from labkit.views.spark.bookkeeper.options import OptionError, Options, read_options
from labkit.views.spark.bookkeeper.spans import tasks
from labkit.views.spark.bookkeeper.subscription import ProgressSubscription

T = TypeVar("T")


class _Session:
    """A connection to the cluster; its event loop runs only while Spark is calling a method."""

    def __init__(self, options: Options) -> None:
        self._runner = asyncio.Runner()
        self._exit_stack = AsyncExitStack()
        self.follower = self.run(self._connect(options))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def close(self) -> None:
        self.run(self._exit_stack.aclose())
        self._runner.close()

    async def _connect(self, options: Options) -> StreamFollower:
        client = await self._exit_stack.enter_async_context(connected(options))
        return StreamFollower(LedgerDirectory(client, options), options)


class LedgerStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, raw_options: Mapping[str, str], schema: StructType) -> None:
        """Store the options unchecked; the first method that Spark calls raises `OptionError`."""
        self._raw_options = raw_options
        self._schema = schema
        self._open_session: _Session | None = None
        self._target: Offset | None = None

    @cached_property
    def _options(self) -> Options:
        """Return the checked options. Raises `OptionError` if an option is invalid, or valid only
        for batch queries.
        """
        options = read_options(self._raw_options)
        if options.end != "latest" or options.ending_ms >= 0:
            name = "end" if options.end != "latest" else "endingTime"
            raise OptionError(
                f"option '{name}' is only for spark.read; a stream continues until it is stopped"
            )
        check_schema(self._schema, options)
        return options

    @cached_property
    def _subscription(self) -> ProgressSubscription | None:
        return ProgressSubscription(self._options) if self._options.subscription else None

    @without_traceback
    def initialOffset(self) -> Json:  # noqa: N802
        session = self._session()
        return encode_offset(session.run(session.follower.initial()), self._options)

    @without_traceback
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_rows_per_trigger:
            return ReadMaxRows(self._options.max_rows_per_trigger)
        if self._options.max_bytes_per_trigger:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the query end after the entries that are confirmed at this moment."""
        session = self._session()
        self._target = session.run(session.follower.newest())

    @without_traceback
    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Return the offset up to which the next batch reads, or `start` if there are no new
        entries.
        """
        session, options = self._session(), self._options
        begin = decode_offset(start, options)
        if self._subscription is not None:
            self._subscription.begin(begin)
        end = session.run(session.follower.next_offset(begin, self._target, limit))
        return encode_offset(end, options)

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """Return the value that Spark shows as `latestOffset` in the query's progress, from which
        `partition_backlogs` extracts the backlog.

        Spark does not interpret this value, and a Python source has no other way to report its
        backlog.
        """
        if self._open_session is None:
            return None
        follower = self._open_session.follower
        lanes = {
            lane: {
                "newest": str(follower.seen[lane]),
                "batchEntries": follower.batch_entry_counts[lane],
                "backlogEntries": backlog.entry_count,
                "backlogBytes": backlog.size_bytes,
            }
            for lane, backlog in follower.backlogs.items()
        }
        return by_topic(lanes, self._options)

    @without_traceback
    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        session, options = self._session(), self._options
        bounds = decode_offset(start, options), decode_offset(end, options)
        spans = session.run(session.follower.spans(*bounds))
        return [Task(each) for each in tasks(spans, options.split_bytes, options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._options, self._schema)

    @without_traceback
    def commit(self, end: Json) -> None:
        if self._subscription is not None:
            self._subscription.advance(decode_offset(end, self._options))

    def stop(self) -> None:
        if self._open_session is not None:
            self._open_session.close()

    def _session(self) -> _Session:
        if self._open_session is None:
            self._open_session = _Session(self._options)
        return self._open_session
