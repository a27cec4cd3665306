"""Tests that generated cases reject answers that are wrong only in rare cases."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

from labkit.course import exercises
from labkit.course.checking.exercise import all_exercises, find
from labkit.course.checking.refused import Refused
from labkit.course.exercises.garbage import STEPS as COMPACTION
from labkit.course.lessons import check
from labkit.course.runs.repair_trial import STEPS as REPAIR
from labkit.course.runs.uses.edit_log import TAKE_OVER
from tests.course.lessons.refused import WRONG
from tests.course.lessons.wrong_topics import Answer

LEAST = 8
ANSWERS = [
    pytest.param(name, answer, id=f"{name}: {title}")
    for name, answers in WRONG.items()
    for title, answer in answers.items()
]


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "answer"), ANSWERS)
def test_generated_cases_refuse_a_wrong_answer_with_a_call_that_shows_it(
    name: str, answer: Answer
) -> None:
    # An exception in the learner's code counts as a rejection, because `check` shows its line.
    with pytest.raises((Refused, ValueError, IndexError)) as raised:
        find(name).run_cases(answer)
    if isinstance(raised.value, Refused):
        assert raised.value.message
        assert str(raised.value.counterexample).startswith("labkit called ")


RULES: dict[str, dict[str, str]] = {
    "build_on_it.offsets": {
        "0 counts as none": "Offset 0 is an offset like any other",
        "0 keeps the offset before": "Offset 0 is an offset like any other",
        "back to the start": "Offset 0 is an offset like any other",
        "never removed": "A group whose last record is None has no offset",
        "removed is 0": "A group whose last record is None has no offset",
        "removed for ever": "A group that was removed and then commits again has an offset",
        "None clears all": "Every group has an offset unless its own last record is None",
        "the last record alone": "Every group has an offset unless its own last record is None",
        "one case": "under exactly the same names",
        "the largest": "The last record of a group counts, not the largest offset",
    },
    "break_protocol.answer": {
        "the two denials swapped": "NO_LEDGER means that the bookie has no entries of the ledger",
        "no ledger for a missing entry": "NO_LEDGER means that the bookie has no entries of the",
        "2908": "IO_ERROR means that it cannot read the entry",
    },
    "repair.lost_bookies": {
        "0 for never": "If no bookie is missing",
        "from now on": "If only one bookie is missing",
        "exactly two": "If more than one bookie is missing",
    },
    "garbage.dropped": {
        "asks the other way": "created between your two queries must be kept",
        "the first one": "A ledger that is not in the metadata must be dropped",
        "everything": "must be kept",
    },
}


@pytest.mark.parametrize(
    ("name", "title"), [(name, title) for name, titles in RULES.items() for title in titles]
)
def test_a_refusal_names_the_rule_that_its_case_breaks(name: str, title: str) -> None:
    with pytest.raises(Refused) as raised:
        find(name).run_cases(WRONG[name][title])
    assert RULES[name][title] in raised.value.message


@pytest.mark.long
@pytest.mark.parametrize(("name", "answer"), ANSWERS)
def test_the_whole_exercise_refuses_a_wrong_answer(name: str, answer: Answer) -> None:
    assert not check(name, answer).passed


@pytest.mark.parametrize("name", WRONG)
def test_every_exercise_has_at_least_eight_wrong_answers(name: str) -> None:
    assert len(WRONG[name]) >= LEAST


@pytest.mark.sampled
@pytest.mark.parametrize("name", WRONG)
def test_a_right_answer_passes_every_generated_case(name: str) -> None:
    cases = find(name).cases
    assert cases is not None
    assert cases.count >= 300
    find(name).run_cases(cases.right)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_right_answer_passes_the_whole_exercise(name: str) -> None:
    cases = find(name).cases
    assert cases is not None
    assert check(name, cases.right).passed


ORDERS = {
    "build_on_it.take_over": TAKE_OVER,
    "garbage.compaction": COMPACTION,
    "repair.order": REPAIR,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDERS)
def test_an_order_passes_only_if_it_contains_each_step_once(name: str) -> None:
    steps = list(ORDERS[name])
    assert check(name, steps).passed
    for answer in (steps[:-1], [*steps, steps[0]], steps[:1] * len(steps), steps[0], 5):
        assert f"each of the {len(steps)} steps exactly once" in check(name, answer).message


def test_each_function_that_an_exercise_asks_for_has_generated_cases() -> None:
    for module in iter_modules(exercises.__path__):
        import_module(f"labkit.course.exercises.{module.name}")
    known = [each for each in all_exercises() if each.trial.__module__.startswith("labkit.")]
    without = {each.name for each in known if each.like and not each.cases}
    assert without == SPARK_JOBS


SPARK_JOBS = {"streams.order", "streams.holes", "streams.stored_twice"}
