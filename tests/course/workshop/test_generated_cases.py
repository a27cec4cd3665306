"""Tests generated cases for a learner's part."""

from itertools import count

import pytest

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.generated_cases import Problem, try_generated

CASES = 200


def number(draw: Draw) -> int:
    return draw.number(0, 1000)


def too_large(case: int) -> Problem | None:
    return ("Small numbers only.", f"{case} is large") if case >= 7 else None


def test_the_smallest_wrong_case_is_shown_with_its_problem() -> None:
    with pytest.raises(Refused, match="Small numbers only") as refused:
        try_generated(number, CASES, too_large, lambda case, how: (case, how))
    assert refused.value.counterexample == (7, "7 is large")


def test_a_part_that_is_wrong_once_is_refused_with_the_case_that_it_got_wrong() -> None:
    calls = count()

    def wrong_once(case: int) -> Problem | None:
        return ("Each time the same.", f"{case}, the first time") if next(calls) == 0 else None

    with pytest.raises(Refused, match="Each time the same") as refused:
        try_generated(number, CASES, wrong_once, lambda case, how: f"{how}: {case}")
    case = str(refused.value.counterexample).partition(": ")[2]
    assert refused.value.counterexample == f"{case}, the first time: {case}"


def test_a_right_part_is_asked_about_every_case() -> None:
    calls = count()

    def right(case: int) -> Problem | None:
        next(calls)
        return None

    try_generated(number, CASES, right, lambda case, how: how)
    assert next(calls) == CASES
