"""Reads the teacher's list of students, for `labkit handout` and `labkit grade`.

The file contains one name per line, or is a CSV file whose first line names the columns:

    student,id,handed_in
    Ada,4711,2026-12-01T17:30
    Bob,4712,

Only the column `student` is required. `id` is the student's number or address in a learning
management system. `handed_in` replaces the modification time of the notebooks, which is lost when
files are copied.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from labkit.system.model.errors import LabkitError

_COLUMNS = ("student", "id", "handed_in")


class ClassListError(LabkitError):
    """Raised if the list of students is not valid."""


@dataclass(frozen=True, slots=True)
class Student:
    name: str
    id: str = ""
    handed_in: datetime | None = None


def read_class_list(file: Path) -> dict[str, Student]:
    """Return the students by name, in the file's order.

    Raises `ClassListError` if a name occurs twice or is not a valid folder name, if a column is
    unknown, if a time is invalid, if the file is not valid UTF-8, or if it contains no names.
    Raises `OSError` if the file cannot be read.
    """
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ClassListError(
            f"{file} is not encoded in UTF-8 ({error}): save it as UTF-8"
        ) from None
    lines = [line for line in lines if line.strip()]
    is_table = bool(lines) and "student" in _columns(lines)
    students: dict[str, Student] = {}
    for each in _table(lines, file) if is_table else map(Student, map(str.strip, lines)):
        name = each.name
        if not name or name.startswith(".") or set(name) & set('/\\:*?"<>|'):
            raise ClassListError(f"{name!r} is not a valid folder name: change the name in {file}")
        if name in students:
            raise ClassListError(f"duplicate name {name!r} in {file}: each student needs a folder")
        students[name] = each
    if not students:
        raise ClassListError(f"{file} contains no names: write one per line")
    return students


def delimiter_of(head: str) -> str:
    """Return the delimiter in the first line of a table. Spreadsheets use semicolons in locales
    with a decimal comma.
    """
    return max(",;\t", key=head.count)


def _columns(lines: list[str]) -> list[str]:
    return next(csv.reader(lines[:1], delimiter=delimiter_of(lines[0])))


def _table(lines: list[str], file: Path) -> Iterator[Student]:
    rows = csv.DictReader(lines, restval="", delimiter=delimiter_of(lines[0]))
    if unknown := set(rows.fieldnames or ()) - set(_COLUMNS):
        raise ClassListError(
            f"{file} has unknown columns ({', '.join(sorted(unknown))}); valid columns:"
            f" {', '.join(_COLUMNS)}"
        )
    for row in rows:
        if None in row:
            raise ClassListError(f"{file}: the line of {row['student']!r} has too many columns")
        values = {name: text.strip() for name, text in row.items()}
        handed_in = values.pop("handed_in", "")
        name = values.pop("student")
        yield Student(name, values.get("id", ""), _time(handed_in, file) if handed_in else None)


def _time(text: str, file: Path) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise ClassListError(f"{file}: {text!r} is not a time such as 2026-12-01T18:00") from None
