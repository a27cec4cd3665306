"""What a producer did, and when its messages could be read: jobs over batches and times.

`publish_time_ms` is when an entry was made, by the producer's clock, `receive_time_ms` when the
consumer had it, by its own; both are of one machine here, and their difference means something.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from labkit.spark.streams import STREAM


def batch_sizes(messages: DataFrame) -> DataFrame:
    """One row per entry: `batch_size`, what its greatest batch index tells, and `arrived`.

    An entry that is not a batch has size 1. `arrived` counts a message once however often it came;
    fewer than `batch_size` means that messages inside the batch are missing.
    """
    return messages.groupBy(*STREAM, "ledger", "entry").agg(
        _batch_size().alias("batch_size"),
        fn.count_distinct("batch_index").alias("arrived"),
        fn.min("seq").alias("first_seq"),
    )


def batch_size_distribution(messages: DataFrame) -> DataFrame:
    """One row per topic and batch size: its entries, and `share`, the part of the topic's messages
    that came in entries of this size.
    """
    sizes = messages.groupBy(*STREAM, "ledger", "entry").agg(_batch_size().alias("batch_size"))
    counted = sizes.groupBy("topic", "batch_size").agg(fn.count("*").alias("entries"))
    in_them = fn.col("entries") * fn.col("batch_size")
    topic = Window.partitionBy("topic")
    return counted.withColumn("share", in_them / fn.sum(in_them).over(topic))


def _batch_size() -> Column:
    """Of an entry; one that is not a batch has a message, too."""
    return fn.greatest(fn.max("batch_index") + 1, fn.lit(1))


def publish_rate(messages: DataFrame, bucket_ms: int = 100) -> DataFrame:
    """Messages and payload bytes per topic and bucket of `bucket_ms` of the producer's clock."""
    bucket = fn.floor(fn.col("publish_time_ms") / bucket_ms) * bucket_ms
    return messages.groupBy("topic", bucket.alias("bucket_start_ms")).agg(
        fn.count("*").alias("messages"),
        fn.sum("payload_size").alias("payload_bytes"),
    )


def visible_latency(messages: DataFrame) -> DataFrame:
    """One row per topic: in how many ms half, 99 of 100 and all of its messages were received after
    their publication.

    A message that came several times counts once, at its first arrival.
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
    """Messages per topic and bucket of `bucket_ms` between publication and first arrival."""
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
