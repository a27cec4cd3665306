"""The writers that Spark calls: one for batch queries, and one for streams.

Spark pickles a writer, and calls `write` in a worker for each task. All rows of a task are stored
when `write` returns, and other queries can already read them, so there is nothing left to commit.

A stream's micro-batch is repeated with the same id if it was interrupted before Spark recorded it
in the checkpoint. The query's id is also in the checkpoint.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from labkit.views.spark.bookkeeper.cluster import without_traceback
from labkit.views.spark.bookkeeper.writing.messages import messages_of
from labkit.views.spark.bookkeeper.writing.write_options import WriteOptions


class MessageWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(iterator, self._options, None)


class MessageStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(iterator, self._options, TaskContext.get())


@without_traceback
def _write(
    batches: Iterator[pa.RecordBatch], options: WriteOptions, task: TaskContext | None
) -> WriterCommitMessage:
    # Queries that only read do not need Pulsar's client.
    from labkit.views.spark.bookkeeper.writing.sending import Attempt, Sender

    attempt = None
    if task is not None and options.exactly_once:
        query = task.getLocalProperty("sql.streaming.queryId")
        batch_id = task.getLocalProperty("streaming.sql.batchId")
        attempt = Attempt(f"spark-{query}-{task.partitionId()}", int(batch_id or 0))
    with Sender(options, attempt) as sender:
        for batch in batches:
            for message in messages_of(batch, options.topic):
                sender.send(message)
        sender.finish()
    return WriterCommitMessage()
