"""Jobs over a run's events, as `labkit.system.trace.parquet` writes them.

`seq` is the order of the events, `time_us` their time; `ledger` is -1 for events that concern no
ledger. A ledger is underreplicated while the auditor's mark is there: until a worker has found all
its copies, or the ledger is deleted.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

MARKED, STARTED, COPIED = "ledger.underreplicated", "replication.started", "entry.copied"
DEFERRED, DONE, DELETED = "replication.deferred", "replication.done", "ledger.deleted"
REPAIR = (MARKED, STARTED, COPIED, DEFERRED, DONE, DELETED)


def underreplicated_ledgers(events: DataFrame) -> DataFrame:
    """The number of marked ledgers, at each moment at which it changes."""
    marks = _episodes(events).where("begins or ends")
    step = fn.when(fn.col("begins"), 1).otherwise(-1)
    in_order = Window.partitionBy(fn.lit(0)).orderBy("seq")
    return marks.select(
        "seq", "time_us", "ledger", "kind", fn.sum(step).over(in_order).alias("marked")
    )


def copies_made(events: DataFrame, bucket_ms: int = 100) -> DataFrame:
    """Repair progress: copies stored by each worker per bucket of time, and all copies so far.

    `made_by_then` counts the copies of all workers up to the end of the bucket.
    """
    bucket = fn.floor(fn.col("time_us") / (1000 * bucket_ms)) * bucket_ms
    made = (
        events.where(fn.col("kind") == COPIED)
        .groupBy(bucket.alias("bucket_start_ms"), fn.col("node").alias("worker"))
        .agg(fn.count("*").alias("copies"))
    )
    so_far = Window.partitionBy(fn.lit(0)).orderBy("bucket_start_ms")
    return made.withColumn("made_by_then", fn.sum("copies").over(so_far))


def repairs(events: DataFrame) -> DataFrame:
    """One row per mark of a ledger: when it was marked, when a worker first began, when it was
    done.

    `worker` is the last one that began; `done_us` is null while the mark is there.  A ledger that
    is marked again while its mark is there has one row; one that is marked again afterwards has
    two.
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
    """One row per ledger: the time of the first event of each kind, and its final state.

    An `open` ledger has a writer or lost it; `in recovery`, a client looks for its last entry; a
    `closed` ledger never changes; the metadata of a `deleted` one is gone.  The time of a kind that
    did not happen is null.
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


def rollovers_told(events: DataFrame) -> DataFrame:
    """One row per ledger that a topic started, with the reason that its owner reported.

    `cause`: opened, entries, size, age, failure, or other.
    """
    stream, reason = (
        fn.expr(r"regexp_extract(note, '^(.*): (.*)$', 1)"),
        fn.expr(r"regexp_extract(note, '^(.*): (.*)$', 2)"),
    )
    told = events.where(fn.col("kind") == "ledger.rolled").withColumns(
        {"stream": stream, "reason": reason}
    )
    cause = fn.when(fn.col("reason") == "opened", fn.lit("opened"))
    for ending, name in (("entries", "entries"), ("bytes", "size"), ("old", "age")):
        cause = cause.when(fn.col("reason").endswith(ending), fn.lit(name))
    cause = cause.when(fn.col("reason").endswith("failed"), fn.lit("failure"))
    return told.select(
        "seq", "time_us", "stream", "ledger", "reason", cause.otherwise("other").alias("cause")
    )


def _episodes(events: DataFrame) -> DataFrame:
    """The events of repairs; `begins` and `ends` say where a ledger's mark comes and goes,
    `episode` how many marks the ledger has had so far (0: none yet).
    """
    of_ledger = Window.partitionBy("ledger").orderBy("seq")
    before = of_ledger.rowsBetween(Window.unboundedPreceding, -1)
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
        .withColumn("episode", fn.sum(fn.col("begins").cast("int")).over(of_ledger))
    )


def _first(kind: str) -> Column:
    return fn.min(fn.when(fn.col("kind") == kind, fn.col("time_us")))


def _count(kind: str) -> Column:
    return fn.count_if(fn.col("kind") == kind)
