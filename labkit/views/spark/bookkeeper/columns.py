"""The columns, and how each is made for all rows of a record batch at once.

The rule: a column that the query does not use costs nothing.  A value that is the same for a whole
span, or a whole entry, is kept once and repeated by Arrow; only values that differ between messages
are handled message by message.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import StructType

from labkit.views.spark.bookkeeper.options import OptionError, Options
from labkit.views.spark.bookkeeper.rows import Numbers, SpanRows, signed

_STRINGS = "array<string>"

_PLACE = {
    "partition": "int",
    "ledger": "bigint",
    "entry": "bigint",
}
_STORED = {
    "last_add_confirmed": "bigint",
    "length": "bigint",
    "ensemble": _STRINGS,
    "write_set": _STRINGS,
}

MESSAGE_COLUMNS = {
    "topic": "string",
    **_PLACE,
    "batch_index": "int",
    "batch_size": "int",
    "publish_time": "timestamp_ltz",
    "event_time": "timestamp_ltz",
    "producer": "string",
    "sequence_id": "bigint",
    "key": "string",
    "properties": "map<string,string>",
    "payload": "binary",
    **_STORED,
    "uuid": "string",
    "chunk_id": "int",
    "chunks": "int",
}
"""Columns for a topic, with a row for each message: name -> type.  The types mean the same in every
session; `timestamp` alone would depend on a session's settings.
"""

ENTRY_COLUMNS = {
    "ledger": "bigint",
    "entry": "bigint",
    "payload": "binary",
    **_STORED,
}
"""Columns for ledgers: a row for each entry."""

MAY_BE_NULL = {
    *("publish_time", "event_time", "key", "payload"),
    *("uuid", "chunk_id", "chunks"),
}
"""Of a topic's columns; those of ledgers are never null."""

_TIME = pa.timestamp("us", tz="UTC")
_FARTHEST_MS = ((1 << 63) - 1) // 1000
"""Spark counts times in microseconds."""
_STRING_LIST = pa.list_(pa.string())


def columns_of(options: Options) -> dict[str, str]:
    """All columns of the query: name -> type."""
    return MESSAGE_COLUMNS if options.topic else ENTRY_COLUMNS


def check_schema(schema: StructType, options: Options) -> None:
    """Check a user's schema: it selects columns, and can neither add others nor change their types.

    Raises `OptionError`.
    """
    columns = columns_of(options)
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


def make_column(name: str, rows: SpanRows) -> pa.Array:
    """The column's values for all rows."""
    return _MAKERS[name](rows)


def _per_span(
    value: Callable[[SpanRows], object], kind: pa.DataType
) -> Callable[[SpanRows], pa.Array]:
    return lambda rows: pa.repeat(pa.scalar(value(rows), kind), rows.count)


def _numbers(
    numbers: Callable[[SpanRows], Numbers], kind: pa.DataType
) -> Callable[[SpanRows], pa.Array]:
    return lambda rows: pa.array(numbers(rows)).cast(kind)


def _of_chunks(field: str, kind: pa.DataType) -> Callable[[SpanRows], pa.Array]:
    """Null for a message that is not a chunk of a large one, as nearly all are."""

    def make(rows: SpanRows) -> pa.Array:
        if not rows.has_chunks:
            return pa.nulls(rows.count, kind)
        values = [getattr(m, field) if m.HasField("chunk_id") else None for m in rows.metadata]
        return pa.array(values, kind).take(pa.array(rows.entry_of_row()))

    return make


def _event_times(rows: SpanRows) -> pa.Array:
    times = signed([head.event_time for head in rows.heads])
    # In Pulsar 0 means "no event time".
    return _times(times, times == 0)


def _publish_times(rows: SpanRows) -> pa.Array:
    return _times(rows.publish_times_ms(), np.zeros(rows.count, np.bool_))


def _times(times_ms: Numbers, is_null: npt.NDArray[np.bool_]) -> pa.Array:
    """Null also where Spark has no such time."""
    is_null = is_null | (times_ms > _FARTHEST_MS) | (times_ms < -_FARTHEST_MS)
    return pa.array(np.where(is_null, 0, times_ms) * 1000, mask=is_null).cast(_TIME)


def _texts(values: Sequence[str | bytes | None]) -> pa.Array:
    """Bytes that are not UTF-8 become U+FFFD, as in Pulsar's Java client; protobuf returns such a
    text as bytes.
    """
    return pa.array(
        [each.decode(errors="replace") if isinstance(each, bytes) else each for each in values],
        pa.string(),
    )


def _properties(rows: SpanRows) -> pa.Array:
    lists = [head.properties for head in rows.heads]
    offsets = np.zeros(rows.count + 1, np.int32)
    np.cumsum([len(each) for each in lists], out=offsets[1:])
    items = [item for each in lists for item in each] if offsets[-1] else []
    return pa.MapArray.from_arrays(
        pa.array(offsets),
        _texts([item.key for item in items]),
        _texts([item.value for item in items]),
    )


def _ensembles(rows: SpanRows) -> pa.Array:
    return pa.array([rows.ensemble()], _STRING_LIST).take(pa.array(np.zeros(rows.count, np.int64)))


def _write_sets(rows: SpanRows) -> pa.Array:
    """Entries whose ids leave the same remainder have the same write set."""
    kinds = pa.array(rows.write_sets(), _STRING_LIST)
    return kinds.take(pa.array(rows.entry_ids() % len(kinds)))


_MAKERS: dict[str, Callable[[SpanRows], pa.Array]] = {
    "topic": _per_span(lambda rows: rows.topic, pa.string()),
    "partition": _per_span(lambda rows: rows.span.partition, pa.int32()),
    "ledger": _per_span(lambda rows: rows.span.ledger.ledger_id, pa.int64()),
    "ensemble": _ensembles,
    "write_set": _write_sets,
    "entry": _numbers(lambda rows: rows.entry_ids(), pa.int64()),
    "last_add_confirmed": _numbers(
        lambda rows: rows.repeated([entry.last_add_confirmed for entry in rows.entries]), pa.int64()
    ),
    "length": _numbers(
        lambda rows: rows.repeated([entry.length for entry in rows.entries]), pa.int64()
    ),
    "batch_index": _numbers(lambda rows: rows.batch_indexes(), pa.int32()),
    "batch_size": _numbers(
        lambda rows: rows.repeated([each.num_messages_in_batch for each in rows.metadata]),
        pa.int32(),
    ),
    "publish_time": _publish_times,
    "event_time": _event_times,
    "producer": lambda rows: _texts([each.producer_name for each in rows.metadata]).take(
        pa.array(rows.entry_of_row())
    ),
    "sequence_id": lambda rows: pa.array(signed([head.sequence_id for head in rows.heads])),
    "key": lambda rows: _texts([head.partition_key or None for head in rows.heads]),
    "properties": _properties,
    "payload": lambda rows: pa.array(rows.payloads, pa.binary()),
    "uuid": _of_chunks("uuid", pa.string()),
    "chunk_id": _of_chunks("chunk_id", pa.int32()),
    "chunks": _of_chunks("num_chunks_from_msg", pa.int32()),
}
