from pathlib import Path

import pyarrow.parquet as pq
import pytest

from labkit.system.trace.events import Event
from labkit.system.trace.export import COLUMNS
from labkit.system.trace.parquet import SCHEMA, read_parquet, write_parquet

EVENTS = [
    Event(0, 10, "writer", "add.sent", -1, 5, 0, "bookie-1", "", -1, 41, "größer"),
    Event(1, 2**62, "bookie-1", "journal.synced", 0, 2**40, 1, "", "1a.txn", 512, 1, ""),
]


@pytest.mark.parametrize("events", [[], EVENTS], ids=["none", "some"])
def test_parquet_gives_the_events_back(tmp_path: Path, events: list[Event]) -> None:
    write_parquet(events, tmp_path / "log.parquet")
    assert read_parquet(tmp_path / "log.parquet") == events


def test_parquet_has_a_column_of_the_fields_type_for_each_field(tmp_path: Path) -> None:
    write_parquet([], tmp_path / "log.parquet")
    stored = pq.read_schema(tmp_path / "log.parquet")
    assert stored.equals(SCHEMA)
    types = {"str": "string", "int": "int64", str: "string", int: "int64"}
    assert [(f.name, str(f.type)) for f in stored] == [
        (name, types[kind]) for name, kind in Event.__annotations__.items()
    ]
    assert tuple(stored.names) == COLUMNS
