"""Writes the page about the class, which shows totals, the hardest exercises, and which student
passed which exercise. The page can be read on a screen or printed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import mean, median
from typing import Any

from labkit.course.grading.reports.gradebook import Gradebook
from labkit.course.grading.reports.report import SIGNS, STYLE, page_of
from labkit.course.grading.results import NOT_HANDED_IN, PASSED, REFUSED, Result, is_exercise
from labkit.course.inventory.item_analysis import class_gain, item_statistics

PAGE = "class.html"
_MAX_ROWS, _MAX_LINES = 10, 4
_STYLE = (
    "body{max-width:75em}h2{margin:1.5em 0 .5em}"
    "table{border-collapse:collapse}td,th{padding:.15em .5em;text-align:left;vertical-align:top}"
    "thead th{vertical-align:bottom;border-bottom:1px solid}tfoot th,tfoot td{border-top:1px solid}"
    "th[scope=row]{font-weight:normal;white-space:nowrap}.n,.grid td{text-align:right}"
    ".grid td{text-align:center;padding:.1em .3em}thead span{writing-mode:vertical-rl;"
    "transform:rotate(180deg)}tbody tr:nth-child(even){background:#8882}code{white-space:pre-wrap}"
    ".bar{display:inline-block;height:.7em;background:#2a8a5d}"
    "@page{size:A4;margin:10mm}"
    "@media print{body{max-width:none;margin:0;padding:0;font-size:8pt}a{color:inherit;"
    "text-decoration:none}thead{display:table-header-group}tfoot{display:table-row-group}"
    "tr{break-inside:avoid}h2,p{break-after:avoid}h1,h2{margin:.6em 0 .2em}"
    ".bar,tbody tr{print-color-adjust:exact}.students{break-before:page}"
    # With these sizes, a class of 100 fits on the back of the sheet.
    ".grid td,.grid th{font-size:6pt;line-height:1.05;padding:0 .5em}}"
)
Row = Sequence[object]


def write_class_page(
    book: Gradebook, results: Iterable[Result], noted: Iterable[Mapping[str, Any]], folder: Path
) -> None:
    """Write `class.html`, which links to the students' pages. Raises `OSError`.

    noted: rows of `records.parquet`.
    """
    noted = list(noted)
    handed_in = list(filter(book.has_handed_in, book.outcomes))
    title = f"The class: {len(book.outcomes)} students, {book.max_points:g} points"
    totals = [book.total(student) for student in handed_in] or [0.0]
    text = (
        f"{len(handed_in)} students handed in, {len(book.late)} of them late. Of those who handed"
        f" in, the mean is {mean(totals):.1f} points, the median {median(totals):g}, the lowest"
        f" {min(totals):g} and the highest {max(totals):g}."
    )
    sections = (
        _section("Exercises, hardest first", _exercises(book)),
        _section("Most frequent mistakes", _mistakes(results)),
        _section("Predictions that were wrong most often", _predictions(noted)),
        _section("Hints", _hints(noted)),
        _section("Concept inventory", _inventory(noted)),
    )
    (folder / PAGE).write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}{_STYLE}</style><h1>{title}</h1><p>{text}</p>{''.join(sections)}"
        f'<div class="students">{_students(book, folder)}</div></html>\n',
        encoding="utf-8",
    )


def _section(title: str, table: str) -> str:
    return f"<h2>{title}</h2>{table}" if table else ""


def _table(heads: Sequence[str], rows: Iterable[Row]) -> str:
    """Return a table whose first column contains the row headers; numbers are right-aligned."""
    body = ""
    for first, *others in rows:
        cells = "".join(
            f'<td class="n">{each}</td>' if isinstance(each, int | float) else f"<td>{each}</td>"
            for each in others
        )
        body += f'<tr><th scope="row">{first}</th>{cells}</tr>'
    if not body:
        return ""
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _exercises(book: Gradebook) -> str:
    rows = []
    for name, worth in book.points.items():
        counts = Counter(book.outcome(student, name) for student in book.outcomes)
        tried = len(book.outcomes) - counts[NOT_HANDED_IN]
        share = counts[PASSED] / tried if tried else 0.0
        bar = f'<span class="bar" style="width:{share * 8:.2f}em"></span> {share:.0%}'
        rows.append(
            (share, (escape(name), f"{worth.passed:g}", bar, *(counts[each] for each in SIGNS)))
        )
    rows.sort(key=lambda row: row[0])
    heads = ("exercise", "points", "passed, of those who handed it in", *SIGNS)
    return _table(heads, (row for _, row in rows))


def _mistakes(results: Iterable[Result]) -> str:
    refused = [each for each in results if each.outcome == REFUSED and is_exercise(each.exercise)]
    counts = Counter((each.exercise, each.message) for each in refused)
    examples = {(each.exercise, each.message): each for each in reversed(refused)}
    rows: list[Row] = []
    for (exercise, message), count in counts.most_common(_MAX_ROWS):
        example = examples[exercise, message]
        case = "\n".join((example.asked or example.counterexample).splitlines()[:_MAX_LINES])
        shown = f"<code>{escape(case)}</code>" if case else ""
        rows.append((escape(exercise), count, escape(message), shown))
    return _table(("exercise", "students", "feedback", "for example"), rows)


def _predictions(noted: Iterable[Mapping[str, Any]]) -> str:
    compared = [row for row in noted if row["event"] == "compared"]
    wrong = Counter(row["name"] for row in compared if not row["is_right"])
    rows: list[Row] = []
    for name, count in wrong.most_common(_MAX_ROWS):
        own = [row for row in compared if row["name"] == name]
        values = Counter(row["predicted"] for row in own if not row["is_right"])
        [(value, times)] = values.most_common(1)
        shown = f"<code>{escape(value)}</code> ({times})"
        rows.append((escape(name), count, len(own) - count, shown))
    return _table(("prediction", "wrong", "right", "most frequent wrong value"), rows)


def _hints(noted: Iterable[Mapping[str, Any]]) -> str:
    taken = {(r["name"], r["student"], r["hint"]) for r in noted if r["event"] == "hint"}
    counts = Counter((name, hint) for name, _, hint in taken)
    names = sorted({name for name, _ in counts}, key=lambda name: (-counts[name, 3], name))
    rows = ((escape(name), *(counts[name, hint] for hint in (1, 2, 3))) for name in names)
    return _table(("exercise", "first hint", "second", "third"), rows)


def _inventory(noted: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            f"{each.lesson} {escape(each.name)}",
            *(_percent(share) for share in (each.before, each.after, each.gain)),
            "-" if each.discrimination is None else f"{each.discrimination:.2f}",
            f"{escape(each.belief)} ({each.believers})" if each.belief else "",
        )
        for each in item_statistics(noted)
    ]
    if not rows:
        return ""
    count, before, after, gain = class_gain(noted)
    text = (
        f"Students who answered the questions both before and after the course: {count}. Of their"
        f" answers, {before:.0%} were right before and {after:.0%} after it, a normalised gain of"
        f" {_percent(gain)}. Gains count only these students. Discrimination is the correlation"
        " between an answer and the other answers of the same student: below about 0.2, do not rely"
        " on the question."
    )
    heads = ("question", "right before", "after", "gain", "discrimination", "most frequent belief")
    return f"<p>{text}</p>{_table(heads, rows)}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _students(book: Gradebook, folder: Path) -> str:
    heads = "".join(
        f'<th scope="col"><span>{escape(name)} ({worth.passed:g})</span></th>'
        for name, worth in book.points.items()
    )
    passed = "".join(
        f"<td>{sum(book.outcome(student, name) == PASSED for student in book.outcomes)}</td>"
        for name in book.points
    )
    rows = "".join(_student(book, student, folder) for student in book.outcomes)
    signs = ", ".join(f"{sign} {outcome}" for outcome, sign in SIGNS.items())
    return (
        f'<h2>Students</h2><p>{signs}.</p><table class="grid"><thead><tr>'
        f'<th scope="col">student</th>{heads}<th scope="col">points</th>'
        f'<th scope="col">handed in</th></tr></thead><tbody>{rows}</tbody>'
        f'<tfoot><tr><th scope="row">passed by</th>{passed}<td></td><td></td></tr></tfoot></table>'
    )


def _student(book: Gradebook, student: str, folder: Path) -> str:
    name, page = escape(student), page_of(student, folder)
    if page.exists():
        name = f'<a href="{escape(page.relative_to(folder).as_posix())}">{name}</a>'
    outcomes = [book.outcome(student, exercise) for exercise in book.points]
    cells = "".join(f'<td title="{each}">{SIGNS[each]}</td>' for each in outcomes)
    handed_in = book.without_exercises.get(student, "")
    if student in book.late:
        handed_in = f"late, {handed_in}".removesuffix(", ")
    elif not book.has_handed_in(student):
        handed_in = NOT_HANDED_IN
    total = f"{book.total(student):g}"
    return f'<tr><th scope="row">{name}</th>{cells}<td>{total}</td><td>{handed_in}</td></tr>'
