"""grade: one submission, a result for each exercise of its lessons.

The verdict is the trial's, in a copy of the grader; what the submission's process does can only
make its answers wrong, late or missing.  After an answer that came late, or whose process
has ended, the next exercise gets a new process.
"""

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from labkit.grading.border import Border, Foreign, Remote
from labkit.grading.frames import READER, FarSession
from labkit.grading.records import storable
from labkit.grading.sandbox import Limits
from labkit.grading.slices import CHECKS, code_cells
from labkit.grading.variants import variant_of
from labkit.grading.withheld import own_answers
from labkit.lessons.apart import Stopped, apart
from labkit.lessons.card import Card, Outcome, picture_of
from labkit.lessons.check import card_of
from labkit.lessons.exercise import Exercise, NoSuchExerciseError, all_exercises, find
from labkit.lessons.record import FILE
from labkit.lessons.stream_trial import asked_in
from labkit.live.missing import MissingPart

PASSED, REFUSED, OPEN, NOT_GRADED = "passed", "refused", "open", "not graded"
_WORDS = {Outcome.PASSED: PASSED, Outcome.REFUSED: REFUSED, Outcome.OPEN: OPEN}
_LONGEST_NOTEBOOK = 32 << 20
TRIAL = 3
"""A whole trial may take this many times as long as the student's function in it."""


class SubmissionsError(Exception):
    """The folders that are handed in cannot be graded as they are."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A student's notebooks, and the records of predictions and hints beside them."""

    student: str
    notebooks: tuple[Path, ...]
    records: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """How a student's answer to one exercise went.

    outcome: passed, refused, open or not graded; message: the rule that broke; asked and
    counterexample: in words, "" if there are none; picture: the counterexample as HTML; seconds:
    wall-clock time of the trial; variant: the seed of the generated cases, 1 for the lessons' own.
    """

    student: str
    exercise: str
    outcome: str
    message: str
    asked: str = ""
    counterexample: str = ""
    picture: str = ""
    seconds: float = 0.0
    variant: int = 1


def submissions_of(places: list[Path]) -> list[Submission]:
    """The submission in each folder or notebook file, in alphabetical order of the students.

    A student's name is that of the folder, or of the file.  A folder can be without a notebook.
    Raises `SubmissionsError` for a place that does not exist, for a name that comes twice, and when
    no place has a notebook.
    """
    found: dict[str, Submission] = {}
    for place in places:
        if not place.exists():
            raise SubmissionsError(f"there is no {place}")
        notebooks = (place,) if place.is_file() else _below(place, "*.ipynb")
        name = place.resolve().stem if place.is_file() else place.resolve().name
        # A folder's name need not be UTF-8, as the reports are.
        student = os.fsencode(name).decode("utf-8", "backslashreplace")
        if student in found:
            raise SubmissionsError(
                f"two submissions are named {student!r}: put each in its own folder"
            )
        records = () if place.is_file() else _below(place, FILE)
        found[student] = Submission(student, notebooks, records)
    if not any(submission.notebooks for submission in found.values()):
        raise SubmissionsError(f"there is no notebook in {', '.join(map(str, places))}")
    return [found[student] for student in sorted(found)]


def _below(folder: Path, pattern: str) -> tuple[Path, ...]:
    """The files of this name, without the old copies that JupyterLab keeps of notebooks."""
    files = sorted(folder.rglob(pattern))
    return tuple(
        file for file in files if ".ipynb_checkpoints" not in file.relative_to(folder).parts
    )


def grade_all(
    submissions: list[Submission], limits: Limits, is_shut_in: bool, jobs: int
) -> Iterator[list[Result]]:
    """The results of each submission, in order; `jobs` of them are graded at a time."""
    graded = partial(grade, limits=limits, is_shut_in=is_shut_in)
    if jobs == 1 or len(submissions) == 1:
        yield from map(graded, submissions)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(graded, submissions)


def grade(submission: Submission, limits: Limits, is_shut_in: bool = True) -> list[Result]:
    """Every exercise of the lessons that the submission answers."""
    if not submission.notebooks:
        return [Result(submission.student, "-", NOT_GRADED, "There is no notebook to grade.")]
    results: list[Result] = []
    for notebook in submission.notebooks:
        try:
            cells, variant = _read(notebook)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            problem = f"{notebook.name} is not a notebook: {error}"
            results.append(Result(submission.student, notebook.stem, REFUSED, problem))
            continue
        exercises = exercises_of(cells)
        graded = {
            result.exercise: replace(result, variant=variant)
            for result in _graded(submission.student, cells, exercises, variant, limits, is_shut_in)
        }
        results += [graded[exercise.name] for exercise in exercises]
    if not results:
        nothing = "No exercise is checked in this submission."
        results.append(Result(submission.student, "-", OPEN, nothing))
    return [_storable(result) for result in results]


def _storable(result: Result) -> Result:
    """Errors of a student's code and names of files can hold what no report can."""
    texts = {name: storable(each) for name, each in asdict(result).items() if isinstance(each, str)}
    return replace(result, **texts)  # type: ignore[arg-type]


def _read(notebook: Path) -> tuple[list[str], int]:
    """The code of a notebook's cells, and its variant."""
    if notebook.is_symlink() or notebook.stat().st_size > _LONGEST_NOTEBOOK:
        raise ValueError("it is a link, or larger than 32 MB")
    content = json.loads(notebook.read_text(encoding="utf-8"))
    return list(code_cells(content)), variant_of(content)


def exercises_of(cells: list[str]) -> list[Exercise]:
    """All exercises of the lessons that these cells check."""
    lessons = {name.partition(".")[0] for cell in cells for name in CHECKS.findall(cell)}
    for cell in cells:
        for name in CHECKS.findall(cell):
            try:
                find(name)
            except NoSuchExerciseError:
                lessons.discard(name.partition(".")[0])
    return [each for each in all_exercises() if each.name.partition(".")[0] in lessons]


def _graded(
    student: str,
    cells: list[str],
    exercises: list[Exercise],
    variant: int,
    limits: Limits,
    is_shut_in: bool,
) -> Iterator[Result]:
    """Those that need Spark come last: they run in another kind of process."""
    withheld = own_answers(exercises)
    for needs_spark in (False, True):
        kind = [each for each in exercises if each.needs_spark is needs_spark]
        try:
            allowed = limits.with_spark() if kind and needs_spark else limits
        except MissingPart as missing:
            why = f"It needs Spark: {missing}"
            yield from (Result(student, each.name, NOT_GRADED, why) for each in kind)
            continue
        reader = partial(Border, READER, limits, is_shut_in)
        far = FarSession(reader) if needs_spark else None
        with ExitStack() as stack:
            border: Border | None = None
            for exercise in kind:
                if border is None or not border.is_in_step():
                    stack.close()
                    border = stack.enter_context(Border(cells, allowed, is_shut_in, withheld))
                began = time.monotonic()
                result = _judged(student, exercise.with_cases_of(variant), border, allowed, far)
                yield replace(result, seconds=round(time.monotonic() - began, 3))


def _judged(
    student: str, exercise: Exercise, border: Border, limits: Limits, far: FarSession | None
) -> Result:
    refused = partial(Result, student, exercise.name, REFUSED)
    answer = border.answers.get(exercise.name)
    if answer is None:
        problems = "; ".join(border.problems[:3])
        if problems and exercise.name not in border.answers:
            return refused(f"The notebook did not come to its check: {problems}")
        return Result(student, exercise.name, OPEN, "It has no answer.")
    if isinstance(answer, Foreign):
        return refused(f"The answer is not a value or function that can be judged: {answer.why}.")
    if isinstance(answer, Remote) and answer.is_labkits:
        return refused(f"{answer.__name__} is labkit's own function: an answer must be written.")
    work = partial(_outcome, student, exercise, far)
    result = apart(work, answer, limits.exercise_s, wall_s=TRIAL * limits.exercise_s)
    if isinstance(result, Result):
        return result
    if isinstance(result, Stopped) and result.is_late:
        return refused(f"The code does not come to an end within {limits.exercise_s:g} s.")
    return refused("The trial ended without a verdict.")


def _outcome(student: str, exercise: Exercise, far: FarSession | None, answer: Any) -> Result:
    """In a copy of the grader: the card in words, which can always be sent back."""
    try:
        with asked_in(far):
            card = card_of(exercise, answer)
    except Exception as error:  # noqa: BLE001
        # A trial meets an answer of a kind that no notebook can hold, such as a list in itself.
        message = f"The trial cannot use this answer: {type(error).__name__}."
        return Result(student, exercise.name, REFUSED, message)
    return _result(student, card)


def _result(student: str, card: Card) -> Result:
    asked = "" if card.asked is None else str(card.asked)
    if card.counterexample is None:
        return Result(student, card.name, _WORDS[card.outcome], card.message, asked)
    words, picture = str(card.counterexample), picture_of(card.counterexample)
    return Result(student, card.name, _WORDS[card.outcome], card.message, asked, words, picture)
