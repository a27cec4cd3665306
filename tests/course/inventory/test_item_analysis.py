"""Tests the statistics of a class's answers against values calculated by hand."""

from collections.abc import Iterable
from typing import Any

import pytest

from labkit.course.inventory.item_analysis import class_gain, item_statistics
from labkit.course.inventory.questions import QUESTIONS
from labkit.course.inventory.sitting import NO_ANSWER, RIGHT

NAMES = [question.name for question in QUESTIONS]


def sat(student: str, when: str, right: Iterable[int], belief: str = "") -> list[dict[str, Any]]:
    """Return a sitting in which only the questions with these numbers are answered correctly."""
    outcomes = [RIGHT if number in right else belief or NO_ANSWER for number in range(20)]
    return [
        {"student": student, "event": when, "name": name, "predicted": outcome}
        for name, outcome in zip(NAMES, outcomes, strict=True)
    ]


def test_the_gain_counts_those_who_sat_twice() -> None:
    rows = [
        *sat("ada", "before", range(5)),
        *sat("ada", "after", range(15)),
        *sat("bob", "before", range(5)),
        *sat("bob", "after", range(5, 10)),
        *sat("eve", "before", range(20)),  # Eve did not take the inventory a second time.
    ]
    count, before, after, gain = class_gain(rows)
    assert (count, before, after) == (2, 0.25, 0.5)
    assert gain == pytest.approx(0.25 / 0.75)
    first, sixth = item_statistics(rows)[0], item_statistics(rows)[5]
    assert (first.before, first.after, first.gain) == (1.0, 0.5, None)
    assert sixth.before == pytest.approx(1 / 3)
    assert (sixth.after, sixth.gain) == (1.0, 1.0)


def test_a_question_that_the_better_students_answer_discriminates() -> None:
    rows = [
        *sat("ada", "after", range(20)),
        *sat("bob", "after", range(10)),
        *sat("eve", "after", [19]),
    ]
    items = item_statistics(rows)
    # The students' scores on this question are (1, 1, 0), and on all other questions (19, 9, 1).
    assert items[0].discrimination == pytest.approx(0.8322, abs=1e-4)
    # Only the best and the weakest student answer the last question correctly: (1, 0, 1) and (19,
    # 10, 0).
    assert items[19].discrimination == pytest.approx(-0.0304, abs=1e-4)


def test_the_most_frequent_wrong_belief_is_named_and_an_open_question_is_none() -> None:
    rows = [
        *sat("ada", "before", [], "The disk is safe."),
        *sat("bob", "before", [], "The disk is safe."),
        *sat("eve", "before", [], "Nothing is safe."),
        *sat("jan", "before", []),
    ]
    item = item_statistics(rows)[0]
    assert (item.belief, item.believers) == ("The disk is safe.", 2)
    assert (item.before, item.after, item.discrimination) == (0.0, None, None)


def test_a_class_without_sittings_has_no_statistics() -> None:
    assert item_statistics([{"student": "ada", "event": "hint", "name": "x"}]) == []
    assert class_gain([]) == (0, 0.0, 0.0, None)
