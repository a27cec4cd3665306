"""Runs a task in a Spark worker: reads its spans from the bookies, and yields record batches.

A task is synchronous code that yields one batch at a time, so the event loop runs only while a
batch is being built. While Spark processes the batch, bookie responses wait in socket buffers.
"""

import asyncio
import gc
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from labkit.system.client.reader import LedgerReader
from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException
from labkit.views.spark.bookkeeper.cluster import connected, without_traceback
from labkit.views.spark.bookkeeper.columns import make_column
from labkit.views.spark.bookkeeper.entries import read_span
from labkit.views.spark.bookkeeper.opening import open_reader, report_loss
from labkit.views.spark.bookkeeper.options import MIB, Options
from labkit.views.spark.bookkeeper.rows import SpanRows
from labkit.views.spark.bookkeeper.spans import EntrySpan
from labkit.views.spark.bookkeeper.values import ValueDecoder, read_value_decoder

_BATCH_BYTES = 16 * MIB


@dataclass(frozen=True)
class Task(InputPartition):
    """A task, with the spans to read. Spark pickles the task and sends it to a worker."""

    spans: tuple[EntrySpan, ...]


def read_task(
    task: InputPartition, options: Options, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield the task's rows as record batches.

    Raises `LedgerGoneError`, and any error raised by `LedgerReader.read_entry`.
    """
    if not isinstance(task, Task):
        return  # Spark passes a placeholder if there are no tasks.
    if not gc.get_freeze_count():
        # Spark runs the garbage collector after each task; let it skip the imported modules.
        gc.freeze()
    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    with asyncio.Runner() as runner:
        batches = _batches(task, options, arrow_schema)

        async def next_batch() -> pa.RecordBatch | None:
            return await anext(batches, None)

        run = without_traceback(lambda: runner.run(next_batch()))
        try:
            while (batch := run()) is not None:
                yield batch
        finally:
            # Spark may stop early, for example after a LIMIT; close the client on its event loop.
            runner.run(batches.aclose())


async def _batches(
    task: Task, options: Options, schema: pa.Schema
) -> AsyncGenerator[pa.RecordBatch, None]:
    async with connected(options) as client:
        # All spans of a task belong to the same topic.
        decoder = None
        if "value" in schema.names:
            decoder = await read_value_decoder(client, task.spans[0].lane.topic)
        # Open all ledgers at the same time instead of waiting for ZooKeeper once per ledger.
        opened = (open_reader(client, span.ledger, options) for span in task.spans)
        readers = await asyncio.gather(*opened, return_exceptions=True)
        for span, reader in zip(task.spans, readers, strict=True):
            try:
                if isinstance(reader, BaseException):
                    raise reader
                batches = _span_batches(reader, span, options, schema, decoder)
                async with aclosing(batches) as each:
                    async for batch in each:
                        yield batch
            except BKNoSuchLedgerExistsOnMetadataServerException:
                report_loss(span.ledger.ledger_id, options)


async def _span_batches(
    reader: LedgerReader,
    span: EntrySpan,
    options: Options,
    schema: pa.Schema,
    decoder: ValueDecoder | None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    def new_rows() -> SpanRows:
        return SpanRows(span, reader.metadata, schema.names, decoder)

    rows = new_rows()
    async with aclosing(read_span(reader, span, options.retry_s)) as chunks:
        async for entries in chunks:
            for entry in entries:
                rows.add(entry)
                # Limit bytes as well: 10,000 large messages would not fit into a worker's memory.
                if rows.count >= options.rows_per_batch or rows.size_bytes >= _BATCH_BYTES:
                    yield _batch(rows, schema)
                    rows = new_rows()
    if rows.count:
        yield _batch(rows, schema)


def _batch(rows: SpanRows, schema: pa.Schema) -> pa.RecordBatch:
    columns = [make_column(name, rows) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
