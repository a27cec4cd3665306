"""Tests that a wrong prediction is explained, with values that the lessons really show."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import papermill
import pytest

from labkit.course.checking import parameters as lesson_parameters
from labkit.course.lessons import compare, parameters, predict
from labkit.course.lessons.build import NOTEBOOKS, VERSIONS
from labkit.course.predictions.prediction import hashable, predictions_of

EXPLAINED = [f"{number:02}" for number in range(1, 18)]
_SHOWN = re.compile(r"As predicted: (.+)\n  predicted .+\n  it is     (.+)")
"""A right prediction in the solution, which nbval checks by running the lesson."""

TWO_CHOICES = {
    "the bookie notices a changed payload",
    "the ledger of the new owner's first message",
    "the meaning of an offset",
    "to lose an entry",
}


@pytest.fixture(autouse=True)
def forget_the_lesson(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson_parameters, "_started", [])


def notebook_of(lesson: str) -> Path:
    return next(VERSIONS["solution"].glob(f"{lesson}-*.ipynb"))


def defaults_of(lesson: str) -> dict[str, object]:
    inspected = papermill.inspect_notebook(str(NOTEBOOKS / notebook_of(lesson).name))
    return {name: ast.literal_eval(each["default"]) for name, each in inspected.items()}


def truths_of(lesson: str) -> Iterator[tuple[str, object]]:
    for cell in nbformat.read(notebook_of(lesson), as_version=4).cells:
        for output in cell.get("outputs", []):
            if shown := _SHOWN.match(output.get("data", {}).get("text/plain", "")):
                yield shown[1], ast.literal_eval(shown[2])


TRUTHS = [(lesson, name, truth) for lesson in EXPLAINED for name, truth in truths_of(lesson)]


@pytest.mark.parametrize("lesson", EXPLAINED)
def test_every_prediction_of_a_lesson_has_explanations(lesson: str) -> None:
    assert list(predictions_of(lesson)) == [name for name, _ in truths_of(lesson)]


@pytest.mark.parametrize(("lesson", "name", "truth"), TRUTHS)
def test_likely_wrong_values_are_wrong_and_each_has_its_own_reason(
    lesson: str, name: str, truth: object
) -> None:
    prediction = predictions_of(lesson)[name]
    likely = prediction.likely
    found = likely(defaults_of(lesson)) if callable(likely) else likely
    wrong = {value: why for value, why in found.items() if value != hashable(truth)}
    assert {type(value) for value in wrong} <= {type(hashable(truth)), int, float}
    assert len(set(wrong.values())) >= (1 if name in TWO_CHOICES else 2)
    assert prediction.look not in wrong.values()


@pytest.mark.parametrize(("lesson", "name", "truth"), TRUTHS)
def test_a_wrong_prediction_is_explained_and_a_right_one_is_not(
    lesson: str, name: str, truth: object
) -> None:
    parameters(lesson, defaults_of(lesson))
    predict(name, truth)
    assert len(compare(name, truth).lines) == 2
    predict(name, "something else")
    assert compare(name, truth).lines[2:] == (predictions_of(lesson)[name].look,)


def test_a_likely_wrong_prediction_is_told_what_is_wrong_with_it() -> None:
    parameters("02", defaults_of("02"))
    predict("journals for ten entries", 4)
    said = compare("journals for ten entries", 3).lines
    assert said[:2] == ("predicted 4", "it is     3")
    assert said[2].startswith("You assumed that a file cannot exceed 1 MiB")


def test_a_list_is_explained_like_a_tuple() -> None:
    parameters("07", defaults_of("07"))
    predict("lost entries", [0])
    assert compare("lost entries", [0, 1, 2]).lines[2].startswith("All three entries were")


def test_explanations_follow_the_lessons_parameters() -> None:
    parameters("01", defaults_of("01") | {"digest_type": "HMAC"})
    predict("an entry with 100 bytes of payload", 132)
    assert (
        "With HMAC it takes 20 bytes" in compare("an entry with 100 bytes of payload", 152).lines[2]
    )


def test_a_prediction_outside_the_lessons_is_compared_without_an_explanation() -> None:
    predict("bytes of entry 0", 99)
    assert compare("bytes of entry 0", 20).lines == ("predicted 99", "it is     20")
