"""Tests a learner's part with hundreds of generated cases, and shows the smallest failing one."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from labkit.course.checking.generated_cases import Recipe, generated_cases, smallest_failing_case
from labkit.course.checking.refused import Refused
from labkit.course.workshop.files import last_line_in
from labkit.course.workshop.learner import Learner

T = TypeVar("T")

Problem = tuple[str, str]
"""The rule that a case breaks, and how the case breaks it."""


def try_generated(
    learner: Learner,
    recipe: Recipe[T],
    count: int,
    problem_of: Callable[[T], Problem | None],
    shown: Callable[[T, str], object],
) -> None:
    """Test `count` cases. If a case fails, raises `Refused` with the smallest case that breaks the
    same rule, formatted by `shown`. If the learner's code raises an exception, raises this
    exception with the smallest case as a note.
    """
    for case, numbers in generated_cases(recipe, count):
        problem = _problem(learner, problem_of, case)
        if problem is None:
            continue
        smallest = smallest_failing_case(
            recipe, numbers, partial(_breaks, learner, problem_of=problem_of, rule=_rule(problem))
        )
        smaller_problem = _problem(learner, problem_of, smallest)
        if smaller_problem is None:  # The part is not deterministic and passed this time.
            smallest, smaller_problem = case, problem
        if isinstance(smaller_problem, Exception):
            learner.error = smaller_problem
            if note := str(shown(smallest, "")).strip():
                smaller_problem.add_note(note)
            raise smaller_problem
        raise Refused(smaller_problem[0], shown(smallest, smaller_problem[1]))


def _problem(
    learner: Learner, problem_of: Callable[[T], Problem | None], case: T
) -> Problem | Exception | None:
    """Return the case's problem, or the exception that the learner's code raises."""
    try:
        return problem_of(case)
    except (Refused, NotImplementedError):
        raise
    except Exception as error:
        if not last_line_in(learner.file, error.__traceback__):
            raise
        learner.error = None  # Otherwise, the learner's next call would raise it again.
        return error


def _rule(problem: Problem | Exception) -> object:
    return type(problem) if isinstance(problem, Exception) else problem[0]


def _breaks(
    learner: Learner, case: T, *, problem_of: Callable[[T], Problem | None], rule: object
) -> bool:
    problem = _problem(learner, problem_of, case)
    return problem is not None and _rule(problem) == rule
