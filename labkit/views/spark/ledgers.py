"""Spark jobs over a stream's messages and the metadata of its ledgers.

The ids alone are enough to tell where a stream continues in its next ledger. Ledger metadata also
shows the reason, the entries that are missing at the end of a ledger, and the bookies that store
the copies. The metadata is given as two tables: `ledgers` has columns `topic`, `partition`,
`ledger`, `entry_count`, `size_bytes` and `closed_at_ms` for closed ledgers; `segments` has
`ledger`, `first_entry`, `last_entry`, `write_quorum` and `ensemble`.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from labkit.views.spark.streams import STREAM, with_entry_before

NO_LIMIT = "neither full nor old"


def shared_ledgers(messages: DataFrame) -> DataFrame:
    """Return the ledgers that contain messages of several streams; there are none if rule M4
    holds.
    """
    streams = fn.collect_set(fn.concat_ws("-partition-", *STREAM))
    return (
        messages.groupBy("ledger")
        .agg(fn.array_sort(streams).alias("streams"))
        .where(fn.size("streams") > 1)
    )


def messages_per_ledger(messages: DataFrame) -> DataFrame:
    """Return each ledger's number of messages, entries and payload bytes, and its first and last
    publish time.
    """
    return messages.groupBy(*STREAM, "ledger").agg(
        fn.count("*").alias("messages"),
        fn.count_distinct("entry").alias("entries"),
        fn.sum("payload_size").alias("payload_bytes"),
        fn.min("publish_time_ms").alias("first_publish_ms"),
        fn.max("publish_time_ms").alias("last_publish_ms"),
    )


def missing_ends(messages: DataFrame, ledgers: DataFrame) -> DataFrame:
    """Return the ledgers whose last entries did not arrive although the metadata includes them."""
    arrived = messages.groupBy(*STREAM, "ledger").agg((fn.max("entry") + 1).alias("arrived"))
    # Use a left join, because a ledger may be missing all of its messages.
    totals = ledgers.join(arrived, [*STREAM, "ledger"], "left").fillna(0, ["arrived"])
    return totals.where("arrived < entry_count").select(
        *STREAM,
        "ledger",
        fn.col("arrived").alias("first_missing"),
        (fn.col("entry_count") - 1).alias("last_missing"),
        (fn.col("entry_count") - fn.col("arrived")).alias("missing"),
    )


def rollovers(messages: DataFrame) -> DataFrame:
    """Return where each stream continues in a new ledger, and how many entries the previous ledger
    had.

    `entries` is the id of the last entry that arrived plus one, so it is too low if the end of the
    ledger is missing.
    """
    return (
        with_entry_before(messages)
        .where("ledger_before < ledger")
        .select(
            *STREAM,
            fn.col("ledger_before").alias("ledger"),
            (fn.col("entry_before") + 1).alias("entries"),
            fn.col("ledger").alias("next_ledger"),
        )
    )


def rollover_reasons(messages: DataFrame, ledgers: DataFrame, limits: DataFrame) -> DataFrame:
    """Return why each ledger was closed: which of its topic's limits it had reached.

    `limits` has columns `topic`, `max_entries`, `max_size_bytes` and `max_age_ms` (null: no limit).
    A ledger's age is the time from its first received message until it was closed; ledgers without
    received messages are omitted. `reason` lists the limits reached, in the order above, joined by
    " and ". If no limit was reached, the ledger was closed early because an add failed or the topic
    moved to another owner.
    """
    born = messages.groupBy(*STREAM, "ledger").agg(fn.min("publish_time_ms").alias("born_ms"))
    # Use the metadata, because ledgers without received messages belong to the chain, too.
    chain = Window.partitionBy(*STREAM).orderBy("ledger")
    left = ledgers.withColumn("next_ledger", fn.lead("ledger").over(chain)).where(
        "next_ledger is not null"
    )
    reached = [
        fn.when(fn.col("entry_count") >= fn.col("max_entries"), fn.lit("entries")),
        fn.when(fn.col("size_bytes") >= fn.col("max_size_bytes"), fn.lit("size")),
        fn.when(fn.col("age_ms") >= fn.col("max_age_ms"), fn.lit("age")),
    ]
    aged = left.join(born, [*STREAM, "ledger"]).join(fn.broadcast(limits), "topic", "left")
    aged = aged.withColumn("age_ms", fn.col("closed_at_ms") - fn.col("born_ms"))
    reason = fn.concat_ws(" and ", *reached)
    return aged.select(
        *STREAM,
        "ledger",
        "next_ledger",
        "entry_count",
        "size_bytes",
        "age_ms",
        fn.when(reason == "", fn.lit(NO_LIMIT)).otherwise(reason).alias("reason"),
    )


def copies_per_bookie(segments: DataFrame) -> DataFrame:
    """Return the number of entry copies that each bookie holds according to the metadata.

    `of_fair_share` is that number divided by the average over all bookies.

    Entry `e` is stored at indices `(e + i) % E` of its segment's ensemble, for `i` from 0 to Qw -
    1. Therefore, the bookie at index `p` holds the `i`-th copy of every entry with `e % E == (p -
    i) % E`, and two divisions count these copies without enumerating the entries.
    """
    size = fn.size("ensemble")
    remainder = fn.pmod(fn.col("index") - fn.col("copy"), size)
    up_to_last = fn.floor((fn.col("last_entry") - remainder) / size)
    before_first = fn.floor((fn.col("first_entry") - 1 - remainder) / size)
    copies = (
        segments.select("*", fn.posexplode("ensemble").alias("index", "bookie"))
        .withColumn("copy", fn.explode(fn.sequence(fn.lit(0), fn.col("write_quorum") - 1)))
        .groupBy("bookie")
        .agg(fn.sum(up_to_last - before_first).alias("copies"))
    )
    # One task is enough: there is one row per bookie.
    all_bookies = Window.partitionBy(fn.lit(0))
    return copies.withColumn("of_fair_share", fn.col("copies") / fn.avg("copies").over(all_bookies))
