"""Runs a long search on Spark, which can be interrupted and resumed.

All results are stored in a folder:

    runs/              a row for each run: the table of `labkit.views.spark.search`
    branches/          the branches that a sample of the runs took
    counterexamples/   for each version of the code, the first scenario that broke each promise,
                       after shrinking
    report.txt         a report, written when the search ends

A run counts only for the version of the code that was running. If the code changes, the search
first reruns the scenarios that have broken a promise before, and then continues with new seeds.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.shipped_files import put_whole
from labkit.views.spark.search import Trial, rows_of, run_trials, search
from labkit.views.spark.shipping import is_behind_connect
from labkit.worlds.sim.explore.code_version import code_version
from labkit.worlds.sim.explore.progress import ProgressLine
from labkit.worlds.sim.explore.search import NEVER_ENDS
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.scenario.scenario import from_json
from tools.search.branches import Branches, measure_branches
from tools.search.report import first_broken, report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUNS, BRANCHES, REPORT, COUNTEREXAMPLES = "runs", "branches", "report.txt", "counterexamples"
_ENDLESS = 2**62


def resume(
    spark: "SparkSession", folder: Path, variant: str = "", *, seconds: float = 0, seeds: int = 0
) -> bool:
    """Continue the search in the folder with `seeds` new seeds, for at most `seconds` (0: no
    limit), and write the report.

    Return whether the current code has kept every promise so far. An interrupt ends the search
    early. Raises `OSError` if a file in the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs = str(folder / RUNS)
    show_progress = ProgressLine(seeds, "seeds", in_place=sys.stderr.isatty())
    try:
        _rerun_broken(spark, runs, variant)
        first = next_seed(rows_of(spark, runs, variant))
        some = range(first, first + seeds if seeds else _ENDLESS)
        search(
            *(spark, some, runs),
            variant=variant,
            stop_at=0,
            seconds=seconds,
            on_progress=show_progress,
        )
    except KeyboardInterrupt:
        pass  # The runs of all complete rounds are in the table.
    rows = rows_of(spark, runs, variant)
    _keep_counterexamples(rows, folder / COUNTEREXAMPLES / code_version())
    branches = Branches(0, {})
    # The executors of a cluster do not have the source files that coverage.py needs.
    if not is_behind_connect(spark) and (spark.conf.get("spark.master") or "").startswith("local"):
        branches = measure_branches(spark, rows, str(folder / BRANCHES))
    text = report(variant, rows, branches)
    put_whole(folder / REPORT, f"{text}\n".encode())
    return not first_broken(rows)


def next_seed(rows: "DataFrame") -> int:
    largest = rows.selectExpr("max(seed)").collect()[0][0]
    return 0 if largest is None else largest + 1


def _rerun_broken(spark: "SparkSession", runs: str, variant: str) -> None:
    """Run the scenarios that broke a promise with an earlier version of the code, and that have not
    been run since.
    """
    rows = rows_of(spark, runs, variant)
    present = rows.where(rows["code"] == code_version()).select("scenario")
    broken = rows.where("size(broken) > 0").select("scenario").distinct()
    again = broken.join(present, "scenario", "left_anti").orderBy("scenario").collect()
    if again:
        run_trials(spark, [Trial(None, row["scenario"]) for row in again], runs, variant)


def _keep_counterexamples(rows: "DataFrame", folder: Path) -> None:
    """Shrink the first scenario that broke each promise, unless its file already exists."""
    for promise, scenario in first_broken(rows).items():
        path = folder / f"{promise}.json"
        if path.exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        found = from_json(scenario)
        smallest = found if promise == NEVER_ENDS else shrink(found, promise).scenario
        put_whole(path, f"{smallest.to_json()}\n".encode())
