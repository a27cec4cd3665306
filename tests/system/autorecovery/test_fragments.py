"""Tests the choice of the entries that are read to check whether a bookie has its copies of a
fragment.
"""

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
        (2, [100, 150, 199]),
        (4, [100, 125, 150, 175, 199]),
        (10, [*range(100, 200, 10), 199]),
        (75, sorted({*range(100, 200)} - {*range(103, 200, 4)} | {199})),
        (99, list(range(100, 200))),
        (100, list(range(100, 200))),
    ],
)
def test_one_entry_of_each_part_is_tested(percentage: int, tested: list[int]) -> None:
    assert entries_to_test(HUNDRED, 0, percentage, first_of_each_part) == tested


@pytest.mark.parametrize(
    ("last", "percentage", "tested"),
    [
        # The percentage is rounded down; the first and last entry are among the tested ones.
        (109, 9, [100, 109]),
        (109, 28, [100, 105, 109]),
        (109, 30, [100, 103, 106, 109]),
        (109, 50, [100, 102, 104, 106, 108, 109]),
        (100, 0, [100]),
        (99, 100, []),
    ],
)
def test_few_entries_have_few_parts(last: int, percentage: int, tested: list[int]) -> None:
    few = Fragment(100, last, ("b1", "b2", "b3"), 3, closed=True)
    assert entries_to_test(few, 0, percentage, first_of_each_part) == tested


def test_the_entry_is_drawn_from_the_whole_part() -> None:
    sizes: list[int] = []

    def last_of_each_part(part: int) -> int:
        sizes.append(part)
        return part - 1

    assert entries_to_test(HUNDRED, 0, 4, last_of_each_part) == [100, 124, 149, 174, 199]
    assert sizes == [25, 25, 25, 25]


@pytest.mark.parametrize("percentage", [1, 4, 30, 75, 99])
def test_every_entry_can_be_drawn(percentage: int) -> None:
    tested: set[int] = set()
    for at in range(100):
        nth_of_each_part = [min(at, part - 1) for part in range(101)].__getitem__
        tested.update(entries_to_test(HUNDRED, 0, percentage, nth_of_each_part))
    assert tested == {*range(100, 200)}


@pytest.mark.parametrize(
    ("index", "percentage", "tested"),
    [
        (0, 100, [0, 2, 3, 5, 6, 8, 9]),
        (1, 100, [0, 1, 3, 4, 6, 7, 9]),
        (1, 0, [0, 9]),
        (2, 0, [1, 8]),
    ],
)
def test_only_entries_that_the_bookie_should_have_are_tested(
    index: int, percentage: int, tested: list[int]
) -> None:
    assert entries_to_test(STRIPED, index, percentage, first_of_each_part) == tested
