"""Tests that the report lists situations reached, situations never reached, and broken promises."""

import ast
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import labkit.system
from labkit.views.spark.search import SCHEMA
from labkit.worlds.sim.explore.code_version import code_version
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.situations.covered_situations import SITUATIONS
from tools.search.branches import Branches
from tools.search.report import first_broken, published, report

NEVER = "a power failure during compaction"
MODULE = "client/quorum.py"
RARE, COMMON = "two recoverers", "an ensemble change"


def run_of(seed: int | None, *situations: str, **columns: Any) -> dict[str, Any]:
    """Return a row of the table of runs, without running anything."""
    return {
        "seed": seed,
        "variant": "",
        "code": code_version(),
        "scenario": random_scenario(seed or 0).to_json(),
        "digest": "d",
        "broken": [],
        "reasons": [],
        "situations": list(situations),
        "events": 10,
        "seconds": 1.0,
        "round": datetime(2026, 1, 2, tzinfo=UTC),
    } | columns


EARLIER = {"code": "earlier", "round": datetime(2026, 1, 1, tzinfo=UTC)}
ROWS = [
    run_of(7, COMMON, broken=["StepsEnd"], reasons=["it hangs"], seconds=3600.0, **EARLIER),
    *(run_of(seed, COMMON) for seed in range(10, 210)),
    run_of(210, COMMON, RARE, broken=["OneWriter"], reasons=["two wrote"]),
    run_of(None, COMMON),
]


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, from_arrow_schema(SCHEMA))


def a_branch() -> tuple[int, int]:
    """Return the branch from the module's first `if` to the first line inside it."""
    source = (Path(labkit.system.__file__).parent / MODULE).read_text(encoding="utf-8")
    test = next(each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.If))
    return test.lineno, test.body[0].lineno


BRANCHES = Branches(30, {MODULE: frozenset({a_branch()})})


@pytest.mark.slow
def test_the_report_says_what_each_version_of_the_code_did(rows: DataFrame) -> None:
    text = report("", rows, BRANCHES)
    lines = text.splitlines()
    counted = "201 seeds and 1 aimed runs in 0.056 processor hours"
    assert f"Code {code_version()}: {counted}" in lines
    assert "Earlier code earlier: 1 seeds and 0 aimed runs in 1.000 processor hours" in lines
    assert "Promises that broke: 1" in lines
    assert "OneWriter: 1 times, first seeds: 210\ntwo wrote\n" in text
    assert repr(random_scenario(210)) in lines
    assert f"Situations of the protocol reached: 2 of {len(SITUATIONS)} (2%)" in lines
    assert f"  {NEVER}" in lines
    assert "Rare, in at most 1% of the seeds: 1:" in lines
    assert f"  {RARE}: seeds 1 (first: 210), aimed runs 0" in lines
    assert f"{COMMON}:" not in text
    assert "Branches of the code taken in 30 measured runs:" in lines
    assert "\n  client: 1 of " in text
    assert "not measured yet" in report("", rows, Branches(0, {}))


@pytest.mark.slow
def test_only_promises_that_the_current_code_broke_count(rows: DataFrame) -> None:
    assert first_broken(rows) == {"OneWriter": random_scenario(210).to_json()}


@pytest.mark.slow
def test_a_page_gets_a_row_for_each_version_of_the_code(rows: DataFrame) -> None:
    text = published(rows, BRANCHES)
    assert (
        "| earlier | 1 | 0 | 1.00 | StepsEnd |\n"
        f"| {code_version()} | 201 | 1 | 0.06 | OneWriter |\n"
    ) in text
    assert f"reached 2 of {len(SITUATIONS)} situations" in text
    assert NEVER in text
