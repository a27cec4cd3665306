"""Writes the class's grades as CSV, with the points of each student for each exercise.

    exercise,points,attempted      a file for `labkit grade --points`
    quorums.write_set,2,0.5
    quorums.lost,1,0

A passed exercise is worth the number in the column `points`. A refused answer is worth the number
in the optional column `attempted`, and anything else is worth 0. Without such a file, every
exercise that a submission contains is worth one point. An exercise that could not be graded has an
empty field, because its points are not known yet.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labkit.course.checking.exercise import NoSuchExerciseError, find
from labkit.course.grading.class_list import Student, delimiter_of
from labkit.course.grading.results import (
    NOT_GRADED,
    NOT_HANDED_IN,
    PASSED,
    REFUSED,
    Result,
    is_exercise,
)
from labkit.course.grading.steps import step_names
from labkit.system.model.errors import LabkitError

GRADES = "grades.csv"


class PointsError(LabkitError):
    """Raised if the file with the points is not valid."""


@dataclass(frozen=True, slots=True)
class Worth:
    """The points for a passed answer, and for a refused one."""

    passed: float = 1.0
    attempted: float = 0.0


def read_points(file: Path) -> dict[str, Worth]:
    """Return the points for each exercise, in the file's order.

    Raises `PointsError` if the file is not valid, and `OSError` if it cannot be read.
    """
    points: dict[str, Worth] = {}
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            head = lines.readline()
            lines.seek(0)
            reader = csv.DictReader(lines, restval="", delimiter=delimiter_of(head))
            if reader.fieldnames is None or {"exercise", "points"} - set(reader.fieldnames):
                raise ValueError(f"its first line has the columns {reader.fieldnames}")
            for row in reader:
                name = row["exercise"]
                if name not in step_names():
                    find(name)
                worth = Worth(float(row["points"]), float(row.get("attempted") or 0))
                if name in points:
                    raise ValueError(f"{name} is listed twice")
                if not 0 <= worth.attempted <= worth.passed < float("inf"):
                    raise ValueError(
                        f"{name} has {worth.passed:g} points, and {worth.attempted:g} if it is"
                        " attempted"
                    )
                points[name] = worth
    except (ValueError, NoSuchExerciseError) as error:
        raise PointsError(
            f"{file} is not a list of points: {error}; the first line must be `exercise,points`"
            " or `exercise,points,attempted`, and every other line an exercise and its points, for"
            " example `quorums.write_set,2`"
        ) from None
    return points


@dataclass(frozen=True, slots=True)
class Gradebook:
    """The results of a class.

    points: the points for each exercise
    outcomes: for each student, the outcome of each exercise
    without_exercises: for each student whose submission has no results at all, the outcome of the
        submission
    ids: for each student, the id in the class list
    late: the students who handed in after the deadline
    """

    points: Mapping[str, Worth]
    outcomes: Mapping[str, Mapping[str, str]]
    without_exercises: Mapping[str, str]
    ids: Mapping[str, str]
    late: frozenset[str]

    @classmethod
    def of(
        cls,
        results: Iterable[Result],
        points: Mapping[str, Worth] | None,
        students: Mapping[str, Student],
    ) -> "Gradebook":
        """Return the gradebook with these results; `students` includes students who have not handed
        in anything.
        """
        outcomes: dict[str, dict[str, str]] = {student: {} for student in students}
        late, whole = set(), dict[str, str]()
        for each in results:
            if each.late:
                late.add(each.student)
            own = outcomes.setdefault(each.student, {})
            if is_exercise(each.exercise):
                own[each.exercise] = each.outcome
            elif each.outcome != NOT_HANDED_IN and whole.get(each.student) != NOT_GRADED:
                whole[each.student] = each.outcome
        if points is None:
            names = sorted({name for own in outcomes.values() for name in own})
            points = dict.fromkeys(names, Worth())
        ids = {name: student.id for name, student in students.items()}
        return cls(points, dict(sorted(outcomes.items())), whole, ids, frozenset(late))

    @property
    def max_points(self) -> float:
        return sum(worth.passed for worth in self.points.values())

    def earned(self, student: str, exercise: str) -> float:
        worth, outcome = self.points[exercise], self.outcome(student, exercise)
        return {PASSED: worth.passed, REFUSED: worth.attempted}.get(outcome, 0.0)

    def outcome(self, student: str, exercise: str) -> str:
        """Return the outcome of an exercise. If the grader could not read a student's files, a
        missing exercise counts as not graded, because the files may contain it.
        """
        is_unread = self.without_exercises.get(student) == NOT_GRADED
        missing = NOT_GRADED if is_unread else NOT_HANDED_IN
        return self.outcomes[student].get(exercise, missing)

    def has_handed_in(self, student: str) -> bool:
        return bool(self.outcomes[student]) or student in self.without_exercises

    def total(self, student: str) -> float:
        return sum(self.earned(student, exercise) for exercise in self.points)


def write_grades(book: Gradebook, folder: Path) -> None:
    """Write `grades.csv`. Raises `OSError`."""
    with (folder / GRADES).open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["student", "id", *book.points, "total", "late"])
        for student in book.outcomes:
            earned = [
                ""
                if book.outcome(student, exercise) == NOT_GRADED
                else f"{book.earned(student, exercise):g}"
                for exercise in book.points
            ]
            late = "late" if student in book.late else ""
            names = [_cell(student), _cell(book.ids.get(student, ""))]
            lines.writerow([*names, *earned, f"{book.total(student):g}", late])


def _cell(text: str) -> str:
    """Escape the text, so that no spreadsheet treats it as a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
