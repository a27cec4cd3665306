"""Tests a learner's part with hundreds of generated cases, and shows the smallest failing one."""

from collections.abc import Callable
from typing import TypeVar

from labkit.course.checking.exercise import Refused
from labkit.course.checking.generated_cases import Recipe, generated_cases, smallest_failing_case

T = TypeVar("T")

Problem = tuple[str, str]
"""The rule that a case breaks, and how the case breaks it."""


def try_generated(
    recipe: Recipe[T],
    count: int,
    problem_of: Callable[[T], Problem | None],
    shown: Callable[[T, str], object],
) -> None:
    """Test `count` cases. Raises `Refused` with the smallest failing case, formatted by `shown`."""
    for case, numbers in generated_cases(recipe, count):
        problem = problem_of(case)
        if problem is None:
            continue
        small = smallest_failing_case(recipe, numbers, lambda each: problem_of(each) is not None)
        small_problem = problem_of(small)
        if small_problem is None:  # The part is not deterministic and passed this time.
            small, small_problem = case, problem
        rule, how = small_problem
        raise Refused(rule, shown(small, how))
