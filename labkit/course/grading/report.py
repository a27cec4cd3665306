"""report: results as a table on the terminal, as Parquet, as a page for each student, and as a
notebook in which Spark says who is stuck where.
"""

import re
from collections.abc import Iterable
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

import nbformat
import pyarrow as pa
import pyarrow.parquet as pq
from nbformat.v4.nbbase import new_code_cell, new_markdown_cell, new_notebook

from labkit.course.grading.results import NOT_GRADED, OPEN, PASSED, REFUSED, Result
from labkit.worlds.live.host.printable import printable

SIGNS = {PASSED: "✔", REFUSED: "✘", OPEN: "○", NOT_GRADED: "-"}
RESULTS, RECORDS, CLASS = "results.parquet", "records.parquet", "class.ipynb"
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("student", "exercise", "outcome", "message")),
        *((name, pa.string()) for name in ("asked", "counterexample")),
        ("seconds", pa.float64()),
        ("variant", pa.int64()),
    ]
)
_RECORDS_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("student", "event", "name", "predicted", "truth")),
        ("is_right", pa.bool_()),
        ("hint", pa.int64()),
    ]
)
_LONGEST_LINE = 110


def table(results: Iterable[Result]) -> str:
    """A line for each exercise of each student: its sign, and what is refused first, or why it is
    not graded.
    """
    lines = []
    for result in results:
        case = (result.asked or result.counterexample or result.message).splitlines()
        why = f"  {case[0]}" if result.outcome in (REFUSED, NOT_GRADED) and case else ""
        # A line feed in a name would make a line of its own.
        line = printable(f"{result.student:<16} {SIGNS[result.outcome]} {result.exercise:<28}{why}")
        lines.append(line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 3] + "...")
    return "\n".join(line.rstrip() for line in lines)


def write(results: list[Result], noted: list[dict[str, Any]], folder: Path) -> None:
    """Write the reports on the class into a folder; `noted` are rows of `records`.

    Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{name: asdict(each)[name] for name in _SCHEMA.names} for each in results]
    pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), folder / RESULTS)
    pq.write_table(pa.Table.from_pylist(noted, schema=_RECORDS_SCHEMA), folder / RECORDS)
    nbformat.write(class_report(), folder / CLASS)  # type: ignore[no-untyped-call]


def write_page(student: str, results: list[Result], page: Path) -> None:
    """Write what one student reads.  Raises OSError."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(_page(student, results), encoding="utf-8")


def pages_of(students: Iterable[str], folder: Path) -> dict[str, Path]:
    """The page of each student.  Case does not tell two apart: some file systems ignore it."""
    pages: dict[str, Path] = {}
    taken: set[str] = set()
    for student in students:
        plain = name = re.sub(r"[^\w.-]", "_", student)[:100]
        number = 1
        while name.casefold() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.casefold())
        pages[student] = folder / "students" / f"{name}.html"
    return pages


def _page(student: str, results: list[Result]) -> str:
    """What one student reads."""
    graded = [result for result in results if result.outcome != NOT_GRADED]
    passed = sum(result.outcome == PASSED for result in graded)
    title = f"{escape(student)}: {passed} of {len(graded)} exercises passed"
    if rest := len(results) - len(graded):
        title += f", {rest} not graded"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        "<style>body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
        "pre{white-space:pre-wrap}:root{color-scheme:light dark}</style>"
        f"<h1>{title}</h1>{''.join(map(_section, results))}</html>\n"
    )


def _section(result: Result) -> str:
    asked = f"<pre>{escape(result.asked)}</pre>" if result.asked else ""
    return (
        f"<h2>{SIGNS[result.outcome]} {escape(result.exercise)}: {result.outcome}</h2>"
        f"<p>{escape(result.message)}</p>{asked}{result.picture}"
    )


_CELLS = (
    "# The class\n\nEach row of `results.parquet` is one exercise of one student.",
    """from labkit import spark_session

spark = spark_session("class")
results = spark.read.parquet("results.parquet")
results.createOrReplaceTempView("results")""",
    "## Who is stuck where\n\nHow many students passed each exercise, the hardest first.",
    """by_exercise = spark.sql(\"\"\"
    select exercise,
           count_if(outcome = 'passed') as passed,
           count_if(outcome = 'refused') as refused,
           count_if(outcome = 'open') as open,
           count_if(outcome = 'not graded') as not_graded
    from results group by exercise order by passed, exercise
\"\"\")
by_exercise.toPandas()""",
    """spark.sql(\"\"\"
    select exercise, outcome, array_sort(collect_list(student)) as students
    from results where outcome in ('refused', 'open')
    group by exercise, outcome order by exercise, outcome
\"\"\").toPandas()""",
    "## Which counterexample is most frequent\n\nStudents whom the same case refutes have often"
    " made the same mistake.",
    """most_frequent = spark.sql(\"\"\"
    select exercise, message, first(nullif(asked, '')) as asked,
           first(nullif(counterexample, '')) as counterexample, count(*) as students
    from results where outcome = 'refused'
    group by exercise, message order by students desc, exercise, message
\"\"\")
most_frequent.toPandas()""",
    "## Predictions and hints\n\nOf the students who saved them (`my-record.jsonl`) and handed them"
    " in. First the predictions that were wrong most often, and the most frequent wrong one.",
    """spark.read.parquet("records.parquet").createOrReplaceTempView("records")
spark.sql(\"\"\"
    select name as prediction, count_if(not is_right) as wrong, count_if(is_right) as right,
           mode(predicted) filter (where not is_right) as most_frequent_wrong
    from records where event = 'compared'
    group by name having wrong > 0 order by wrong desc, name
\"\"\").toPandas()""",
    """spark.sql(\"\"\"
    select name as exercise, count(distinct student) as students,
           count_if(hint = 1) as first, count_if(hint = 2) as second, count_if(hint = 3) as third
    from (select distinct student, name, hint from records where event = 'hint')
    group by name order by third desc, second desc, first desc, name
\"\"\").toPandas()""",
)


def class_report() -> Any:
    """A notebook that reads the results in its folder with Spark; it has not run yet."""
    cells = []
    for number, text in enumerate(_CELLS):
        make = new_markdown_cell if text.startswith("#") else new_code_cell
        cells.append(make(text, id=f"class-{number}"))  # type: ignore[no-untyped-call]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    return new_notebook(  # type: ignore[no-untyped-call]
        cells=cells, metadata={"kernelspec": kernel}
    )
