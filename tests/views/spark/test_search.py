"""Tests that a search on Spark runs the same scenarios as `labkit search` and keeps all rows."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from labkit.views.spark import search as searching
from labkit.views.spark.search import search
from labkit.worlds.sim.explore import search as local
from labkit.worlds.sim.explore.search import NEVER_ENDS, scenario_of_seed
from labkit.worlds.sim.machine.loop import BudgetError
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario, from_json

VARIANT = "ack after one bookie"


def test_a_seed_has_the_same_run_as_in_a_local_search(spark: SparkSession, tmp_path: Path) -> None:
    seeds = range(4, 8)  # Seed 5 has brokers.
    rows = search(spark, seeds, str(tmp_path)).orderBy("seed").collect()
    assert [row["seed"] for row in rows] == list(seeds)
    for row in rows:
        trace = run(scenario_of_seed(row["seed"]))
        assert (row["digest"], row["events"]) == (trace.digest, len(trace.events))
        assert from_json(row["scenario"]) == trace.scenario
        assert (row["broken"], row["reasons"], row["variant"]) == ([], [], "")
        assert row["seconds"] > 0


def test_a_later_search_runs_only_seeds_that_the_table_does_not_contain(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = search(spark, range(1, 3), str(tmp_path)).orderBy("seed").collect()
    reported: list[tuple[int, int]] = []
    later = search(spark, range(1, 5), str(tmp_path), on_progress=lambda *now: reported.append(now))
    assert later.orderBy("seed").collect()[:2] == first
    assert reported == [(2, 0)]
    assert search(spark, range(2, 4), str(tmp_path)).count() == 2
    assert search(spark, range(0), str(tmp_path)).count() == 0


def test_a_search_stops_after_the_round_with_the_first_finding(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "FIRST_ROUND", 4)
    rows = search(spark, range(100), str(tmp_path), variant=VARIANT)
    assert rows.count() == 4
    first = rows.where("size(broken) > 0").orderBy("seed").first()
    expected = local.search(range(4), variant=VARIANT, jobs=1).first
    assert first is not None
    assert expected is not None
    assert (first["broken"][0], first["reasons"][0]) == (expected.promise, expected.reason)
    assert from_json(first["scenario"]) == expected.scenario
    # The runs of a variant are not runs of the real code.
    assert search(spark, range(1), str(tmp_path)).count() == 1
    assert spark.read.parquet(str(tmp_path)).count() == 5


def test_a_run_that_never_ends_has_a_row_without_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    def never_end(_: Scenario) -> None:
        raise BudgetError("too many steps")

    monkeypatch.setattr(local, "run", never_end)
    row = dict(zip(searching.COLUMNS, searching.run_seed(1, ""), strict=True))
    assert (row["digest"], row["events"]) == (None, 0)
    assert (row["broken"], row["reasons"]) == ([NEVER_ENDS], ["too many steps"])
