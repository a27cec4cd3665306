"""Builds each column of a query for all rows of a record batch at once.

A column that the query does not use costs nothing. A value that applies to a whole span or a whole
entry is stored once, and Arrow repeats it. Only values that differ between messages are processed
message by message.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import StructType

from labkit.views.spark.bookkeeper.options import OptionError, Options
from labkit.views.spark.bookkeeper.rows import Numbers, SpanRows, signed
from labkit.views.spark.bookkeeper.values import ValueDecodeError

_STRINGS = "array<string>"

_STORAGE = {
    "last_add_confirmed": "bigint",
    "length": "bigint",
    "ensemble": _STRINGS,
    "write_set": _STRINGS,
}

MESSAGE_COLUMNS = {
    "topic": "string",
    "partition": "int",
    "ledger": "bigint",
    "entry": "bigint",
    "batch_index": "int",
    "batch_size": "int",
    "publish_time": "timestamp_ltz",
    "event_time": "timestamp_ltz",
    "producer": "string",
    "sequence_id": "bigint",
    "key": "string",
    "properties": "map<string,string>",
    "payload": "binary",
    **_STORAGE,
    "uuid": "string",
    "chunk_id": "int",
    "chunks": "int",
}
"""Columns for a topic, one row per message: name -> type. The type is `timestamp_ltz`, because the
meaning of `timestamp` depends on the session's settings.
"""

ENTRY_COLUMNS = {
    "ledger": "bigint",
    "entry": "bigint",
    "payload": "binary",
    **_STORAGE,
}
"""Columns for ledgers, one row per entry: name -> type."""

STORAGE_COLUMNS = {*_STORAGE, "uuid", "chunk_id", "chunks"}
"""Columns that option `storageColumns` can leave out."""

MAY_BE_NULL = {
    *("publish_time", "event_time", "key", "payload", "value"),
    *("uuid", "chunk_id", "chunks"),
}
"""Nullable columns for a topic; columns for ledgers are never null."""

_TIME = pa.timestamp("us", tz="UTC")
_FARTHEST_MS = ((1 << 63) - 1) // 1000
"""The latest time that Spark can represent: it stores microseconds in 64 bits."""
_STRING_LIST = pa.list_(pa.string())


def columns_of(options: Options) -> dict[str, str]:
    columns = ENTRY_COLUMNS if options.ledgers else MESSAGE_COLUMNS
    if options.decode_values:
        columns = {**columns, "value": "string"}
    left_out = () if options.storage_columns else STORAGE_COLUMNS
    return {name: type_ for name, type_ in columns.items() if name not in left_out}


def check_schema(schema: StructType, options: Options) -> None:
    """Raise `OptionError` unless the user's schema selects existing columns without changing their
    types.
    """
    columns = columns_of(options)
    if not schema.fields:
        raise OptionError(f"schema is empty; valid columns: {', '.join(columns)}")
    for field in schema.fields:
        type_ = columns.get(field.name)
        if type_ is None:
            raise OptionError(
                f"schema: unknown column '{field.name}'; valid columns: {', '.join(columns)}"
            )
        actual = field.dataType.simpleString()
        if actual != type_ and (actual, type_) != ("timestamp", "timestamp_ltz"):
            raise OptionError(f"schema: column '{field.name}' must have type {type_}, got {actual}")
        # Spark trusts "not null", and evaluates `is null` without looking at the rows.
        if not options.ledgers and not field.nullable and field.name in MAY_BE_NULL:
            raise OptionError(f"schema: column '{field.name}' can be null; omit 'not null'")


def make_column(name: str, rows: SpanRows) -> pa.Array:
    return _MAKERS[name](rows)


def _constant(
    value: Callable[[SpanRows], object], type_: pa.DataType
) -> Callable[[SpanRows], pa.Array]:
    return lambda rows: pa.repeat(pa.scalar(value(rows), type_), rows.count)


def _numbers(
    numbers: Callable[[SpanRows], Numbers], type_: pa.DataType
) -> Callable[[SpanRows], pa.Array]:
    return lambda rows: pa.array(numbers(rows)).cast(type_)


def _chunk_field(field: str, type_: pa.DataType) -> Callable[[SpanRows], pa.Array]:
    """Return a column that is null unless the message is a chunk; very few messages are."""

    def make(rows: SpanRows) -> pa.Array:
        if not rows.has_chunks:
            return pa.nulls(rows.count, type_)
        values = [getattr(m, field) if m.HasField("chunk_id") else None for m in rows.metadata]
        return pa.array(values, type_).take(pa.array(rows.entry_of_row()))

    return make


def _event_times(rows: SpanRows) -> pa.Array:
    times = signed([head.event_time for head in rows.heads])
    # In Pulsar, 0 means "no event time".
    return _times(times, times == 0)


def _times(times_ms: Numbers, is_null: npt.NDArray[np.bool_] | bool = False) -> pa.Array:
    """Convert times; times outside Spark's range become null."""
    is_null = is_null | (times_ms > _FARTHEST_MS) | (times_ms < -_FARTHEST_MS)
    return pa.array(np.where(is_null, 0, times_ms) * 1000, mask=is_null).cast(_TIME)


def _string_array(values: Sequence[str | bytes | None]) -> pa.Array:
    """Return a string array. Protobuf returns strings that are not valid UTF-8 as bytes; the
    invalid bytes become U+FFFD, as in Pulsar's Java client.
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
        _string_array([item.key for item in items]),
        _string_array([item.value for item in items]),
    )


def _values(rows: SpanRows) -> pa.Array:
    """Return the values as JSON; a chunk's value is null, because only a whole message can be
    decoded.
    """
    values: list[str | None] = []
    for index, payload in zip(rows.entry_of_row(), rows.payloads, strict=True):
        metadata = rows.metadata[index]
        is_chunk = metadata.HasField("chunk_id")
        version = b"" if is_chunk else metadata.schema_version
        try:
            values.append(rows.decoder.decode(version, payload))
        except ValueDecodeError as error:
            entry = rows.entries[index]
            raise ValueDecodeError(
                f"entry {entry.entry_id} of ledger {entry.ledger_id}: {error}. To read the payload"
                " as stored, omit option 'decodeValues'"
            ) from None
    return pa.array(values, pa.string())


def _ensembles(rows: SpanRows) -> pa.Array:
    return pa.array(rows.ensembles(), _STRING_LIST).take(pa.array(rows.segments()))


def _write_sets(rows: SpanRows) -> pa.Array:
    write_sets = pa.array(rows.write_sets(), _STRING_LIST)
    # Entries whose ids are congruent modulo the ensemble size have the same write set.
    size = len(write_sets) // len(rows.ensembles())
    return write_sets.take(pa.array(rows.segments() * size + rows.entry_ids() % size))


_MAKERS: dict[str, Callable[[SpanRows], pa.Array]] = {
    "topic": _constant(lambda rows: rows.span.lane.topic, pa.string()),
    "partition": _constant(lambda rows: rows.span.lane.partition, pa.int32()),
    "ledger": _constant(lambda rows: rows.span.ledger.ledger_id, pa.int64()),
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
    "publish_time": lambda rows: _times(rows.publish_times_ms()),
    "event_time": _event_times,
    "producer": lambda rows: _string_array([each.producer_name for each in rows.metadata]).take(
        pa.array(rows.entry_of_row())
    ),
    "sequence_id": lambda rows: pa.array(signed([head.sequence_id for head in rows.heads])),
    "key": lambda rows: _string_array([head.partition_key or None for head in rows.heads]),
    "properties": _properties,
    "payload": lambda rows: pa.array(rows.payloads, pa.binary()),
    "value": _values,
    "uuid": _chunk_field("uuid", pa.string()),
    "chunk_id": _chunk_field("chunk_id", pa.int32()),
    "chunks": _chunk_field("num_chunks_from_msg", pa.int32()),
}
