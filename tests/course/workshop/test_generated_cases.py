"""Tests generated cases for a learner's part."""

from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.files import load
from labkit.course.workshop.generated_cases import try_generated
from labkit.course.workshop.learner import Learner

CASES = 200
LEARNER = Learner(Path("mybookie.py"), ModuleType("mybookie"), seeds=0)


def number(draw: Draw) -> int:
    return draw.number(0, 1000)


def is_small(_: Learner, case: int) -> None:
    if case >= 7:
        raise Refused("Small numbers only.", f"{case} is large")


def test_the_smallest_wrong_case_is_shown_with_its_problem() -> None:
    with pytest.raises(Refused, match="Small numbers only") as refused:
        try_generated(LEARNER, number, CASES, is_small, lambda case: f"case {case}")
    assert refused.value.counterexample == "case 7\n7 is large"


def test_a_problem_that_includes_the_case_is_shown_alone() -> None:
    with pytest.raises(Refused) as refused:
        try_generated(LEARNER, number, CASES, is_small)
    assert refused.value.counterexample == "7 is large"


def test_a_part_that_is_wrong_once_is_refused_with_the_case_that_it_got_wrong() -> None:
    calls = count()

    def is_right_later(_: Learner, case: int) -> None:
        if next(calls) == 0:
            raise Refused("Each time the same.", f"{case}, the first time")

    with pytest.raises(Refused, match="Each time the same") as refused:
        try_generated(LEARNER, number, CASES, is_right_later, str)
    case = str(refused.value.counterexample).partition("\n")[0]
    assert refused.value.counterexample == f"{case}\n{case}, the first time"


def test_a_right_part_is_asked_about_every_case() -> None:
    cases = list[int]()
    try_generated(LEARNER, number, CASES, lambda _, case: cases.append(case))
    assert len(cases) == CASES


def test_a_result_of_the_wrong_type_is_refused_without_a_case() -> None:
    refusal = Refused("halve must return int")

    def is_int(_: Learner, case: int) -> None:
        raise refusal

    with pytest.raises(Refused) as refused:
        try_generated(LEARNER, number, CASES, is_int, str)
    assert refused.value is refusal


def test_an_exception_in_the_learners_code_is_raised_with_the_smallest_case(tmp_path: Path) -> None:
    file = tmp_path / "mybookie.py"
    file.write_text("def halve(n):\n    assert n < 7\n    return n // 2\n")
    learner = load(file, seeds=0)

    def halved(learner: Learner, case: int) -> None:
        learner.call("halve", int, case)

    with pytest.raises(AssertionError) as raised:
        try_generated(learner, number, CASES, halved, lambda case: f"halve({case})")
    assert raised.value.__notes__ == ["halve(7)"]
    assert learner.error is raised.value


def test_an_exception_in_the_test_itself_is_not_blamed_on_the_learner() -> None:
    def broken(_: Learner, case: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        try_generated(LEARNER, number, CASES, broken, str)
    assert not hasattr(raised.value, "__notes__")
