import json
import os
import shutil
import signal
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from labkit.course.checking.exercise import RaisedThereError
from labkit.course.grading.grade import grade_exercises
from labkit.course.grading.isolation import sandbox
from labkit.course.grading.isolation.sandbox import Limits, require_sandbox
from labkit.course.grading.isolation.sandbox_rpc import Remote, SubmissionConnection
from labkit.course.grading.processes import grade, grade_all
from labkit.course.grading.reports.report import page_of, table, write, write_page
from labkit.course.grading.results import NOT_GRADED, OPEN, PASSED, REFUSED, Result
from labkit.course.grading.submissions import SubmissionsError, submissions_of
from labkit.system.model.missing_part import MissingPart
from labkit.worlds.live.host.java import Java, JavaNotFound
from labkit.worlds.sim.run_link import RunLink
from tests.course.grading.notebooks import (
    CATCHES,
    DROPPED,
    HANGS,
    LABKITS,
    REPLACES,
    RIGHT,
    WRAPS,
    WRONG,
    cells,
    write_notebook,
)

NOW = datetime(2026, 12, 1, 18, tzinfo=UTC)
PATIENT = Limits(exercise_s=120, load_s=240, cell_s=60)
TRUSTED = replace(PATIENT, is_sandboxed=False)
LABKITS_OWN = "write_set is labkit's own function: write your own."
LABKITS_ANSWER = "write_set is labkit's own answer: write your own."
ON_IDLE = "Grade it again on an idle machine"


def has_sandbox() -> bool:
    try:
        require_sandbox()
    except MissingPart:
        return False
    return True


HERE = replace(PATIENT, is_sandboxed=has_sandbox())
shut_in = pytest.mark.skipif(not HERE.is_sandboxed, reason="no bubblewrap here")


def graded(folder: Path, source: str, limits: Limits = TRUSTED) -> list[Result]:
    write_notebook(folder / "lesson.ipynb", source)
    [submission] = submissions_of([folder])
    return grade(submission, limits).results


def results_here(folder: Path, limits: Limits = TRUSTED) -> list[Result]:
    """Grade a submission in this process, so that a test's patches apply."""
    [submission] = submissions_of([folder])
    return [each for each in grade_exercises(submission, limits) if isinstance(each, Result)]


def sleeping(seconds: float) -> str:
    """Return a right answer whose first call sleeps, like code that waits for a busy processor."""
    sleep = f"    import time; time.sleep(0 if naps else {seconds}); naps.append(1)\n"
    return "naps = []\n" + RIGHT.replace("    return", f"{sleep}    return")


FUNCTION, CALL = RIGHT.split("check(")
BUSY = f"import time\ntime.sleep(1000)\n{RIGHT}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "changed", "outcome", "said"),
    [
        pytest.param(RIGHT, {}, PASSED, "", marks=pytest.mark.core, id="right"),
        pytest.param(REPLACES, {}, REFUSED, "labkit called f(", id="replaces labkit's code"),
        pytest.param(LABKITS, {}, REFUSED, LABKITS_OWN, id="labkit's function"),
        pytest.param(WRAPS, {}, REFUSED, LABKITS_ANSWER, id="calls labkit's answer"),
        pytest.param(sleeping(4), {"exercise_s": 3}, PASSED, "", id="only waits"),
        pytest.param(sleeping(1000), {"exercise_s": 1}, NOT_GRADED, ON_IDLE, id="never ends"),
        pytest.param(BUSY, {"cell_s": 1}, NOT_GRADED, "the cell did not end within 8 s", id="cell"),
        pytest.param(BUSY, {"load_s": 3}, NOT_GRADED, "did not finish in time", id="notebook"),
        pytest.param(
            f"while True: pass\n{RIGHT}", {"cell_s": 1}, REFUSED, "CellTooLong", id="endless cell"
        ),
        *(
            pytest.param(source, {}, PASSED, "", id=name)
            for name, source in {
                "keyword": f"{FUNCTION}check('quorums.write_set', learner=f)",
                "keywords": f"{FUNCTION}check(name='quorums.write_set', learner=f)",
                "uses the card": (
                    "card = check('quorums.lost', lambda: 1)\ncard.link()\nassert card.passed\n"
                    f"{RIGHT}"
                ),
                "magic commands": f"%matplotlib inline\n!ls\n{FUNCTION}check({CALL}",
                "line that begins with an operator": RIGHT.replace("+ i) %", "+ i)\n      %"),
            }.items()
        ),
    ],
)
def test_an_answer_is_graded_by_what_it_does_and_not_by_how_busy_the_machine_is(
    tmp_path: Path, source: str, changed: dict[str, Any], outcome: str, said: str
) -> None:
    result = graded(tmp_path / "ada", source, replace(TRUSTED, **changed))[0]
    assert (result.student, result.exercise) == ("ada", "quorums.write_set")
    assert result.outcome == outcome, result
    assert said in f"{result.message}\n{result.asked}"


@pytest.mark.slow
def test_the_variant_in_a_notebook_is_graded_and_recorded(tmp_path: Path) -> None:
    file = write_notebook(tmp_path / "ada" / "05.ipynb", "# Parameters\ncase_seed = 7", RIGHT)
    content = json.loads(file.read_text())
    content["cells"][1]["metadata"]["tags"] = ["injected-parameters"]
    file.write_text(json.dumps(content))
    result = results_here(tmp_path / "ada")[0]
    assert (result.outcome, result.variant) == (PASSED, 7), result.message


@pytest.mark.slow
def test_what_a_trials_function_raises_goes_through_the_answer(tmp_path: Path) -> None:
    passed, refused = (
        next(each for each in graded(tmp_path / name, source) if each.exercise == "garbage.dropped")
        for name, source in (("lets_through", DROPPED), ("catches", CATCHES))
    )
    assert passed.outcome == PASSED, passed.message
    assert (
        refused.message == "Drop no ledgers if the metadata store cannot tell you which ones exist."
    )


@pytest.mark.slow
def test_a_function_that_never_returns_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No matter how busy this machine is, the function must get its full second of processor time.
    monkeypatch.setattr(sandbox, "MAX_SLOWDOWN", 100)
    write_notebook(tmp_path / "ada" / "lesson.ipynb", HANGS)
    result = results_here(tmp_path / "ada", replace(TRUSTED, exercise_s=1))[0]
    assert result.outcome == REFUSED
    assert result.message == "The code does not terminate within 1 s of processor time."


@pytest.mark.slow
def test_a_lessons_own_demonstration_of_a_wrong_answer_does_not_count(tmp_path: Path) -> None:
    shown = WRONG.removesuffix(")") + ", must_pass=False)"
    write_notebook(tmp_path / "ada" / "lesson.ipynb", RIGHT, shown)
    assert results_here(tmp_path / "ada")[0].outcome == PASSED


@pytest.mark.slow
def test_a_cell_that_cannot_run_is_quoted_and_the_other_answers_are_judged(tmp_path: Path) -> None:
    broken = "def dropped(list_stored)\n    return []\ncheck('garbage.dropped', dropped)"
    no_import = "nothing = numpy.zeros(3)\ncheck('quorums.lost', nothing)"
    write_notebook(tmp_path / "ada" / "lesson.ipynb", RIGHT, broken, no_import)
    results = {each.exercise: each for each in results_here(tmp_path / "ada")}
    assert results["quorums.write_set"].outcome == PASSED
    assert (
        "expected ':', in line 1 of the cell that begins with `def dropped(list_stored)`"
        in results["garbage.dropped"].message
    )
    assert (
        "name 'numpy' is not defined, in the cell that begins with `nothing = numpy.zeros(3)`"
        in results["quorums.lost"].message
    )


def test_a_notebook_in_an_old_format_is_not_graded(tmp_path: Path) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "05.ipynb").write_text('{"nbformat": 3, "worksheets": []}')
    [result] = results_here(tmp_path / "ada")
    assert result.outcome == NOT_GRADED
    assert "open and save it in JupyterLab" in result.message


HOSTILE = """
import os, socket, time

def network(_):
    socket.create_connection(("192.0.2.1", 80), timeout=20)

def disk(_):
    with open("big", "wb") as file:
        for _ in range(100):
            file.write(bytes(1 << 20))

def memory(_):
    return len(bytes(3 << 30))

def forks(_):
    for _ in range(20):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)

def files(path):
    return os.path.exists(path)

def writes(_):
    open("/usr/x", "w")

check("a.network", network), check("a.disk", disk), check("a.memory", memory)
check("a.forks", forks), check("a.files", files), check("a.writes", writes)
"""


@shut_in
@pytest.mark.slow
def test_in_the_sandbox_there_is_no_network_and_all_that_is_used_has_a_limit() -> None:
    with SubmissionConnection(cells(HOSTILE), PATIENT) as border:
        for name, error in {
            "a.network": "OSError",
            "a.disk": "OSError",
            "a.memory": "MemoryError",
            "a.forks": "PermissionError",
            "a.writes": "OSError",
        }.items():
            function = border.answers[name]
            assert isinstance(function, Remote)
            with pytest.raises(RaisedThereError, match=error):
                function(1)
        files = border.answers["a.files"]
        assert isinstance(files, Remote)
        assert not files(__file__)


def test_without_bubblewrap_strangers_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(MissingPart, match="apt install bubblewrap"):
        require_sandbox()


def test_two_submissions_of_one_name_are_refused(tmp_path: Path) -> None:
    files = [write_notebook(tmp_path / folder / "05.ipynb", RIGHT) for folder in "ab"]
    with pytest.raises(SubmissionsError, match="two submissions are named '05'"):
        submissions_of(files)


def test_texts_that_utf8_cannot_hold_are_reported_and_stop_no_class(tmp_path: Path) -> None:
    places = [tmp_path / os.fsdecode(name) for name in (b"ad\xe9", b"ad\xe8")]
    for place in places:
        place.mkdir()
        (place / os.fsdecode(b"\xff.ipynb")).write_text("{")
    submissions = submissions_of(places)
    assert [each.student for each in submissions] == ["ad\\xe8", "ad\\xe9"]
    results = [result for each in grade_all(submissions, PATIENT, 2) for result in each.results]
    assert {each.message.partition(":")[0] for each in results} == {"?.ipynb is not a notebook"}
    write(results, [], tmp_path / "grades", NOW)
    table(results).encode()


def test_checkpoints_of_jupyterlab_are_not_handed_in(tmp_path: Path) -> None:
    place = tmp_path / ".ipynb_checkpoints" / "ada"
    for folder in (place, place / ".ipynb_checkpoints"):
        write_notebook(folder / "05.ipynb", RIGHT)
        (folder / "my-record.jsonl").write_text("")
    [submission] = submissions_of([place])
    assert submission.notebooks == (place / "05.ipynb",)
    assert submission.records == (place / "my-record.jsonl",)


def test_a_student_without_a_notebook_is_reported_and_the_class_is_graded(tmp_path: Path) -> None:
    write_notebook(tmp_path / "ada" / "05.ipynb", RIGHT)
    (tmp_path / "bob").mkdir()
    _, submission = submissions_of([tmp_path / "ada", tmp_path / "bob"])
    assert submission.notebooks == ()
    _, result = grade_exercises(submission, TRUSTED)
    assert isinstance(result, Result)
    assert table([result]).split(maxsplit=3) == [
        "bob",
        "·",
        "-",
        "There is no notebook and no workshop file to grade.",
    ]
    with pytest.raises(SubmissionsError, match=r"no notebook, mybookie.py or myclient.py in .*bob"):
        submissions_of([tmp_path / "bob"])
    with pytest.raises(SubmissionsError, match=r"bab does not exist"):
        submissions_of([tmp_path / "ada", tmp_path / "bab"])


def test_each_student_has_a_separate_page(tmp_path: Path) -> None:
    students = ["A B", "A_B", "a_b", "A_B-2", "ada", "Ada"]
    pages = {student: page_of(student, tmp_path) for student in students}
    assert len({str(page).casefold() for page in pages.values()}) == len(students)
    assert pages["ada"] == tmp_path / "students" / "ada.html"


def test_a_file_that_is_not_a_notebook_is_a_result_and_stops_no_class(tmp_path: Path) -> None:
    for number, text in enumerate(("{", "[]", '{"cells": [1]}')):
        file = tmp_path / f"{number}.ipynb"
        file.write_text(text)
        [result] = results_here(file)
        assert "is not a notebook" in result.message


RESULTS = [
    Result("ada", "quorums.lost", PASSED, "Held."),
    Result("bob", "quorums.lost", REFUSED, "It broke <here>.", counterexample="is_lost(1)"),
    Result("bob", "quorums.coverage", OPEN, "It has no answer."),
]


def no_java() -> Java:
    raise JavaNotFound(["PATH: no java found"])


@pytest.mark.slow
def test_results_are_in_the_order_of_the_lesson_whatever_needs_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "find_java", no_java)
    notebook = write_notebook(tmp_path / "ada.ipynb", "check('streaming.gaps', None)")
    [submission] = submissions_of([notebook])
    plan, *results = grade_exercises(submission, TRUSTED)
    assert plan == ("streaming.sink", "streaming.gaps")
    assert {each.exercise: each.outcome for each in results if isinstance(each, Result)} == {
        "streaming.sink": NOT_GRADED,
        "streaming.gaps": OPEN,
    }


def test_the_table_shows_what_was_refused_and_why() -> None:
    assert table(RESULTS).splitlines() == [
        "ada              ✔ quorums.lost",
        "bob              ✘ quorums.lost                  is_lost(1)",
        "bob              ○ quorums.coverage",
    ]


def test_without_java_exercises_that_need_spark_are_reported_as_not_graded_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "find_java", no_java)
    source = "check('streams.order', lambda messages: messages)"
    # All exercises of lesson 12 need Spark, so no process starts.
    results = results_here(write_notebook(tmp_path / "ada.ipynb", source))
    assert [(each.exercise, each.outcome) for each in results] == [
        (f"streams.{name}", NOT_GRADED) for name in ("order", "holes", "stored_twice")
    ]
    assert table(results).count("This exercise needs Spark") == len(results)
    write(results, [], tmp_path, NOW)
    write_page("ada", results, tmp_path / "ada.html")
    page = (tmp_path / "ada.html").read_text()
    assert "0 of 0 exercises passed, 3 not graded" in page
    assert page.count("This exercise needs Spark") == len(results)


def test_the_reports_are_parquet_a_page_for_each_student_and_a_notebook(tmp_path: Path) -> None:
    write(RESULTS, [], tmp_path, NOW)
    rows = pq.read_table(tmp_path / "results.parquet").to_pylist()
    assert [row["outcome"] for row in rows] == [PASSED, REFUSED, OPEN]
    assert rows[1]["counterexample"] == "is_lost(1)"
    assert [row["variant"] for row in rows] == [1, 1, 1]
    write_page("bob", RESULTS[1:], tmp_path / "bob.html")
    assert "It broke &lt;here&gt;." in (tmp_path / "bob.html").read_text()
    assert "spark.read.parquet" in (tmp_path / "class.ipynb").read_text()


@pytest.mark.slow
def test_a_wrong_answers_page_links_to_its_run_without_the_students_code(tmp_path: Path) -> None:
    result = graded(tmp_path / "ada", WRONG)[0]
    assert RunLink.parse(result.link).code == ""
    write_page("ada", [result], tmp_path / "ada.html")
    page = (tmp_path / "ada.html").read_text()
    assert f'value="{result.link}"' in page
    assert "range(qw)" not in page


CLASS = {
    "right": (RIGHT, 60),
    "wrong": (WRONG, 33),
    "hangs": (HANGS, 1),
    "labkits": (LABKITS, 1),
    "replaces": (REPLACES, 1),
    "forks": ("import os\nwhile True: os.fork()\ncheck('quorums.write_set', None)", 1),
    "memory": ("kept = bytes(8 << 30)\ncheck('quorums.write_set', lambda *_: kept)", 1),
    "disk": (f"{HOSTILE}\ndisk(1)\ncheck('quorums.write_set', disk)", 1),
    "network": (f"{HOSTILE}\nnetwork(1)\ncheck('quorums.write_set', network)", 1),
}


@shut_in
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_class_of_100_is_graded_whatever_some_of_them_do(tmp_path: Path) -> None:
    places = [
        write_notebook(tmp_path / f"{kind}-{number}.ipynb", source)
        for kind, (source, count) in CLASS.items()
        for number in range(count)
    ]
    results = [own.results[0] for own in grade_all(submissions_of(places), Limits(), 2)]
    assert len(results) == 100
    passed = Counter(each.student.split("-")[0] for each in results if each.outcome == PASSED)
    assert passed == {"right": 60}


@pytest.mark.slow
def test_of_two_notebooks_with_the_same_exercise_the_better_answer_counts(tmp_path: Path) -> None:
    write_notebook(tmp_path / "ada" / "05-copy.ipynb", RIGHT)
    write_notebook(tmp_path / "ada" / "05.ipynb", "check('quorums.write_set', None)")
    [submission] = submissions_of([tmp_path / "ada"])
    results = grade(submission, TRUSTED).results
    assert [each.exercise for each in results].count("quorums.write_set") == 1
    assert results[0].outcome == PASSED


KILLS = "import os, signal\ndef kill(*_): os.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [f"{KILLS}check('quorums.write_set', kill)", f"{KILLS}kill()\n{RIGHT}"],
    ids=["while it answers", "while it loads"],
)
def test_a_process_that_the_kernel_killed_is_not_held_against_the_student(
    tmp_path: Path, source: str
) -> None:
    write_notebook(tmp_path / "ada" / "05.ipynb", source)
    [submission] = submissions_of([tmp_path / "ada"])
    result = grade(submission, HERE).results[0]
    assert result.outcome == NOT_GRADED, result
    assert "the machine ran out of memory" in result.message


@pytest.mark.slow
def test_a_trial_that_the_kernel_killed_is_not_held_against_the_student(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "labkit.course.grading.grade.card_of", lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    )
    write_notebook(tmp_path / "ada" / "05.ipynb", RIGHT)
    assert results_here(tmp_path / "ada")[0].outcome == NOT_GRADED
