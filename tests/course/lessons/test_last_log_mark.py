"""Tests the exercises of lesson 04: correct answers pass, wrong ones are rejected with a reason."""

import pytest

from labkit.course.exercises.last_log_mark import (
    ASIDE,
    INDEX,
    LOG,
    PERSIST,
    REMOVE,
    STEPS,
    TAKE,
)
from labkit.course.lessons import check
from labkit.views.widgets.crash_map import CrashMapView
from tests.course.lessons.refused import Wrong, refused
from tests.repeat import repeated_cases

pytestmark = pytest.mark.slow

REPLAY, ORDER = "last_log_mark.replay", "last_log_mark.checkpoint"


def test_the_right_order_passes() -> None:
    assert check(ORDER, list(STEPS)).passed


@pytest.mark.parametrize(
    ("wrong", "reason", "shown"),
    repeated_cases(
        [
            ("behind the mark", "every record from the mark on", "entry 2"),
            ("offsets alone", "every record from the mark on", "entry 3"),
            ("later files", "every record from the mark on", "entry 2"),
            (lambda mark, record: True, "skip everything before the mark", "file_id=1, offset=0))"),
            (
                "files alone",
                "skip everything before the mark",
                "(LogMark(file_id=1, offset=512), LogMark(file_id=1, offset=0))",
            ),
        ],
        once=3,
    ),
)
def test_a_wrong_replay_is_refused(wrong: Wrong, reason: str, shown: str) -> None:
    refused(REPLAY, wrong, reason, shown)


def test_journals_of_the_last_checkpoint_may_go_before_the_mark_is_taken() -> None:
    assert check(ORDER, [REMOVE, TAKE, ASIDE, LOG, INDEX, PERSIST]).passed


@pytest.mark.parametrize(
    ("order", "reason", "shown"),
    repeated_cases(
        [
            (
                [TAKE, PERSIST, ASIDE, LOG, INDEX, REMOVE],
                "not yet in the entry log and the index",
                "lost",
            ),
            (
                [TAKE, ASIDE, LOG, PERSIST, INDEX, REMOVE],
                "not yet in the entry log and the index",
                "lost",
            ),
            (
                [TAKE, ASIDE, LOG, PERSIST, REMOVE, INDEX],
                "not yet in the entry log and the index",
                "lost",
            ),
            (
                [ASIDE, LOG, INDEX, TAKE, PERSIST, REMOVE],
                "before the memtable is set aside",
                "lost",
            ),
            (
                [ASIDE, TAKE, LOG, INDEX, PERSIST, REMOVE],
                "before the memtable is set aside",
                "lost",
            ),
            (
                [TAKE, ASIDE, INDEX, LOG, PERSIST, REMOVE],
                "before the index can point to it",
                "lost",
            ),
            ([TAKE, ASIDE, LOG, INDEX, REMOVE, PERSIST], "has moved past it", "1.txn is missing"),
            (
                [PERSIST, TAKE, ASIDE, LOG, INDEX, REMOVE],
                "taken before it can be",
                "1.txn is missing",
            ),
        ],
        once=3,
    ),
    ids=lambda value: None if isinstance(value, str) else str(STEPS.index(value[0])),
)
def test_a_wrong_order_is_refused_with_a_crash_that_shows_it(
    order: list[str], reason: str, shown: str
) -> None:
    card = check(ORDER, order)
    assert not card.passed
    assert reason in card.message
    assert isinstance(card.counterexample, CrashMapView)
    assert shown in repr(card.counterexample)


@pytest.mark.parametrize("answer", [["take the mark"], [*STEPS, STEPS[0]], "take the mark", 7])
def test_a_wrong_list_of_the_six_steps_is_refused(answer: object) -> None:
    assert "each of the 6 steps exactly once" in check(ORDER, answer).message


def test_no_answer_leaves_the_exercise_open() -> None:
    assert "hint" in check(ORDER, None).message
