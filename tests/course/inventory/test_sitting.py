"""Tests that a student can answer the questions on the terminal."""

import argparse
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit.cli.main import main
from labkit.course.inventory.questions import QUESTIONS
from labkit.course.inventory.sitting import (
    FILE,
    NO_ANSWER,
    RIGHT,
    is_sitting,
    judged,
    run_inventory,
)

SEED = 3


def said_by(answers: Iterator[str], seed: int | None = SEED) -> list[str]:
    said: list[str] = []

    def ask(prompt: str) -> str:
        said.append(prompt)
        return next(answers)

    run_inventory(argparse.Namespace(when="before", seed=seed), said.append, ask)
    return said


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("consent", ["", "n", "x"])
def test_without_consent_nothing_is_saved(folder: Path, consent: str) -> None:
    assert said_by(iter(["a"] * len(QUESTIONS) + [consent]))[-1] == "Nothing was saved."
    assert list(folder.iterdir()) == []


def test_the_file_holds_letters_and_a_second_sitting_is_added(folder: Path) -> None:
    said_by(iter(["A", "", *"b" * (len(QUESTIONS) - 2), "y"]))
    said_by(iter(["c"] * len(QUESTIONS) + ["yes"]), seed=None)
    first, second = map(json.loads, (folder / FILE).read_text().splitlines())
    assert (first["when"], first["seed"]) == ("before", SEED)
    assert list(first["answers"].values()) == ["a", "", *"b" * (len(QUESTIONS) - 2)]
    assert second["seed"] != SEED
    assert is_sitting(first)
    assert is_sitting(second)


def test_neither_the_terminal_nor_the_file_shows_what_is_right(folder: Path) -> None:
    letters = []
    for question in QUESTIONS:
        _, options = question.drawn(SEED)
        letters.append("abcd"[[option.belief for option in options].index("")])
    said = said_by(iter([*letters, "y"]))
    wrong = said_by(iter([*("b" if each == "a" else "a" for each in letters), "y"]))
    assert said == wrong
    saved = "".join(said) + (folder / FILE).read_text()
    beliefs = [o.belief for question in QUESTIONS for o in question.drawn(SEED)[1] if o.belief]
    assert not [belief for belief in beliefs if belief in saved]
    right, other = map(json.loads, (folder / FILE).read_text().splitlines())
    assert {outcome for _, outcome in judged(SEED, right["answers"])} == {RIGHT}
    assert RIGHT not in {outcome for _, outcome in judged(SEED, other["answers"])}


def test_an_invalid_letter_is_asked_for_again(folder: Path) -> None:
    said = said_by(iter(["e", "ab", "d", *[""] * (len(QUESTIONS) - 1), "y"]))
    assert said.count("Type one of a, b, c, d, or press Enter.") == 2
    saved = json.loads((folder / FILE).read_text())
    outcomes = dict(judged(SEED, saved["answers"]))
    assert [*outcomes.values()].count(NO_ANSWER) == len(QUESTIONS) - 1


def test_a_sitting_that_is_broken_off_saves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a\nb\n"))
    assert main(["inventory", "after"]) == 1
    assert "nothing was saved" in capsys.readouterr().err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"when": "during"},
        {"seed": 0},
        {"seed": 2**31},
        {"seed": True},
        {"seed": "3"},
        {"answers": ["a"]},
        {"answers": {"replay": "e"}},
        {"answers": {"replay": []}},
    ],
)
def test_what_labkit_did_not_write_is_no_sitting(change: dict[str, object]) -> None:
    noted: dict[str, object] = {"when": "after", "seed": 3, "answers": {"replay": "a"}}
    assert is_sitting(noted)
    assert not is_sitting(noted | change)
