import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.trace.events import KINDS, Event
from labkit.system.trace.export import from_columns, to_columns

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


def test_columns_of_unequal_length_are_refused() -> None:
    columns = to_columns(EVENTS)
    columns["note"].pop()
    with pytest.raises(ValueError, match="shorter"):
        from_columns(columns)
