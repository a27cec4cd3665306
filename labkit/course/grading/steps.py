"""Grades `mybookie.py` and `myclient.py`, treating each step of the track as an exercise.

The parts in such a file are objects that a simulation calls many thousands of times, so calling
them through a pipe would be too slow. Instead, labkit's trials run in the sandbox, in the same
process as the file, and the sandbox returns the verdict. A student could therefore try to
manipulate the verdict. To prevent this, a file may import only `ALLOWED_IMPORTS`, which contain no
answers and no trials.

The sandbox allows no new processes, so the last step of a track is not graded. Each step is tested
with labkit's own parts for all other steps, so that a mistake costs only the points of the step in
which it was made.
"""

import ast
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from labkit.course.checking.card import CardState
from labkit.course.checking.exercise import RaisedThereError
from labkit.course.checking.forked_check import Stopped
from labkit.course.grading.isolation.sandbox import Limits
from labkit.course.grading.isolation.sandbox_rpc import SubmissionConnection
from labkit.course.grading.results import (
    KILLED,
    NOT_GRADED,
    OPEN,
    PASSED,
    REFUSED,
    Result,
    without_verdict,
)
from labkit.course.grading.submissions import read_regular
from labkit.course.workshop.step_check import broken_lines, card_of
from labkit.course.workshop.tracks import TRACK_FILES, Step, track

_PURE = (
    *("__future__", "abc", "array", "asyncio", "binascii", "bisect", "collections", "contextlib"),
    *("copy", "dataclasses", "enum", "functools", "heapq", "io", "itertools", "math", "operator"),
    *("random", "string", "struct", "types", "typing", "zlib", "numpy"),
)
ALLOWED_IMPORTS = (
    *_PURE,
    "labkit.course.workshop.client.api",
    "labkit.system.model",
    "labkit.system.storage.disk",
)
"""Modules that a file may import, including their submodules."""
_FORBIDDEN_NAMES = frozenset(("__builtins__", "__import__", "compile", "eval", "exec"))
_MAX_BYTES = 1 << 20
_LIMIT_FACTOR = 3
"""A step has many trials, so it gets this many times the processor time of an exercise."""
_OUTCOMES = {str(CardState.PASSED): PASSED, str(CardState.REFUSED): REFUSED}


def step_names() -> list[str]:
    """Return the names of all steps that are graded."""
    return [name for track_name in TRACK_FILES for name in _graded(track_name)]


def _graded(track_name: str) -> dict[str, Step]:
    """Return the graded steps by the name under which each appears in points, grades and reports,
    such as "bookie.1".
    """
    steps = track(track_name).steps
    return {f"{track_name}.{step.number}": step for step in steps if not step.is_live}


def grade_steps(student: str, file: Path, limits: Limits) -> Iterator[tuple[str, ...] | Result]:
    """Yield the names of all steps, and then the result of each step.

    Raises `MissingPart` if no process can be started.
    """
    [name] = [each for each, file_name in TRACK_FILES.items() if file_name == file.name]
    steps = _graded(name)
    yield tuple(steps)
    allowed = replace(limits, exercise_s=_LIMIT_FACTOR * limits.exercise_s)
    source = ""
    try:
        source = read_regular(file, _MAX_BYTES).decode("utf-8")
        problem = _problem_of(source)
    except (OSError, ValueError) as error:
        problem = f"the file cannot be read: {error}."
    except (RecursionError, MemoryError):
        problem = "the file is nested too deeply, or too large."
    with ExitStack() as stack:
        connection: SubmissionConnection | None = None
        for exercise, step in steps.items():
            result = partial(Result.bounded, student=student, exercise=exercise)
            if problem:
                yield result(outcome=REFUSED, message=f"{file.name}: {problem}")
                continue
            if connection is None or not connection.is_responsive():
                stack.close()
                connection = stack.enter_context(SubmissionConnection(_JUDGE_CELLS, allowed))
            began = time.monotonic()
            graded = result(**_judged(connection, name, step, source, allowed))
            yield replace(graded, seconds=round(time.monotonic() - began, 3))


def _problem_of(source: str) -> str:
    """Return the reason why the grader does not run this file, or "" if it does."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""  # judge_step reports the line.
    for node in ast.walk(tree):
        imported = []
        if isinstance(node, ast.Import):
            imported = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            # A submodule can also be imported as a name.
            imported = [node.module or "."]
        for name in imported:
            if not any(f"{name}.".startswith(f"{allowed}.") for allowed in ALLOWED_IMPORTS):
                return (
                    f"line {getattr(node, 'lineno', 0)} imports {name}; in a graded file, import"
                    f" only {', '.join(ALLOWED_IMPORTS)}."
                )
        if isinstance(node, ast.Name) and node.id in _FORBIDDEN_NAMES:
            return f"line {node.lineno} uses {node.id}, which is not allowed in a graded file."
    return ""


def _judged(
    connection: SubmissionConnection, name: str, step: Step, source: str, limits: Limits
) -> dict[str, str]:
    """Return the outcome of the step, and the strings of its result."""

    def ask(judge: str) -> Any:
        response = partial(_response, (name, step.number, source))
        return connection.run_trial(response, connection.answers[judge])

    if not connection.is_loaded:
        # The cells are labkit's own, so only the machine can have caused this problem.
        return {"outcome": NOT_GRADED, "message": "; ".join(connection.problems)}
    verdict = ask(_STEP)
    if isinstance(verdict, Stopped):
        outcome, message = without_verdict(verdict, limits)
        return {"outcome": outcome, "message": message}
    if not isinstance(verdict, dict) and connection.was_killed():
        return {"outcome": NOT_GRADED, "message": KILLED}
    if not isinstance(verdict, dict) or set(verdict) != set(_FIELDS):
        return {"outcome": REFUSED, "message": f"The step cannot be tested: {verdict}"}
    fields = {field: str(verdict[field]) for field in _FIELDS}
    fields["outcome"] = _OUTCOMES.get(fields["outcome"], OPEN)
    fields["picture"] = safe_picture(fields["picture"], fields["counterexample"])
    if fields["outcome"] == REFUSED and isinstance(lines := ask(_LINES), list):
        others = [
            line.words
            for line in step.contract
            if line.words in lines and line.words not in fields["message"]
        ]
        if others:
            fields["message"] += "\nYour code also breaks:" + "".join(f"\n- {o}" for o in others)
    return fields


_FIELDS = ("outcome", "message", "counterexample", "picture")
_FRAME = (
    '<iframe sandbox style="width:100%;height:45em;border:0;resize:vertical" srcdoc="{}"></iframe>'
)
_STEP, _LINES = "workshop.step", "workshop.broken_lines"
_JUDGE_CELLS = [
    "from labkit.course.grading.steps import judge_step, list_broken_lines",
    "from labkit.course.lessons import check",
    f"check({_STEP!r}, judge_step)\ncheck({_LINES!r}, list_broken_lines)",
]
"""Cells that the sandbox runs in place of a notebook."""


def safe_picture(picture: str, counterexample: str) -> str:
    """Return the counterexample as HTML that runs no scripts.

    picture: HTML from the process that ran the student's code; counterexample: the counterexample
        as text
    """
    if "<img" in picture:
        return _FRAME.format(escape(picture))
    return f"<pre>{escape(counterexample)}</pre>" if counterexample else ""


def _response(arguments: tuple[str, int, str], judge: Any) -> Any:
    """Call the function in the sandbox, and return its result or, if the call fails, the reason as
    text.
    """
    try:
        return judge(*arguments)
    except RaisedThereError as error:
        return str(error)


# The following functions run in the sandbox.


def judge_step(name: str, number: int, source: str) -> dict[str, str]:
    """Test a step, and return the card as text."""
    found = track(name)
    with _written(source, found.file_name) as file:
        card = card_of(found, found.step(number), file, is_alone=True)
    return {
        "outcome": str(card.outcome),
        "message": card.message,
        "counterexample": "" if card.counterexample is None else str(card.counterexample),
        "picture": card.still_counterexample(),
    }


def list_broken_lines(name: str, number: int, source: str) -> list[str]:
    """Return all lines of the step's contract that the file breaks."""
    found = track(name)
    with _written(source, found.file_name) as file:
        return broken_lines(found, found.step(number), file)


@contextmanager
def _written(source: str, file_name: str) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        file = Path(folder, file_name)
        file.write_text(source, encoding="utf-8")
        yield file
