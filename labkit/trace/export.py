"""A log as columns: what a browser plays and what Parquet and Spark read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from labkit.trace.events import Event

COLUMNS = Event._fields
_TEXT = {"node", "kind", "peer", "file", "note"}

SCHEMA = pa.schema([(name, pa.string() if name in _TEXT else pa.int64()) for name in COLUMNS])
"""One row per event; the columns are `Event`'s fields."""


def to_columns(events: Sequence[Event]) -> dict[str, list[Any]]:
    """One list per field of `Event`, all of the same length."""
    return {name: [getattr(event, name) for event in events] for name in COLUMNS}


def from_columns(columns: dict[str, list[Any]]) -> list[Event]:
    """The inverse of `to_columns`."""
    return [Event(*values) for values in zip(*(columns[name] for name in COLUMNS), strict=True)]


def write_parquet(events: Sequence[Event], path: Path) -> None:
    """Write the events as one Parquet file (zstd)."""
    pq.write_table(pa.table(to_columns(events), schema=SCHEMA), path, compression="zstd")


def read_parquet(path: Path) -> list[Event]:
    """The events that `write_parquet` wrote."""
    return from_columns(pq.read_table(path, schema=SCHEMA).to_pydict())
