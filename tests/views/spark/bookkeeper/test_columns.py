"""Tests that a user-defined schema selects columns without changing the values."""

import pytest
from pyspark.sql.types import StructField, StructType, TimestampType

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
