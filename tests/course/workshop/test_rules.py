"""Tests that a step rejects a part in which one small rule is wrong, with a case that shows the
error.
"""

import struct

import pytest

from labkit.course.checking.refused import Refused
from labkit.course.workshop.files import load
from labkit.course.workshop.learner import Learner
from labkit.course.workshop.tracks import track
from tests.course.workshop.wrong_rules import RULES, Answer

ANSWERS = [
    pytest.param(rule, answer, id=f"{rule}: {title}")
    for rule, (*_, answers) in RULES.items()
    for title, answer in answers.items()
]


def learner_with(rule: str, answer: Answer) -> Learner:
    learner = load(track("bookie").solution, seeds=0)
    number, use, *_ = RULES[rule]
    use(answer, learner.module)
    learner.parts = track("bookie").step(number).parts
    return learner


def run_trials(rule: str, answer: Answer) -> None:
    learner = learner_with(rule, answer)
    for trial in track("bookie").step(RULES[rule][0]).trials:
        trial(learner)


@pytest.mark.sampled
@pytest.mark.parametrize(("rule", "answer"), ANSWERS)
def test_a_part_with_a_wrong_rule_is_refused_with_a_case_that_shows_it(
    rule: str, answer: Answer
) -> None:
    # An exception in the learner's code counts as a rejection, because `check` shows its line.
    with pytest.raises((Refused, ValueError, IndexError, struct.error)) as raised:
        run_trials(rule, answer)
    if isinstance(raised.value, Refused):
        assert track("bookie").step(RULES[rule][0]).lines_in(raised.value.message)
        assert raised.value.counterexample is not None


@pytest.mark.parametrize("rule", RULES)
def test_a_part_with_the_right_rule_passes(rule: str) -> None:
    run_trials(rule, RULES[rule][2])


def test_a_refusal_names_the_first_different_record() -> None:
    with pytest.raises(Refused) as raised:
        run_trials("records", lambda data, start: [])
    assert "record 0: expected the record at offset 512, got no further record" in str(raised.value)
