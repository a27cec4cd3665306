"""Tests the grades of a class: points, CSV, earlier results and late submissions."""

import csv
import os
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from labkit.course.grading import command
from labkit.course.grading.class_list import Student
from labkit.course.grading.reports.gradebook import (
    Gradebook,
    PointsError,
    read_points,
    write_grades,
)
from labkit.course.grading.reports.report import write
from labkit.course.grading.results import NOT_GRADED, OPEN, PASSED, REFUSED, WHOLE, Result
from tests.course.grading.notebooks import RIGHT, WRONG, write_notebook
from tests.course.grading.test_attacks import options
from tests.course.grading.test_grade import NOW

SET, LOST = "quorums.write_set", "quorums.lost"
RESULTS = [
    Result("ada", SET, PASSED, "Held."),
    Result("ada", LOST, REFUSED, "Too few."),
    Result("bob", SET, PASSED, "Held.", late=True),
    Result("bob", LOST, OPEN, "It has no answer."),
]


def grades_in(folder: Path) -> list[dict[str, str]]:
    with (folder / "grades.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def written(folder: Path, text: str) -> Path:
    file = folder / "points.csv"
    file.write_text(text)
    return file


def test_the_csv_has_the_id_and_points_of_each_student_and_the_total(tmp_path: Path) -> None:
    points = read_points(written(tmp_path, f"exercise,points\n{SET},2\n{LOST},0.5\n"))
    students = {name: Student(name, id) for name, id in (("ada", "17"), ("bob", ""), ("eve", "9"))}
    write_grades(Gradebook.of(RESULTS, points, students), tmp_path)
    assert grades_in(tmp_path) == [
        {"student": "ada", "id": "17", SET: "2", LOST: "0", "total": "2", "late": ""},
        {"student": "bob", "id": "", SET: "2", LOST: "0", "total": "2", "late": "late"},
        {"student": "eve", "id": "9", SET: "0", LOST: "0", "total": "0", "late": ""},
    ]


def test_a_refused_answer_earns_the_points_for_an_attempt_and_an_open_one_none(
    tmp_path: Path,
) -> None:
    points = read_points(written(tmp_path, f"exercise,points,attempted\n{LOST},2,0.5\n{SET},1,\n"))
    book = Gradebook.of(RESULTS, points, {})
    assert [book.earned(student, LOST) for student in ("ada", "bob")] == [0.5, 0]
    assert [book.total(student) for student in ("ada", "bob")] == [1.5, 1]


def test_without_points_each_exercise_counts_one(tmp_path: Path) -> None:
    write_grades(Gradebook.of(RESULTS, None, {}), tmp_path)
    assert [row["total"] for row in grades_in(tmp_path)] == ["1", "1"]


def test_a_spreadsheet_takes_no_name_and_no_id_for_a_formula(tmp_path: Path) -> None:
    write_grades(Gradebook.of([], None, {"=1+1": Student("=1+1", "@2")}), tmp_path)
    assert grades_in(tmp_path)[0] == {"student": "'=1+1", "id": "'@2", "total": "0", "late": ""}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("quorums.write_set,2\n", "the columns ['quorums.write_set', '2']"),
        ("", "the columns None"),
        ("exercise,points\nquorums.write_sets,2\n", "no exercise 'quorums.write_sets'"),
        ("exercise,points\nquorums.write_set,two\n", "'two'"),
        ("exercise,points\nquorums.write_set,-1\n", "has -1 points"),
        (f"exercise,points,attempted\n{SET},1,2\n", "2 if it is attempted"),
        ("exercise,points\nquorums.write_set\n", "float"),
        ("points,exercise\n1\n", "no lesson with exercises named ''"),
        (f"exercise,points\n{SET},1\n{SET},1\n", "listed twice"),
    ],
)
def test_a_wrong_list_of_points_is_refused_with_an_example(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(PointsError, match="for example `quorums") as error:
        read_points(written(tmp_path, text))
    assert problem in str(error.value)


def test_grading_one_student_again_keeps_the_results_of_the_others(tmp_path: Path) -> None:
    write(RESULTS, [], tmp_path, NOW)
    again = [Result("ada", LOST, PASSED, "Held.")]
    results, _ = write(again, [], tmp_path, NOW + timedelta(days=1))
    assert {(each.student, each.exercise): each.outcome for each in results} == {
        ("ada", SET): PASSED,
        ("ada", LOST): PASSED,
        ("bob", SET): PASSED,
        ("bob", LOST): OPEN,
    }
    assert [each.late for each in results] == [False, False, True, False]
    rows = pq.read_table(tmp_path / "results.parquet").to_pylist()
    assert [row["graded_at"] > NOW for row in rows] == [False, True, False, False]


@pytest.mark.slow
def test_a_class_gets_its_grades_and_feedback_in_one_command(tmp_path: Path) -> None:
    for name, source in (("ada", RIGHT), ("bob", WRONG)):
        write_notebook(tmp_path / name / "05.ipynb", source)
        os.utime(tmp_path / name / "05.ipynb", (NOW.timestamp(), NOW.timestamp()))
    # The list says when Ada submitted, so the modification time of her file is ignored.
    in_time = (NOW - timedelta(hours=2)).isoformat()
    (tmp_path / "students.csv").write_text(f"student,handed_in\nada,{in_time}\nbob,\neve,\n")
    arguments = options(
        tmp_path,
        *(tmp_path / "ada", tmp_path / "bob"),
        jobs=None,
        students=tmp_path / "students.csv",
        points=written(tmp_path, f"exercise,points\n{SET},3\n"),
        deadline=NOW - timedelta(hours=1),
        feedback=True,
    )
    command.run_grade(arguments, lambda _: None)
    rows = grades_in(tmp_path / "grades")
    assert [(row["student"], row["total"], row["late"]) for row in rows] == [
        ("ada", "3", ""),
        ("bob", "0", "late"),
        ("eve", "0", ""),
    ]
    assert "✘ quorums.write_set" in (tmp_path / "bob" / "feedback.html").read_text()
    assert 'href="students/bob.html"' in (tmp_path / "grades" / "class.html").read_text()


def test_an_answer_that_could_not_be_graded_has_no_points_yet(tmp_path: Path) -> None:
    results = [
        *RESULTS[:1],
        Result("ada", LOST, NOT_GRADED, "The machine was busy."),
        Result("dan", WHOLE, NOT_GRADED, "The process ended."),
        Result("gus", f"{WHOLE} =1+1.ipynb", REFUSED, "It is not a notebook."),
    ]
    write_grades(Gradebook.of(results, None, {}), tmp_path)
    assert grades_in(tmp_path) == [
        {"student": "ada", "id": "", LOST: "", SET: "1", "total": "1", "late": ""},
        {"student": "dan", "id": "", LOST: "", SET: "", "total": "0", "late": ""},
        {"student": "gus", "id": "", LOST: "0", SET: "0", "total": "0", "late": ""},
    ]


def test_an_answer_that_cannot_be_graded_again_stays_passed(tmp_path: Path) -> None:
    write(RESULTS, [], tmp_path, NOW)
    busy = [Result("ada", name, NOT_GRADED, "The machine was busy.") for name in (SET, LOST)]
    results, _ = write(busy, [], tmp_path, NOW + timedelta(days=1))
    outcomes = {each.exercise: each.outcome for each in results if each.student == "ada"}
    assert outcomes == {SET: PASSED, LOST: NOT_GRADED}


def test_a_result_about_a_file_disappears_when_the_student_is_graded_again(tmp_path: Path) -> None:
    write([Result("ada", f"{WHOLE} 05.ipynb", REFUSED, "No notebook.")], [], tmp_path, NOW)
    results, _ = write(RESULTS[:1], [], tmp_path, NOW)
    assert results == RESULTS[:1]


def test_earlier_results_survive_an_interrupted_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_table: object, file: object) -> None:
        if isinstance(file, Path):
            file.write_bytes(b"PAR1")
        raise KeyboardInterrupt

    write(RESULTS, [], tmp_path, NOW)
    with monkeypatch.context() as patches:
        patches.setattr(pq, "write_table", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write([], [], tmp_path, NOW)
    assert write([], [], tmp_path, NOW)[0] == RESULTS


def test_a_spreadsheet_may_separate_columns_by_semicolons(tmp_path: Path) -> None:
    points = read_points(written(tmp_path, f"exercise;points;attempted\n{SET};2;1\n"))
    assert (points[SET].passed, points[SET].attempted) == (2, 1)


@pytest.mark.slow
def test_feedback_replaces_no_file_outside_the_submission(tmp_path: Path) -> None:
    for name in ("ada", "bob", "eve"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "05.ipynb").write_text("{")
    (tmp_path / "grades.csv").write_text("the teacher's")
    for name in ("feedback.html", ".feedback.html.unfinished"):
        (tmp_path / "ada" / name).symlink_to(tmp_path / "grades.csv")
    (tmp_path / "bob" / "feedback.html").mkdir()
    folders = [tmp_path / name for name in ("ada", "bob", "eve")]
    arguments = options(tmp_path, *folders, feedback=True)
    lines: list[str] = []
    command.run_grade(arguments, lines.append)
    assert (tmp_path / "grades.csv").read_text() == "the teacher's"
    assert "is not a notebook" in (tmp_path / "ada" / "feedback.html").read_text()
    assert "is not a notebook" in (tmp_path / "eve" / "feedback.html").read_text()
    assert [line.partition(":")[0] for line in lines if "cannot write" in line] == ["bob"]
