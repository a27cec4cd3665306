import ast
import re
from pathlib import Path
from unittest.mock import Mock

import nbformat
import pytest

from labkit.cli.main import main
from labkit.course.checking.exercise import find
from labkit.course.checking.parameters import LESSONS, MAX_SEED, parameters
from labkit.course.grading.handout import (
    HandoutError,
    handout_notebook,
    lesson_sources,
    write_handout,
    write_nbgrader_handout,
)
from labkit.course.grading.nbgrader_cells import BEGIN, END
from labkit.course.grading.variants import CHOICES, seed_of, variant_of, variant_values
from labkit.course.lessons.build import parse

SOURCES = lesson_sources([])
IN_A_FILE = {"02", "03", "04", "06", "07", "08", "16", "17"}
WITH_EXERCISES = sorted(set(SOURCES) - IN_A_FILE)
ONE = [SOURCES["05"]]


def test_the_same_student_gets_the_same_bytes_and_another_one_others(tmp_path: Path) -> None:
    for folder in ("first", "again"):
        write_handout(tmp_path / folder, ONE, ["ada", "bob"], [])
    first, again = (
        {each.relative_to(tmp_path / folder): each.read_bytes() for each in files}
        for folder in ("first", "again")
        for files in [sorted((tmp_path / folder).rglob("*.ipynb"))]
    )
    assert first == again
    ada, bob = first.values()
    assert ada != bob


@pytest.mark.parametrize("lesson", sorted(SOURCES))
def test_every_variant_is_in_the_ranges_of_its_lesson(lesson: str) -> None:
    assert set(CHOICES.get(lesson, {})) <= set(LESSONS[lesson])
    [set_here] = [
        cell.source
        for cell in parse(SOURCES[lesson].read_text(), "x", "learner").cells
        if "parameters" in cell.metadata.get("tags", ())
    ]
    defaults: dict[str, object] = {}
    exec(set_here, defaults)
    for seed in (1, MAX_SEED, *range(2, 40)):
        parameters(lesson, defaults | variant_values(lesson, seed))
    parameters(lesson, defaults)


@pytest.mark.sampled
@pytest.mark.parametrize("lesson", sorted(SOURCES))
def test_what_is_handed_out_has_no_solution_and_no_output(lesson: str) -> None:
    made = handout_notebook(SOURCES[lesson], 7)
    solved = parse(SOURCES[lesson].read_text(), "x", "solution")
    learner = parse(SOURCES[lesson].read_text(), "x", "learner")
    only_there = {
        line.strip()
        for own, other in zip(learner.cells, solved.cells, strict=True)
        for line in set(other.source.splitlines()) - set(own.source.splitlines())
        if "(" in line
    }
    everything = {line.strip() for own in learner.cells for line in own.source.splitlines()}
    lines = {line.strip() for cell in made.cells for line in cell.source.splitlines()}
    assert not lines & (only_there - everything)
    assert not any(cell.get("outputs") for cell in made.cells)
    nbformat.validate(made)


@pytest.mark.parametrize("lesson", WITH_EXERCISES)
def test_every_exercise_has_a_cell_to_answer_and_a_locked_cell_worth_a_point(lesson: str) -> None:
    marked = [
        cell for cell in handout_notebook(SOURCES[lesson]).cells if "nbgrader" in cell.metadata
    ]
    answers, tests = marked[::2], marked[1::2]
    assert tests
    for answer, test in zip(answers, tests, strict=True):
        assert answer.metadata.nbgrader.solution
        assert not answer.metadata.nbgrader.locked
        kept = test.metadata.nbgrader
        assert (kept.grade, kept.locked, kept.solution, kept.points) == (True, True, False, 1)
        assert find(kept.grade_id.replace("-", ".", 1)).name in test.source
        assert re.fullmatch(r"[\w-]+", kept.grade_id)


@pytest.mark.parametrize("lesson", WITH_EXERCISES)
def test_without_what_is_between_the_marks_a_teachers_answer_is_open(lesson: str) -> None:
    made = handout_notebook(SOURCES[lesson], has_answers=True)
    answers = [c for c in made.cells if c.metadata.get("nbgrader", {}).get("solution")]
    assert answers
    for cell in answers:
        ast.parse(cell.source)
        released = re.sub(
            rf"(?ms)^( *){BEGIN}\n(.*?)^ *{END}", r"\1raise NotImplementedError()", cell.source
        )
        assert BEGIN not in released
        ast.parse(released)
        assert len(released) < len(cell.source)


def test_a_notebook_carries_its_variant() -> None:
    made = handout_notebook(SOURCES["05"], 7)
    assert variant_of(made) == 7
    assert variant_of(handout_notebook(SOURCES["05"])) == 1


@pytest.mark.parametrize(
    "text",
    ["case_seed = 0", "case_seed = '7'", "case_seed = 7.5", "case_seed =", "case_seed = f()"],
)
def test_a_variant_that_there_is_not_becomes_the_lessons_own(text: str) -> None:
    cell = {"cell_type": "code", "source": text, "metadata": {"tags": ["injected-parameters"]}}
    assert variant_of({"cells": [cell]}) == 1


def test_a_variant_draws_other_cases_of_the_same_kind() -> None:
    exercise = find("quorums.write_set")
    assert exercise.cases is not None
    assert exercise.with_cases_of(7).cases == exercise.with_cases_of(7).cases
    asked = []
    for seed in (1, 7, 7):
        right = Mock(side_effect=exercise.cases.right)
        cases = exercise.with_cases_of(seed).cases
        assert cases is not None
        assert cases.wrong(right, "write_set") is None
        asked.append(right.call_args_list)
    own, variant, again = asked
    assert variant == again != own


def test_a_name_has_the_same_seed_on_every_machine() -> None:
    assert (seed_of("ada"), seed_of("Zoë")) == (SEED_OF_ADA, SEED_OF_ZOE)


SEED_OF_ADA, SEED_OF_ZOE = 1016716797, 1701973572


def test_a_students_work_is_not_written_over(tmp_path: Path) -> None:
    write_handout(tmp_path, ONE, ["bob"], [])
    [file] = tmp_path.rglob("*.ipynb")
    file.write_text("work")
    with pytest.raises(HandoutError, match="different contents"):
        write_handout(tmp_path, ONE, ["ada", "bob"], [])
    assert file.read_text() == "work"
    assert not (tmp_path / "ada").exists()


def test_for_nbgrader_each_lesson_with_exercises_in_its_cells_is_an_assignment(
    tmp_path: Path,
) -> None:
    sources = [SOURCES["05"], SOURCES["16"]]
    assert write_nbgrader_handout(tmp_path, sources) == ["05-ensembles"]
    assert (tmp_path / "source" / "05-ensembles" / "05-ensembles.ipynb").is_file()


def test_the_command_says_who_has_which_variant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "class.txt").write_text("ada\n")
    folder = tmp_path / "out"
    # The option is between the positional arguments.
    assert main(["handout", str(folder), "--students", str(tmp_path / "class.txt"), "05"]) == 0
    assert capsys.readouterr().out == f"{folder / 'ada'}: variant {seed_of('ada')}\n"
    assert main(["handout", str(folder), "99"]) == 1
    assert "there is no lesson 99" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_students_file_in_another_encoding_is_refused_in_one_line(
    encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "class.txt"
    file.write_text("Zoë\nbob\n", encoding=encoding)
    assert main(["handout", str(tmp_path / "out"), "05", "--students", str(file)]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert f"{file} is not encoded in UTF-8" in line
