"""Tests that queries on ledgers and their metadata agree with an independent computation."""

from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from labkit.views.spark import flights, ledgers, streams
from tests.views.spark import streams_by_hand as by_hand
from tests.views.spark.streams_by_hand import Limits
from tests.views.spark.tables import frame_of_ids, rows

LIMITS: Limits = {
    "flights-paced": (None, None, 4_000),
    "flights-single": (1_000, None, None),
    "flights-batched": (50, 2**20, None),
}
LIMIT_COLUMNS = "topic string, max_entries long, max_size_bytes long, max_age_ms long"
LEDGER_COLUMNS = (
    "topic string, partition int, ledger long, entry_count long, size_bytes long, closed_at_ms long"
)


def test_rollover_leads_from_each_ledger_of_a_stream_to_its_next(
    messages: DataFrame, pandas_messages: pd.DataFrame
) -> None:
    assert rows(ledgers.rollovers(messages)) == by_hand.rollovers(pandas_messages)


def test_messages_per_ledger_add_up(messages: DataFrame, pandas_messages: pd.DataFrame) -> None:
    assert rows(ledgers.messages_per_ledger(messages)) == by_hand.messages_per_ledger(
        pandas_messages
    )


def test_ledger_belongs_to_one_stream(messages: DataFrame) -> None:
    assert rows(ledgers.shared_ledgers(messages)) == set()


def test_ledger_of_two_streams_is_found(spark: SparkSession) -> None:
    stolen = [("t", 0, 7), ("t", 1, 7), ("t", 1, 8)]
    frame = spark.createDataFrame(stolen, "topic string, partition int, ledger long")
    (found,) = ledgers.shared_ledgers(frame).collect()
    assert (found.ledger, found.streams) == (7, ["t-partition-0", "t-partition-1"])


def test_only_the_metadata_tells_that_the_end_of_a_ledger_is_missing(spark: SparkSession) -> None:
    frame = frame_of_ids(spark, (5, 0, 0, 0), (5, 0, 0, 1), (6, 0, 0, -1))
    columns = "topic string, partition int, ledger long, entry_count long"
    closed = spark.createDataFrame([("t", 0, 5, 4), ("t", 0, 6, 1), ("t", 0, 9, 2)], columns)
    assert rows(streams.missing_entries(frame)) == set()
    assert rows(ledgers.missing_ends(frame, closed)) == {
        ("t", 0, 5, 1, 3, 3),
        ("t", 0, 9, 0, 1, 2),
    }


@pytest.fixture(scope="module")
def recorded(spark: SparkSession) -> dict[str, DataFrame]:
    samples = {"messages": flights.SAMPLE, "ledgers": flights.SAMPLE_LEDGERS}
    return {name: spark.createDataFrame(pq.read_table(path)) for name, path in samples.items()}


def reasons(recorded: dict[str, DataFrame], limits: Limits) -> set[tuple[Any, ...]]:
    spark = recorded["messages"].sparkSession
    table = spark.createDataFrame([(t, *most) for t, most in limits.items()], LIMIT_COLUMNS)
    return rows(ledgers.rollover_reasons(recorded["messages"], recorded["ledgers"], table))


@pytest.mark.parametrize(
    "limits",
    [
        LIMITS,
        {**LIMITS, "flights-batched": (50, 100, 1)},
        {**LIMITS, "flights-single": (1_001, None, None)},
        {"flights-single": (1_000, None, None)},
    ],
    ids=["as recorded", "several at once", "none reached", "unknown"],
)
def test_reason_of_a_rollover_is_the_limit_that_was_reached(
    recorded: dict[str, DataFrame], limits: Limits
) -> None:
    messages, chains = (frame.toPandas() for frame in recorded.values())
    assert reasons(recorded, limits) == by_hand.rollover_reasons(messages, chains, limits)


def test_every_recorded_rollover_has_the_reason_that_its_topic_was_given(
    recorded: dict[str, DataFrame],
) -> None:
    expected = {"flights-paced": "age", "flights-single": "entries", "flights-batched": "entries"}
    limits = {**LIMITS, "flights-batched": (50, None, None)}
    assert {(row[0], row[-1]) for row in reasons(recorded, limits)} == set(expected.items())


def test_ledger_that_was_left_before_its_time_is_reported(spark: SparkSession) -> None:
    ids = frame_of_ids(spark, (5, 0, 0, -1), (6, 0, 0, -1))
    messages = ids.selectExpr("*", "0L as publish_time_ms")
    chain = [("t", 0, 5, 7, 700, 20), ("t", 0, 6, 10, 1000, 40), ("t", 0, 8, 1, 100, 60)]
    closed = spark.createDataFrame(chain, LEDGER_COLUMNS)
    limits = spark.createDataFrame([("t", 10, None, None)], LIMIT_COLUMNS)
    told = ledgers.rollover_reasons(messages, closed, limits)
    assert [row.reason for row in told.orderBy("ledger").collect()] == [
        "neither full nor old",
        "entries",
    ]


def test_copies_of_a_bookie_are_those_of_the_write_sets(spark: SparkSession) -> None:
    segments = pq.read_table(flights.SAMPLE_SEGMENTS)
    counted = ledgers.copies_per_bookie(spark.createDataFrame(segments)).collect()
    by_metadata = by_hand.copies_per_bookie(segments.to_pandas())
    assert {row.bookie: row.copies for row in counted} == by_metadata
    mean = sum(by_metadata.values()) / len(by_metadata)
    for row in counted:
        assert row.of_fair_share == pytest.approx(by_metadata[row.bookie] / mean)


@pytest.mark.parametrize(
    ("first", "last", "quorum", "size"),
    [(0, 0, 1, 3), (0, 9, 2, 3), (4, 4, 2, 5), (3, 17, 3, 3), (11, 40, 2, 7), (1, 2, 1, 1)],
)
def test_copies_are_counted_by_division_as_one_by_one(
    spark: SparkSession, first: int, last: int, quorum: int, size: int
) -> None:
    ensemble = [f"b{i}" for i in range(size)]
    row = {"ledger": 1, "first_entry": first, "last_entry": last, "write_quorum": quorum}
    columns = {name: [value] for name, value in row.items()}
    types = [("ensemble", pa.list_(pa.string()))]
    table = pa.table(columns).append_column(types[0][0], pa.array([ensemble], types[0][1]))
    counted = ledgers.copies_per_bookie(spark.createDataFrame(table)).collect()
    expected = by_hand.copies_per_bookie(pd.DataFrame([{**row, "ensemble": ensemble}]))
    assert {row.bookie: row.copies for row in counted if row.copies} == expected
