"""Tests that Spark exercises are graded in the sandbox, like the others."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from labkit.course.checking.exercise import RaisedThereError
from labkit.course.checking.refused import Refused
from labkit.course.grading.frames import READER, Files, RemoteFolder, RemoteFrame, RemoteRows
from labkit.course.grading.isolation.sandbox import Limits
from labkit.course.grading.isolation.sandbox_rpc import SubmissionConnection
from labkit.course.grading.processes import grade
from labkit.course.grading.reports.report import write
from labkit.course.grading.results import OPEN, PASSED, REFUSED, Result
from labkit.course.grading.submissions import submissions_of
from tests.course.grading.notebooks import write_notebook
from tests.course.grading.spark_answers import HOLES, ORDER, SINK, TWICE, answered, submission
from tests.course.grading.test_grade import HERE
from tests.repeat import repeated

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

ORDER_NAME, HOLES_NAME, TWICE_NAME, SINK_NAME = (
    "streams.order",
    "streams.holes",
    "streams.stored_twice",
    "streaming.sink",
)


def graded(folder: Path, *answers: str, limits: Limits = HERE) -> dict[str, Result]:
    """Grade these answers, outside a sandbox only if this machine has none."""
    write_notebook(folder / "ada" / "lesson.ipynb", *submission(*answers))
    [handed_in] = submissions_of([folder / "ada"])
    return {each.exercise: each for each in grade(handed_in, limits).results}


def test_right_jobs_and_sinks_pass(tmp_path: Path) -> None:
    results = graded(tmp_path, *map(answered, (ORDER, HOLES, TWICE, SINK)))
    for name in (ORDER_NAME, HOLES_NAME, TWICE_NAME, SINK_NAME):
        assert results[name].outcome == PASSED, results[name]
    assert "recorded messages with planted faults" in results[ORDER_NAME].message
    assert results["streaming.gaps"].outcome == OPEN


WRONG = [
    {
        "PARTS": '"ledger", "entry"',
        "BEGIN": "fn.lit(0)",
        "IDS": 'fn.count_distinct("entry")',
        "PLACE": "",
    },
    {
        "STREAM": '"topic"',
        "COUNT": 'fn.count("entry")',
        "IDS": 'fn.count("entry")',
        "PLACE": "batch={batch_id % 10}",
    },
    {
        "PARTS": '"entry", "batch_index"',
        "BEGIN": 'fn.col("first")',
        "IDS": 'fn.count_distinct("ledger", "entry")',
        "PLACE": "from={rows.first()['entry']}",
    },
]


@pytest.mark.parametrize("which", repeated(range(len(WRONG))))
def test_wrong_jobs_and_sinks_are_refused_with_the_rows_that_show_it(
    tmp_path: Path, which: int
) -> None:
    answers = [answered(code, **WRONG[which]) for code in (ORDER, HOLES, TWICE, SINK)]
    results = graded(tmp_path, *answers)
    for name in (ORDER_NAME, HOLES_NAME, TWICE_NAME, SINK_NAME):
        assert results[name].outcome == REFUSED, results[name]
        assert results[name].counterexample, results[name]
        assert "<table" in results[name].picture


def test_a_job_that_hangs_or_raises_or_is_labkits_leaves_the_others_their_verdicts(
    tmp_path: Path,
) -> None:
    hangs = 'def order(messages):\n    while True: pass\ncheck("streams.order", order)'
    labkits = (
        "from labkit.views.spark.streams import missing_entries\n"
        'check("streams.holes", lambda messages: missing_entries(messages))'
    )
    raises = 'check("streams.stored_twice", lambda messages: messages.select("nothing"))'
    limits = replace(HERE, exercise_s=15)
    results = graded(tmp_path, hangs, labkits, raises, limits=limits)
    assert {each.outcome for each in results.values()} == {REFUSED}
    assert "does not terminate within 60 s" in results[ORDER_NAME].message
    assert "labkit's own answer" in results[HOLES_NAME].message
    assert "AnalysisException" in results[TWICE_NAME].message


def test_rows_that_come_back_are_numbers_and_texts_in_columns_of_one_length() -> None:
    assert RemoteRows(["a"], {"a": [1, None, "x"]}).toPandas()["a"].tolist() == [1, None, "x"]
    with pytest.raises(ValueError, match="neither numbers nor strings"):
        RemoteRows(["a"], {"a": [[1]]})
    with pytest.raises(ValueError, match="different lengths"):
        RemoteRows(["a", "b"], {"a": [1], "b": []})
    with pytest.raises(Refused, match="The column b must contain numbers or strings"):
        RemoteRows(["a", "b"], {"a": [1]}).select("b")


@pytest.mark.parametrize("path", ["../out", "a/../../out", "/out"])
def test_a_file_that_comes_back_stays_below_its_folder(path: str) -> None:
    with pytest.raises(ValueError, match="not a file inside the folder"):
        Files({path: b""})


def test_a_file_that_holds_something_else_is_read_in_the_other_process_and_refused() -> None:
    nothing = RemoteFrame(b"")
    with SubmissionConnection(READER, HERE) as reader:
        assert not reader.problems
        folder = RemoteFolder(reader.ask)
        folder.store(lambda *_: Files({"a.parquet": b"PAR1 and no more"}), nothing, 0)
        with pytest.raises(Refused, match="must have the columns partition, ledger, entry"):
            folder.rows()
        with pytest.raises(RaisedThereError, match="did not send the folder back"):
            folder.store(lambda *_: None, nothing, 1)


def test_the_notebook_about_the_class_shows_who_made_the_same_mistake(tmp_path: Path) -> None:
    results = [
        Result(student, exercise, REFUSED, "The same rule.")
        for student in ("ada", "bob")
        for exercise in (SINK_NAME, HOLES_NAME)
    ]
    write([*results, Result("eve", SINK_NAME, PASSED, "")], [], tmp_path, datetime.now(UTC))
    notebook = nbformat.read(tmp_path / "class.ipynb", as_version=4)
    NotebookClient(notebook, resources={"metadata": {"path": tmp_path}}).execute()
    *_, same_mistake, same_students = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type == "execute_result"
    ]
    assert same_mistake.count("[ada, bob]") == 2
    assert same_students.split()[-4:] == ["0", SINK_NAME, HOLES_NAME, "2"]
