from datetime import UTC, datetime

import pyarrow as pa
import pytest

from labkit.views.spark.bookkeeper.writing.messages import Message, messages_of
from labkit.views.spark.bookkeeper.writing.write_options import WriteError

TIME = datetime(2026, 5, 1, 12, 0, 0, 19_999, UTC)


@pytest.mark.parametrize("value", ["text", b"text"])
@pytest.mark.parametrize("time", [TIME, 1_777_636_800_019])
def test_rows_become_messages(value: str | bytes, time: datetime | int) -> None:
    table = {
        "properties": pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string())),
        "event_time": pa.array([time, None]),
        "key": pa.array(["k", None]),
        "value": pa.array([value, None]),
    }
    assert list(messages_of(pa.RecordBatch.from_pydict(table), "t")) == [
        Message(b"text", "k", 1_777_636_800_019, {"a": "b"}, "t"),
        Message(None, None, None, None, "t"),
    ]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"topic": pa.array([None], pa.string())}, "column 'topic' is null"),
        ({"event_time": pa.array([-1])}, "a time before 1970"),
        (
            {"properties": pa.array([[("a", None)]], pa.map_(pa.string(), pa.string()))},
            "column 'properties' contains null",
        ),
    ],
)
def test_a_row_that_is_no_message_is_an_error(column: dict[str, pa.Array], message: str) -> None:
    table = {"value": pa.array(["v"]), "topic": pa.array(["t"]), **column}
    with pytest.raises(WriteError, match=message):
        list(messages_of(pa.RecordBatch.from_pydict(table), ""))
