"""Spark jobs over a run's events, as written by `labkit.system.trace.parquet`.

`seq` is the position of an event in the trace, and `time_us` is its time; `ledger` is -1 if the
event does not concern a ledger. A ledger is under-replicated from the moment the auditor marks it
until a replication worker has found all copies or the ledger is deleted.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

MARKED, STARTED, COPIED = "ledger.underreplicated", "replication.started", "entry.copied"
DEFERRED, DONE, DELETED = "replication.deferred", "replication.done", "ledger.deleted"
REPAIR = (MARKED, STARTED, COPIED, DEFERRED, DONE, DELETED)


def underreplicated_ledgers(events: DataFrame) -> DataFrame:
    marks = _episodes(events).where("begins or ends")
    step = fn.when(fn.col("begins"), 1).otherwise(-1)
    # A running total needs all rows in one task, but there are only a few per ledger.
    in_order = Window.partitionBy(fn.lit(0)).orderBy("seq")
    return marks.select(
        "seq", "time_us", "ledger", "kind", fn.sum(step).over(in_order).alias("marked")
    )


def copies_made(events: DataFrame, bucket_ms: int = 100) -> DataFrame:
    """Return the copies that each worker stored in each time bucket.

    `made_by_then` is the number of copies that all workers stored up to the end of the bucket.
    """
    bucket = fn.floor(fn.col("time_us") / (1000 * bucket_ms)) * bucket_ms
    made = (
        events.where(fn.col("kind") == COPIED)
        .groupBy(bucket.alias("bucket_start_ms"), fn.col("node").alias("worker"))
        .agg(fn.count("*").alias("copies"))
    )
    # One task is enough for the running total: there are only a few rows per bucket.
    up_to_here = Window.partitionBy(fn.lit(0)).orderBy("bucket_start_ms")
    return made.withColumn("made_by_then", fn.sum("copies").over(up_to_here))


def repairs(events: DataFrame) -> DataFrame:
    """Return one row per repair, with the times at which the ledger was marked, a worker started,
    and the repair ended.

    `worker` is the last worker that started; `done_us` is null if the ledger is still marked.
    Marking a ledger that is already marked does not begin another repair; marking it again after
    the repair does.
    """
    return (
        _episodes(events)
        .where("episode > 0")
        .groupBy("ledger", "episode")
        .agg(
            _first(MARKED).alias("marked_us"),
            _first(STARTED).alias("started_us"),
            fn.min(fn.when(fn.col("ends"), fn.col("time_us"))).alias("done_us"),
            fn.max_by("node", fn.when(fn.col("kind") == STARTED, fn.col("seq"))).alias("worker"),
            _count(COPIED).alias("copies"),
            _count(DEFERRED).alias("deferrals"),
        )
    )


def ledger_life_cycles(events: DataFrame) -> DataFrame:
    """Return one row per ledger, with the time at which each kind of event first happened, and the
    final state.

    Times of events that did not happen are null. The states: `open`: a client is writing the
    ledger, or its writer has crashed; `in recovery`: a client is looking for the last entry;
    `closed`: the ledger never changes again; `deleted`: its metadata has been deleted.
    """
    lives = (
        events.where("ledger >= 0")
        .groupBy("ledger")
        .agg(
            _first("ledger.created").alias("created_us"),
            _first("lac.advanced").alias("first_confirmed_us"),
            _count("ensemble.changing").alias("ensemble_changes"),
            _first("ledger.fenced").alias("fenced_us"),
            _first("recovery.started").alias("recovery_us"),
            _first("ledger.closed").alias("closed_us"),
            fn.max(fn.when(fn.col("kind") == "ledger.closed", fn.col("entry"))).alias("last_entry"),
            _first(MARKED).alias("marked_us"),
            fn.max(fn.when(fn.col("kind") == DONE, fn.col("time_us"))).alias("repaired_us"),
            _first(DELETED).alias("deleted_us"),
        )
    )
    state = (
        fn.when(fn.col("deleted_us").isNotNull(), fn.lit("deleted"))
        .when(fn.col("closed_us").isNotNull(), fn.lit("closed"))
        .when(fn.col("recovery_us").isNotNull(), fn.lit("in recovery"))
        .otherwise(fn.lit("open"))
    )
    return lives.withColumn("state", state)


def _episodes(events: DataFrame) -> DataFrame:
    """Return the events of repairs, with the columns `begins`, `ends` and `episode`.

    `begins` and `ends` flag the events that set and delete a ledger's mark; `episode` counts how
    often the ledger has been marked so far.
    """
    by_ledger = Window.partitionBy("ledger").orderBy("seq")
    before = by_ledger.rowsBetween(Window.unboundedPreceding, -1)
    is_mark, is_end = fn.col("kind") == MARKED, fn.col("kind").isin(DONE, DELETED)
    was_marked = fn.coalesce(
        fn.last(fn.when(is_mark | is_end, is_mark), ignorenulls=True).over(before), fn.lit(False)
    )
    return (
        events.where(fn.col("kind").isin(*REPAIR))
        .withColumn("was_marked", was_marked)
        .withColumns(
            {"begins": is_mark & ~fn.col("was_marked"), "ends": is_end & fn.col("was_marked")}
        )
        .withColumn("episode", fn.sum(fn.col("begins").cast("int")).over(by_ledger))
    )


def _first(kind: str) -> Column:
    return fn.min(fn.when(fn.col("kind") == kind, fn.col("time_us")))


def _count(kind: str) -> Column:
    return fn.count_if(fn.col("kind") == kind)
