"""Jobs over batches and times: what a producer did, and when its messages could be read.

`publish_time_ms` is the time of an entry by the producer's clock, `receive_time_ms` the time of its
arrival by the consumer's clock. Here both clocks are those of one machine, so their difference
means something.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from labkit.views.spark.streams import STREAM


def batch_sizes(messages: DataFrame) -> DataFrame:
    """One row per entry: `batch_size`, from its greatest batch index, and `arrived`.

    An entry that is not a batch has size 1. `arrived` counts a message once even if it came several
    times; if it is less than `batch_size`, messages of the batch are missing.
    """
    return messages.groupBy(*STREAM, "ledger", "entry").agg(
        _batch_size().alias("batch_size"),
        fn.count_distinct("batch_index").alias("arrived"),
        fn.min("seq").alias("first_seq"),
    )


def batch_size_distribution(messages: DataFrame) -> DataFrame:
    """One row per topic and batch size: the number of entries, and `share`, the share of the
    topic's messages in entries of this size.
    """
    sizes = messages.groupBy(*STREAM, "ledger", "entry").agg(_batch_size().alias("batch_size"))
    counted = sizes.groupBy("topic", "batch_size").agg(fn.count("*").alias("entries"))
    in_them = fn.col("entries") * fn.col("batch_size")
    topic = Window.partitionBy("topic")
    return counted.withColumn("share", in_them / fn.sum(in_them).over(topic))


def _batch_size() -> Column:
    """The batch size of an entry; an entry that is not a batch has one message."""
    return fn.greatest(fn.max("batch_index") + 1, fn.lit(1))


def publish_rate(messages: DataFrame, bucket_ms: int = 100) -> DataFrame:
    """Messages and payload bytes per topic and bucket of `bucket_ms` of the producer's clock."""
    bucket = fn.floor(fn.col("publish_time_ms") / bucket_ms) * bucket_ms
    return messages.groupBy("topic", bucket.alias("bucket_start_ms")).agg(
        fn.count("*").alias("messages"),
        fn.sum("payload_size").alias("payload_bytes"),
    )


def visible_latency(messages: DataFrame) -> DataFrame:
    """One row per topic: the ms after publication within which half, 99 % and all of its messages
    were received.

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
