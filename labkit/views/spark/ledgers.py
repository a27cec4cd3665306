"""Jobs over a stream's messages and the metadata of their ledgers.

Ids alone show where a stream goes on in its next ledger.  The metadata store has the rest: the
reason, the entries missing at a ledger's end, and the bookies with the copies: `ledgers` has
`topic`, `partition`, `ledger`, `entry_count`, `size_bytes` and `closed_at_ms` of closed ledgers,
`segments` has `ledger`, `first_entry`, `last_entry`, `write_quorum` and `ensemble`.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from labkit.views.spark.streams import STREAM, with_entry_before

NO_LIMIT = "neither full nor old"


def shared_ledgers(messages: DataFrame) -> DataFrame:
    """Ledgers with messages of more than one stream: none, if rule M4 holds."""
    streams = fn.collect_set(fn.concat_ws("-partition-", *STREAM))
    return (
        messages.groupBy("ledger")
        .agg(fn.array_sort(streams).alias("streams"))
        .where(fn.size("streams") > 1)
    )


def messages_per_ledger(messages: DataFrame) -> DataFrame:
    """One row per ledger: messages, entries, payload bytes, first and last time of publication."""
    return messages.groupBy(*STREAM, "ledger").agg(
        fn.count("*").alias("messages"),
        fn.count_distinct("entry").alias("entries"),
        fn.sum("payload_size").alias("payload_bytes"),
        fn.min("publish_time_ms").alias("first_publish_ms"),
        fn.max("publish_time_ms").alias("last_publish_ms"),
    )


def missing_ends(messages: DataFrame, ledgers: DataFrame) -> DataFrame:
    """Ledgers whose last entries did not arrive, although their metadata counts them."""
    arrived = messages.groupBy(*STREAM, "ledger").agg((fn.max("entry") + 1).alias("arrived"))
    # A left join: no message at all may have arrived of a ledger.
    known = ledgers.join(arrived, [*STREAM, "ledger"], "left").fillna(0, ["arrived"])
    return known.where("arrived < entry_count").select(
        *STREAM,
        "ledger",
        fn.col("arrived").alias("first_missing"),
        (fn.col("entry_count") - 1).alias("last_missing"),
        (fn.col("entry_count") - fn.col("arrived")).alias("missing"),
    )


def rollovers(messages: DataFrame) -> DataFrame:
    """Where a stream goes on in its next ledger: the ledger that it left, and its number of
    entries.

    `entries` is one more than the last entry that arrived: too few if the ledger's end is missing.
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
    """Why a stream left a ledger: the limits of its topic that the ledger had reached.

    `limits` has `topic`, `max_entries`, `max_size_bytes` and `max_age_ms` (null: no such limit).
    The age is the time from the ledger's first message that arrived to its closing; a ledger
    without any such message is not in the answer. `reason` names the limits, in this order, joined
    by " and ".  Without any, the ledger was left early: an add failed, or the topic moved to
    another owner.
    """
    born = messages.groupBy(*STREAM, "ledger").agg(fn.min("publish_time_ms").alias("born_ms"))
    # From the metadata: a ledger from which no message arrived is a link of the chain too.
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
    """The number of copies on each bookie by the metadata, and `of_fair_share`: 1 if all have the
    same number.

    Entry `e` is stored on the places `(e + i) % E` of its segment's ensemble, `i` from 0 below
    Qw.  The number is computed without going through the entries: place `p` has, as their `i`-th
    copies, the entries with the remainder `(p - i) % E`, and a division counts these in a range.
    """
    size = fn.size("ensemble")
    rest = fn.pmod(fn.col("place") - fn.col("copy"), size)
    up_to_last = fn.floor((fn.col("last_entry") - rest) / size)
    before_first = fn.floor((fn.col("first_entry") - 1 - rest) / size)
    copies = (
        segments.select("*", fn.posexplode("ensemble").alias("place", "bookie"))
        .withColumn("copy", fn.explode(fn.sequence(fn.lit(0), fn.col("write_quorum") - 1)))
        .groupBy("bookie")
        .agg(fn.sum(up_to_last - before_first).alias("copies"))
    )
    whole = Window.partitionBy(fn.lit(0))
    return copies.withColumn("of_fair_share", fn.col("copies") / fn.avg("copies").over(whole))
