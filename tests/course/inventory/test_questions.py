"""Tests the questions of the inventory, whose right answers labkit computes."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from labkit.course.inventory import replication
from labkit.course.inventory.question import Item, Question
from labkit.course.inventory.questions import QUESTIONS
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from tests.repeat import repeated

TEACHING = Path(__file__).parents[3] / "docs" / "teaching.md"


def test_there_are_20_questions_and_one_for_each_misconception_of_the_teachers_page() -> None:
    page = TEACHING.read_text(encoding="utf-8").partition("## Questions that open a lesson")[2]
    lessons = set(re.findall(r"(?m)^\| (\d\d) \|", page.partition("\n## ")[0]))
    assert len(QUESTIONS) == 20
    assert {question.lesson for question in QUESTIONS} == lessons
    assert len({question.name for question in QUESTIONS}) == 20


@pytest.mark.parametrize("seed", repeated(range(1, 40)))
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_a_seed_gives_one_right_option_and_three_beliefs(question: Question, seed: int) -> None:
    text, options = question.drawn(seed)
    assert text.endswith("?")
    assert [option.belief for option in options].count("") == 1
    assert len({option.belief for option in options}) == len({o.text for o in options}) == 4
    assert question.drawn(seed) == (text, options)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_other_seeds_ask_with_other_numbers_and_move_the_right_option(question: Question) -> None:
    drawn = [question.drawn(seed) for seed in range(1, 13)]
    places = Counter([o.belief for o in options].index("") for _, options in drawn)
    assert len({text for text, _ in drawn}) > 1
    assert len(places) > 1
    # Which options are wrong, and for what reason, does not depend on the numbers.
    assert len({frozenset(o.belief for o in options) for _, options in drawn}) == 1


def test_an_answer_is_the_one_of_the_system_and_not_a_typed_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unfenced(scenario: Scenario) -> Trace:
        return run(replace(scenario, variant="recovery without fencing"))

    monkeypatch.setattr(replication, "run", unfenced)
    with pytest.raises(ValueError, match=r"'It succeeds: .*' must differ"):
        replication.old_writer(Random(1))


def test_a_question_whose_right_answer_is_also_a_wrong_one_is_an_error() -> None:
    with pytest.raises(ValueError, match="must differ"):
        Item("How many?", "3", {"3": "All.", "2": "Some."})
