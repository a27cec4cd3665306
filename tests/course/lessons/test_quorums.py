"""Tests the exercises of lesson 05: correct answers pass, wrong ones are rejected with a reason."""

import pytest

from labkit.course.checking.cases import WrongAnswer
from labkit.course.lessons import check
from labkit.course.runs.timeline import RunCounterexample
from tests.course.lessons.refused import Wrong, refused

WRITE_SET, COVERAGE, LOST = "quorums.write_set", "quorums.coverage", "quorums.lost"


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("the same for all", "The bookies of an entry are not stored anywhere"),
        ("no overlap", "The bookies of an entry are not stored anywhere"),
        (lambda e, size, qw: tuple(e + i for i in range(qw)), "must be between 0 and 2"),
        ("one too few", "must be stored on Qw bookies, but write_set(0, 3, 2) returned (0,)"),
        (lambda e, size, qw: (e % size,) * qw, "copies on one bookie are lost together"),
        (lambda e, size, qw: [e % size], "must return tuple"),
    ],
)
def test_a_wrong_write_set_is_refused(wrong: Wrong, reason: str) -> None:
    refused(WRITE_SET, wrong, reason)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("wrong", "reason", "shown"),
    [
        ("any", "not enough", "ReadersLearnWhatIsConfirmed"),
        ("one too few", "not enough", "ReadersLearnWhatIsConfirmed"),
        ("Qa answers", "not enough", "Entry 0 may have been acknowledged by b0 alone"),
        ("no stripes", "are enough", "The reader gave up"),
        ("all", "are enough", "The reader gave up"),
        (
            lambda known, e, qw, qa: False,
            "are enough",
            "coverage({0, 1, 2}, 3, 3, 2).\n  It returned False",
        ),
    ],
)
def test_a_wrong_coverage_is_refused(wrong: Wrong, reason: str, shown: str) -> None:
    refused(COVERAGE, wrong, reason, shown)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("wrong", "reason", "shown"),
    [
        ("any denial", "proves nothing", "r closed ledger 0"),
        ("Qa denials", "proves nothing", "r closed ledger 0"),
        ("a majority", "proves nothing", "r closed ledger 0"),
        ("silence counts", "proves nothing", "entry 5 had been confirmed to w"),
        ("all", "are a proof", "The ledger was not closed"),
        ("one too many", "are a proof", "The ledger was not closed"),
        (lambda denied, silent, qw, qa: False, "are a proof", "it is not closed"),
    ],
)
def test_a_wrong_proof_of_loss_is_refused(wrong: Wrong, reason: str, shown: str) -> None:
    refused(LOST, wrong, reason, shown)


def test_a_refused_run_comes_with_the_learners_call_that_led_there() -> None:
    card = check(LOST, lambda denied, silent, qw, qa: denied >= 1)
    assert str(card.asked) == (
        "labkit called lost(1, 0, 3, 2).\n  It returned True; the right answer is False."
        " 2 of 3 bookies did not deny the entry, and 2 are enough to acknowledge it."
    )
    assert str(card.asked) in repr(card)
    assert "It returned True; the right answer is False." in card._repr_html_()


def test_the_call_that_is_shown_breaks_the_rule_that_the_run_broke() -> None:
    # Qa denials are too few if Qw=5 and Qa=2, and more than necessary if Qw=3 and Qa=3.
    card = check(LOST, lambda denied, silent, qw, qa: denied >= qa)
    assert "proves nothing" in card.message
    assert "It returned True; the right answer is False." in str(card.asked)


def test_a_refused_run_can_be_looked_at() -> None:
    found = check(LOST, lambda denied, silent, qw, qa: denied >= 1).counterexample
    assert isinstance(found, RunCounterexample)
    assert found.verdict.seq in {event.seq for event in found.trace.events}


def test_a_set_of_answers_is_drawn_with_the_silent_bookies_failing() -> None:
    found = check(COVERAGE, lambda known, e, qw, qa: len(known) >= qa).counterexample
    assert isinstance(found, WrongAnswer)
    assert repr(found.view()).startswith("Stripes: E=2 Qw=1 Qa=1, 2 entries; failed: b0")
