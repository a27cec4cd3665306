"""Reads the events of a Parquet file that `labkit.system.trace.parquet` has written."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from labkit.system.trace.events import COLUMN_TYPES, Event, Names, Segments


def read_parquet(path: Path) -> list[Event]:
    rows = pq.read_table(path).to_pylist()
    return [Event(**{name: _value(name, row[name]) for name in row}) for row in rows]


def _value(name: str, value: Any) -> Any:
    if COLUMN_TYPES[name] == Segments:
        return tuple((each["first_entry"], tuple(each["ensemble"])) for each in value)
    return tuple(value) if COLUMN_TYPES[name] == Names else value
