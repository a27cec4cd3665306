"""Tests the exercises of lesson 11: correct answers pass, wrong ones are rejected with a reason."""

from xml.etree import ElementTree

import pytest

from labkit.course.exercises.topics import sent_messages
from labkit.course.lessons import check
from labkit.course.runs.topics.cursor_cases import Ack, after
from tests.course.lessons.refused import Wrong, refused
from tests.repeat import repeated_cases

ORDER, ACKNOWLEDGED, RETENTION = "topics.order", "topics.acknowledged", "topics.retention"


def test_the_messages_of_the_exercise_need_every_rule() -> None:
    ids = sent_messages()
    assert {message.partition for message in ids} == {0, 1}
    assert {message.batch_index for message in ids} == {-1, 0, 1, 2}
    assert max(message.ledger_id for message in ids) >= 10
    assert len(set(ids)) == len(ids) == 72


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("as text", "ledger 10 comes after ledger 9"),
        ("entries alone", "Compare the ledger ids first"),
        ("no batch index", "compare their batch indexes"),
        ("no entry", "Within a ledger, compare the entry ids"),
        ("or equal", "comes before itself"),
        ("partition forgotten", "Ids of different partitions do not show"),
        ("partition first", "one counter"),
        (lambda a, b: None, "always have an order"),
    ],
)
def test_a_wrong_order_is_refused_with_two_messages_that_were_sent(
    wrong: Wrong, reason: str
) -> None:
    card = refused(ORDER, wrong, reason)
    assert "was sent before" in str(card.counterexample)


@pytest.mark.parametrize(
    ("wrong", "reason", "shown"),
    [
        ("mark-delete alone", "every entry in a range is acknowledged", "redelivered"),
        ("closed below", "open at the lower end", "would never be delivered again"),
        ("open above", "including its upper end", "redelivered"),
        ("before mark-delete", "its own entry", "redelivered"),
        (
            "entries alone",
            "positions consist of ledger and entry",
            "would never be delivered again",
        ),
        ("no batches", "a 1 for each unacknowledged message", "redelivered"),
        ("ones are done", "a 1 for each unacknowledged message", "redelivered"),
        ("any of the batch", "This batch is partly acknowledged", "would never be delivered again"),
    ],
)
def test_a_wrong_reading_of_a_cursor_is_refused_with_the_message_that_it_harms(
    wrong: Wrong, reason: str, shown: str
) -> None:
    card = refused(ACKNOWLEDGED, wrong, reason, shown)
    assert "acknowledged: " in str(card.counterexample)


def test_the_counterexample_draws_the_cursor() -> None:
    card = refused(ACKNOWLEDGED, "mark-delete alone", "every entry in a range is acknowledged")
    assert str(card.counterexample) == (
        "acknowledged: 4:2\n"
        "  ledger 4:  0 ···  1 ·    2 ✔✔✔\n"
        "  ledger 7:  0 ···  1 ···  2 ·    3 ···\n"
        "stored: mark-delete 4:-1; ranges (4:1, 4:2]\n"
        "asked: 4:2:-1:0; answered False"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "reason", "shown"),
    repeated_cases(
        [
            (
                "no consumer",
                "the subscription loses messages",
                "not consumed: gone, and should be kept",
            ),
            ("-1 is passed", "keeps every ledger", "gone, and should be kept"),
            ("consumed", "keeps every ledger", "gone, and should be kept"),
            ("both limits", "even if there is no size limit", "kept, and should be gone"),
            ("time alone", "keeps enough bytes without it", "kept, and should be gone"),
            (
                "0 sets no limit",
                "deleted as soon as it has been consumed",
                "kept, and should be gone",
            ),
        ],
        once=3,
    ),
)
def test_a_wrong_retention_is_refused_with_a_chain_that_shows_it(
    wrong: Wrong, reason: str, shown: str
) -> None:
    refused(RETENTION, wrong, reason, shown)


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
