"""Writes a log as a Parquet file, for Spark.

No other module of this package imports pyarrow, because it is not available for Python in the
browser.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from labkit.system.trace.events import COLUMN_TYPES, Event, Names, Segments

_NAMES = pa.list_(pa.string())
_ARROW_TYPES = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    Names: _NAMES,
    Segments: pa.list_(pa.struct([("first_entry", pa.int64()), ("ensemble", _NAMES)])),
}

SCHEMA = pa.schema((name, _ARROW_TYPES[kind]) for name, kind in COLUMN_TYPES.items())
"""One row per event, with `Event`'s columns."""


def to_table(events: Sequence[Event]) -> pa.Table:
    columns = {
        name: [_to_arrow(getattr(event, name), kind) for event in events]
        for name, kind in COLUMN_TYPES.items()
    }
    return pa.table(columns, schema=SCHEMA)


def write_parquet(events: Sequence[Event], path: Path) -> None:
    pq.write_table(to_table(events), path, compression="zstd")


def _to_arrow(value: Any, kind: Any) -> Any:
    if kind == Segments:
        return [{"first_entry": first, "ensemble": ensemble} for first, ensemble in value]
    return value
