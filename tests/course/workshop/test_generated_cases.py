"""Tests generated cases for a learner's part."""

from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.files import load
from labkit.course.workshop.generated_cases import Problem, try_generated
from labkit.course.workshop.learner import Learner

CASES = 200
LEARNER = Learner(Path("mybookie.py"), ModuleType("mybookie"), seeds=0)


def number(draw: Draw) -> int:
    return draw.number(0, 1000)


def too_large(case: int) -> Problem | None:
    return ("Small numbers only.", f"{case} is large") if case >= 7 else None


def test_the_smallest_wrong_case_is_shown_with_its_problem() -> None:
    with pytest.raises(Refused, match="Small numbers only") as refused:
        try_generated(LEARNER, number, CASES, too_large, lambda case, how: (case, how))
    assert refused.value.counterexample == (7, "7 is large")


def test_a_part_that_is_wrong_once_is_refused_with_the_case_that_it_got_wrong() -> None:
    calls = count()

    def wrong_once(case: int) -> Problem | None:
        return ("Each time the same.", f"{case}, the first time") if next(calls) == 0 else None

    with pytest.raises(Refused, match="Each time the same") as refused:
        try_generated(LEARNER, number, CASES, wrong_once, lambda case, how: f"{how}: {case}")
    case = str(refused.value.counterexample).partition(": ")[2]
    assert refused.value.counterexample == f"{case}, the first time: {case}"


def test_a_right_part_is_asked_about_every_case() -> None:
    calls = count()

    def right(case: int) -> Problem | None:
        next(calls)
        return None

    try_generated(LEARNER, number, CASES, right, lambda case, how: how)
    assert next(calls) == CASES


def test_an_exception_in_the_learners_code_is_raised_with_the_smallest_case(tmp_path: Path) -> None:
    file = tmp_path / "mybookie.py"
    file.write_text("def halve(n):\n    assert n < 7\n    return n // 2\n")
    learner = load(file, seeds=0)

    def halved(case: int) -> Problem | None:
        learner.call("halve", int, case)
        return None

    with pytest.raises(AssertionError) as raised:
        try_generated(learner, number, CASES, halved, lambda case, how: f"halve({case}){how}")
    assert raised.value.__notes__ == ["halve(7)"]
    assert learner.error is raised.value


def test_an_exception_in_the_test_itself_is_not_blamed_on_the_learner() -> None:
    def broken(case: int) -> Problem | None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        try_generated(LEARNER, number, CASES, broken, lambda case, how: f"{case}{how}")
    assert not hasattr(raised.value, "__notes__")
