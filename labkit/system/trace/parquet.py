"""Reads and writes a log as a Parquet file, for Spark.

No other module of this package imports pyarrow, which Python in a browser does not have.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from labkit.system.trace.events import DEFAULTS, Event

_NAMES = pa.list_(pa.string())
_TYPES = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    tuple: _NAMES,
}
_SEGMENTS = pa.list_(pa.struct([("first_entry", pa.int64()), ("ensemble", _NAMES)]))

SCHEMA = pa.schema(
    (name, _SEGMENTS if name == "segments" else _TYPES[type(default)])
    for name, default in DEFAULTS.items()
)
"""One row per event, with `Event`'s columns."""


def to_table(events: Sequence[Event]) -> pa.Table:
    columns: dict[str, list[Any]] = {
        name: [getattr(event, name) for event in events] for name in Event._fields
    }
    columns["segments"] = [
        [{"first_entry": first, "ensemble": ensemble} for first, ensemble in segments]
        for segments in columns["segments"]
    ]
    return pa.table(columns, schema=SCHEMA)


def write_parquet(events: Sequence[Event], path: Path) -> None:
    pq.write_table(to_table(events), path, compression="zstd")


def read_parquet(path: Path) -> list[Event]:
    """Read a file that `write_parquet` has written."""
    return [_event(row) for row in pq.read_table(path, schema=SCHEMA).to_pylist()]


def _event(row: dict[str, Any]) -> Event:
    segments = ((each["first_entry"], tuple(each["ensemble"])) for each in row["segments"])
    names = {name: tuple(row[name]) for name in ("ensemble", "bookies")}
    return Event(**{**row, **names, "segments": tuple(segments)})
