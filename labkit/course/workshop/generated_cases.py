"""Tests a learner's part with hundreds of generated cases, and shows the smallest failing one."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from labkit.course.checking.generated_cases import Recipe, generated_cases, smallest_failing_case
from labkit.course.checking.refused import Refused

T = TypeVar("T")

Problem = tuple[str, str]
"""The rule that a case breaks, and how the case breaks it."""


def try_generated(
    recipe: Recipe[T],
    count: int,
    problem_of: Callable[[T], Problem | None],
    shown: Callable[[T, str], object],
) -> None:
    """Test `count` cases. If a case fails, raises `Refused` with the smallest case that breaks the
    same rule, formatted by `shown`.
    """
    for case, numbers in generated_cases(recipe, count):
        problem = problem_of(case)
        if problem is None:
            continue
        smallest = smallest_failing_case(
            recipe, numbers, partial(_breaks, problem_of=problem_of, rule=problem[0])
        )
        smaller_problem = problem_of(smallest)
        if smaller_problem is None:  # The part is not deterministic, and has passed this time.
            raise Refused(problem[0], shown(case, problem[1]))
        raise Refused(smaller_problem[0], shown(smallest, smaller_problem[1]))


def _breaks(case: T, *, problem_of: Callable[[T], Problem | None], rule: str) -> bool:
    problem = problem_of(case)
    return problem is not None and problem[0] == rule
