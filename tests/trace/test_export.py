from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.trace.events import KINDS, Event
from labkit.trace.export import (
    COLUMNS,
    SCHEMA,
    from_columns,
    read_parquet,
    to_columns,
    write_parquet,
)

I64 = st.integers(-(2**63), 2**63 - 1)
EVENTS = [
    Event(0, 10, "writer", "add.sent", -1, 5, 0, "bookie-1", "", -1, 41, "größer"),
    Event(1, 2**62, "bookie-1", "journal.synced", 0, 2**40, 1, "", "1a.txn", 512, 1, ""),
]


@given(
    st.lists(
        st.builds(
            Event,
            *(I64, I64, st.text(), st.sampled_from(sorted(KINDS)), I64, I64, I64),
            *(st.text(), st.text(), I64, I64, st.text()),
        )
    )
)
def test_columns_give_the_events_back(events: list[Event]) -> None:
    columns = to_columns(events)
    assert {len(column) for column in columns.values()} == {len(events)}
    assert from_columns(columns) == events


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


def test_columns_of_unequal_length_are_refused() -> None:
    columns = to_columns(EVENTS)
    columns["note"].pop()
    with pytest.raises(ValueError, match="shorter"):
        from_columns(columns)
