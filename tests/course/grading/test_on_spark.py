"""Tests that grading on Spark gives the same grades as locally, whatever happens to its workers."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from labkit.cli.main import main
from labkit.course.grading import command, on_spark
from labkit.course.grading.isolation.sandbox import Limits
from labkit.course.grading.on_spark import grade_all_on_spark
from labkit.course.grading.reports.gradebook import GRADES
from labkit.course.grading.reports.report import RESULTS
from labkit.course.grading.results import NOT_GRADED, PASSED
from labkit.course.grading.submissions import Submission, submissions_of
from labkit.system.model.missing_part import MissingPart
from tests.course.grading.notebooks import RIGHT, WRONG, write_notebook
from tests.course.grading.test_attacks import options
from tests.course.grading.test_grade import HERE

pytestmark = pytest.mark.slow


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Return the submissions of ada, bob and eve; only bob's answer is wrong."""
    for name, source in (("ada", RIGHT), ("bob", WRONG), ("eve", RIGHT)):
        write_notebook(tmp_path / "class" / name / "05.ipynb", source)
    return [tmp_path / "class" / name for name in ("ada", "bob", "eve")]


@pytest.mark.core
@pytest.mark.usefixtures("spark")
def test_grades_are_the_same_as_without_spark(tmp_path: Path, folders: list[Path]) -> None:
    written = []
    for on in (False, True):
        arguments = options(tmp_path, *folders, spark=on, out=tmp_path / f"grades-{on}")
        lines: list[str] = []
        command.run_grade(arguments, lines.append)
        rows = pq.read_table(arguments.out / RESULTS).drop(["seconds", "graded_at"]).to_pylist()
        pages = {each.name: each.read_text() for each in (arguments.out / "students").iterdir()}
        written.append((sorted(lines[:-1]), (arguments.out / GRADES).read_text(), rows, pages))
    assert written[0] == written[1]
    assert [row["outcome"] for row in written[0][2]].count(PASSED) == 2


def test_a_worker_that_dies_costs_only_its_own_submission(
    spark: SparkSession, tmp_path: Path, folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    grade, marker = on_spark.grade_in_executor, tmp_path / "bob's worker has died"

    def die(submission: Submission, limits: Limits, batches: Iterator[Any]) -> Iterator[Any]:
        if submission.student == "eve":
            os._exit(1)
        if submission.student == "bob" and not marker.exists():
            marker.touch()
            os._exit(1)
        yield from grade(submission, limits, batches)

    monkeypatch.setattr(on_spark, "grade_in_executor", die)
    graded = {
        each.submission.student: each.results
        for each in grade_all_on_spark(spark, submissions_of(folders), HERE, 2)
    }
    assert graded["ada"][0].outcome == PASSED
    assert graded["bob"][0].outcome != NOT_GRADED
    assert marker.exists()
    assert [each.outcome for each in graded["eve"]] == [NOT_GRADED]
    assert "failed 2 times: " in graded["eve"][0].message


@pytest.mark.usefixtures("spark")
def test_an_interrupted_run_resumes_with_the_submissions_that_are_left(
    tmp_path: Path, folders: list[Path]
) -> None:
    arguments = options(tmp_path, *folders, spark=True)
    said: list[str] = []

    def interrupt(line: str) -> None:
        if said:
            raise KeyboardInterrupt
        said.append(line)

    with pytest.raises(KeyboardInterrupt):
        command.run_grade(arguments, interrupt)
    again: list[str] = []
    command.run_grade(arguments, again.append)
    assert again[0] == "an interrupted run graded 1 of 3 submissions; resuming"
    assert said[0] not in again
    rows = pq.read_table(arguments.out / RESULTS).to_pylist()
    assert [row["student"] for row in rows if row["outcome"] == PASSED] == ["ada", "eve"]


def test_without_java_the_command_says_what_is_missing(
    tmp_path: Path,
    folders: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def missing(_: str) -> None:
        raise MissingPart("Java", "Spark needs Java", "install it")

    monkeypatch.setattr("labkit.views.spark.session.spark_session", missing)
    assert main(["grade", str(folders[0]), "--spark", "--out", str(tmp_path / "grades")]) == 1
    assert "Spark needs Java" in capsys.readouterr().err
