"""Tests the exercises of lesson 11: correct answers pass, wrong ones are rejected with a reason."""

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest

from labkit.course.exercises.topics import comes_before, is_acknowledged, may_go, sent_messages
from labkit.course.lessons import check
from labkit.course.runs.cursor_cases import Ack, after
from tests.repeat import repeated_cases

ORDER, ACKNOWLEDGED, RETENTION = "topics.order", "topics.acknowledged", "topics.retention"

Answer = Callable[..., Any]


@pytest.mark.slow
def test_right_answers_pass() -> None:
    assert check(ORDER, comes_before).passed
    assert check(ACKNOWLEDGED, is_acknowledged).passed
    assert check(RETENTION, may_go).passed


def test_the_messages_of_the_exercise_need_every_rule() -> None:
    ids = sent_messages()
    assert {message.partition for message in ids} == {0, 1}
    assert {message.batch_index for message in ids} == {-1, 0, 1, 2}
    assert max(message.ledger_id for message in ids) >= 10
    assert len(set(ids)) == len(ids) == 72


def in_one_partition(compare: Answer) -> Answer:
    return lambda a, b: None if a.partition != b.partition else compare(a, b)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (in_one_partition(lambda a, b: str(a) < str(b)), "ledger 10 comes after ledger 9"),
        (
            in_one_partition(
                lambda a, b: (a.entry_id, a.batch_index) < (b.entry_id, b.batch_index)
            ),
            "Compare the ledger ids first",
        ),
        (
            in_one_partition(lambda a, b: (a.ledger_id, a.entry_id) < (b.ledger_id, b.entry_id)),
            "compare their batch indexes",
        ),
        (
            in_one_partition(
                lambda a, b: (a.ledger_id, a.batch_index) < (b.ledger_id, b.batch_index)
            ),
            "Within a ledger, compare the entry ids",
        ),
        (in_one_partition(lambda a, b: a <= b), "comes before itself"),
        (
            lambda a, b: (
                (a.ledger_id, a.entry_id, a.batch_index) < (b.ledger_id, b.entry_id, b.batch_index)
            ),
            "Ids of different partitions cannot tell",
        ),
        (
            lambda a, b: a < b if a.partition == b.partition else a.partition < b.partition,
            "one counter",
        ),
        (lambda a, b: None, "always have an order"),
    ],
    ids=[
        *("as text", "entries alone", "without the batch", "without the entry", "or equal"),
        *("partition forgotten", "partition first", "never"),
    ],
)
def test_a_wrong_order_is_refused_with_two_messages_that_were_sent(
    answer: Answer, reason: str
) -> None:
    card = check(ORDER, answer)
    assert not card.passed
    assert reason in card.message
    assert "was sent before" in str(card.counterexample)


def in_a_range(position: Any, ranges: Any) -> bool:
    return any(lower < position <= upper for lower, upper in ranges)


@pytest.mark.parametrize(
    ("answer", "reason", "shown"),
    [
        (
            lambda position, index, mark, ranges, left: position <= mark,
            "every entry in a range is acknowledged",
            "redelivered",
        ),
        (
            lambda position, index, mark, ranges, left: (
                position <= mark or any(a <= position <= b for a, b in ranges)
            ),
            "open below",
            "would never be delivered again",
        ),
        (
            lambda position, index, mark, ranges, left: (
                position <= mark or any(a < position < b for a, b in ranges)
            ),
            "including its upper end",
            "redelivered",
        ),
        (
            lambda position, index, mark, ranges, left: (
                position < mark
                or in_a_range(position, ranges)
                or (left is not None and not left >> index & 1)
            ),
            "its own entry",
            "redelivered",
        ),
        (
            lambda position, index, mark, ranges, left: (
                position[1] <= mark[1] or in_a_range(position, ranges)
            ),
            "positions consist of ledger and entry",
            "would never be delivered again",
        ),
        (
            lambda position, index, mark, ranges, left: (
                position <= mark or in_a_range(position, ranges)
            ),
            "a 1 for each unacknowledged message",
            "redelivered",
        ),
        (
            lambda position, index, mark, ranges, left: (
                position <= mark
                or in_a_range(position, ranges)
                or (left is not None and bool(left >> index & 1))
            ),
            "a 1 for each unacknowledged message",
            "redelivered",
        ),
        (
            lambda position, index, mark, ranges, left: (
                position <= mark or in_a_range(position, ranges) or left is not None
            ),
            "This batch is partly acknowledged",
            "would never be delivered again",
        ),
    ],
    ids=[
        *("mark-delete alone", "range closed below", "range open above", "mark-delete not in it"),
        *("entries alone", "batches forgotten", "bits read as done", "batch taken whole"),
    ],
)
def test_a_wrong_reading_of_a_cursor_is_refused_with_the_message_that_it_harms(
    answer: Answer, reason: str, shown: str
) -> None:
    card = check(ACKNOWLEDGED, answer)
    assert not card.passed
    assert reason in card.message
    assert shown in card.message
    assert "acknowledged: " in str(card.counterexample)


def test_the_counterexample_draws_the_cursor() -> None:
    card = check(ACKNOWLEDGED, lambda position, index, mark, ranges, left: position <= mark)
    assert str(card.counterexample) == (
        "acknowledged: 4:2\n"
        "  ledger 4:  0 ···  1 ·    2 ✔✔✔\n"
        "  ledger 7:  0 ···  1 ···  2 ·    3 ···\n"
        "stored: mark-delete 4:-1; ranges (4:1, 4:2]\n"
        "asked: 4:2:-1:0; answered False"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "reason", "shown"),
    repeated_cases(
        [
            (
                lambda consumed, age, left, ms, size: (
                    (ms != -1 and age > ms) or (-1 < size <= left)
                ),
                "the subscription loses messages",
                "not consumed: gone, and should be kept",
            ),
            (
                lambda consumed, age, left, ms, size: consumed and age > ms,
                "keeps every ledger",
                "gone, and should be kept",
            ),
            (
                lambda consumed, age, left, ms, size: consumed,
                "keeps every ledger",
                "gone, and should be kept",
            ),
            (
                lambda consumed, age, left, ms, size: (
                    consumed and -1 < ms < age and -1 < size <= left
                ),
                "even if there is no size limit",
                "kept, and should be gone",
            ),
            (
                lambda consumed, age, left, ms, size: consumed and -1 < ms < age,
                "keeps enough bytes without it",
                "kept, and should be gone",
            ),
            (
                lambda consumed, age, left, ms, size: (
                    (consumed and ms > 0 and age > ms) or (consumed and size > 0 and left >= size)
                ),
                "deleted as soon as it has been consumed",
                "kept, and should be gone",
            ),
        ],
        once=3,
    ),
    ids=[
        "unread",
        "-1 taken for small",
        "retention forgotten",
        "both limits",
        "time alone",
        "0 is off",
    ],
)
def test_a_wrong_retention_is_refused_with_a_chain_that_shows_it(
    answer: Answer, reason: str, shown: str
) -> None:
    card = check(RETENTION, answer)
    assert not card.passed
    assert reason in card.message
    assert shown in str(card.counterexample)


@pytest.mark.slow
def test_what_the_learners_code_raises_inside_the_cluster_is_reported() -> None:
    assert "Your code raised ZeroDivisionError" in check(RETENTION, _divides).message


def _divides(consumed: bool, age_ms: int, left_bytes: int, ms: int, size: int) -> bool:
    return ms == 1 // 0


def test_a_cursors_picture_says_what_is_acknowledged_and_what_is_stored() -> None:
    case = after([Ack((4, 1), up_to=True), Ack((7, 0), (0,)), Ack((7, 2))])
    svg = case.svg()
    root = ElementTree.fromstring(svg)
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("✔") == len(case.acknowledged) == 6
    assert {"mark-delete 4:1", "(7:1, 7:2]"} <= set(words)
    assert "stored: mark-delete 4:1; ranges (7:1, 7:2]; left of 7:0: 1, 2" in words
    assert svg == case.svg()
