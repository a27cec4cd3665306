"""Tests that wrong answers to a step are rejected with the line of the contract that they break,
and that unusual answers pass.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from labkit.course.checking.card import Card
from labkit.course.checking.refused import Refused
from labkit.course.workshop.files import load
from labkit.course.workshop.step_check import card_of
from labkit.course.workshop.tracks import ContractLine, track
from tests.course.workshop.wrong import Answer, answers, obvious_answers, with_changes

WRONG = {"bookie": [*answers("wrong_bookie")], "client": [*answers("wrong_client")]}
LINES = [
    pytest.param(name, step.number, line, id=f"{name}, {step.number}: {line.words[:60]}")
    for name in WRONG
    for step in track(name).steps
    if not step.is_live
    for line in step.contract
]
LEAST = {"bookie": 1, "client": 3}


def card_for(answer: Answer, folder: Path, name: str = "client") -> Card:
    """Return the card of the step's check, in which no processes are started."""
    step = track(name).step(answer.step)
    if step.is_live:
        step = replace(step, slow_trials=(), costs=())
    return card_of(track(name), step, with_changes(folder, name, *answer.changes), seeds=6)


@pytest.mark.sampled
@pytest.mark.parametrize("answer", WRONG["client"], ids=str)
def test_generated_cases_refuse_a_wrong_answer_with_the_line_that_it_breaks(
    answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Skip shrinking, which takes longer than finding the case and never changes the line.
    monkeypatch.setattr("labkit.course.checking.generated_cases._SHRINK_STEPS", 0)
    step = track("client").step(answer.step)
    learner = load(with_changes(tmp_path, "client", *answer.changes), seeds=0)
    learner.parts = step.parts
    with pytest.raises(Refused) as refusal:  # noqa: PT012 - any of the trials may refuse it
        for trial in step.generated:
            trial(learner)
    [line] = step.lines_in(refusal.value.message)
    assert line.startswith(answer.line), refusal.value.counterexample


@pytest.mark.sampled
@pytest.mark.parametrize("answer", obvious_answers("wrong_client"), ids=str)
def test_the_check_of_a_step_quotes_the_broken_line_and_no_other(
    answer: Answer, tmp_path: Path
) -> None:
    card = card_for(answer, tmp_path)
    assert not card.passed
    [line] = track("client").step(answer.step).lines_in(card.message)
    assert line.startswith(answer.line), card


@pytest.mark.sampled
@pytest.mark.parametrize("answer", WRONG["bookie"], ids=str)
def test_a_wrong_bookie_is_refused_with_the_line_that_it_breaks(
    answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.course.checking.generated_cases._SHRINK_STEPS", 0)
    card = card_for(answer, tmp_path, "bookie")
    assert not card.passed
    [line] = track("bookie").step(answer.step).lines_in(card.message)
    assert line.startswith(answer.line), card


@pytest.mark.parametrize(("name", "number", "line"), LINES)
def test_each_line_of_a_contract_can_be_broken_alone(
    name: str, number: int, line: ContractLine
) -> None:
    wrong = [each for each in WRONG[name] if each.step == number]
    assert sum(line.words.startswith(each.line) for each in wrong) >= LEAST[name]


@pytest.mark.sampled
@pytest.mark.parametrize("answer", [*answers("right_client")], ids=str)
def test_an_unusual_answer_passes(answer: Answer, tmp_path: Path) -> None:
    card = card_for(answer, tmp_path)
    assert card.passed, card
