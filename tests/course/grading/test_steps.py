"""Tests how `mybookie.py` and `myclient.py` are graded."""

from pathlib import Path

import pytest

from labkit.course.grading.processes import grade
from labkit.course.grading.reports.gradebook import Gradebook, read_points
from labkit.course.grading.results import OPEN, PASSED, REFUSED, Result
from labkit.course.grading.steps import safe_picture, step_names
from labkit.course.grading.submissions import submissions_of
from labkit.course.workshop.step_check import broken_lines
from labkit.course.workshop.tracks import TRACK_FILES, track
from tests.course.grading.notebooks import RIGHT, write_notebook
from tests.course.grading.test_grade import HERE
from tests.course.workshop.wrong import Answer, obvious_answers, with_changes

BROKEN = obvious_answers("wrong_bookie")


def results_of(folder: Path) -> dict[str, Result]:
    [submission] = submissions_of([folder])
    return {result.exercise: result for result in grade(submission, HERE).results}


@pytest.mark.slow
@pytest.mark.core
def test_each_step_of_a_file_beside_a_notebook_is_an_exercise(tmp_path: Path) -> None:
    write_notebook(tmp_path / "ada" / "05.ipynb", RIGHT)
    unsynced = next(each for each in BROKEN if each.title == "write does not sync")
    solution = with_changes(tmp_path / "ada", "bookie", *unsynced.changes)
    skeleton = track("bookie").skeleton.read_text()
    written = solution.read_text().partition("# Step 3")[0]
    solution.write_text(written + skeleton[skeleton.index("# Step 3") :])
    results = results_of(tmp_path / "ada")
    assert results["quorums.write_set"].outcome == PASSED
    outcomes = {name: each.outcome for name, each in results.items() if name in step_names()}
    expected = dict.fromkeys((name for name in step_names() if "bookie" in name), OPEN)
    assert outcomes == expected | {"bookie.1": REFUSED, "bookie.2": PASSED}
    contract = track("bookie").step(1).contract
    named = [line.words for line in contract if line.words in results["bookie.1"].message]
    assert named == [contract[4].words, contract[5].words]
    assert results["bookie.1"].picture.startswith("<pre>journal = Journal(disk, 10)")


def test_a_new_file_is_open_at_every_step(tmp_path: Path) -> None:
    file = tmp_path / TRACK_FILES["bookie"]
    file.write_bytes(track("bookie").skeleton.read_bytes())
    assert {result.outcome for result in results_of(tmp_path).values()} == {OPEN}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import labkit.course.workshop.step_check", "imports labkit.course.workshop.step_check"),
        ("from labkit.system.storage.journal import Journal", "labkit.system.storage.journal"),
        ("from labkit.system import storage", "imports labkit.system"),
        ("from . import solution", "line 1 imports ."),
        ("import os", "imports os"),
        ("exec('import os')", "uses exec"),
        ("__import__('os')", "uses __import__"),
    ],
)
def test_a_file_that_could_reach_labkits_answers_or_trials_is_not_run(
    line: str, found: str, tmp_path: Path
) -> None:
    (tmp_path / "mybookie.py").write_text(line)
    results = results_of(tmp_path)
    assert {result.outcome for result in results.values()} == {REFUSED}
    assert found in results["bookie.1"].message


@pytest.mark.parametrize("name", TRACK_FILES)
def test_the_solution_needs_no_other_import(name: str, tmp_path: Path) -> None:
    source = track(name).solution.read_text() + "\nraise NotImplementedError\n"
    (tmp_path / TRACK_FILES[name]).write_text(source)
    assert {result.outcome for result in results_of(tmp_path).values()} == {OPEN}


def test_a_file_that_is_not_python_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mybookie.py").write_text("def f(:\n")
    assert "mybookie.py, line 1" in results_of(tmp_path)["bookie.1"].message


def test_a_file_that_ends_python_costs_only_that_file(tmp_path: Path) -> None:
    (tmp_path / "mybookie.py").write_text("import asyncio\nasyncio.sys.modules['os']._exit(0)\n")
    write_notebook(tmp_path / "05.ipynb", RIGHT)
    results = results_of(tmp_path)
    assert results["bookie.6"].outcome == REFUSED
    assert results["quorums.write_set"].outcome == PASSED


@pytest.mark.sampled
@pytest.mark.parametrize("answer", BROKEN, ids=str)
def test_every_broken_line_of_a_contract_is_listed(answer: Answer, tmp_path: Path) -> None:
    found = track("bookie")
    file = with_changes(tmp_path, "bookie", *answer.changes)
    broken = broken_lines(found, found.step(answer.step), file, seeds=6)
    assert any(line.startswith(answer.line) for line in broken)


def test_no_script_from_the_sandbox_runs_on_a_students_page() -> None:
    script = "<script>alert(1)</script>"
    for picture in (safe_picture(f"<img>{script}", ""), safe_picture(script, script)):
        assert "alert" in picture
        assert "<script>" not in picture
    assert safe_picture("<img>", "").startswith("<iframe sandbox ")
    assert safe_picture("", "") == ""


def test_a_step_is_worth_the_points_of_the_list(tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text("exercise,points,attempted\nbookie.1,3,1\nclient.6,5,0\n")
    points = read_points(tmp_path / "points.csv")
    results = [Result("ada", "bookie.1", REFUSED, ""), Result("ada", "client.6", PASSED, "")]
    assert Gradebook.of(results, points, {}).total("ada") == 6
