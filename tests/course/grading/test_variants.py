"""Tests that lessons handed out in random variants run completely, with the answers filled in."""

import shutil
from pathlib import Path

import nbformat
import papermill
import pytest

from labkit.course.checking.check import ENVIRONMENT, MUST_PASS
from labkit.course.grading.handout import handout_notebook, lesson_sources
from labkit.course.grading.variants import seed_of
from labkit.course.lessons import track

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.parametrize("student", ["ada", "bob"])
@pytest.mark.parametrize("lesson", ["05", "07", "08"])
def test_a_lesson_in_a_drawn_variant_runs_whole_and_all_right_answers_pass(
    lesson: str, student: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = handout_notebook(lesson_sources([lesson])[lesson], seed_of(student), has_answers=True)
    nbformat.write(made, tmp_path / "lesson.ipynb")
    shutil.copy(track("client").solution, tmp_path / "myclient.py")
    monkeypatch.setenv(ENVIRONMENT, MUST_PASS)
    papermill.execute_notebook(
        str(tmp_path / "lesson.ipynb"),
        str(tmp_path / "run.ipynb"),
        cwd=str(tmp_path),
        progress_bar=False,
        execution_timeout=240,
        store_widget_state=False,
    )
    shown = (tmp_path / "run.ipynb").read_text(encoding="utf-8")
    assert shown.count(": passed.") >= 2
