"""Tests how the predictions and hints that students hand in are read."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from labkit.course.checking.record import FILE
from labkit.course.grading.records import rows_of
from labkit.course.grading.reports.report import write
from labkit.course.grading.submissions import submissions_of
from labkit.course.inventory.questions import QUESTIONS
from labkit.course.inventory.sitting import judged
from tests.course.grading.notebooks import RIGHT, write_notebook
from tests.course.grading.test_grade import NOW

COMPARED = (
    '{"event": "compared", "name": "size", "predicted": "1", "truth": "2", "is_right": false}'
)
HINT = '{"event": "hint", "name": "quorums.lost", "hint": 2}'
IGNORED = '{"event": "consent"}\n{"event": "predicted", "name": "size", "predicted": "1"}'


def handed_in(tmp_path: Path, text: str) -> tuple[Path, ...]:
    file = tmp_path / "ada" / FILE
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return (file,)


def test_a_students_record_is_found_beside_the_notebooks_of_the_folder(tmp_path: Path) -> None:
    notebook = write_notebook(tmp_path / "ada" / "05.ipynb", RIGHT)
    files = handed_in(tmp_path, HINT)
    assert submissions_of([tmp_path / "ada"])[0].records == files
    assert submissions_of([notebook])[0].records == ()


def test_comparisons_and_hints_become_rows_of_the_class_report(tmp_path: Path) -> None:
    files = handed_in(tmp_path, f"{IGNORED}\n{COMPARED}\n{HINT}\n")
    rows, problems = rows_of("ada", files)
    write([], rows, tmp_path, NOW)
    written = pq.read_table(tmp_path / "records.parquet").to_pylist()
    assert [(r["student"], r["event"], r["is_right"], r["hint"]) for r in written] == [
        ("ada", "compared", False, None),
        ("ada", "hint", None, 2),
    ]
    assert problems == []


def test_lines_that_labkit_did_not_write_are_left_out_and_counted(tmp_path: Path) -> None:
    strange = [
        *("[]", "{", "1", '{"event": []}', '{"event": "hint", "name": "a.b", "hint": true}'),
        *('{"event": "hint", "name": "a.b", "hint": 99999999999999999999}', "[" * 100_000),
    ]
    rows, problems = rows_of("ada", handed_in(tmp_path, "\n".join([*strange, HINT])))
    assert [row["hint"] for row in rows] == [2]
    assert problems == [f"ada: ignoring {len(strange)} invalid lines of {FILE}"]


def test_a_record_that_is_a_link_or_too_large_is_left_out_and_said(tmp_path: Path) -> None:
    large = handed_in(tmp_path, " " * (2 << 20))
    link = tmp_path / FILE
    link.symlink_to(large[0])
    rows, problems = rows_of("ada", (link, *large))
    assert (rows, len(problems)) == ([], 2)
    assert "not a regular file" in problems[0]
    assert "larger than 1 MB" in problems[1]


def test_text_that_utf_8_cannot_hold_does_not_stop_the_report(tmp_path: Path) -> None:
    half = COMPARED.replace('"1"', '"\\ud800"')
    rows, _problems = rows_of("ada", handed_in(tmp_path, half))
    write([], rows, tmp_path, NOW)
    assert pq.read_table(tmp_path / "records.parquet").to_pylist()[0]["predicted"] == "?"


def sitting(when: str, seed: int, letter: str) -> str:
    answers = {question.name: letter for question in QUESTIONS}
    return json.dumps({"event": "inventory", "when": when, "seed": seed, "answers": answers})


def test_the_first_sitting_before_and_the_last_one_after_the_course_count(tmp_path: Path) -> None:
    lines = [
        *(sitting("before", 1, "a"), sitting("before", 1, "b")),
        *(sitting("after", 2, "a"), sitting("after", 2, "c"), sitting("after", 0, "c")),
    ]
    notebook = write_notebook(tmp_path / "ada" / "05.ipynb", RIGHT)
    (notebook.parent / "my-inventory.jsonl").write_text("\n".join(lines))
    [submission] = submissions_of([notebook.parent])
    rows, problems = rows_of("ada", submission.records)
    assert problems == ["ada: ignoring 1 invalid lines of my-inventory.jsonl"]
    for when, seed, letter in (("before", 1, "a"), ("after", 2, "c")):
        found = {row["name"]: row["predicted"] for row in rows if row["event"] == when}
        assert found == dict(judged(seed, {each.name: letter for each in QUESTIONS}))
    assert all(row["is_right"] == (row["predicted"] == "right") for row in rows)


def test_unknown_fields_of_a_line_are_ignored(tmp_path: Path) -> None:
    line = COMPARED.replace("}", ', "hint": "x"}')
    rows, problems = rows_of("ada", handed_in(tmp_path, line))
    assert ([row["event"] for row in rows], problems) == (["compared"], [])
