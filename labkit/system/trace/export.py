"""A log as columns: what a browser plays, and the rows of `parquet`."""

from collections.abc import Sequence
from typing import Any

from labkit.system.trace.events import Event

COLUMNS = Event._fields
TEXT = frozenset({"node", "kind", "peer", "file", "note"})
"""The columns that hold text; the others hold integers."""


def to_columns(events: Sequence[Event]) -> dict[str, list[Any]]:
    """One list per field of `Event`, all of the same length."""
    return {name: [getattr(event, name) for event in events] for name in COLUMNS}


def from_columns(columns: dict[str, list[Any]]) -> list[Event]:
    """The inverse of `to_columns`."""
    return [Event(*values) for values in zip(*(columns[name] for name in COLUMNS), strict=True)]
