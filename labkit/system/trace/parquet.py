"""A log as a Parquet file, for Spark.  No other module of this package needs pyarrow: the pictures
are drawn in a browser's Python too, where there is none.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from labkit.system.trace.events import Event
from labkit.system.trace.export import COLUMNS, TEXT, from_columns, to_columns

SCHEMA = pa.schema([(name, pa.string() if name in TEXT else pa.int64()) for name in COLUMNS])
"""One row per event; the columns are `Event`'s fields."""


def write_parquet(events: Sequence[Event], path: Path) -> None:
    """Write the events as one Parquet file (zstd)."""
    pq.write_table(pa.table(to_columns(events), schema=SCHEMA), path, compression="zstd")


def read_parquet(path: Path) -> list[Event]:
    """The events that `write_parquet` wrote."""
    return from_columns(pq.read_table(path, schema=SCHEMA).to_pydict())
