import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.message_id import MessageId
from labkit.views.spark.bookkeeper.options import MIB
from labkit.views.spark.bookkeeper.spans import (
    EARLIEST,
    LATEST,
    OPEN_COST,
    WHOLE,
    EntrySpan,
    Lane,
    LedgerSnapshot,
    ReadPosition,
    ending_with,
    span_between,
    starting_after,
    starting_at,
    tasks,
)

LANE = Lane("t", 0)


def ledger(ledger_id: int, entries: int, entry_size: int = 100) -> LedgerSnapshot:
    return LedgerSnapshot(ledger_id, entries - 1, entries * entry_size)


def ends(spans: tuple[EntrySpan, ...] | list[EntrySpan]) -> list[tuple[int, int, int]]:
    return [(span.ledger.ledger_id, span.first, span.last) for span in spans]


def test_between_earliest_and_latest_lies_the_whole_ledger() -> None:
    assert span_between(ledger(7, 10), LANE, EARLIEST, LATEST) == EntrySpan(
        ledger(7, 10), LANE, 0, 9
    )


def test_an_empty_ledger_has_no_span() -> None:
    assert span_between(ledger(7, 0), LANE, EARLIEST, LATEST) is None


def test_both_ends_are_included_to_the_message() -> None:
    start = starting_at(MessageId(7, 2, 0, 3))
    end = ending_with(MessageId(7, 5, 0, 1))
    assert span_between(ledger(7, 10), LANE, start, end) == EntrySpan(
        ledger(7, 10), LANE, 2, 5, 3, 2
    )


def test_a_whole_entry_is_named_by_batch_index_minus_one() -> None:
    assert starting_at(MessageId(7, 2, 0)) == ReadPosition(7, 2, 0)
    assert ending_with(MessageId(7, 2, 0)) == ReadPosition(7, 2, WHOLE)
    assert starting_after(MessageId(7, 2, 0)) == ReadPosition(7, 3, 0)
    assert starting_after(MessageId(7, 2, 0, 4)) == ReadPosition(7, 2, 5)


def test_ledgers_outside_of_the_bounds_have_no_span() -> None:
    start, end = starting_at(MessageId(5, 3, 0)), ending_with(MessageId(6, 0, 0))
    assert [span_between(ledger(each, 4), LANE, start, end) is None for each in (4, 5, 6, 7)] == [
        True,
        False,
        False,
        True,
    ]


def test_nothing_lies_behind_the_last_entry() -> None:
    behind = starting_after(MessageId(7, 9, 0))
    assert span_between(ledger(7, 10), LANE, behind, LATEST) is None


def test_a_large_ledger_is_read_by_several_tasks() -> None:
    span = EntrySpan(ledger(7, 10, entry_size=100), LANE, 0, 9)
    assert [ends(task) for task in tasks([span], 300)] == [
        [(7, 0, 1)],
        [(7, 2, 4)],
        [(7, 5, 6)],
        [(7, 7, 9)],
    ]


def test_small_ledgers_of_a_partition_are_read_by_one_task() -> None:
    spans = [EntrySpan(ledger(each, 2), LANE, 0, 1) for each in (1, 2, 3)]
    assert [ends(task) for task in tasks(spans, MIB)] == [[(1, 0, 1), (2, 0, 1)], [(3, 0, 1)]]


def test_many_small_ledgers_are_shared_out_however_small_they_are() -> None:
    spans = [EntrySpan(ledger(each, 1, entry_size=1), LANE, 0, 0) for each in range(10_000)]
    sizes = [len(task) for task in tasks(spans, 32 * MIB)]
    assert sum(sizes) == 10_000
    assert set(sizes[:-1]) == {-(-4 * MIB // OPEN_COST)}


def test_planning_looks_at_each_piece_only_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def counted(span: EntrySpan) -> int:
        nonlocal looks
        looks += 1
        return 1

    monkeypatch.setattr(EntrySpan, "size_bytes", property(counted))
    spans = [EntrySpan(ledger(each, 1, entry_size=1), LANE, 0, 0) for each in range(2000)]
    tasks(spans, 32 * MIB)
    assert looks <= 3 * len(spans)


def test_more_tasks_than_splits_can_be_asked_for() -> None:
    spans = [EntrySpan(ledger(each, 100), LANE, 0, 99) for each in range(3)]
    assert [ends(task) for task in tasks(spans, MIB)] == [[(0, 0, 99), (1, 0, 99)], [(2, 0, 99)]]
    for count in (2, 3, 7, 300):
        found = tasks(spans, MIB, count)
        assert len(found) >= count
        assert sum(span.last - span.first + 1 for task in found for span in task) == 300
    assert len(tasks(spans, MIB, 1000)) == 300


def test_partitions_never_meet_in_one_task() -> None:
    spans = [EntrySpan(ledger(each, 2), Lane("t", each), 0, 1) for each in (1, 2)]
    assert [ends(task) for task in tasks(spans, MIB)] == [[(1, 0, 1)], [(2, 0, 1)]]


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 2000)), max_size=6),
    st.integers(1, 5000),
)
def test_tasks_read_every_entry_once_and_in_order(
    ledgers: list[tuple[int, int]], split_bytes: int
) -> None:
    spans = [
        EntrySpan(ledger(number, entries, entry_size=size), Lane("t", number % 2), 0, entries - 1)
        for number, (entries, size) in enumerate(ledgers)
    ]
    read = [
        (span.ledger.ledger_id, entry_id)
        for task in tasks(spans, split_bytes)
        for span in task
        for entry_id in range(span.first, span.last + 1)
    ]
    assert read == [
        (number, entry_id)
        for number, (entries, _) in enumerate(ledgers)
        for entry_id in range(entries)
    ]
