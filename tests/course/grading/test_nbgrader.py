"""Tests lesson 09 with the real nbgrader, installed together with labkit."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader import api

from labkit.course.grading.handout import lesson_sources, write_handout, write_nbgrader_handout

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

SOURCES = [lesson_sources(["09"])["09"]]
NAME = "09-re-replication"


def nbgrader(folder: Path, *arguments: str) -> str:
    # The kernels of nbgrader's notebooks import the labkit under test, no matter which labkit is
    # installed. nbgrader starts the program `alembic`, so the environment's programs must be on the
    # PATH.
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    labkit = str(Path(__file__).parents[3])
    environment = os.environ | {"PYTHONPATH": labkit, "PATH": programs}
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout + done.stderr


def with_answers(release: Path, teachers: Path, target: Path, *, wrong: str = "") -> None:
    """Write the notebook of a student who knows all answers, or all except one."""
    made, solved = (nbformat.read(each, as_version=4) for each in (release, teachers))
    answers = {cell.metadata.nbgrader.grade_id: cell.source for cell in nbgraders(solved)}
    for cell in nbgraders(made):
        if cell.metadata.nbgrader.solution:
            source = answers[cell.metadata.nbgrader.grade_id]
            cell.source = source.replace(wrong, "0") if wrong else source
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(made, target)


def nbgraders(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if "nbgrader" in cell.metadata]


def shows_view(cell: Any) -> bool:
    outputs = cell.get("outputs", ())
    return any("<img" in output.get("data", {}).get("text/html", "") for output in outputs)


WRONG = "min(missing.values()) + delay_s"


def test_validate_fails_on_an_open_or_wrong_notebook_and_passes_with_the_answers(
    tmp_path: Path,
) -> None:
    write_handout(tmp_path, SOURCES, [], [])
    write_nbgrader_handout(tmp_path, SOURCES)
    handed = tmp_path / f"{NAME}.ipynb"
    teachers = tmp_path / "source" / NAME / f"{NAME}.ipynb"
    with_answers(handed, teachers, tmp_path / "right.ipynb")
    with_answers(handed, teachers, tmp_path / "wrong.ipynb", wrong=WRONG)
    assert "VALIDATION FAILED ON 3 CELL(S)" in nbgrader(tmp_path, "validate", handed.name)
    assert "VALIDATION FAILED ON 1 CELL(S)" in nbgrader(tmp_path, "validate", "wrong.ipynb")
    assert "passes all the tests" in nbgrader(tmp_path, "validate", "right.ipynb")


def test_an_assignment_is_generated_and_graded(tmp_path: Path) -> None:
    write_nbgrader_handout(tmp_path, SOURCES)
    said = nbgrader(tmp_path, "generate_assignment", NAME)
    release = tmp_path / "release" / NAME / f"{NAME}.ipynb"
    assert release.is_file(), said
    assert WRONG not in release.read_text()
    teachers = tmp_path / "source" / NAME / f"{NAME}.ipynb"
    for student, wrong in (("ada", ""), ("bob", WRONG)):
        place = tmp_path / "submitted" / student / NAME / f"{NAME}.ipynb"
        with_answers(release, teachers, place, wrong=wrong)
    said = nbgrader(tmp_path, "autograde", NAME)
    with api.Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as book:
        scores = {student: book.find_submission(NAME, student).score for student in ("ada", "bob")}
    assert scores == {"ada": 3, "bob": 2}, said
    graded = tmp_path / "autograded" / "ada" / NAME / f"{NAME}.ipynb"
    views = [each for each in nbformat.read(graded, as_version=4).cells if shows_view(each)]
    assert len(views) == 7
    # The views are static pictures, without the code and the film that would make them larger.
    assert graded.stat().st_size < 300_000
