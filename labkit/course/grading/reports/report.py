"""Reports the results as a table on the terminal, as Parquet files, on a page for each student, and
in a notebook in which teachers can query the Parquet files with Spark.
"""

import re
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

import nbformat
import pyarrow as pa
import pyarrow.parquet as pq
from nbformat.v4.nbbase import new_code_cell, new_markdown_cell, new_notebook

from labkit.course.grading.results import (
    NOT_GRADED,
    NOT_HANDED_IN,
    OPEN,
    PASSED,
    REFUSED,
    Result,
    is_exercise,
)
from labkit.shipped_files import put_whole
from labkit.worlds.live.host.printable import printable

SIGNS = {PASSED: "✔", REFUSED: "✘", OPEN: "○", NOT_GRADED: "-", NOT_HANDED_IN: "·"}
STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "pre{white-space:pre-wrap}.message{white-space:pre-line}:root{color-scheme:light dark}"
)
RESULTS, RECORDS, CLASS = "results.parquet", "records.parquet", "class.ipynb"
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("student", "exercise", "outcome", "message")),
        *((name, pa.string()) for name in ("asked", "counterexample", "link")),
        ("seconds", pa.float64()),
        ("variant", pa.int64()),
        ("late", pa.bool_()),
        ("graded_at", pa.timestamp("s", tz="UTC")),
    ]
)
_RECORDS_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("student", "event", "name", "predicted", "truth")),
        ("is_right", pa.bool_()),
        ("hint", pa.int64()),
    ]
)
_MAX_LINE = 110


def table(results: Iterable[Result]) -> str:
    """Return one line per result, which contains a sign, the exercise and, if the answer did not
    pass, the reason.
    """
    lines = []
    for result in results:
        case = (result.asked or result.counterexample or result.message).splitlines()
        why = f"  {case[0]}" if result.outcome not in (PASSED, OPEN) and case else ""
        # A newline in a name would start a new line of the table.
        line = printable(f"{result.student:<16} {SIGNS[result.outcome]} {result.exercise:<28}{why}")
        lines.append(line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 3] + "...")
    return "\n".join(line.rstrip() for line in lines)


def write(
    results: list[Result], noted: list[dict[str, Any]], folder: Path, graded_at: datetime
) -> tuple[list[Result], list[dict[str, Any]]]:
    """Write the reports about the class to a folder; `noted` contains rows from `records`.

    Earlier results in the folder are kept unless they are for the same student and exercise, so
    that a teacher can grade one student again. The result of an answer that passed before is not
    replaced if the answer could not be graded now. Return all results and all rows. Raises
    `OSError` if a file cannot be read or written.
    """
    passed = passed_before(folder)
    new = {
        (each.student, each.exercise): asdict(each) | {"graded_at": graded_at}
        for each in results
        if each.outcome != NOT_GRADED or (each.student, each.exercise) not in passed
    }
    students = {each.student for each in results}
    rows = [
        row
        for row in _stored_rows(folder / RESULTS)
        if (row["student"], row["exercise"]) not in new
        and (row["student"] not in students or is_exercise(row["exercise"]))
    ]
    rows = sorted((*rows, *new.values()), key=lambda row: str(row["student"]))
    students |= {row["student"] for row in noted}
    noted = [
        row for row in _stored_rows(folder / RECORDS) if row["student"] not in students
    ] + noted
    _write_table(rows, _SCHEMA, folder / RESULTS)
    _write_table(noted, _RECORDS_SCHEMA, folder / RECORDS)
    nbformat.write(class_report(), folder / CLASS)  # type: ignore[no-untyped-call]
    return [_result_in(row) for row in rows], noted


def passed_before(folder: Path) -> dict[tuple[str, str], Result]:
    """Return the stored results of answers that passed, by student and exercise. Raises `OSError`
    if the results cannot be read.
    """
    return {
        (row["student"], row["exercise"]): _result_in(row)
        for row in _stored_rows(folder / RESULTS)
        if row["outcome"] == PASSED
    }


def _result_in(row: dict[str, Any]) -> Result:
    return Result(**{name: value for name, value in row.items() if name != "graded_at"})


def _write_table(rows: list[dict[str, Any]], schema: pa.Schema, file: Path) -> None:
    """Write the table, replacing the file atomically, because it contains the results of earlier
    runs.
    """
    stream = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), stream)
    put_whole(file, stream.getvalue().to_pybytes())


def _stored_rows(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    return rows


def write_page(student: str, results: list[Result], page: Path) -> None:
    """Write the page for one student. Raises `OSError` if the page cannot be written."""
    exercises = [result for result in results if is_exercise(result.exercise)]
    graded = [result for result in exercises if result.outcome != NOT_GRADED]
    passed = sum(result.outcome == PASSED for result in graded)
    title = f"{escape(student)}: {passed} of {len(graded)} exercises passed"
    if rest := len(exercises) - len(graded):
        title += f", {rest} not graded"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style>"
        f"<h1>{title}</h1>{''.join(map(_section, results))}</html>\n",
        encoding="utf-8",
    )


def page_of(student: str, folder: Path) -> Path:
    """Return the path of a student's page, which depends only on the student's name.

    Unless the name consists only of lower-case letters, digits and underscores, the path contains a
    hash that distinguishes it from the paths of similar names, because some file systems, for
    example, ignore case.
    """
    name = re.sub(r"[^\w.-]", "_", student)[:100]
    if re.fullmatch("[a-z0-9_]+", student) is None or name != student:
        name += f"-{sha256(student.encode()).hexdigest()[:12]}"
    return folder / "students" / f"{name}.html"


def _section(result: Result) -> str:
    asked = f"<pre>{escape(result.asked)}</pre>" if result.asked else ""
    return (
        f"<h2>{SIGNS[result.outcome]} {escape(result.exercise)}: {result.outcome}</h2>"
        f'<p class="message">{escape(result.message)}</p>{asked}{result.picture}'
        f"{_link(result.link)}"
    )


def _link(link: str) -> str:
    """Return HTML with a field that contains the link to a run, a button that copies the link, and
    instructions for opening it.
    """
    if not link:
        return ""
    how = "open it in a browser" if "#" in link else "open it with <code>labkit open LINK</code>"
    field = "this.previousElementSibling.lastChild"
    copy = f"{field}.select(); navigator.clipboard.writeText({field}.value)"
    return (
        f'<p><label>Link to this counterexample: <input readonly value="{escape(link)}"></label>'
        f' <button onclick="{copy}">Copy link</button> ({how})</p>'
    )


_CELLS = (
    "# Questions about the class\n\n`class.html` answers the usual questions. This notebook is for"
    " your own questions, and for classes with thousands of students. `results` has a row for each"
    " exercise of each student, and `records` has a row for each prediction, hint and answer to the"
    " concept inventory that students handed in.",
    """from labkit import spark_session

spark = spark_session("class")
for name in ("results", "records"):
    spark.read.parquet(f"{name}.parquet").createOrReplaceTempView(name)
    spark.table(name).printSchema()""",
    "## Who made the same mistake?\n\nThese students could look for it together.",
    """spark.sql(\"\"\"
    select exercise, message, array_sort(collect_set(student)) as students
    from results where outcome = 'refused'
    group by exercise, message having size(students) > 1
    order by size(students) desc, exercise, message
\"\"\").toPandas()""",
    "## Which exercises do the same students fail?\n\nIf many students fail both exercises of a"
    " pair, both may need the same idea.",
    """spark.sql(\"\"\"
    select a.exercise as first, b.exercise as second, count(*) as students
    from results a join results b on a.student = b.student and a.exercise < b.exercise
    where a.outcome = 'refused' and b.outcome = 'refused'
    group by first, second order by students desc, first, second
\"\"\").toPandas()""",
)


def class_report() -> Any:
    """Return a notebook that reads the results in its folder with Spark, and that has not been
    executed yet.
    """
    cells = []
    for number, text in enumerate(_CELLS):
        make = new_markdown_cell if text.startswith("#") else new_code_cell
        cells.append(make(text, id=f"class-{number}"))  # type: ignore[no-untyped-call]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    return new_notebook(  # type: ignore[no-untyped-call]
        cells=cells, metadata={"kernelspec": kernel}
    )
