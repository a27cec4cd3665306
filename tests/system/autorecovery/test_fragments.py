"""Which entries of a fragment show that a bookie has its copies."""

import pytest

from labkit.system.autorecovery.fragments import Fragment, entries_to_test

HUNDRED = Fragment(100, 199, ("b1", "b2", "b3"), 3, closed=True)
STRIPED = Fragment(0, 9, ("b1", "b2", "b3"), 2, closed=True)


def first_of_each_part(part: int) -> int:
    assert part > 0
    return 0


@pytest.mark.parametrize(
    ("percentage", "tested"),
    [
        (0, [100, 199]),
        (1, [100, 199]),
        (2, [100, 199]),
        (4, [100, 125, 150, 199]),
        (10, [*range(100, 190, 10), 199]),
        (99, [*range(100, 198), 199]),
        (100, list(range(100, 200))),
    ],
)
def test_one_entry_of_each_of_as_many_equal_parts_is_tested(
    percentage: int, tested: list[int]
) -> None:
    assert entries_to_test(HUNDRED, 0, percentage, first_of_each_part) == tested


@pytest.mark.parametrize(
    ("percentage", "tested"),
    [(9, [100, 109]), (28, [100, 109]), (30, [100, 103, 109]), (50, [100, 102, 104, 106, 109])],
)
def test_few_entries_have_few_parts(percentage: int, tested: list[int]) -> None:
    """As many as the percentage allows, rounded down: the first and the last one are among them."""
    ten = Fragment(100, 109, ("b1", "b2", "b3"), 3, closed=True)
    assert entries_to_test(ten, 0, percentage, first_of_each_part) == tested


def test_entry_of_each_part_is_drawn_from_all_of_that_part() -> None:
    sizes: list[int] = []

    def last_of_each_part(part: int) -> int:
        sizes.append(part)
        return part - 1

    assert entries_to_test(HUNDRED, 0, 4, last_of_each_part) == [100, 124, 149, 174, 199]
    assert sizes == [25, 25, 25]


def test_a_bookie_is_asked_for_no_entry_that_it_should_not_have() -> None:
    stored = [entry_id for entry_id in range(10) if entry_id % 3 != 2]
    assert entries_to_test(STRIPED, 1, 100, first_of_each_part) == stored


def test_a_bookie_that_should_have_nothing_is_asked_for_nothing() -> None:
    assert entries_to_test(Fragment(5, 4, ("b1",), 1, closed=True), 0, 100, lambda n: n - 1) == []
