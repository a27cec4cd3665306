"""Tests that batch sizes, rates and latencies agree with an independent computation."""

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame

from labkit.views.spark import publishing
from tests.views.spark import streams_by_hand as by_hand
from tests.views.spark.tables import rows


def test_batch_size_is_the_greatest_batch_index_plus_one(
    messages: DataFrame, pandas_messages: pd.DataFrame
) -> None:
    assert rows(publishing.batch_sizes(messages)) == by_hand.batch_sizes(pandas_messages)


def test_publish_rate_counts_each_message_in_one_bucket(
    messages: DataFrame, pandas_messages: pd.DataFrame
) -> None:
    assert rows(publishing.publish_rate(messages, 50)) == by_hand.publish_rate(pandas_messages, 50)


def test_distribution_of_batch_sizes_has_all_entries_and_all_messages(
    messages: DataFrame, pandas_messages: pd.DataFrame
) -> None:
    expected = by_hand.batch_size_distribution(pandas_messages)
    told = publishing.batch_size_distribution(messages).collect()
    assert {(row.topic, row.batch_size): row.entries for row in told} == {
        where: entries for where, (entries, _) in expected.items()
    }
    for row in told:
        assert row.share == pytest.approx(expected[row.topic, row.batch_size][1])


def test_latency_is_counted_up_to_the_first_arrival(
    messages: DataFrame, pandas_messages: pd.DataFrame
) -> None:
    expected = by_hand.first_latencies(pandas_messages)
    told = {row.topic: row for row in publishing.visible_latency(messages).collect()}
    assert told.keys() == expected.keys()
    for topic, latencies in expected.items():
        assert told[topic].messages == len(latencies)
        assert told[topic].max_ms == max(latencies)
        assert told[topic].p50_ms == pytest.approx(np.quantile(latencies, 0.5))
        assert told[topic].p99_ms == pytest.approx(np.quantile(latencies, 0.99))


def test_distribution_of_latencies_counts_each_message_in_one_bucket(
    messages: DataFrame, pandas_messages: pd.DataFrame
) -> None:
    expected = {
        (topic, bucket, count)
        for topic, latencies in by_hand.first_latencies(pandas_messages).items()
        for bucket, count in zip(
            *np.unique(np.array(latencies) // 7 * 7, return_counts=True), strict=True
        )
    }
    assert rows(publishing.latency_distribution(messages, 7)) == expected
