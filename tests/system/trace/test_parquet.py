from pathlib import Path

import pyarrow.parquet as pq
import pytest

from labkit.system.trace.events import DEFAULTS, Event
from labkit.system.trace.parquet import SCHEMA, write_parquet
from tests.parquet_events import read_parquet

EVENTS = [
    Event(0, 10, "writer", "node.failed", -1, explanation="größer"),
    Event(1, 2**62, "b0", "journal.synced", 0, 2**40, 1, "", "1a.txn", 512, 1),
    Event(2, 2**62, "w", "recovery.started", segments=((0, ("b0", "b1")), (7, ("b0", "b2")))),
    Event(3, 2**62, "w", "ensemble.set", ensemble=("b0", "b1"), seconds=1.5, deferred_sync=True),
]


@pytest.mark.parametrize("events", [[], EVENTS], ids=["none", "some"])
def test_parquet_gives_the_events_back(tmp_path: Path, events: list[Event]) -> None:
    write_parquet(events, tmp_path / "log.parquet")
    assert read_parquet(tmp_path / "log.parquet") == events


def test_parquet_has_a_column_of_the_fields_type_for_each_field(tmp_path: Path) -> None:
    write_parquet([], tmp_path / "log.parquet")
    stored = pq.read_schema(tmp_path / "log.parquet")
    assert stored.equals(SCHEMA)
    types = {str: "string", int: "int64", bool: "bool", float: "double"}
    assert [(f.name, str(f.type)) for f in stored if not f.name.endswith(("s", "ensemble"))] == [
        (name, types[type(default)])
        for name, default in DEFAULTS.items()
        if not name.endswith(("s", "ensemble"))
    ]
    assert str(stored.field("ensemble").type) == "list<element: string>"
    assert tuple(stored.names) == Event._fields
