"""Drawn cases are the same on every machine, can all happen, and become small."""

from labkit.course.checking.cases import Cases, WrongAnswer, in_any_order, shown
from labkit.course.checking.draw import Draw, drawn, smallest


def ascending(draw: Draw) -> tuple[list[int]]:
    return (draw.ids(6),)


def test_the_same_seed_draws_the_same_cases() -> None:
    assert list(drawn(ascending, 50)) == list(drawn(ascending, 50))
    assert list(drawn(ascending, 50, seed=2)) != list(drawn(ascending, 50))


def test_a_case_is_made_again_from_its_numbers() -> None:
    for case, numbers in drawn(ascending, 50):
        assert ascending(Draw(numbers=numbers)) == case


def test_drawn_ids_reach_one_digit_two_and_more_than_31_bits() -> None:
    ids = {each for (case,), _ in drawn(ascending, 200) for each in case}
    assert {9, 10, 99, 100, 2**31 - 1, 2**31, 2**32} <= ids


def test_what_is_shown_is_the_smallest_case_that_is_wrong_and_can_happen() -> None:
    def has_two_above_nine(case: tuple[list[int]]) -> bool:
        return sum(each > 9 for each in case[0]) >= 2

    numbers = next(found for case, found in drawn(ascending, 400) if has_two_above_nine(case))
    (least,) = smallest(ascending, numbers, has_two_above_nine)
    assert len(least) == 2
    assert max(least) <= 11


def test_a_wrong_answer_is_shown_as_a_call_with_what_is_right() -> None:
    cases = Cases(ascending, lambda ids: ids, "All of them.", counts=in_any_order)
    assert cases.wrong(lambda ids: ids[::-1], "those") is None
    found = cases.wrong(lambda ids: [each for each in ids if each < 2**31], "those")
    assert found is not None
    rule, asked = found
    assert rule == "All of them."
    assert str(asked) == (
        "Your function was asked those([2147483648]).\n  It said []; right is [2147483648]."
    )


def test_values_are_shown_as_they_are_written() -> None:
    assert shown(frozenset({3, 1})) == "{1, 3}"
    assert shown((1,)) == "(1,)"
    assert shown(bytes(20)) == "20 bytes: 00 00 00 00 00 00 00 00 ..."
    assert len(shown("x" * 1000)) == 160
    assert str(WrongAnswer("f(1)", None, 2)).endswith("It said None; right is 2.")
