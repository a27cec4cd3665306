"""Tests that generated cases are reproducible and realistic, and that they can be shrunk."""

import pytest

from labkit.course.checking.cases import Cases, WrongAnswer, in_any_order, shown, shown_apart
from labkit.course.checking.generated_cases import Draw, generated_cases, smallest_failing_case


def ascending(draw: Draw) -> tuple[list[int]]:
    return (draw.ids(6),)


def newest_entries(draw: Draw) -> list[tuple[int, int]]:
    """Return entries in any order, each with the LAC that it carries; each id depends on the one
    drawn before it.
    """
    newest: list[tuple[int, int]] = []
    entry_id = -1
    while len(newest) < 5 and draw.number(0, 3):
        entry_id = draw.id(entry_id + 1)
        newest += [(entry_id, draw.number(-1, entry_id - 1))] * draw.number(1, 2)
    return draw.shuffled(newest)


def test_the_same_seed_draws_the_same_cases() -> None:
    assert list(generated_cases(ascending, 50)) == list(generated_cases(ascending, 50))
    assert list(generated_cases(ascending, 50, seed=2)) != list(generated_cases(ascending, 50))


def test_a_case_is_made_again_from_its_numbers() -> None:
    for case, numbers in generated_cases(ascending, 50):
        assert ascending(Draw(numbers=numbers)) == case


def test_drawn_ids_reach_one_digit_two_and_more_than_31_bits() -> None:
    ids = {each for (case,), _ in generated_cases(ascending, 200) for each in case}
    assert {9, 10, 99, 100, 2**31 - 1, 2**31, 2**32} <= ids


def test_what_is_shown_is_the_smallest_case_that_is_wrong_and_can_happen() -> None:
    def has_two_above_nine(case: tuple[list[int]]) -> bool:
        return sum(each > 9 for each in case[0]) >= 2

    numbers = next(
        found for case, found in generated_cases(ascending, 400) if has_two_above_nine(case)
    )
    (least,) = smallest_failing_case(ascending, numbers, has_two_above_nine)
    assert len(least) == 2
    assert max(least) <= 11


def test_dependent_numbers_are_shrunk_to_the_smallest_case() -> None:
    def misses_the_highest(newest: list[tuple[int, int]]) -> bool:
        return bool(newest) and max(newest)[1] < max(confirmed for _, confirmed in newest)

    failing = [n for case, n in generated_cases(newest_entries, 400) if misses_the_highest(case)]
    assert failing
    for numbers in failing:
        least = smallest_failing_case(newest_entries, numbers, misses_the_highest)
        assert least == [(1, 0), (2, -1)]


def test_an_exception_of_the_learners_function_carries_the_call_that_raised_it() -> None:
    cases = Cases(ascending, lambda ids: ids, "All of them.", explain=lambda _: "They ascend.")
    with pytest.raises(IndexError) as raised:
        cases.wrong(lambda ids: ids[100], "those")
    (note,) = raised.value.__notes__
    assert note.startswith("labkit called those([")
    assert note.endswith("]). They ascend.")


def test_a_number_in_a_dictionary_is_shown_without_rounding_errors() -> None:
    assert shown(({"b1": 4.0 + 0.007 + 1e-15},)) == "({'b1': 4.007},)"


def test_a_wrong_answer_is_shown_as_a_call_with_what_is_right() -> None:
    cases = Cases(ascending, lambda ids: ids, "All of them.", comparable=in_any_order)
    assert cases.wrong(lambda ids: ids[::-1], "those") is None
    found = cases.wrong(lambda ids: [each for each in ids if each < 2**31], "those")
    assert found is not None
    rule, asked = found
    assert rule == "All of them."
    assert str(asked) == (
        "labkit called those([2147483648]).\n  It returned []; the right answer is [2147483648]."
    )


def test_values_are_shown_as_they_are_written() -> None:
    assert shown(frozenset({3, 1})) == "{1, 3}"
    assert shown((1,)) == "(1,)"
    assert shown(bytes(20)) == "20 bytes: 00 00 00 00 00 00 00 00 ..."
    assert len(shown("x" * 1000)) == 160
    assert str(WrongAnswer("f(1)", None, 2)).endswith("It returned None; the right answer is 2.")


@pytest.mark.parametrize(
    ("one", "other", "texts"),
    [
        (
            bytes(20) + b"\1",
            bytes(20) + b"\2",
            ("21 bytes, from byte 20 on: 01", "21 bytes, from byte 20 on: 02"),
        ),
        (bytes(9), bytes(10), ("9 bytes, from byte 9 on: none", "10 bytes, from byte 9 on: 00")),
        ([b"a", bytes(12)], [b"b", bytes(12)], None),
        (3, 4, ("3", "4")),
    ],
)
def test_two_long_values_are_shown_from_their_first_difference_on(
    one: object, other: object, texts: tuple[str, str] | None
) -> None:
    assert shown_apart(one, other) == (texts or (shown(one), shown(other)))
