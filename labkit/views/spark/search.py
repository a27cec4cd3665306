"""Searches for broken promises on Spark; each run becomes a row of a table that later searches
extend.

    table = search(spark, range(100_000), "/data/runs")
    table.groupBy("broken").count().show()

The executors generate the scenarios, run them and check the promises. A row is about as large as a
line of text. The search works in rounds, each of which appends a Parquet file to the table, so an
interrupted search loses only its last round. Each round consists of new seeds, and of scenarios
that aim at the situations that few rows of the table contain (`situations/targeting`).
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from labkit.worlds.sim.explore.code_version import code_version
from labkit.worlds.sim.explore.progress import ProgressLine
from labkit.worlds.sim.explore.search import run_and_check, scenario_of_seed
from labkit.worlds.sim.explore.situations.covered_situations import SITUATIONS
from labkit.worlds.sim.explore.situations.situations_reached import SituationFinder
from labkit.worlds.sim.explore.situations.targeting import LATEST, Aim, Reached
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection
from labkit.worlds.sim.scenario.scenario import from_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TEXTS = pa.list_(pa.string())
SCHEMA = pa.schema(
    [
        ("seed", pa.int64()),
        ("variant", pa.string()),
        ("code", pa.string()),
        ("scenario", pa.string()),
        ("digest", pa.string()),
        ("broken", _TEXTS),
        ("reasons", _TEXTS),
        ("situations", _TEXTS),
        ("events", pa.int32()),
        ("seconds", pa.float64()),
        ("round", pa.timestamp("us", tz="UTC")),
    ]
)
"""One row per run.

    seed        null if the scenario aims at a rare situation
    variant     the planted bug, or ""
    code        the version of labkit's code that ran
    scenario    as JSON
    digest      identifies the trace; null if the run never ended
    broken      the broken promises
    reasons     how each of these promises was broken
    situations  the situations that the run reached
    seconds     processor time for the run, its checks and its situations
    round       when the round of this run started
"""

FIRST_ROUND = 64
_SEEDS_PER_TASK = 16
"""Spark's overhead for a task is about a quarter of the time for a seed. At the end of a round,
processors are idle until the last task ends, so tasks should not be long.
"""
ROUND_S = 60.0
"""Spark needs about two seconds for a round, so rounds should not be short."""
_MAX_GROWTH = 8
"""The maximum factor by which the number of seeds grows from one round to the next."""
_AIMED_EVERY = 3
_EARLY_SEEDS = 10_000
_AIMED_EVERY_LATER = 10
"""After the early seeds, fewer runs aim at rare situations: by then the seeds have reached most
situations, and an aimed run takes 1.6 times as long as a run with a seed.
"""
_FINDER = SituationFinder(SITUATIONS)
_ANY = "any"
"""The key of the total when a query counts runs by situation."""


class Trial(NamedTuple):
    """A run to perform: the scenario of a seed, or a scenario as JSON."""

    seed: int | None
    scenario: str | None = None


def search(
    spark: "SparkSession",
    seeds: range,
    folder: str,
    *,
    variant: str = "",
    stop_at: int = 1,
    seconds: float = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> "DataFrame":
    """Run the seeds that the table in `folder` does not contain yet; return the table's rows for
    these seeds, and for the scenarios aimed at rare situations.

    Only rows of this variant and of the current code are considered. Stop after the round in which
    the number of rows with broken promises reaches `stop_at` (0: run all seeds), or after the round
    in which the elapsed time reaches `seconds` (0: no limit). `on_progress` is called with the
    number of seeds run and the number of runs with broken promises.
    """
    began = time.monotonic()

    def table() -> "DataFrame":
        return rows_of(spark, folder, variant).where(f"code = '{code_version()}'")

    asked = f"seed is null or seed between {seeds.start} and {seeds.stop - 1}"
    earlier = table()
    known = {
        row["seed"]
        for row in earlier.where(asked).where("seed is not null").select("seed").collect()
    }
    remaining = (seed for seed in seeds if seed not in known)
    aim = Aim()
    record(aim, earlier)
    broken = earlier.where(asked).where("size(broken) > 0").count()
    done, size = 0, FIRST_ROUND
    report = on_progress or ProgressLine(len(seeds) - len(known), "seeds")
    while not 0 < stop_at <= broken:
        some = [Trial(seed) for seed in islice(remaining, size)]
        if not some:
            break
        started_at = time.monotonic()
        ran = run_trials(spark, [*some, *_aimed(aim, len(some))], folder, variant)
        broken += record(aim, ran)
        ran.unpersist()
        done += len(some)
        report(done, broken)
        if 0 < seconds <= time.monotonic() - began:
            break
        elapsed_s = time.monotonic() - started_at
        size = max(int(size * min(ROUND_S / elapsed_s, _MAX_GROWTH)), 1)
    return table().where(asked)


def rows_of(spark: "SparkSession", folder: str, variant: str = "") -> "DataFrame":
    """Return a variant's rows from all versions of the code. Create the table if needed."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(SCHEMA)
    spark.createDataFrame([], schema).write.mode("ignore").parquet(folder)
    table = spark.read.schema(schema).parquet(folder)
    return table.where(table["variant"] == variant)


def run_trials(
    spark: "SparkSession", trials: Sequence[Trial], folder: str, variant: str
) -> "DataFrame":
    """Run the trials, append their rows to the table in `folder`, and return these rows.

    Spark caches the rows until `unpersist` is called.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    now = datetime.now(UTC)
    task_count = -(-len(trials) // _SEEDS_PER_TASK)
    given = spark.createDataFrame(trials, "seed bigint, scenario string").repartition(task_count)
    work = partial(judge, variant, code_version(), now)
    ran = given.mapInArrow(work, from_arrow_schema(SCHEMA))
    # Write one file per round instead of one per task.
    rows = ran.repartition(1).cache()
    rows.write.mode("append").parquet(folder)
    return rows


def _aimed(aim: Aim, seed_count: int) -> list[Trial]:
    every = _AIMED_EVERY if aim.seeds < _EARLY_SEEDS else _AIMED_EVERY_LATER
    numbers = range(aim.seeds, aim.seeds + seed_count, every)
    scenarios = (aim.next(number) for number in numbers)
    return [Trial(None, each.to_json()) for each in scenarios if each is not None]


def record(aim: Aim, rows: "DataFrame") -> int:
    """Record the situations that these runs reached; return how many runs broke a promise."""
    from pyspark.sql import functions as fn

    runs = rows.select(
        # Count each run for `_ANY`, too: a separate query for the totals would take just as long
        # again.
        fn.explode(fn.array_append("situations", fn.lit(_ANY))).alias("situation"),
        "seed",
        "scenario",
        (fn.size("broken") > 0).alias("is_broken"),
        fn.struct("round", "scenario").alias("age"),
    )
    found = runs.groupBy("situation").agg(
        fn.count("seed").alias("by_seeds"),
        fn.count_if(fn.isnull("seed")).alias("by_aimed"),
        fn.min("seed").alias("first_seed"),
        fn.max_by("scenario", "age", LATEST).alias("latest"),
        fn.count_if("is_broken").alias("broken"),
    )
    by_situation = {row["situation"]: row for row in found.collect()}
    if (total := by_situation.pop(_ANY, None)) is None:
        return 0
    reached = {
        situation: Reached(
            row["by_seeds"],
            row["by_aimed"],
            row["first_seed"],
            tuple(map(from_json, reversed(row["latest"]))),
        )
        for situation, row in by_situation.items()
    }
    aim.add(total["by_seeds"], reached)
    broken: int = total["broken"]
    return broken


def judge(
    variant: str, code: str, now: datetime, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run the trials in these record batches. Spark calls this on an executor."""
    # After each task, PySpark collects all objects. Exempt the imported modules, because visiting
    # them would take half as long as a run.
    gc.freeze()
    for batch in batches:
        with without_garbage_collection():
            rows = [_row(Trial(**each), variant, code, now) for each in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, SCHEMA)


def _row(trial: Trial, variant: str, code: str, now: datetime) -> dict[str, object]:
    """Run a trial and check its promises; return a row with the columns of `SCHEMA`."""
    began = time.thread_time()
    if trial.seed is not None:
        scenario = scenario_of_seed(trial.seed, variant)
    else:
        assert trial.scenario is not None
        scenario = from_json(trial.scenario)
    findings, trace = run_and_check(scenario)
    return {
        "seed": trial.seed,
        "variant": variant,
        "code": code,
        "scenario": scenario.to_json(),
        "digest": trace and trace.digest,
        "broken": [each.promise for each in findings],
        "reasons": [each.reason for each in findings],
        "situations": _FINDER.reached(trace) if trace else [],
        "events": len(trace.events) if trace else 0,
        "seconds": time.thread_time() - began,
        "round": now,
    }
