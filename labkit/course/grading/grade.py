"""Grades one submission, with a result for each exercise of its lessons.

This module runs in the judge. The trial reaches the verdict; the sandbox can at worst return wrong
answers, late answers or none. If an answer was late, or if the sandbox has exited, a new sandbox is
started for the next exercise.

Each submission has a judge of its own (`processes`), because parsing a student's files can take any
amount of time and memory.
"""

import json
import pkgutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from labkit.course import exercises
from labkit.course.checking.card import Card, CardState
from labkit.course.checking.check import card_of
from labkit.course.checking.exercise import Exercise, all_exercises, load_lesson
from labkit.course.checking.forked_check import in_forked_copy
from labkit.course.grading.blocked_answers import labkits_answers
from labkit.course.grading.frames import READER, RemoteSession
from labkit.course.grading.isolation.sandbox import Limits, processor_s_of, require_sandbox
from labkit.course.grading.isolation.sandbox_rpc import (
    Packed,
    Remote,
    SubmissionConnection,
    SubmissionProcessError,
    UnsupportedAnswer,
)
from labkit.course.grading.results import (
    KILLED,
    NOT_GRADED,
    NOT_HANDED_IN,
    OPEN,
    PASSED,
    REFUSED,
    WHOLE,
    Result,
    storable,
    without_verdict,
)
from labkit.course.grading.slices import CHECKS, code_cells
from labkit.course.grading.steps import grade_steps
from labkit.course.grading.submissions import Submission, read_regular
from labkit.course.grading.values import EncodingError
from labkit.course.grading.variants import variant_of
from labkit.course.runs.stream_trial import using_session
from labkit.system.model.missing_part import MissingPart

_OUTCOMES = {CardState.PASSED: PASSED, CardState.REFUSED: REFUSED, CardState.OPEN: OPEN}
_MAX_NOTEBOOK_BYTES, _MAX_CODE_BYTES = 32 << 20, 1 << 20
Event = tuple[str, ...] | Result
"""The exercise names of a file, in order, and then the result of each exercise."""


class OldFormatError(Exception):
    """Raised if the notebook's format dates from before 2015, when notebooks were divided into
    worksheets.
    """


def grade_exercises(submission: Submission, limits: Limits, is_sandboxed: bool) -> Iterator[Event]:
    """For each file, yield the names of its exercises, and then the result of each exercise.

    Raises `MissingPart` if no process can be started for a workshop file.
    """
    result = partial(Result.bounded, student=submission.student)
    if submission.problem or not submission.answers:
        outcome = NOT_GRADED if submission.problem else NOT_HANDED_IN
        why = submission.problem or "There is no notebook and no workshop file to grade."
        yield (WHOLE,)
        yield result(exercise=WHOLE, outcome=outcome, message=why)
        return
    has_exercises = bool(submission.workshop_files)
    for notebook in submission.notebooks:
        try:
            cells, variant = _read(notebook)
        except OldFormatError as error:
            outcome, problem = NOT_GRADED, str(error)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            outcome, problem = REFUSED, f"{notebook.name} is not a notebook: {error}"
        except (RecursionError, MemoryError):
            why = "it is nested too deeply, or too large"
            outcome, problem = REFUSED, f"{notebook.name} is not a notebook: {why}"
        else:
            checked = exercises_of(cells)
            has_exercises = has_exercises or bool(checked)
            yield tuple(each.name for each in checked)
            for each in _grade_all(
                submission.student, cells, checked, variant, limits, is_sandboxed
            ):
                yield replace(each, variant=variant)
            continue
        has_exercises = True
        # A file name may not be valid UTF-8, but the reports are UTF-8.
        name = storable(f"{WHOLE} {notebook.name}")
        yield (name,)
        yield result(exercise=name, outcome=outcome, message=problem)
    for file in submission.workshop_files:
        yield from grade_steps(submission.student, file, limits, is_sandboxed)
    if not has_exercises:
        message = "This submission does not check any exercise."
        yield (WHOLE,)
        yield result(exercise=WHOLE, outcome=OPEN, message=message)


def _read(notebook: Path) -> tuple[list[str], int]:
    content = json.loads(read_regular(notebook, _MAX_NOTEBOOK_BYTES).decode("utf-8"))
    if int(content.get("nbformat", 4)) < 4:
        raise OldFormatError(
            f"{notebook.name} is in an old format: open and save it in JupyterLab, then grade it"
            " again."
        )
    cells = list(code_cells(content))
    if sum(map(len, cells)) > _MAX_CODE_BYTES:
        raise ValueError("its cells contain more than 1 MB of code")
    return cells, variant_of(content)


def exercises_of(cells: list[str]) -> list[Exercise]:
    checked = {name.partition(".")[0] for cell in cells for name in CHECKS.findall(cell)}
    lesson_names = {module.name for module in pkgutil.iter_modules(exercises.__path__)}
    for lesson in sorted(checked & lesson_names):
        load_lesson(lesson)
    return [each for each in all_exercises() if each.name.partition(".")[0] in checked]


def _grade_all(
    student: str,
    cells: list[str],
    exercises: list[Exercise],
    variant: int,
    limits: Limits,
    is_sandboxed: bool,
) -> Iterator[Result]:
    """Grade all exercises; those that need Spark come last, because they run in a different kind of
    process.
    """
    left = [each.name for each in exercises]
    try:
        if exercises and is_sandboxed:
            require_sandbox()
        for needs_spark in (False, True):
            kind = [each for each in exercises if each.needs_spark is needs_spark]
            for result in _of_one_kind(student, cells, kind, variant, limits, is_sandboxed):
                left.remove(result.exercise)
                yield result
    except MissingPart as missing:
        for name in left:
            yield _not_graded(student, name, str(missing))


def _not_graded(student: str, exercise: str, why: str) -> Result:
    return Result.bounded(student=student, exercise=exercise, outcome=NOT_GRADED, message=why)


def _of_one_kind(
    student: str,
    cells: list[str],
    exercises: list[Exercise],
    variant: int,
    limits: Limits,
    is_sandboxed: bool,
) -> Iterator[Result]:
    """Yield the results of these exercises, all or none of which need Spark.

    Raises `MissingPart` if no process can be started.
    """
    if not exercises:
        return
    blocked_answers, needs_spark = labkits_answers(exercises), exercises[0].needs_spark
    try:
        allowed = limits.with_spark() if needs_spark else limits
    except MissingPart as missing:
        for each in exercises:
            yield _not_graded(student, each.name, f"This exercise needs Spark: {missing}")
        return
    remote_session = (
        RemoteSession(partial(SubmissionConnection, READER, limits, is_sandboxed))
        if needs_spark
        else None
    )
    with ExitStack() as stack:
        connection: SubmissionConnection | None = None
        for exercise in exercises:
            # A notebook that failed would fail again in a new process.
            if connection is None or (connection.is_loaded and not connection.is_responsive()):
                stack.close()
                connection = stack.enter_context(
                    SubmissionConnection(cells, allowed, is_sandboxed, blocked_answers)
                )
            began = time.monotonic()
            result = _grade_one(
                student, exercise.with_cases_of(variant), connection, allowed, remote_session
            )
            yield replace(result, seconds=round(time.monotonic() - began, 3))


def _grade_one(
    student: str,
    exercise: Exercise,
    connection: SubmissionConnection,
    limits: Limits,
    remote_session: RemoteSession | None,
) -> Result:
    result = partial(Result.bounded, student=student, exercise=exercise.name)
    answer = connection.answers.get(exercise.name)
    if answer is None:
        problems = "; ".join(connection.problems[:3])
        if problems and exercise.name not in connection.answers:
            why = f"The notebook failed before it checked this exercise: {problems}"
            if connection.was_killed():
                return result(outcome=NOT_GRADED, message=KILLED)
            return result(outcome=NOT_GRADED if connection.is_unfinished else REFUSED, message=why)
        return result(outcome=OPEN, message="It has no answer.")
    if isinstance(answer, UnsupportedAnswer):
        why = f"The answer must be a function or a plain value: {answer.why}."
        return result(outcome=REFUSED, message=why)
    if isinstance(answer, Remote) and answer.is_labkits:
        why = f"{answer.__name__} is labkit's own function: write your own."
        return result(outcome=REFUSED, message=why)
    work = partial(_run_trial, student, exercise, remote_session)
    ended = in_forked_copy(
        work,
        answer,
        limits.exercise_s,
        wall_s=limits.elapsed_s,
        processor_s=lambda copy: processor_s_of(copy) + connection.processor_s(),
    )
    if isinstance(ended, Result) and ended.outcome == REFUSED and connection.was_killed():
        return result(outcome=NOT_GRADED, message=KILLED)
    if isinstance(ended, Result):
        return ended
    outcome, why = without_verdict(ended, limits)
    return result(outcome=outcome, message=why)


def _run_trial(
    student: str, exercise: Exercise, remote_session: RemoteSession | None, answer: Any
) -> Result:
    """Run the trial, and return the card as text, so that it can be sent back to the judge."""
    try:
        with using_session(remote_session):
            card = card_of(exercise, answer.value() if isinstance(answer, Packed) else answer)
    except MemoryError:
        raise
    except (MissingPart, SubmissionProcessError) as error:
        # Here, a SubmissionProcessError comes from labkit's own process, which reads a job's files.
        return _not_graded(student, exercise.name, str(error))
    except EncodingError as error:
        card = _refused_card(exercise, f"The answer cannot be judged: {error}.")
    except Exception as error:  # noqa: BLE001
        # The answer may be something that no notebook could contain, such as a list that contains
        # itself.
        card = _refused_card(exercise, f"The trial cannot use this answer: {type(error).__name__}.")
    return _result(student, card)


def _refused_card(exercise: Exercise, why: str) -> Card:
    return Card(exercise.name, CardState.REFUSED, why)


def _result(student: str, card: Card) -> Result:
    return Result.bounded(
        student=student,
        exercise=card.name,
        outcome=_OUTCOMES[card.outcome],
        message=card.message,
        asked="" if card.asked is None else str(card.asked),
        counterexample="" if card.counterexample is None else str(card.counterexample),
        picture=card.still_counterexample(),
        link=card.link(),
    )
