"""Tests the exercises of lesson 09: correct answers pass, wrong ones are rejected with a reason."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from labkit.course.lessons import check
from labkit.course.runs.broken_runs import RepairCounterexample
from labkit.course.runs.repair_trial import NAME, REMOVE, STEPS, STORE, TEST
from labkit.course.runs.timeline import RunCounterexample
from labkit.system.autorecovery.audit_rules import when_to_audit
from labkit.views.widgets.recovery_progress import RecoveryProgress
from tests.course.lessons.refused import Wrong, refused
from tests.repeat import repeated_cases

pytestmark = pytest.mark.slow

LOST, FRAGMENTS, ORDER = "repair.lost_bookies", "repair.fragments", "repair.order"
Function = Callable[..., Any]

COPIES_FIRST = "list a bookie only if the bookie has every copy"
STAYS_MARKED = "the ledger must remain marked"
TEST_FIRST = "Only a test can show"
FOR_EVER = "starts over, forever"


def test_a_time_that_has_passed_means_now() -> None:
    def at_once_or_later(missing: dict[str, float], delay: float, now: float) -> float | None:
        due = when_to_audit(missing, delay, now)
        return None if due is None else max(due, now)

    assert check(LOST, at_once_or_later).passed


@pytest.mark.parametrize(
    ("wrong", "reason", "shown"),
    [
        ("at once", "back within 10 s is not lost", "marked because of a restart"),
        ("one by one", "down to their last copy", "never marked"),
        ("from now on", "must be marked then", "never marked"),
        ("never", "must be marked then", "never marked"),
        (
            lambda missing, delay, now: min(missing.values()) + 2 * delay if missing else None,
            "must be marked then",
            "marked after 24 s",
        ),
    ],
)
def test_a_wrong_delay_is_refused(wrong: Wrong, reason: str, shown: str) -> None:
    refused(LOST, wrong, reason, shown)


def test_an_error_when_no_bookie_is_missing_is_the_learners_own() -> None:
    card = check(LOST, lambda missing, delay, now: min(missing.values()) + delay)
    assert "Your code raised ValueError" in card.message


@pytest.mark.parametrize(
    ("wrong", "reason", "shown"),
    repeated_cases(
        [
            ("not registered", "registered is not enough", "b1 does not return entry"),
            ("failures", "not asked at all", "it was not repaired"),
            ("denials", "has a wrong digest", "b1 does not return entry 7"),
            ("not the silent", "registered bookie that does not respond", "it was not repaired"),
            ("all", "restoring any other copy is unnecessary", "the right answer is []"),
        ],
        once=3,
    ),
)
def test_a_wrong_choice_of_copies_is_refused(wrong: Wrong, reason: str, shown: str) -> None:
    refused(FRAGMENTS, wrong, reason, shown)


def test_places_are_numbers_of_the_ensemble() -> None:
    card = check(FRAGMENTS, lambda ensemble, registered, failures: [ensemble[-1]])
    assert "must return list[int]; yours returned ['b2']" in card.message
    card = check(FRAGMENTS, lambda ensemble, registered, failures: [7])
    assert "are 0 to 2; yours are [7]" in card.message


@pytest.mark.parametrize(
    ("order", "reason", "shown"),
    repeated_cases(
        [
            ([NAME, STORE, TEST, REMOVE], COPIES_FIRST, "b3 does not have entry 0"),
            ([STORE, REMOVE, NAME, TEST], STAYS_MARKED, "lists b1, which was already down"),
            ([STORE, NAME, REMOVE, TEST], TEST_FIRST, "lists b1, which was already down"),
            ([STORE, TEST, NAME, REMOVE], FOR_EVER, "still marked"),
            ([TEST, STORE, NAME, REMOVE], FOR_EVER, "still marked"),
        ],
        once=3,
    ),
    ids=["name first", "mark before names", "mark before test", "test too early", "test first"],
)
def test_a_wrong_order_is_refused_with_a_run_that_shows_it(
    order: list[str], reason: str, shown: str
) -> None:
    card = check(ORDER, order)
    assert not card.passed
    assert reason in card.message
    assert shown in str(card.counterexample)
    assert isinstance(card.counterexample, RepairCounterexample)
    view = card.counterexample.view()
    assert isinstance(view, RecoveryProgress)
    assert view.acts().offered == ()  # The variant "yours" exists only during the check.


@pytest.mark.long
@pytest.mark.slow
def test_there_is_one_right_order() -> None:
    passed = [order for order in permutations(STEPS) if check(ORDER, list(order)).passed]
    assert passed == [STEPS]


def test_a_run_whose_picture_would_not_tell_is_shown_in_the_timeline() -> None:
    card = refused(FRAGMENTS, "denials", "has a wrong digest")
    assert type(card.counterexample) is RunCounterexample
