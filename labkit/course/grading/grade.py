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
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from labkit.course import exercises
from labkit.course.checking.card import CardState
from labkit.course.checking.check import card_of
from labkit.course.checking.exercise import Exercise, all_exercises, load_lesson
from labkit.course.grading.blocked_answers import labkits_answers
from labkit.course.grading.frames import READER, RemoteSession
from labkit.course.grading.isolation.sandbox import Limits, require_sandbox
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
from labkit.course.runs.topics.stream_trial import using_session
from labkit.system.model.missing_part import MissingPart

_OUTCOMES = {CardState.PASSED: PASSED, CardState.REFUSED: REFUSED, CardState.OPEN: OPEN}
_MAX_NOTEBOOK_BYTES, _MAX_CODE_BYTES = 32 << 20, 1 << 20
Event = tuple[str, ...] | Result
"""The exercise names of a file, in order, and then the result of each exercise."""


class OldFormatError(Exception):
    """Raised if the notebook's format dates from before 2015, when notebooks were divided into
    worksheets.
    """


def grade_exercises(submission: Submission, limits: Limits) -> Iterator[Event]:
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
    for file in submission.notebooks:
        try:
            cells, variant = _read(file)
        except OldFormatError as error:
            outcome, problem = NOT_GRADED, str(error)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            outcome, problem = REFUSED, f"{file.name} is not a notebook: {error}"
        except (RecursionError, MemoryError):
            why = "it is nested too deeply, or too large"
            outcome, problem = REFUSED, f"{file.name} is not a notebook: {why}"
        else:
            checked = exercises_of(cells)
            has_exercises = has_exercises or bool(checked)
            yield tuple(each.name for each in checked)
            yield from _Notebook(submission.student, cells, variant, limits).grade(checked)
            continue
        has_exercises = True
        # A file name may not be valid UTF-8, but the reports are UTF-8.
        name = storable(f"{WHOLE} {file.name}")
        yield (name,)
        yield result(exercise=name, outcome=outcome, message=problem)
    for file in submission.workshop_files:
        yield from grade_steps(submission.student, file, limits)
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


@dataclass(frozen=True, slots=True)
class _Notebook:
    """The code cells of a student's notebook, and the limits within which they run."""

    student: str
    cells: list[str]
    variant: int
    limits: Limits

    def grade(self, exercises: list[Exercise]) -> Iterator[Result]:
        """Grade all exercises. Grade those that need Spark last, because they run in a different
        kind of process.
        """
        left = [each.name for each in exercises]
        try:
            if exercises and self.limits.is_sandboxed:
                require_sandbox()
            for needs_spark in (False, True):
                kind = [each for each in exercises if each.needs_spark is needs_spark]
                for result in self._grade_kind(kind, needs_spark):
                    left.remove(result.exercise)
                    yield result
        except MissingPart as missing:
            for name in left:
                yield self._result(name, NOT_GRADED, str(missing))

    def _grade_kind(self, exercises: list[Exercise], needs_spark: bool) -> Iterator[Result]:
        """Yield the results of these exercises, all or none of which need Spark.

        Raises `MissingPart` if no process can be started.
        """
        if not exercises:
            return
        limits, session = self.limits, None
        if needs_spark:
            session = RemoteSession(partial(SubmissionConnection, READER, self.limits))
            try:
                limits = self.limits.with_spark()
            except MissingPart as missing:
                why = f"This exercise needs Spark: {missing}"
                for each in exercises:
                    yield self._result(each.name, NOT_GRADED, why)
                return
        blocked_answers = labkits_answers(exercises)
        with ExitStack() as stack:
            connection: SubmissionConnection | None = None
            for exercise in exercises:
                # A notebook that failed would fail again in a new process.
                if connection is None or (connection.is_loaded and not connection.is_responsive()):
                    stack.close()
                    connection = stack.enter_context(
                        SubmissionConnection(self.cells, limits, blocked_answers)
                    )
                began = time.monotonic()
                own = exercise.with_cases_of(self.variant)
                result = self._grade_one(own, connection, limits, session)
                yield replace(result, seconds=round(time.monotonic() - began, 3))

    def _grade_one(
        self,
        exercise: Exercise,
        connection: SubmissionConnection,
        limits: Limits,
        session: RemoteSession | None,
    ) -> Result:
        result = partial(self._result, exercise.name)
        answer = connection.answers.get(exercise.name)
        if answer is None:
            problems = "; ".join(connection.problems[:3])
            if problems and exercise.name not in connection.answers:
                if connection.was_killed():
                    return result(NOT_GRADED, KILLED)
                outcome = NOT_GRADED if connection.is_unfinished else REFUSED
                return result(
                    outcome, f"The notebook failed before it checked this exercise: {problems}"
                )
            return result(OPEN, "It has no answer.")
        if isinstance(answer, UnsupportedAnswer):
            why = f"The answer must be a function or a plain value: {answer.why}."
            return result(REFUSED, why)
        if isinstance(answer, Remote) and answer.is_labkits:
            why = f"{answer.__name__} is labkit's own function: write your own."
            return result(REFUSED, why)
        ended = connection.run_trial(partial(self._run_trial, exercise, session), answer)
        if not isinstance(ended, Result):
            return result(*without_verdict(ended, limits))
        if ended.outcome == REFUSED and connection.was_killed():
            return result(NOT_GRADED, KILLED)
        return ended

    def _run_trial(self, exercise: Exercise, session: RemoteSession | None, answer: Any) -> Result:
        """Run the trial and return its result, which is sent to the judge."""
        result = partial(self._result, exercise.name)
        try:
            with using_session(session):
                card = card_of(exercise, answer.value() if isinstance(answer, Packed) else answer)
        except MemoryError:
            raise
        except (MissingPart, SubmissionProcessError) as error:
            # Here, a SubmissionProcessError comes from labkit's own process, which reads a job's
            # files.
            return result(NOT_GRADED, str(error))
        except EncodingError as error:
            return result(REFUSED, f"The answer cannot be judged: {error}.")
        except Exception as error:  # noqa: BLE001
            # The answer may be something that no notebook could contain, such as a list that
            # contains itself.
            return result(REFUSED, f"The trial cannot use this answer: {type(error).__name__}.")
        return result(
            _OUTCOMES[card.outcome],
            card.message,
            asked="" if card.asked is None else str(card.asked),
            counterexample="" if card.counterexample is None else str(card.counterexample),
            picture=card.still_counterexample(),
            link=card.link(),
        )

    def _result(self, exercise: str, outcome: str, message: str, **shown: str) -> Result:
        return Result.bounded(
            student=self.student,
            exercise=exercise,
            outcome=outcome,
            message=message,
            variant=self.variant,
            **shown,
        )
