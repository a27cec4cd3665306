"""grade: one submission, a result for each exercise of its lessons.

The verdict is the trial's, in a copy of this process; what the submission's process does can only
make its answers wrong, late or missing.  After an answer that came late, or whose process
has ended, the next exercise gets a new process.

All of this is done in a process of the submission's own (`processes`), as parsing what a stranger
wrote can take any time and memory.
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

from labkit.course import exercises as lessons
from labkit.course.checking.card import Card, CardState, picture_of
from labkit.course.checking.check import card_of
from labkit.course.checking.exercise import Exercise, all_exercises, load_lesson
from labkit.course.checking.forked_check import Reason, Stopped, in_forked_copy
from labkit.course.grading.blocked_answers import own_answers
from labkit.course.grading.frames import READER, RemoteSession
from labkit.course.grading.isolation.sandbox import Limits, require_sandbox
from labkit.course.grading.isolation.sandbox_rpc import Border, Foreign, Packed, Remote
from labkit.course.grading.results import NOT_GRADED, OPEN, PASSED, REFUSED, Result, storable
from labkit.course.grading.slices import CHECKS, code_cells
from labkit.course.grading.submissions import Submission, read_regular
from labkit.course.grading.values import CannotCrossError
from labkit.course.grading.variants import variant_of
from labkit.course.runs.stream_trial import asked_in
from labkit.system.model.missing_part import MissingPart

_OUTCOMES = {CardState.PASSED: PASSED, CardState.REFUSED: REFUSED, CardState.OPEN: OPEN}
_MOST_NOTEBOOK, _MOST_CODE = 32 << 20, 1 << 20
TRIAL = 3
"""A whole trial may take this many times as long as the student's function in it."""
Judged = tuple[str, ...] | Result
"""Which exercises of a notebook are judged next, in their order; then the result of each."""


def judged(submission: Submission, limits: Limits, is_shut_in: bool) -> Iterator[Judged]:
    """The results of every exercise of the lessons that the submission answers, as they come."""
    result = partial(Result.bounded, student=submission.student)
    if submission.problem or not submission.notebooks:
        why = submission.problem or "There is no notebook to grade."
        yield ("-",)
        yield result(exercise="-", outcome=NOT_GRADED, message=why)
        return
    has_exercises = False
    for notebook in submission.notebooks:
        try:
            cells, variant = _read(notebook)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            problem = f"{notebook.name} is not a notebook: {error}"
        except (RecursionError, MemoryError):
            problem = f"{notebook.name} is not a notebook: it is nested too deeply, or too large"
        else:
            exercises = exercises_of(cells)
            has_exercises = has_exercises or bool(exercises)
            yield tuple(each.name for each in exercises)
            for each in _graded(submission.student, cells, exercises, variant, limits, is_shut_in):
                yield replace(each, variant=variant)
            continue
        has_exercises = True
        # A file name need not be UTF-8, as the reports are.
        name = storable(notebook.stem)
        yield (name,)
        yield result(exercise=name, outcome=REFUSED, message=problem)
    if not has_exercises:
        nothing = "No exercise is checked in this submission."
        yield ("-",)
        yield result(exercise="-", outcome=OPEN, message=nothing)


def _read(notebook: Path) -> tuple[list[str], int]:
    """The code of a notebook's cells, and its variant."""
    content = json.loads(read_regular(notebook, _MOST_NOTEBOOK).decode("utf-8"))
    cells = list(code_cells(content))
    if sum(map(len, cells)) > _MOST_CODE:
        raise ValueError("the code of its cells is larger than 1 MB")
    return cells, variant_of(content)


def exercises_of(cells: list[str]) -> list[Exercise]:
    """All exercises of the lessons that these cells check."""
    checked = {name.partition(".")[0] for cell in cells for name in CHECKS.findall(cell)}
    known = {module.name for module in pkgutil.iter_modules(lessons.__path__)}
    for lesson in sorted(checked & known):
        load_lesson(lesson)
    return [each for each in all_exercises() if each.name.partition(".")[0] in checked]


def _graded(
    student: str,
    cells: list[str],
    exercises: list[Exercise],
    variant: int,
    limits: Limits,
    is_shut_in: bool,
) -> Iterator[Result]:
    """Those that need Spark come last: they run in another kind of process."""
    left = [each.name for each in exercises]
    try:
        if exercises and is_shut_in:
            require_sandbox()
        for needs_spark in (False, True):
            kind = [each for each in exercises if each.needs_spark is needs_spark]
            for result in _of_one_kind(student, cells, kind, variant, limits, is_shut_in):
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
    is_shut_in: bool,
) -> Iterator[Result]:
    """The results of exercises that all need Spark, or none of them.

    Raises `MissingPart` where no process can be started.
    """
    if not exercises:
        return
    withheld, needs_spark = own_answers(exercises), exercises[0].needs_spark
    try:
        allowed = limits.with_spark() if needs_spark else limits
    except MissingPart as missing:
        for each in exercises:
            yield _not_graded(student, each.name, f"It needs Spark: {missing}")
        return
    far = RemoteSession(partial(Border, READER, limits, is_shut_in)) if needs_spark else None
    with ExitStack() as stack:
        border: Border | None = None
        for exercise in exercises:
            # A notebook that did not come to its end does not the next time.
            if border is None or (border.is_loaded and not border.is_in_step()):
                stack.close()
                border = stack.enter_context(Border(cells, allowed, is_shut_in, withheld))
            began = time.monotonic()
            result = _judged(student, exercise.with_cases_of(variant), border, allowed, far)
            yield replace(result, seconds=round(time.monotonic() - began, 3))


def _judged(
    student: str, exercise: Exercise, border: Border, limits: Limits, far: RemoteSession | None
) -> Result:
    result = partial(Result.bounded, student=student, exercise=exercise.name)
    answer = border.answers.get(exercise.name)
    if answer is None:
        problems = "; ".join(border.problems[:3])
        if problems and exercise.name not in border.answers:
            why = f"The notebook did not come to its check: {problems}"
            return result(outcome=REFUSED, message=why)
        return result(outcome=OPEN, message="It has no answer.")
    if isinstance(answer, Foreign):
        why = f"The answer is not a value or function that can be judged: {answer.why}."
        return result(outcome=REFUSED, message=why)
    if isinstance(answer, Remote) and answer.is_labkits:
        why = f"{answer.__name__} is labkit's own function: an answer must be written."
        return result(outcome=REFUSED, message=why)
    work = partial(_outcome, student, exercise, far)
    ended = in_forked_copy(work, answer, limits.exercise_s, wall_s=TRIAL * limits.exercise_s)
    if isinstance(ended, Result):
        return ended
    why = "The trial ended without a verdict."
    if isinstance(ended, Stopped) and ended.reason is Reason.LATE:
        why = f"The code does not come to an end within {limits.exercise_s:g} s."
    if isinstance(ended, Stopped) and ended.reason is Reason.MEMORY:
        why = "With this answer the trial needs more memory than it may use."
    return result(outcome=REFUSED, message=why)


def _outcome(student: str, exercise: Exercise, far: RemoteSession | None, answer: Any) -> Result:
    """In a copy of the grader: the card in words, which can always be sent back."""
    try:
        with asked_in(far):
            card = card_of(exercise, answer.value() if isinstance(answer, Packed) else answer)
    except MemoryError:
        raise
    except MissingPart as missing:
        return _not_graded(student, exercise.name, str(missing))
    except CannotCrossError as error:
        card = _refused(exercise, f"The answer cannot be judged: {error}.")
    except Exception as error:  # noqa: BLE001
        # A trial meets an answer of a kind that no notebook can hold, such as a list in itself.
        card = _refused(exercise, f"The trial cannot use this answer: {type(error).__name__}.")
    return _result(student, card)


def _refused(exercise: Exercise, why: str) -> Card:
    return Card(exercise.name, CardState.REFUSED, why)


def _result(student: str, card: Card) -> Result:
    words = picture = ""
    if card.counterexample is not None:
        words, picture = str(card.counterexample), picture_of(card.counterexample)
    return Result.bounded(
        student=student,
        exercise=card.name,
        outcome=_OUTCOMES[card.outcome],
        message=card.message,
        asked="" if card.asked is None else str(card.asked),
        counterexample=words,
        picture=picture,
    )
