"""The data source class that Spark calls: its schema, its batch reader and its stream reader.

Spark calls the class in separate short-lived processes (one for the schema, one for the plan, and a
worker for each task), so no state survives from one call to the next.
"""

import asyncio
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from labkit.views.spark.bookkeeper.batches import Task, read_task
from labkit.views.spark.bookkeeper.bounds import (
    batch_bounds,
    check_ranges,
    check_readable,
    with_times,
)
from labkit.views.spark.bookkeeper.cluster import connected, without_traceback
from labkit.views.spark.bookkeeper.columns import check_schema, columns_of
from labkit.views.spark.bookkeeper.directory import LedgerDirectory
from labkit.views.spark.bookkeeper.options import OptionError, Options, read_options
from labkit.views.spark.bookkeeper.spans import EntrySpan, span_between, tasks
from labkit.views.spark.bookkeeper.stream import LedgerStreamReader
from labkit.views.spark.bookkeeper.writing.write_options import (
    WriteOptions,
    check_appends,
    check_columns,
    read_write_options,
)
from labkit.views.spark.bookkeeper.writing.writers import MessageStreamWriter, MessageWriter


class BookKeeperSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "bookkeeper"

    @without_traceback
    def schema(self) -> str:
        columns = columns_of(read_options(self.options))
        return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())

    @without_traceback
    def reader(self, schema: StructType) -> "LedgersReader":
        options = read_options(self.options)
        check_schema(schema, options)
        return LedgersReader(options, schema)

    def streamReader(self, schema: StructType) -> LedgerStreamReader:  # noqa: N802 - Spark's name
        """Return the reader for a streaming query, which checks the options when it is first used.

        This method must not raise, because Spark 4.3 would fail with an `UnboundLocalError`.
        """
        return LedgerStreamReader(self.options, schema)

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> MessageWriter:
        return MessageWriter(self._write_options(schema, overwrite, is_stream=False))

    @without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> MessageStreamWriter:  # noqa: N802 - Spark's name
        return MessageStreamWriter(self._write_options(schema, overwrite, is_stream=True))

    def _write_options(
        self, schema: StructType, overwrite: bool, *, is_stream: bool
    ) -> WriteOptions:
        options = read_write_options(self.options, is_stream=is_stream)
        check_columns(schema, options)
        check_appends(overwrite)
        return options


class LedgersReader(DataSourceReader):
    def __init__(self, options: Options, schema: StructType) -> None:
        """Raise `OptionError` if an option is valid only for streams."""
        of_streams = {
            "maxRowsPerTrigger": options.max_rows_per_trigger,
            "maxBytesPerTrigger": options.max_bytes_per_trigger,
            "predefinedSubscription": options.subscription,
        }
        for name, value in of_streams.items():
            if value:
                raise OptionError(
                    f"option '{name}' is only for spark.readStream; a batch query reads all rows"
                    " from 'start' to 'end'"
                )
        self._options = options
        self._schema = schema

    @without_traceback
    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks.

        Raises `OptionError`, or another error if a ledger has been deleted or cannot be read.
        """
        spans = asyncio.run(self._spans())
        return [
            Task(spans)
            for spans in tasks(spans, self._options.split_bytes, self._options.min_partitions)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._options, self._schema)

    async def _spans(self) -> list[EntrySpan]:
        options = self._options
        async with connected(options) as client:
            directory = LedgerDirectory(client, options)
            chains = await directory.chains()
            if options.fail_on_data_loss:
                check_ranges(options, chains)
            bounds = batch_bounds(options, chains)
            bounds = await with_times(bounds, options, chains, directory)
            wanted = [
                (lane, info)
                for lane, chain in chains.items()
                for info in chain
                if bounds[lane][0].ledger_id <= info.ledger_id <= bounds[lane][1].ledger_id
            ]
            ledgers = await asyncio.gather(*(directory.lookup(info) for _, info in wanted))
        found = [
            (lane, ledger) for (lane, _), ledger in zip(wanted, ledgers, strict=True) if ledger
        ]
        if options.fail_on_data_loss:
            check_readable(bounds, found)
        spans = (span_between(ledger, lane, *bounds[lane]) for lane, ledger in found)
        return [span for span in spans if span]
