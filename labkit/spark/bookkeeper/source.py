"""`format("bookkeeper")` as Spark sees it: a schema, a batch reader and a stream reader.

Spark calls it in separate short-lived processes: one for the schema, one for the plan, and a worker
for each task.  So nothing is kept from one call to the next.
"""

import asyncio
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from labkit.spark.bookkeeper.batches import Task, read_task
from labkit.spark.bookkeeper.bounds import check_ranges, check_readable, places
from labkit.spark.bookkeeper.cluster import connected, without_traceback
from labkit.spark.bookkeeper.columns import ENTRY_COLUMNS, MAY_BE_NULL, MESSAGE_COLUMNS
from labkit.spark.bookkeeper.directory import Directory
from labkit.spark.bookkeeper.options import OptionError, Options, read_options
from labkit.spark.bookkeeper.spans import Span, span_between, tasks
from labkit.spark.bookkeeper.stream import LedgerStreamReader


class BookKeeperSource(DataSource):
    """The messages of a topic, or the entries of ledgers."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "bookkeeper"

    def schema(self) -> str:
        """The columns as Spark's schema string.  Raises `OptionError`."""
        columns = _columns(self._read_options())
        return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())

    def reader(self, schema: StructType) -> "LedgersReader":
        """Reader for a batch query."""
        options = self._read_options()
        without_traceback(lambda: _check_schema(schema, options))
        return without_traceback(lambda: LedgersReader(options, schema))

    def streamReader(self, schema: StructType) -> LedgerStreamReader:  # noqa: N802 - Spark's name
        """Reader for a streaming query."""
        options = self._read_options()
        without_traceback(lambda: _check_schema(schema, options))
        return LedgerStreamReader(options, schema)

    def _read_options(self) -> Options:
        return without_traceback(lambda: read_options(self.options))


class LedgersReader(DataSourceReader):
    """Plans and runs the tasks of a batch query."""

    def __init__(self, options: Options, schema: StructType) -> None:
        """Raises `OptionError` for an option that is only for streams."""
        if options.max_rows_per_trigger:
            raise OptionError(
                "option 'maxRowsPerTrigger' is for spark.readStream: a batch query reads all rows;"
                " 'start' and 'end' bound it"
            )
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks.  Raises `OptionError`, and errors for ledgers that are gone or cannot be
        read.
        """
        spans = without_traceback(lambda: asyncio.run(self._spans()))
        return [Task(spans) for spans in tasks(spans, self._options.split_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A task's rows."""
        return read_task(partition, self._options, self._schema)

    async def _spans(self) -> list[Span]:
        options = self._options
        async with connected(options.metadata) as client:
            directory = Directory(client, options)
            chains = await directory.chains()
            if options.fail_on_data_loss:
                check_ranges(options, chains)
            bounds = places(options, chains)
            wanted = [
                (lane, info)
                for lane, chain in chains.items()
                for info in chain
                if bounds[lane][0].ledger_id <= info.ledger_id <= bounds[lane][1].ledger_id
            ]
            ledgers = await asyncio.gather(*(directory.known(info) for _, info in wanted))
        found = [
            (lane, ledger) for (lane, _), ledger in zip(wanted, ledgers, strict=True) if ledger
        ]
        if options.fail_on_data_loss:
            check_readable(bounds, found)
        spans = (
            span_between(ledger, lane if options.topic else -1, *bounds[lane])
            for lane, ledger in found
        )
        return [span for span in spans if span]


def _columns(options: Options) -> dict[str, str]:
    return MESSAGE_COLUMNS if options.topic else ENTRY_COLUMNS


def _check_schema(schema: StructType, options: Options) -> None:
    """A user's schema selects columns; it cannot add others, nor change what they mean."""
    columns = _columns(options)
    if not schema.fields:
        raise OptionError(f"schema: it names no column; there are {', '.join(columns)}")
    for field in schema.fields:
        kind = columns.get(field.name)
        if kind is None:
            raise OptionError(
                f"schema: there is no column '{field.name}'; there are {', '.join(columns)}"
            )
        given = field.dataType.simpleString()
        if given != kind and (given, kind) != ("timestamp", "timestamp_ltz"):
            raise OptionError(f"schema: column '{field.name}' has the type {kind}")
        # Spark trusts "not null", and answers `is null` without a look at the rows.
        if options.topic and not field.nullable and field.name in MAY_BE_NULL:
            raise OptionError(f"schema: column '{field.name}' may be null; omit 'not null'")
