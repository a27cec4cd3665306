"""Small tables for the jobs, and their answers as sets."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession


def rows(frame: DataFrame) -> set[tuple[Any, ...]]:
    """A job's answer, which must not say anything twice."""
    collected = [tuple(row) for row in frame.collect()]
    assert len(set(collected)) == len(collected)
    return set(collected)


def frame_of_ids(spark: SparkSession, *ids: tuple[int | None, ...]) -> DataFrame:
    """Messages of the topic `t` with these ids (ledger, entry, partition, batch index)."""
    numbered = [("t", seq, *numbers) for seq, numbers in enumerate(ids)]
    columns = "topic string, seq int, ledger long, entry long, partition int, batch_index int"
    return spark.createDataFrame(numbered, columns)
