"""Hundreds of drawn cases of a learner's part; the smallest wrong one is shown."""

from collections.abc import Callable
from typing import TypeVar

from labkit.course.checking.draw import Recipe, drawn, smallest
from labkit.course.checking.exercise import Refused

T = TypeVar("T")

Problem = tuple[str, str]
"""The rule that a case breaks, and how."""


def try_drawn(
    recipe: Recipe[T],
    count: int,
    problem_of: Callable[[T], Problem | None],
    shown: Callable[[T, str], object],
) -> None:
    """Try that many cases.  Raises `Refused` with the smallest that has a problem, as `shown`
    shows it.
    """
    for case, numbers in drawn(recipe, count):
        problem = problem_of(case)
        if problem is None:
            continue
        small = smallest(recipe, numbers, lambda each: problem_of(each) is not None)
        again = problem_of(small)
        if again is None:  # A part that answers differently each time is right about it now.
            small, again = case, problem
        rule, how = again
        raise Refused(rule, shown(small, how))
