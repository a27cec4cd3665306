"""Tests that the notebook about a search reproduces its outputs, and accepts any search."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from labkit.views.spark.search import search
from tests.notebooks.running import check_with_nbval, run_with

NAME = "../docs/search-runs.ipynb"

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_the_committed_notebook_says_what_it_says_when_run_again(tmp_path: Path) -> None:
    check_with_nbval(NAME, tmp_path)


def test_a_search_without_bugs_and_aimed_runs_can_be_analysed(
    spark: SparkSession, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    search(spark, range(3), str(runs))
    shown = run_with(NAME, tmp_path / "out.ipynb", runs=str(runs))
    assert "3 runs with a seed, 0 that aim" in shown
