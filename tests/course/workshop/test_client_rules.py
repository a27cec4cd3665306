"""Tests that a step refuses a client with a wrong rule, with a case that shows it."""

from pathlib import Path

import pytest

from labkit.course.checking.exercise import Refused
from labkit.course.workshop.files import load
from labkit.course.workshop.step import track
from tests.course.workshop.wrong import with_changes
from tests.course.workshop.wrong_client_rules import RULES, Answer

LEAST = 8
ANSWERS = [
    pytest.param(rule, answer, id=f"{rule}: {title}")
    for rule, (*_, answers) in RULES.items()
    for title, answer in answers.items()
]


def run_trials(folder: Path, rule: str, answer: Answer) -> None:
    """Run the quick trials of the step with the solution that uses this version of the rule."""
    number, change, *_ = RULES[rule]
    step = track("client").step(number)
    file = with_changes(folder, "client", change)
    for trial in step.quick_trials:
        learner = load(file, seeds=0)
        learner.module.__dict__["rule"] = answer
        learner.parts = step.parts
        trial(learner)


@pytest.mark.sampled
@pytest.mark.parametrize(("rule", "answer"), ANSWERS)
def test_a_client_with_a_wrong_rule_is_refused_with_a_case_that_shows_it(
    rule: str, answer: Answer, tmp_path: Path
) -> None:
    # An exception in the learner's code counts as a rejection, because `check` shows its line.
    with pytest.raises((Refused, ValueError, IndexError)) as raised:
        run_trials(tmp_path, rule, answer)
    if isinstance(raised.value, Refused):
        assert raised.value.message
        assert raised.value.counterexample is not None


@pytest.mark.parametrize("rule", RULES)
def test_a_client_with_the_right_rule_passes(rule: str, tmp_path: Path) -> None:
    run_trials(tmp_path, rule, RULES[rule][2])


@pytest.mark.parametrize("rule", RULES)
def test_every_small_rule_has_at_least_eight_wrong_versions(rule: str) -> None:
    assert len(RULES[rule][3]) >= LEAST
