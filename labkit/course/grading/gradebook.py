"""The class's grades: points per exercise and student, as CSV and as a page to print.

    exercise,points            a file for `labkit grade --points`
    quorums.write_set,2
    quorums.lost,1

An exercise is worth its points if it is passed, and 0 otherwise.  Without such a file, every
exercise that a submission contains is worth one point.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

from labkit.course.checking.exercise import NoSuchExerciseError, find
from labkit.course.grading.report import SIGNS, STYLE, pages_of
from labkit.course.grading.results import NOT_HANDED_IN, PASSED, Result

GRADES, PAGE = "grades.csv", "class.html"
_NONE = "-"
"""The name of the row of a submission without exercises."""
_STYLE = (
    "table{border-collapse:collapse}td,th{padding:.1em .4em;text-align:center}"
    "th[scope=row]{text-align:left}thead th{vertical-align:bottom}"
    "thead span{writing-mode:vertical-rl;transform:rotate(180deg)}"
    "tr:nth-child(even){background:#8882}@page{size:landscape}"
)


class PointsError(ValueError):
    """The file with the points is not valid."""


def read_points(file: Path) -> dict[str, float]:
    """Return the points of each exercise, in the file's order.

    Raises `PointsError`, and OSError if the file cannot be read.
    """
    points: dict[str, float] = {}
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.DictReader(lines)
            if reader.fieldnames is None or {"exercise", "points"} - set(reader.fieldnames):
                raise ValueError(f"its first line has the columns {reader.fieldnames}")
            for row in reader:
                name, worth = find(row["exercise"]).name, float(row["points"])
                if not 0 <= worth < float("inf") or name in points:
                    raise ValueError(f"{name} has the points {row['points']!r}, or stands twice")
                points[name] = worth
    except (TypeError, ValueError, NoSuchExerciseError) as error:
        raise PointsError(
            f"{file} is not a list of points: {error}; the first line must be `exercise,points`,"
            " and every other line an exercise and a number, for example `quorums.write_set,2`"
        ) from None
    return points


@dataclass(frozen=True, slots=True)
class Gradebook:
    """The results of a class.

    points: the points of each exercise; outcomes: by student, the outcome of each exercise; late:
    the students who handed in after the deadline.
    """

    points: Mapping[str, float]
    outcomes: Mapping[str, Mapping[str, str]]
    late: frozenset[str]

    @classmethod
    def of(
        cls,
        results: Iterable[Result],
        points: Mapping[str, float] | None,
        students: Iterable[str],
    ) -> "Gradebook":
        """Collect the results; `students` also lists those who may have handed in nothing."""
        outcomes: dict[str, dict[str, str]] = {student: {} for student in students}
        late = set()
        for each in results:
            if each.late:
                late.add(each.student)
            own = outcomes.setdefault(each.student, {})
            if each.exercise != _NONE:
                own[each.exercise] = each.outcome
        if points is None:
            points = dict.fromkeys(sorted({name for own in outcomes.values() for name in own}), 1.0)
        return cls(points, dict(sorted(outcomes.items())), frozenset(late))

    def earned(self, student: str, exercise: str) -> float:
        return self.points[exercise] if self.outcome(student, exercise) == PASSED else 0.0

    def outcome(self, student: str, exercise: str) -> str:
        return self.outcomes[student].get(exercise, NOT_HANDED_IN)

    def total(self, student: str) -> float:
        return sum(self.earned(student, exercise) for exercise in self.points)


def write_grades(book: Gradebook, folder: Path) -> None:
    """Write `grades.csv` and `class.html`, which links to the students' pages.  Raises OSError."""
    pages = {name: page for name, page in pages_of(book.outcomes, folder).items() if page.exists()}
    with (folder / GRADES).open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["student", *book.points, "total", "late"])
        for student in book.outcomes:
            earned = [f"{book.earned(student, exercise):g}" for exercise in book.points]
            late = "late" if student in book.late else ""
            lines.writerow([_cell(student), *earned, f"{book.total(student):g}", late])
    (folder / PAGE).write_text(_page(book, pages, folder), encoding="utf-8")


def _cell(student: str) -> str:
    """Return the name, escaped so that no spreadsheet treats it as a formula."""
    return f"'{student}" if student.startswith(("=", "+", "-", "@", "\t", "\r")) else student


def _page(book: Gradebook, pages: Mapping[str, Path], folder: Path) -> str:
    highest = sum(book.points.values())
    rows = "".join(_row(book, student, pages, folder) for student in book.outcomes)
    passed = "".join(
        f"<td>{sum(book.outcome(student, name) == PASSED for student in book.outcomes)}</td>"
        for name in book.points
    )
    heads = "".join(
        f'<th scope="col"><span>{escape(name)} ({worth:g})</span></th>'
        for name, worth in book.points.items()
    )
    signs = ", ".join(f"{sign} {outcome}" for outcome, sign in SIGNS.items())
    title = f"The class: {len(book.outcomes)} students, {highest:g} points"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}{_STYLE}</style>"
        f"<h1>{title}</h1><p>{signs}.</p><table><thead><tr><th></th>{heads}"
        '<th scope="col">points</th><th scope="col">handed in</th></tr></thead>'
        f"<tbody>{rows}</tbody>"
        f'<tfoot><tr><th scope="row">passed by</th>{passed}<td></td><td></td></tr></tfoot></table>'
        "</html>\n"
    )


def _row(book: Gradebook, student: str, pages: Mapping[str, Path], folder: Path) -> str:
    name = escape(student)
    if student in pages:
        name = f'<a href="{escape(pages[student].relative_to(folder).as_posix())}">{name}</a>'
    outcomes = [book.outcome(student, exercise) for exercise in book.points]
    cells = "".join(f'<td title="{each}">{SIGNS[each]}</td>' for each in outcomes)
    late = "late" if student in book.late else "" if book.outcomes[student] else NOT_HANDED_IN
    total = f"{book.total(student):g}"
    return f'<tr><th scope="row">{name}</th>{cells}<td>{total}</td><td>{late}</td></tr>'
