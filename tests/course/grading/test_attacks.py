"""Tests submissions that try to abort, delay or fool the grading of a class."""

import json
import os
import socket
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import pyarrow.parquet as pq
import pytest

from labkit.course.checking.card import Card
from labkit.course.checking.check import card_of
from labkit.course.checking.exercise import Exercise, RaisedThereError
from labkit.course.checking.record import FILE
from labkit.course.grading import command, grade
from labkit.course.grading.grade import grade_exercises
from labkit.course.grading.isolation import sandbox
from labkit.course.grading.isolation.sandbox_rpc import SubmissionConnection
from labkit.course.grading.processes import Graded, grade_all
from labkit.course.grading.reports.report import table
from labkit.course.grading.results import NOT_GRADED, OPEN, PASSED, REFUSED, Result
from labkit.course.grading.submissions import Submission, submissions_of
from labkit.course.grading.unfinished import UnfinishedRun
from labkit.system.model.missing_part import MissingPart
from tests.course.grading.notebooks import RIGHT, cells, write_notebook
from tests.course.grading.test_grade import HERE, PATIENT, TRUSTED, results_here, shut_in

QUICK = replace(HERE, exercise_s=2.0, load_s=40.0, cell_s=2)


def class_of(tmp_path: Path) -> list[Graded]:
    """Grade the class in this folder."""
    return list(grade_all(submissions_of(sorted(tmp_path.iterdir())), QUICK, 2))


def results_of(tmp_path: Path) -> dict[str, list[Result]]:
    return {each.submission.student: each.results for each in class_of(tmp_path)}


def as_notebook(source: str, **more: object) -> str:
    cell = {"cell_type": "code", "metadata": {}, "source": source, **more}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4})


FILES = {
    "nested": '{"cells":' + "[" * 200_000,
    "nested_metadata": '{"cells": [], "metadata": ' + '{"a":' * 200_000,
    "chain": as_notebook("case_seed" + ".a" * 100_000, metadata={"tags": ["injected-parameters"]}),
    "brackets": as_notebook("(" * 100_000, metadata={"tags": ["injected-parameters"]}),
    "target": as_notebook(".a" * 30_000 + " = 1", metadata={"tags": ["injected-parameters"]}),
    "lines": as_notebook("\n" * 1_000_000),
    "spaces": as_notebook(" " * 900_000 + "x"),
    "checks": as_notebook("check('a" * 100_000),
    "names": as_notebook("\n".join(f"check('lesson{'x' * i}.a', 1)" for i in range(1000))),
    "cells": '{"cells": [' + ",".join(["{}"] * 1_000_000) + "]}",
    "lists": '{"cells": [' + ",".join(["[]"] * 8_000_000) + "]}",
    "number": '{"cells": ' + "9" * 1_000_000 + "}",
    "large": " " * (33 << 20),
    "code": as_notebook("x" * (2 << 20)),
}
"""Contents of notebook files that attack the grader."""


@pytest.mark.slow
def test_no_file_of_a_student_ends_or_holds_up_the_class(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "05.ipynb").write_text(text)
    (tmp_path / "lists" / "06.ipynb").write_text(FILES["lists"])
    results = results_of(tmp_path)
    assert set(results) == set(FILES)
    harmless = {"lines", "spaces", "checks", "names", "chain", "brackets", "target"}
    for name, own in results.items():
        assert own[0].outcome == (OPEN if name in harmless else REFUSED), own
        assert len(own[0].message) <= 2000


@pytest.mark.slow
def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    folder = tmp_path / "ada"
    folder.mkdir()
    os.mkfifo(folder / "pipe.ipynb")
    os.mkfifo(folder / FILE)
    (folder / "link.ipynb").symlink_to("/dev/zero")
    (folder / "secret.ipynb").symlink_to("/etc/passwd")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket.ipynb"))
        [ada] = class_of(tmp_path)
    assert [each.exercise for each in ada.results] == [
        f"- {name}.ipynb" for name in ("link", "pipe", "secret", "socket")
    ]
    assert all("not a regular file" in each.message for each in ada.results)
    assert "not a regular file" in ada.problems[0]


@pytest.mark.slow
def test_file_names_need_not_be_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / "class" / "ada"
    folder.mkdir(parents=True)
    for name, text in ((b"\xff.ipynb", "{"), (b"\xfe.ipynb", as_notebook("1"))):
        Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_text(text)
    lines: list[str] = []
    command.run_grade(options(tmp_path, folder), lines.append)
    rows = pq.read_table(tmp_path / "grades" / "results.parquet").to_pylist()
    assert [(row["exercise"], row["outcome"]) for row in rows] == [("- ?.ipynb", REFUSED)]


def test_a_link_is_named_after_itself_and_may_lead_nowhere(tmp_path: Path) -> None:
    write_notebook(tmp_path / "ada" / "05.ipynb", RIGHT)
    (tmp_path / "bob").symlink_to("ada")
    (tmp_path / "eve").symlink_to("nowhere")
    found = submissions_of(sorted(tmp_path.iterdir()))
    assert [each.student for each in found] == ["ada", "bob", "eve"]
    [_, result] = grade_exercises(found[2], TRUSTED)
    assert isinstance(result, Result)
    assert result.outcome == REFUSED


def test_a_file_that_is_gone_does_not_keep_the_results_from_being_stored(tmp_path: Path) -> None:
    gone = Submission("ada", tmp_path / "feedback.html", (tmp_path / "05.ipynb",))
    graded = Graded(gone, [Result("ada", "05", REFUSED, "There is no such file.")])
    run = UnfinishedRun(tmp_path / "grades", "settings")
    assert run.graded(run.keep(graded).submission) == graded


@pytest.mark.slow
def test_a_deep_or_crowded_folder_is_a_result(tmp_path: Path) -> None:
    deep, crowded = tmp_path / "deep", tmp_path / "crowded"
    for folder in (deep, crowded):
        write_notebook(folder / "05.ipynb", RIGHT)
    below = [deep]
    while len(below) < 1200:
        below.append(below[-1] / "d")
        below[-1].mkdir()
    for number in range(101):
        (crowded / f"{number}.ipynb").write_text("{}")
    try:
        first, second = submissions_of([deep, crowded])
    finally:
        for folder in below[:0:-1]:
            folder.rmdir()  # pytest cannot delete a folder that is nested so deeply
    assert "more than 100 files of the same kind" in first.problem
    assert second.notebooks == (deep / "05.ipynb",)
    [_, result] = grade_exercises(first, TRUSTED)
    assert isinstance(result, Result)
    assert (result.outcome, result.exercise) == (NOT_GRADED, "-")


INSIDE = (
    "import gc, os\ndef f(*_):\n"
    "    inside = next(o for o in gc.get_objects() if type(o).__name__ == 'SubmissionProcess')\n"
)
FUNCTIONS = {
    "raises_long": "def f(*_): raise ValueError('x' * 100_000_000)",
    "raises_slowly": "class E(Exception):\n    def __str__(self):\n        while True: pass\n"
    "def f(*_): raise E",
    "loops": "def f(*_):\n    while True:\n        try:\n            while True: pass\n"
    "        except BaseException: pass",
    "large_number": "f = lambda *_: (10**4000,)",
    "deep_return": "def f(*_):\n    value = ()\n    for _ in range(900): value = (value,)\n"
    "    return value",
    "ends": "import os\ndef f(*_): os._exit(0)",
    "half": INSIDE
    + "    os.write(inside._channel._outgoing, b'\\0\\0\\1\\0{')\n    while True: pass",
    "huge_message": INSIDE
    + "    os.write(inside._channel._outgoing, b'\\xff\\xff\\xff\\xff{')\n    while True: pass",
    "nested_message": INSIDE
    + "    os.write(inside._channel._outgoing, b'\\0\\0\\x80\\0' + b'[' * 0x8000)",
}
CODE = {name: f"{code}\ncheck('quorums.write_set', f)" for name, code in FUNCTIONS.items()} | {
    "swallows": "while True:\n    try:\n        check('quorums.write_set', 1)\n"
    "    except BaseException:\n        pass",
    "talks": "text = 'x' * 3_000_000\nwhile True: check('quorums.write_set', text)",
    "colliding": "modulus = 2**61 - 1\n"
    "check('quorums.write_set', {i * modulus for i in range(1)})\n"
    "import labkit.course.grading.values as v\nimport __main__, gc\n"
    "from labkit.course.grading.isolation.submission_process import SubmissionProcess\n"
    "inside = next(o for o in gc.get_objects() if type(o).__name__ == 'SubmissionProcess')\n"
    "form = {'set': [i * modulus for i in range(100_000)]}\n"
    "inside.send(answer='quorums.write_set', kind='value', value=form)",
    "deep_value": "value = []\nfor _ in range(100_000): value = [value]\n"
    "check('quorums.write_set', value)",
    "large_value": "check('quorums.write_set', [0] * 10_000_000)",
}
"""Notebook code that attacks the process that communicates with it."""


@shut_in
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_code_of_a_student_ends_or_holds_up_the_class(tmp_path: Path) -> None:
    for name, source in CODE.items():
        write_notebook(tmp_path / name / "05.ipynb", source)
    write_notebook(tmp_path / "right" / "05.ipynb", RIGHT)
    results = {name: own[0] for name, own in results_of(tmp_path).items()}
    assert results.pop("right").outcome == PASSED
    for name, result in results.items():
        assert result.exercise == "quorums.write_set"
        assert result.outcome == REFUSED, (name, result)
        assert len(result.message) <= 2000


def test_a_submission_that_takes_too_long_is_not_graded_further(tmp_path: Path) -> None:
    write_notebook(tmp_path / "ada" / "05.ipynb", RIGHT)
    hurried = replace(TRUSTED, exercise_s=0.001)
    [graded] = grade_all(submissions_of([tmp_path / "ada"]), hurried, 1)
    assert {each.outcome for each in graded.results} == {NOT_GRADED}
    assert "took more than 0.09 s" in graded.results[-1].message


@pytest.mark.slow
def test_a_trial_that_allocates_by_an_answer_is_refused_and_not_the_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allocates(*_: object) -> None:
        kept = bytearray(8 << 30)
        kept[::4096] = kept[::4096]

    monkeypatch.setattr(grade, "card_of", allocates)
    write_notebook(tmp_path / "ada" / "05.ipynb", RIGHT)
    results = results_here(tmp_path / "ada")
    assert results[0].message == "With this answer, the trial exceeds its memory limit."
    assert [each.outcome for each in results[1:]] == [OPEN, OPEN]


def test_where_the_sandbox_cannot_start_nothing_is_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_notebook(tmp_path / "ada" / "05.ipynb", RIGHT)

    def none() -> None:
        raise MissingPart("bubblewrap", "there is none", "install it")

    monkeypatch.setattr(grade, "require_sandbox", none)
    results = results_here(tmp_path / "ada", replace(QUICK, is_sandboxed=True))
    assert [each.outcome for each in results] == [NOT_GRADED] * 3
    assert results[0].message == "bubblewrap: there is none; install it"
    # The limit also applies if the check above finds no problem.
    monkeypatch.setattr(grade, "require_sandbox", lambda: None)
    monkeypatch.setattr(sandbox, "_MODULE", "labkit.nothing")
    results = results_here(tmp_path / "ada")
    assert [each.outcome for each in results] == [NOT_GRADED] * 3
    assert "No module named labkit.nothing" in results[0].message


@pytest.mark.slow
def test_a_process_that_cannot_be_started_during_a_trial_is_no_fault_of_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_notebook(tmp_path / "ada" / "05.ipynb", RIGHT)

    def starts_another(exercise: Exercise, learner: object) -> Card:
        def trial(_: object) -> str:
            with SubmissionConnection([], TRUSTED):
                return "held"

        monkeypatch.setattr(sys, "executable", "/nothing")
        return card_of(replace(exercise, trial=trial), learner)

    monkeypatch.setattr(grade, "card_of", starts_another)
    first, *_ = results_here(tmp_path / "ada")
    assert first.outcome == NOT_GRADED
    assert "cannot start a process" in first.message


HIDDEN_MEMORY = """
import ctypes, os, socket, threading
libc = ctypes.CDLL(None, use_errno=True)

def raw(call):
    def called(_):
        if call() < 0:
            raise OSError(ctypes.get_errno(), "refused")
    return called

def thread(_):
    started = threading.Thread(target=int)
    started.start()
    started.join()
    return True

def files(_):
    opened = [f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd")]
    return sorted(os.readlink(each).partition(":")[0] for each in opened if os.path.exists(each))

check("a.memfd", lambda _: os.memfd_create("x"))
check("a.shared", raw(lambda: libc.shmget(0, 1 << 20, 0o1600)))
check("a.queue", raw(lambda: libc.msgget(0, 0o1600)))
check("a.vmsplice", raw(lambda: libc.vmsplice(1, None, 0, 0)))
check("a.vsock", lambda _: socket.socket(40, socket.SOCK_STREAM))
check("a.netlink", lambda _: socket.socket(16, socket.SOCK_RAW))
check("a.namespace", raw(lambda: libc.unshare(0x10000000)))
check("a.spawn", lambda _: os.posix_spawn("/bin/true", ["true"], {}))
check("a.shm", lambda _: open("/dev/shm/x", "w"))
check("a.thread", thread)
check("a.files", files)
"""


@shut_in
@pytest.mark.slow
def test_in_the_sandbox_no_memory_is_beyond_its_limit_and_no_file_of_the_host_is_open() -> None:
    with SubmissionConnection(cells(HIDDEN_MEMORY), PATIENT) as border:
        assert not border.problems
        refused = "memfd", "shared", "queue", "vmsplice", "vsock", "netlink", "namespace"
        for name in (*refused, "spawn", "shm"):
            answer = border.answers[f"a.{name}"]
            assert callable(answer)
            with pytest.raises(RaisedThereError, match=r"OSError|PermissionError"):
                answer(1)
        thread, files = border.answers["a.thread"], border.answers["a.files"]
        assert callable(thread)
        assert callable(files)
        assert thread(1) is True
        assert set(files(1)) <= {"/dev/null", "pipe"}


@shut_in
@pytest.mark.slow
def test_an_environment_in_the_temporary_folder_can_be_graded_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "environment"
    prefix.symlink_to(sys.prefix)
    assert tmp_path.is_relative_to(gettempdir())
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sys, "executable", str(prefix / "bin" / "python"))
    sandbox.require_sandbox()


ESCAPES = "\x1b[2J\x1b[1;1Hada \u202e\x9b1m"


@pytest.mark.slow
def test_a_terminal_gets_no_escape_code_of_a_student(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "class" / f"eve\nada              ✔ quorums.lost{ESCAPES}"
    source = f"def f(*_): raise ValueError({ESCAPES!r} + '\\n✔')\ncheck('quorums.write_set', f)"
    write_notebook(folder / "05.ipynb", source)
    (folder / f"x{ESCAPES}.ipynb").write_text("{")
    (folder / FILE).write_text("[]")
    lines: list[str] = []
    command.run_grade(options(tmp_path, folder), lines.append)
    said = capsys.readouterr()
    text = "".join([*lines, said.out, said.err])
    assert not set(text) & set("\x1b\x9b\u202e")
    assert sum("✔" in line for line in text.splitlines()) == len(lines[0].splitlines())
    assert "\\u001b" in text


def options(tmp_path: Path, *folders: Path, **changed: Any) -> Namespace:
    usual: dict[str, Any] = dict.fromkeys(("students", "points", "deadline", "feedback", "spark"))
    usual |= {"folders": list(folders), "out": tmp_path / "grades", "seconds": 60.0, "jobs": 1}
    return Namespace(**usual | {"without_sandbox": not HERE.is_sandboxed} | changed)


@pytest.mark.slow
def test_a_run_that_ended_early_goes_on_with_the_submission_that_was_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / "class" / name for name in ("ada", "bob", "eve")]
    for folder in folders:
        write_notebook(folder / "05.ipynb", RIGHT)
    lines: list[str] = []

    def say(line: str) -> None:
        if "bob" in line and not lines[1:]:
            raise KeyboardInterrupt
        lines.append(line)

    with pytest.raises(KeyboardInterrupt):
        command.run_grade(options(tmp_path, *folders), say)
    assert "1 of 1 exercises passed" not in lines
    assert (tmp_path / "grades" / "students" / "ada.html").is_file()
    again: list[str] = []
    command.run_grade(options(tmp_path, *folders), again.append)
    assert "1 of 3 submissions" in again[0]
    assert not any("ada" in line for line in again[1:-1])
    rows = pq.read_table(tmp_path / "grades" / "results.parquet").to_pylist()
    passed = [row["student"] for row in rows if row["outcome"] == PASSED]
    assert passed == ["ada", "bob", "eve"]
    assert not (tmp_path / "grades" / "unfinished").exists()


def test_a_process_of_a_submission_that_dies_costs_only_that_submission(tmp_path: Path) -> None:
    broken = Submission("eve", tmp_path, (None,))  # type: ignore[arg-type]
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "1.ipynb").write_text("{")
    graded = {
        each.submission.student: each.results
        for each in grade_all([broken, *submissions_of([tmp_path / "ada"])], TRUSTED, 2)
    }
    assert [each.outcome for each in graded["eve"]] == [NOT_GRADED]
    assert "labkit failed to grade this submission" in graded["eve"][0].message
    assert "is not a notebook" in graded["ada"][0].message


def test_a_line_of_the_table_is_one_line() -> None:
    assert len(table([Result("a\nb", "x\r", REFUSED, "\x0by")]).splitlines()) == 1
