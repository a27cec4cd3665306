"""Tests that Spark and an independent computation find the same results in the same streams."""

from collections import Counter

import pandas as pd
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from labkit.system.model.message_id import MessageId
from labkit.views.spark import ledgers, streams
from tests.views.spark import streams_by_hand as by_hand
from tests.views.spark.tables import frame_of_ids, rows


def test_planted_faults_are_all_that_is_found(
    messages: DataFrame, faults: tuple[int, int, int]
) -> None:
    swaps, redeliveries, lost_entries = faults
    found = streams.stream_report(messages).groupBy().sum().collect()[0].asDict()
    assert found["sum(order_violations)"] == swaps + redeliveries
    assert found["sum(duplicates)"] == redeliveries
    assert found["sum(missing_entries)"] == lost_entries
    assert found["sum(messages)"] == messages.count()


def test_order_violation_is_an_id_below_the_one_before(
    messages: DataFrame, pandas_messages: pd.DataFrame
) -> None:
    assert rows(streams.order_violations(messages)) == by_hand.order_violations(pandas_messages)


def test_duplicate_is_an_id_that_arrived_twice(
    messages: DataFrame, pandas_messages: pd.DataFrame
) -> None:
    assert rows(streams.duplicates(messages)) == by_hand.duplicates(pandas_messages)


def test_entry_ids_of_a_ledger_have_no_hole_but_the_missing_entries(
    messages: DataFrame, pandas_messages: pd.DataFrame
) -> None:
    runs = rows(streams.missing_entries(messages))
    assert all(missing == last - first + 1 for *_, first, last, missing in runs)
    single = {
        (topic, partition, ledger, entry)
        for topic, partition, ledger, first, last, _ in runs
        for entry in range(first, last + 1)
    }
    assert single == by_hand.missing_entry_ids(pandas_messages)


def test_report_counts_what_the_single_jobs_find(messages: DataFrame) -> None:
    report = streams.stream_report(messages).groupBy().sum().collect()[0].asDict()
    assert report["sum(order_violations)"] == streams.order_violations(messages).count()
    assert report["sum(rollovers)"] == ledgers.rollovers(messages).count()
    missing = streams.missing_entries(messages).collect()
    assert report["sum(missing_entries)"] == sum(run.missing for run in missing)


def test_stream_may_be_read_from_the_middle_of_a_ledger(spark: SparkSession) -> None:
    frame = frame_of_ids(spark, (5, 3, 0, -1), (5, 4, 0, -1))
    assert rows(streams.missing_entries(frame)) == set()


def test_entries_missing_at_the_start_of_a_later_ledger_are_found(spark: SparkSession) -> None:
    frame = frame_of_ids(spark, (5, 0, 0, -1), (9, 2, 0, -1))
    assert rows(streams.missing_entries(frame)) == {("t", 0, 9, 0, 1, 2)}


def test_report_counts_the_entries_by_batch_size(
    messages: DataFrame, pandas_messages: pd.DataFrame
) -> None:
    told = {
        (r.topic, r.partition): r.batch_sizes for r in streams.stream_report(messages).collect()
    }
    expected: dict[tuple[str, int], Counter[int]] = {}
    for topic, partition, _ledger, _entry, size, *_ in by_hand.batch_sizes(pandas_messages):
        expected.setdefault((topic, partition), Counter())[size] += 1
    assert told == expected


def test_report_counts_what_a_large_batch_lost_and_got_twice(spark: SparkSession) -> None:
    arrived = [*range(70), 100, 64, 63, *range(70, 200)]
    ids = [(5, 0, 0, slot) for slot in arrived] + [(5, 2, 0, 4094), (5, 2, 0, -1), (5, 2, 0, -1)]
    (row,) = streams.stream_report(frame_of_ids(spark, *ids)).collect()
    assert (row.messages, row.order_violations, row.duplicates) == (206, 3, 4)
    assert (row.missing_entries, row.batch_sizes) == (1, {200: 1, 4095: 1})


@pytest.mark.parametrize(
    "text", ["0:0:-1:-1", "5:17:2:99", "9000000000:1:0:-1", "12:3:-1:0", "1048576:0:3:4095"]
)
def test_id_is_parsed_as_the_model_does(spark: SparkSession, text: str) -> None:
    frame = spark.createDataFrame([(text,)], "message_id string")
    (parsed,) = streams.parse_message_ids(frame).collect()
    numbers = (parsed.ledger, parsed.entry, parsed.partition, parsed.batch_index)
    assert MessageId(*numbers) == MessageId.parse(text)


@pytest.mark.parametrize("text", ["", "5", "5:1:0", "5:1:0:0:0", "5:x:0:0", "(5,1,0,0)", "5::0:0"])
def test_text_other_than_an_id_is_parsed_to_nulls(spark: SparkSession, text: str) -> None:
    frame = spark.createDataFrame([(text,)], "message_id string")
    (parsed,) = streams.parse_message_ids(frame).collect()
    assert tuple(parsed) == (text, None, None, None, None)


@pytest.mark.parametrize(
    ("smaller", "greater"),
    [
        ((5, 0, 0, -1), (5, 1, 0, -1)),
        ((5, 2**28 - 1, 0, 4094), (6, 0, 0, -1)),
        ((5, 1, 0, 4094), (5, 2, 0, -1)),
        ((2**23 - 2, 0, 0, 0), (2**23 - 1, 0, 0, -1)),
    ],
)
def test_positions_compare_as_ids_do(
    spark: SparkSession, smaller: tuple[int, int, int, int], greater: tuple[int, int, int, int]
) -> None:
    assert MessageId(*smaller) < MessageId(*greater)
    low, high = streams.with_position(frame_of_ids(spark, smaller, greater)).collect()
    assert 0 <= low.position < high.position


@pytest.mark.parametrize(
    "unfit", [(2**23, 0, 0, 0), (5, 2**28, 0, 0), (5, 0, 0, 4095), (5, 0, 0, -2), (5, None, 0, 0)]
)
def test_id_that_does_not_fit_into_a_position_is_named(
    spark: SparkSession, unfit: tuple[int | None, ...]
) -> None:
    text = ":".join("null" if number is None else str(number) for number in unfit)
    with pytest.raises(SparkRuntimeException, match=f"MessageID {text} does not fit"):
        streams.with_position(frame_of_ids(spark, unfit)).collect()
