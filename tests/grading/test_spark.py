"""Spark exercises are graded in the sandbox, like the others."""

from pathlib import Path

import pytest

from labkit.grading.grade import PASSED, Result, grade, submissions_of
from tests.grading.notebooks import write_notebook
from tests.grading.spark_answers import HOLES, ORDER, TWICE, answered, submission
from tests.grading.test_grade import PATIENT, has_sandbox

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

NAMES = "streams.order", "streams.holes", "streams.stored_twice"


def graded(folder: Path, *answers: str) -> dict[str, Result]:
    """Outside of a sandbox only where this machine has none."""
    write_notebook(folder / "ada" / "lesson.ipynb", *submission(*answers))
    [handed_in] = submissions_of([folder / "ada"])
    return {each.exercise: each for each in grade(handed_in, PATIENT, has_sandbox())}


def test_right_jobs_pass_and_a_job_that_is_not_there_is_open(tmp_path: Path) -> None:
    results = graded(tmp_path, *map(answered, (ORDER, HOLES, TWICE)))
    assert {name: each.outcome for name, each in results.items()} == dict.fromkeys(NAMES, PASSED)
    assert "recorded messages with planted faults" in results["streams.order"].message
