"""Runs `labkit search` on Spark: each seed becomes a row of a table that later searches extend.

    table = search(spark, range(100_000), "/data/runs")
    table.groupBy("broken").count().show()

The executors draw the scenarios, run them and check the promises; a row is as small as a line of
text. The rows are appended to Parquet files in rounds, so an interrupted search loses only its
last round.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from labkit.worlds.sim.explore.progress import ProgressLine
from labkit.worlds.sim.explore.search import run_and_check, scenario_of_seed
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {
    "seed": "bigint",
    "variant": "string",
    "scenario": "string",
    "digest": "string",
    "broken": "array<string>",
    "reasons": "array<string>",
    "events": "int",
    "seconds": "double",
}
"""name -> type. `scenario` is JSON, `broken` lists the broken promises with their `reasons`, and
`digest` identifies the trace, or is null if the run never ended.
"""

_SCHEMA = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
_SEEDS_PER_TASK = 32
"""Spark needs about as much time for a task as for one seed."""
FIRST_ROUND = 64
_ROUND_S = 60.0


def search(
    spark: "SparkSession",
    seeds: range,
    folder: str,
    *,
    variant: str = "",
    stop_at: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> "DataFrame":
    """Run the seeds that the table in `folder` does not contain yet; return the rows of all seeds.

    Stop after the round in which the number of rows with broken promises reaches `stop_at` (0: run
    all seeds). Delete the table after changing the code, because seeds that it contains are not
    run again. `on_progress` is called with the number of seeds run and the number of runs with
    broken promises.
    """
    spark.createDataFrame([], _SCHEMA).write.mode("ignore").parquet(folder)

    def rows() -> "DataFrame":
        table = spark.read.schema(_SCHEMA).parquet(folder)
        return table.where(table["variant"] == variant).where(
            (table["seed"] >= seeds.start) & (table["seed"] < seeds.stop)
        )

    def broken_count() -> int:
        return rows().where("size(broken) > 0").count()

    known = {row["seed"] for row in rows().select("seed").collect()}
    remaining = [seed for seed in seeds if seed not in known]
    report = on_progress or ProgressLine(len(remaining))
    done, size = 0, FIRST_ROUND
    while done < len(remaining) and not 0 < stop_at <= broken_count():
        started_at = time.monotonic()
        some = remaining[done : done + size]
        _run_round(spark, some, variant).write.mode("append").parquet(folder)
        done += len(some)
        report(done, broken_count())
        # At the end of a round, processors are idle until the last task ends, so rounds should not
        # be short.
        if time.monotonic() - started_at < _ROUND_S:
            size *= 2
    return rows()


def _run_round(spark: "SparkSession", seeds: Sequence[int], variant: str) -> "DataFrame":
    task_count = -(-len(seeds) // _SEEDS_PER_TASK)
    indexes = spark.range(0, len(seeds), 1, task_count)
    # Write one file per round instead of one per task.
    return indexes.mapInPandas(partial(_judge, seeds, variant), _SCHEMA).repartition(1)


def _judge(
    seeds: Sequence[int], variant: str, batches: Iterator[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    for batch in batches:
        with without_garbage_collection():
            rows = [run_seed(seeds[index], variant) for index in batch["id"]]
        # Collect only young objects: a full collection takes half as long as a run.
        gc.collect(1)
        yield pd.DataFrame(rows, columns=list(COLUMNS))


def run_seed(seed: int, variant: str) -> tuple[object, ...]:
    """Run the scenario of a seed and check its promises; return a row with `COLUMNS`."""
    started_at = time.monotonic()
    scenario = scenario_of_seed(seed, variant)
    findings, trace = run_and_check(scenario)
    return (
        seed,
        variant,
        scenario.to_json(),
        trace and trace.digest,
        [each.promise for each in findings],
        [each.reason for each in findings],
        len(trace.events) if trace else 0,
        time.monotonic() - started_at,
    )
