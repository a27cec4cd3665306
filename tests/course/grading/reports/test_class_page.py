"""Tests that the page about the class is written from results and records, without Spark."""

from pathlib import Path
from typing import Any

from labkit.course.grading.class_list import Student
from labkit.course.grading.reports.class_page import write_class_page
from labkit.course.grading.reports.gradebook import Gradebook
from labkit.course.grading.reports.report import page_of as student_page
from labkit.course.grading.reports.report import write_page
from labkit.course.grading.results import NOT_GRADED, NOT_HANDED_IN, PASSED, REFUSED, WHOLE, Result
from labkit.course.inventory.questions import QUESTIONS

SET, LOST = "quorums.write_set", "quorums.lost"
RESULTS = [
    Result("ada", SET, PASSED, "Held."),
    Result("ada", LOST, REFUSED, "It broke <here>.", asked="lost(1, 0, 3, 2) is True"),
    Result("bob", SET, PASSED, "Held.", late=True),
    Result("bob", LOST, REFUSED, "It broke <here>.", asked="lost(2, 0, 3, 2) is False"),
]


def page_of(
    folder: Path, results: list[Result] = RESULTS, noted: list[dict[str, Any]] | None = None
) -> str:
    book = Gradebook.of(results, None, {"<eve>": Student("<eve>")})
    write_class_page(book, results, noted or [], folder)
    return (folder / "class.html").read_text(encoding="utf-8")


def test_the_page_shows_totals_who_handed_in_nothing_and_how_many_passed(tmp_path: Path) -> None:
    write_page("ada", RESULTS[:2], student_page("ada", tmp_path))
    page = page_of(tmp_path)
    assert "The class: 3 students, 2 points" in page
    assert "2 students handed in, 1 of them late. Of those" in page
    assert "the mean is 1.0 points" in page
    assert '<th scope="row">&lt;eve&gt;</th>' in page
    assert "<td>0</td><td>not handed in</td></tr>" in page
    assert '<th scope="row">passed by</th><td>0</td><td>2</td>' in page
    assert 'href="students/ada.html"' in page


def test_the_hardest_exercise_comes_first_and_its_share_ignores_missing_work(
    tmp_path: Path,
) -> None:
    page = page_of(tmp_path).partition("Exercises, hardest first")[2]
    assert page.index(LOST) < page.index(SET)
    assert "</span> 0%" in page
    assert "</span> 100%" in page


def test_the_same_mistake_of_several_students_is_one_row_with_an_example(tmp_path: Path) -> None:
    page = page_of(tmp_path).partition("Most frequent mistakes")[2]
    assert (
        f'<th scope="row">{LOST}</th><td class="n">2</td><td>It broke &lt;here&gt;.</td>'
        "<td><code>lost(1, 0, 3, 2) is True</code></td>" in page
    )


def test_wrong_predictions_and_hints_of_records_are_counted(tmp_path: Path) -> None:
    def compared(student: str, predicted: str, is_right: bool) -> dict[str, Any]:
        note = {"event": "compared", "name": "size", "predicted": predicted}
        return note | {"student": student, "is_right": is_right}

    hint = {"event": "hint", "name": LOST, "student": "ada", "hint": 2}
    guesses = (("ada", "<9>", False), ("bob", "<9>", False), ("eve", "1", True))
    page = page_of(tmp_path, noted=[*(compared(*each) for each in guesses), hint, hint])
    assert (
        '<th scope="row">size</th><td class="n">2</td><td class="n">1</td>'
        "<td><code>&lt;9&gt;</code> (2)</td>" in page
    )
    assert f'<th scope="row">{LOST}</th><td class="n">0</td><td class="n">1</td>' in page


def test_the_inventory_of_a_class_is_analysed(tmp_path: Path) -> None:
    noted = [
        {"student": student, "event": when, "name": question.name, "predicted": outcome}
        for student in ("ada", "bob")
        for when, outcome in (("before", "It <stays>."), ("after", "right"))
        for question in QUESTIONS
    ]
    page = page_of(tmp_path, noted=noted).partition("Concept inventory")[2]
    assert "both before and after the course: 2. Of their answers, 0% were right" in page
    assert "before and 100% after it, a normalised gain of 100%" in page
    assert (
        '<th scope="row">04 replay</th><td>0%</td><td>100%</td><td>100%</td><td>-</td><td></td>'
        in page
    )
    before = page_of(tmp_path, noted=[row for row in noted if row["event"] == "before"])
    assert "<td>It &lt;stays&gt;. (2)</td>" in before


def test_a_page_without_results_has_no_empty_tables(tmp_path: Path) -> None:
    page = page_of(tmp_path, results=[])
    assert "The class: 1 students, 0 points" in page
    assert "Most frequent mistakes" not in page


def test_a_submission_that_could_not_be_graded_was_handed_in(tmp_path: Path) -> None:
    failed = Result("dan", WHOLE, NOT_GRADED, "The folder cannot be read.")
    empty = Result("fay", WHOLE, NOT_HANDED_IN, "There is no notebook.")
    broken = Result("gus", f"{WHOLE} =1+1.ipynb", REFUSED, "It is not a notebook.")
    page = page_of(tmp_path, [*RESULTS, failed, empty, broken])
    assert "The class: 6 students, 2 points" in page
    assert "4 students handed in" in page
    lines = {
        name: page.partition(f'">{name}</th>')[2].partition("</tr>")[0]
        for name in ["dan", "fay", "gus"]
    }
    assert lines["dan"].count('title="not graded"') == 2
    assert lines["dan"].endswith("<td>not graded</td>")
    assert lines["fay"].endswith("<td>not handed in</td>")
    assert lines["gus"].endswith("<td>refused</td>")
    assert "=1+1" not in page
