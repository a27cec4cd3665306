"""Tests that a search on Spark runs the same scenarios as `labkit search`, keeps all rows, and aims
at what few rows contain.
"""

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from labkit.views.spark import search as searching
from labkit.views.spark.search import Trial, rows_of, run_trials, search
from labkit.worlds.sim.explore import search as local
from labkit.worlds.sim.explore.code_version import code_version
from labkit.worlds.sim.explore.search import NEVER_ENDS, scenario_of_seed
from labkit.worlds.sim.explore.situations.covered_situations import SITUATIONS
from labkit.worlds.sim.explore.situations.situations_reached import SituationFinder
from labkit.worlds.sim.machine.loop import BudgetError
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario, from_json

VARIANT = "ack after one bookie"


def by_seed(rows: DataFrame) -> list[Row]:
    return rows.where("seed is not null").orderBy("seed").collect()


def test_a_seed_has_the_same_run_as_in_a_local_search(spark: SparkSession, tmp_path: Path) -> None:
    seeds = range(4, 8)  # Seed 5 has brokers.
    rows = by_seed(search(spark, seeds, str(tmp_path)))
    assert [row["seed"] for row in rows] == list(seeds)
    for row in rows:
        trace = run(scenario_of_seed(row["seed"]))
        assert (row["digest"], row["events"]) == (trace.digest, len(trace.events))
        assert from_json(row["scenario"]) == trace.scenario
        assert (row["broken"], row["reasons"], row["variant"]) == ([], [], "")
        assert row["situations"] == SituationFinder(SITUATIONS).reached(trace)
        assert row["code"] == code_version()
        assert row["seconds"] > 0


def test_a_later_search_runs_only_seeds_that_the_table_does_not_contain(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = by_seed(search(spark, range(1, 3), str(tmp_path)))
    reported: list[tuple[int, int]] = []
    later = search(spark, range(1, 5), str(tmp_path), on_progress=lambda *now: reported.append(now))
    assert by_seed(later)[:2] == first
    assert reported == [(2, 0)]
    assert len(by_seed(search(spark, range(2, 4), str(tmp_path)))) == 2
    assert by_seed(search(spark, range(0), str(tmp_path))) == []


def test_seeds_of_other_code_are_run_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(searching, "code_version", lambda: "other code")
        search(spark, range(1, 3), str(tmp_path))
    assert len(by_seed(search(spark, range(1, 3), str(tmp_path)))) == 2
    codes = rows_of(spark, str(tmp_path)).where("seed = 1").select("code").collect()
    assert {row["code"] for row in codes} == {"other code", code_version()}


def test_a_round_aims_at_situations_that_are_rare_in_the_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "FIRST_ROUND", 4)
    rows = search(spark, range(4), str(tmp_path))
    assert rows.where("seed is null").count() == 0  # An empty table shows nothing to aim at.
    rows = search(spark, range(10), str(tmp_path))
    aimed = rows.where("seed is null").collect()
    assert len(aimed) == 3  # One after every third of the six new seeds, in two rounds.
    drawn = [scenario_of_seed(seed) for seed in range(8)]
    for row in aimed:
        scenario = from_json(row["scenario"])
        assert scenario not in drawn
        assert scenario.cluster in [each.cluster for each in drawn]
        assert row["digest"] == run(scenario).digest


def test_a_round_that_is_interrupted_is_made_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "FIRST_ROUND", 2)

    def interrupt(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(spark, range(1, 5), str(tmp_path), on_progress=interrupt)
    assert len(by_seed(rows_of(spark, str(tmp_path)))) == 2
    rows = by_seed(search(spark, range(1, 5), str(tmp_path)))
    assert [row["seed"] for row in rows] == [1, 2, 3, 4]
    assert [row["digest"] for row in rows] == [
        run(scenario_of_seed(seed)).digest for seed in (1, 2, 3, 4)
    ]


def test_a_round_that_fails_adds_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="Expecting value"):
        run_trials(spark, [Trial(1), Trial(None, "not JSON")], str(tmp_path), "")
    assert rows_of(spark, str(tmp_path)).count() == 0


@pytest.mark.parametrize(("round_s", "sizes"), [(1e9, [1, 8, 3]), (1e-9, [1] * 4)])
def test_rounds_grow_and_shrink_until_they_have_the_wanted_length(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    round_s: float,
    sizes: list[int],
) -> None:
    monkeypatch.setattr(searching, "FIRST_ROUND", 1)
    monkeypatch.setattr(searching, "ROUND_S", round_s)
    done = [0]
    search(spark, range(sum(sizes)), str(tmp_path), on_progress=lambda seeds, _: done.append(seeds))
    assert [after - before for before, after in pairwise(done)] == sizes


def test_a_search_ends_with_the_round_in_which_its_time_is_over(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "FIRST_ROUND", 2)
    rows = search(spark, range(1, 2**62), str(tmp_path), seconds=0.01, on_progress=print)
    assert [row["seed"] for row in by_seed(rows)] == [1, 2]


def test_a_search_stops_after_the_round_with_the_first_finding(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "FIRST_ROUND", 4)
    rows = search(spark, range(100), str(tmp_path), variant=VARIANT)
    assert len(by_seed(rows)) == 4
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
    batch = pa.RecordBatch.from_pylist([{"seed": 1, "scenario": None}])
    [judged] = searching.judge("", "code", datetime.now(UTC), iter([batch]))
    [row] = judged.to_pylist()
    assert (row["digest"], row["events"], row["situations"]) == (None, 0, [])
    assert (row["broken"], row["reasons"]) == ([NEVER_ENDS], ["too many steps"])
