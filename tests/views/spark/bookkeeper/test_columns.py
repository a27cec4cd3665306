"""Tests that a user-defined schema selects columns without changing the values."""

import pytest
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from labkit.views.spark.bookkeeper.options import OptionError
from labkit.views.spark.bookkeeper.source import BookKeeperSource

TOPIC = BookKeeperSource({"zookeeper": "h:1", "topic": "t"})


def test_a_schema_without_columns_is_refused() -> None:
    with pytest.raises(OptionError, match="schema is empty; valid columns: topic, partition"):
        TOPIC.reader(StructType([]))


def test_a_column_that_may_be_null_is_not_declared_as_never_null() -> None:
    event_time = StructField("event_time", TimestampType(), nullable=False)
    with pytest.raises(OptionError, match="column 'event_time' can be null"):
        TOPIC.reader(StructType([event_time]))


def test_a_column_that_is_never_null_may_be_declared_so() -> None:
    TOPIC.reader(StructType().add("ledger", "long", nullable=False))


def test_the_columns_about_storage_and_chunks_can_be_left_out() -> None:
    given = {"zookeeper": "h:1", "topic": "t", "storageColumns": "false", "decodeValues": "true"}
    schema = BookKeeperSource(given).schema()
    assert schema == (
        "`topic` string, `partition` int, `ledger` bigint, `entry` bigint, `batch_index` int,"
        " `batch_size` int, `publish_time` timestamp_ltz, `event_time` timestamp_ltz, `producer`"
        " string, `sequence_id` bigint, `key` string, `properties` map<string,string>, `payload`"
        " binary, `value` string"
    )
    del given["decodeValues"], given["topic"]
    entries = BookKeeperSource({**given, "ledgers": "3"})
    assert entries.schema() == "`ledger` bigint, `entry` bigint, `payload` binary"
    with pytest.raises(OptionError, match="unknown column 'length'; valid columns: ledger, entry"):
        entries.reader(StructType([StructField("length", LongType())]))
