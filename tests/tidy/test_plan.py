"""How the suite runs: what stays together, what is refused, and how a run ends in time."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.plan import unit_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tests/spark/test_gaps.py::test_a", "tests/lessons/test_streams.py::test_b"),
        ("tests/browser/test_tour.py::test_a", "tests/browser/test_stripes.py::test_b"),
        ("tests/sim/test_run.py::test_a", "tests/sim/test_run.py::test_b[1]"),
    ],
)
def test_tests_that_share_a_part_or_a_file_go_to_one_worker(one: str, other: str) -> None:
    assert unit_of(one) == unit_of(other)


def test_notebooks_are_run_by_any_worker() -> None:
    runs = [f"tests/notebooks/test_lesson_runs.py::test_a[{number}]" for number in (1, 2)]
    assert len({unit_of(each) for each in (*runs, "tests/notebooks/test_tour.py::test_a")}) == 3


def test_java_is_not_started_without_its_marker() -> None:
    with pytest.raises(RuntimeError, match=r"mark it with `pytest\.mark\.java`"):
        subprocess.run(["java", "-version"], check=False)


@pytest.mark.slow
def test_a_run_whose_time_is_over_skips_the_rest_and_ends_well() -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:nbval"]
    ended = subprocess.run(
        [*command, "--end-within=599", "tests/tidy/test_proofs.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0
    assert " skipped in " in ended.stdout
    assert " passed" not in ended.stdout
