"""Creates small tables for the jobs, and collects their results as sets."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession


def rows(frame: DataFrame) -> set[tuple[Any, ...]]:
    """Return the rows of a job's result, which must not contain duplicates."""
    collected = [tuple(row) for row in frame.collect()]
    assert len(set(collected)) == len(collected)
    return set(collected)


def frame_of_ids(spark: SparkSession, *ids: tuple[int | None, ...]) -> DataFrame:
    """Return messages of topic `t` with these ids (ledger, entry, partition, batch index)."""
    numbered = [("t", seq, *numbers) for seq, numbers in enumerate(ids)]
    columns = "topic string, seq int, ledger long, entry long, partition int, batch_index int"
    return spark.createDataFrame(numbered, columns)
