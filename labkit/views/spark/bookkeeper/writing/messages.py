"""Converts the rows of a write query to messages."""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from labkit.views.spark.bookkeeper.writing.write_options import WriteError


class Message(NamedTuple):
    value: bytes | None
    key: str | None
    event_time_ms: int | None
    properties: dict[str, str] | None
    topic: str

    @property
    def size(self) -> int:
        properties = sum(map(len, chain.from_iterable((self.properties or {}).items())))
        return len(self.value or b"") + len(self.key or "") + properties


def messages_of(batch: pa.RecordBatch, topic: str) -> Iterator[Message]:
    """Yield one message per row; `topic` is "" if each row names its topic. Raises `WriteError` if
    a row has an invalid value.
    """

    def column(name: str) -> list[object]:
        found = batch.schema.get_field_index(name)
        return [None] * batch.num_rows if found < 0 else _converted(name, batch.column(found))

    topics = [topic] * batch.num_rows if topic else column("topic")
    columns = (*map(column, ("value", "key", "event_time", "properties")), topics)
    for row in zip(*columns, strict=True):
        message = Message(*row)
        if message.topic is None:
            raise WriteError("column 'topic' is null in a row; each row needs a topic")
        if message.event_time_ms is not None and message.event_time_ms < 0:
            raise WriteError("column 'event_time' contains a time before 1970")
        if message.properties and None in message.properties.values():
            raise WriteError(f"column 'properties' contains null: {message.properties}")
        yield message


def _converted(name: str, column: pa.Array) -> list[object]:
    if name == "value":
        column = column.cast(pa.binary())
    if name == "event_time" and pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    values: list[object] = column.to_pylist(
        maps_as_pydicts="strict" if name == "properties" else None
    )
    return values
