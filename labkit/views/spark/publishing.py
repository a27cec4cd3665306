"""Spark jobs that analyse batches and timing: batch sizes, publish rates, and latencies.

`publish_time_ms` is when an entry was published according to the producer's clock;
`receive_time_ms` is when it arrived according to the consumer's clock. In these recordings, both
ran on the same machine, so the difference between the two times is meaningful.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from labkit.views.spark.streams import STREAM


def batch_sizes(messages: DataFrame) -> DataFrame:
    """Return each entry's `batch_size` (its highest batch index plus one), and `arrived`.

    An entry that is not a batch has size 1. `arrived` is the number of distinct messages that
    arrived; if it is less than `batch_size`, messages of the batch are missing.
    """
    return messages.groupBy(*STREAM, "ledger", "entry").agg(
        _batch_size().alias("batch_size"),
        fn.count_distinct("batch_index").alias("arrived"),
        fn.min("seq").alias("first_seq"),
    )


def batch_size_distribution(messages: DataFrame) -> DataFrame:
    """Return the number of entries per topic and batch size, and their `share` of all messages."""
    sizes = messages.groupBy(*STREAM, "ledger", "entry").agg(_batch_size().alias("batch_size"))
    counted = sizes.groupBy("topic", "batch_size").agg(fn.count("*").alias("entries"))
    messages_of_size = fn.col("entries") * fn.col("batch_size")
    topic = Window.partitionBy("topic")
    return counted.withColumn("share", messages_of_size / fn.sum(messages_of_size).over(topic))


def _batch_size() -> Column:
    # An entry that is not a batch has batch index -1 and contains one message.
    return fn.greatest(fn.max("batch_index") + 1, fn.lit(1))


def publish_rate(messages: DataFrame, bucket_ms: int = 100) -> DataFrame:
    """Return the number of messages and payload bytes per topic and interval of `bucket_ms`,
    according to the producer's clock.
    """
    bucket = fn.floor(fn.col("publish_time_ms") / bucket_ms) * bucket_ms
    return messages.groupBy("topic", bucket.alias("bucket_start_ms")).agg(
        fn.count("*").alias("messages"),
        fn.sum("payload_size").alias("payload_bytes"),
    )


def visible_latency(messages: DataFrame) -> DataFrame:
    """Return the median, 99th percentile and maximum latency from publishing to arrival per topic.

    If a message arrived several times, only the first arrival counts.
    """
    return (
        _first_arrivals(messages)
        .groupBy("topic")
        .agg(
            fn.count("*").alias("messages"),
            fn.percentile("latency_ms", 0.5).alias("p50_ms"),
            fn.percentile("latency_ms", 0.99).alias("p99_ms"),
            fn.max("latency_ms").alias("max_ms"),
        )
    )


def latency_distribution(messages: DataFrame, bucket_ms: int = 2) -> DataFrame:
    """Return the number of messages per topic and latency (from publishing to the first arrival),
    in steps of `bucket_ms`.
    """
    bucket = fn.floor(fn.col("latency_ms") / bucket_ms) * bucket_ms
    return (
        _first_arrivals(messages)
        .groupBy("topic", bucket.alias("latency_ms"))
        .agg(fn.count("*").alias("messages"))
    )


def _first_arrivals(messages: DataFrame) -> DataFrame:
    latency = fn.col("receive_time_ms") - fn.col("publish_time_ms")
    return messages.groupBy(*STREAM, "ledger", "entry", "batch_index").agg(
        fn.min(latency).alias("latency_ms")
    )
