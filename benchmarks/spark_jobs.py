"""Measures the jobs of `labkit.views.spark`, and the memory of the Spark lessons.

    python -m benchmarks.spark_jobs            # takes several minutes
    python -m benchmarks.spark_jobs --quick    # only prints; uses half a million ids
    python -m benchmarks.spark_jobs --memory   # only prints; measures only the notebooks' memory

Five million MessageIDs, stored as text in one Parquet file with planted faults, are analysed by
`labkit.views.spark.streams` in the session that the notebooks use. This query is compared to the
*packed windows*, the fastest query found so far that returns the same results. The packed windows
put each id into a single number, use two windows over one shuffle and an aggregation for the batch
sizes, and perform no checks. After a warm-up, the two queries take turns. Before that, every row
that `streams` finds is compared to the result of pandas.

Memory is the largest total `Pss` of the kernel and all processes that the notebook starts.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as fn

from benchmarks import message_ids
from benchmarks.family import benchmark_parser, measuring
from benchmarks.measure import Figure, Times, cpu_s_of, jvm_of, per_second, ratios, timed
from benchmarks.message_ids import Answers
from benchmarks.notebook_memory import notebook_figures
from labkit.views.spark import ledgers, publishing, streams
from labkit.views.spark.session import spark_session

_IDS, _QUICK_IDS = 5_000_000, 500_000
_REPEATS = 5
_TASKS = 16


def main() -> None:
    parser = benchmark_parser(__doc__, quick="a tenth of the ids")
    parser.add_argument(
        "--memory", action="store_true", help="only the memory of the notebooks, only printed"
    )
    options = parser.parse_args()
    with measuring("spark-jobs", only_print=options.quick or options.memory) as found:
        # Run the notebooks first, because a JVM started by this process would be counted as one of
        # theirs.
        notebooks = [] if options.quick else notebook_figures()
        if not options.memory:
            count = _QUICK_IDS if options.quick else _IDS
            found.figures += _analysis_figures(found.folder / "ids.parquet", count)
        found.figures += notebooks


def _analysis_figures(path: Path, message_count: int) -> list[Figure]:
    count = message_ids.write_messages(path, message_count)
    spark = spark_session("benchmark")
    # With only two tasks, hashing could assign most of the eight streams to the same task.
    spark.conf.set("spark.sql.shuffle.partitions", _TASKS)
    try:
        expected = _check(spark, path)
        rounds = [[_timed(run, spark, path) for run in (_jobs, _peer)] for _ in range(_REPEATS)]
    finally:
        spark.stop()
    both = list(zip(*rounds, strict=True))
    rates = [per_second(count, [wall for wall, _ in times]) for times in both]
    note = f"{rates[0]} to {rates[1]}; identical to pandas: {expected}"
    name = f"MessageID analysis of {count:,} ids, {{}} of the packed windows"
    wall, cpu = (ratios(*([each[i] for each in times] for times in both)) for i in (0, 1))
    return [
        Figure(name.format("time"), wall, at_most=1.0, note=note),
        Figure(name.format("processor time"), cpu, at_most=1.0),
    ]


def _timed(run: Callable[[DataFrame], object], spark: SparkSession, path: Path) -> Times:
    return timed(lambda: run(spark.read.parquet(str(path))), lambda: cpu_s_of(jvm_of(spark)))


def _jobs(messages: DataFrame) -> list[Row]:
    return streams.stream_report(streams.parse_message_ids(messages)).collect()


def _peer(messages: DataFrame) -> tuple[list[Row], list[Row]]:
    """Run the query to which `streams` is compared: packed ids, two windows, one shuffle."""
    parts = fn.split("message_id", ":")
    ledger, entry, partition, batch = (parts[i].cast("bigint") for i in range(4))
    packed = fn.shiftleft(ledger, 40) + fn.shiftleft(entry, 12) + batch + 1
    ids = messages.select("seq", partition.alias("partition"), packed.alias("id"))
    arrival = Window.partitionBy("partition").orderBy("seq")
    order = Window.partitionBy("partition").orderBy("id")
    near = ids.withColumns(
        {"earlier": fn.lag("id").over(arrival), "before": fn.lag("id").over(order)}
    )
    entry_of, before_of = fn.shiftright("id", 12), fn.shiftright("before", 12)
    same = fn.shiftright("id", 40) == fn.shiftright("before", 40)
    report = near.groupBy("partition").agg(
        fn.count("*"),
        fn.count_if(fn.col("id") < fn.col("earlier")),
        fn.count_if(fn.col("id") == fn.col("before")),
        fn.sum(fn.when(same & (entry_of > before_of), entry_of - before_of - 1)),
        fn.count_if(~same),
    )
    sizes = ids.groupBy("partition", fn.shiftright("id", 12).alias("entry")).agg(
        fn.max(fn.col("id").bitwiseAND(4095)).alias("size")
    )
    return report.collect(), sizes.groupBy("size").count().collect()


def _check(spark: SparkSession, path: Path) -> Answers:
    """Return the results of pandas, or exit if Spark's results differ."""
    parsed = streams.parse_message_ids(spark.read.parquet(str(path)))
    found = _answers(parsed)
    expected = message_ids.by_pandas(path)
    if found != expected:
        raise SystemExit(f"Spark found {found}, but pandas found {expected}")
    report = _jobs(spark.read.parquet(str(path)))
    counted = [(row.order_violations, row.duplicates, row.missing_entries) for row in report]
    violations, again, missing = map(sum, zip(*counted, strict=True))
    holes = sum(last - first + 1 for *_, first, last in expected.holes)
    if (violations, again, missing) != (len(expected.violations), len(expected.duplicates), holes):
        raise SystemExit(f"the report counts {counted}, but pandas found {expected}")
    sizes = sum((Counter(row.batch_sizes) for row in report), Counter())
    if set(sizes.items()) != expected.sizes:
        raise SystemExit("the batch sizes of the report differ from those of pandas")
    # The jobs have already run, so this completes the warm-up.
    _peer(spark.read.parquet(str(path)))
    return expected


def _answers(parsed: DataFrame) -> Answers:
    def rows(frame: DataFrame, *columns: str) -> frozenset[tuple[int, ...]]:
        return frozenset(tuple(row) for row in frame.select(*columns).collect())

    rolled = ledgers.rollovers(parsed).groupBy("partition").agg(fn.count("*").alias("count"))
    sizes = publishing.batch_size_distribution(parsed)
    holes = streams.missing_entries(parsed)
    again = streams.duplicates(parsed)
    return Answers(
        rows(streams.order_violations(parsed), "partition", "seq"),
        rows(again, "partition", "ledger", "entry", "batch_index", "arrivals"),
        rows(holes, "partition", "ledger", "first_missing", "last_missing"),
        rows(rolled, "partition", "count"),
        rows(sizes, "batch_size", "entries"),
    )


if __name__ == "__main__":
    main()
