"""Tests that `check` shows a card, whatever the learner's code does."""

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from labkit.course.checking.card import Card, CardState
from labkit.course.checking.check import NotPassedError
from labkit.course.checking.exercise import NoSuchExerciseError, exercise
from labkit.course.checking.refused import Refused
from labkit.course.exercises.entry import is_intact, lengths_of
from labkit.course.exercises.repair import missing_copies
from labkit.course.lessons import check, compare, hint, predict
from labkit.system.storage.journal import padding


@exercise("entry.padding", hints=("", "", ""), like=padding)
def pads(learner: Callable[[int, int], bytes]) -> str:
    if learner(896, 512) != padding(896, 512):
        raise Refused("wrong padding")
    return "right"


def test_what_is_not_done_yet_is_open() -> None:
    def later(offset: int, alignment: int) -> bytes:
        raise NotImplementedError

    for nothing in (None, later):
        card = check("entry.padding", nothing)
        assert (card.outcome, card.passed) == (CardState.OPEN, False)


def test_an_error_is_shown_with_the_learners_line() -> None:
    def helper(offset: int) -> bytes:
        return {0: b""}[offset]

    def answer(offset: int, alignment: int) -> bytes:
        return helper(offset)

    message = check("entry.padding", answer).message
    assert message.startswith("Your code raised KeyError: 896 in helper, line ")
    assert message.endswith(': return {0: b""}[offset].')


def one_line(offset: int, alignment: int) -> bytes:
    while True: pass  # fmt: skip  # noqa: E701


def that_catches(offset: int, alignment: int) -> bytes:
    while True:
        try:
            offset += 1
        except Exception:  # noqa: BLE001
            offset = 0


@pytest.mark.parametrize("endless", [one_line, that_catches])
def test_code_without_an_end_is_stopped(endless: object, monkeypatch: pytest.MonkeyPatch) -> None:
    # Import the module by its name, because the package attribute of that name is the function.
    monkeypatch.setattr(import_module("labkit.course.checking.check"), "STEPS", 10_000)
    assert "does not terminate; it was last in" in check("entry.padding", endless).message


def sleeps(offset: int, alignment: int) -> bytes:
    time.sleep(10_000)
    return b""


def never_ends_in_c_code(offset: int, alignment: int) -> bytes:
    return bytes(sum(itertools.count()))


@pytest.mark.parametrize("endless", [sleeps, never_ends_in_c_code])
def test_what_takes_no_steps_is_stopped_by_the_clock(
    endless: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("labkit.course.checking.check"), "LIMIT_S", 0.1)
    message = check("entry.padding", endless).message
    assert f"s it was last in {endless.__name__}, line " in message


def test_what_waits_beside_spark_is_stopped_by_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("labkit.course.checking.check"), "SPARK_LIMIT_S", 0.1)

    @exercise("entry.waiting", hints=("", "", ""), needs_spark=True)
    def waiting(learner: Callable[[int, int], bytes]) -> str:
        return repr(learner(512, 512))

    assert "it was last in sleeps, line " in check("entry.waiting", sleeps).message


@pytest.mark.parametrize("leave", [sys.exit, os._exit])
@pytest.mark.parametrize("status", [0, 3])
def test_code_that_ends_the_program_does_not_leave_the_notebook(
    leave: Callable[[int], object], status: int
) -> None:
    card = check("entry.padding", lambda offset, alignment: leave(status))
    assert card.outcome is CardState.REFUSED
    assert "Your code ends the whole program" in card.message


def test_what_a_function_prints_is_seen_once(capsys: pytest.CaptureFixture[str]) -> None:
    def talks(offset: int, alignment: int) -> bytes:
        if offset == 896:
            print("at the first block")  # noqa: T201
        return padding(offset, alignment)

    assert check("entry.padding", talks).passed
    said = capsys.readouterr().out
    assert said
    assert set(said.splitlines()) == {"at the first block"}


def test_a_refusal_that_cannot_be_sent_is_made_again_here() -> None:
    @exercise("entry.refusing_with_code", hints=("", "", ""))
    def refusing(learner: object) -> str:
        raise Refused("rule", lambda: 7)

    counterexample: Any = check("entry.refusing_with_code", padding).counterexample
    assert counterexample() == 7


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (5, "The answer must be a function with the parameters (offset, alignment)."),
        (lambda offset: b"", "Your function takes (offset); it must take (offset, alignment)."),
        (
            lambda o, a: None,
            "padding(896, 512) must return bytes; yours returned None; is there a `return`?",
        ),
        (lambda o, a: "", "padding(896, 512) must return bytes; yours returned '' (str)."),
        (max, "max(896, 512) must return bytes; yours returned 896 (int)."),
    ],
)
def test_what_does_not_fit_is_refused_in_words(answer: object, reason: str) -> None:
    assert check("entry.padding", answer) == Card("entry.padding", CardState.REFUSED, reason)


@pytest.mark.parametrize(
    ("name", "answer", "returned"),
    [
        ("entry.length", lambda sizes: list(map(str, sizes)), "list[int]; yours returned ['5']"),
        ("entry.length", lambda sizes: [True], "list[int]; yours returned [True]"),
        ("garbage.worth", lambda logs, threshold: [(1,)], "list[int]; yours returned [(1,)]"),
        ("garbage.worth", lambda logs, threshold: 1, "list[int]; yours returned 1 (int)"),
    ],
)
def test_what_is_in_a_list_must_fit_too_and_no_bool_counts(
    name: str, answer: object, returned: str
) -> None:
    assert returned in check(name, answer).message


@pytest.mark.slow
def test_numpys_truth_values_and_numbers_are_as_good_as_pythons() -> None:
    for name, answer in (
        ("entry.intact", lambda data, digest: np.bool_(is_intact(data, digest))),
        ("entry.length", lambda sizes: list(np.cumsum(sizes))),
    ):
        assert check(name, answer).passed


def test_what_a_function_does_to_its_arguments_it_does_to_copies() -> None:
    @exercise("entry.keeping", hints=("", "", ""), like=missing_copies)
    def keeping(learner: Callable[..., list[int]]) -> str:
        ensemble, failures = ["b0", "b1"], {0: ["BKReadException"]}
        learner(ensemble, {"b1"}, failures)
        return f"{ensemble} {failures}"

    def empties(
        ensemble: list[str], registered: set[str], failures: dict[int, list[str]]
    ) -> object:
        failures[0].clear()
        for each in (ensemble, registered, failures):
            each.clear()
        return []

    kept = check("entry.keeping", empties).message
    assert kept == "['b0', 'b1'] {0: ['BKReadException']}"


def test_an_error_in_a_function_of_pythons_own_is_the_learners_too() -> None:
    assert check("entry.padding", int).message.startswith("Your code raised ValueError: ")


def test_an_error_of_the_trial_itself_is_not_blamed_on_the_learner() -> None:
    @exercise("entry.broken", hints=("", "", ""))
    def broken(learner: object) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        check("entry.broken", padding)


@pytest.mark.parametrize("name", ["nothing.here", "entry.nothing"])
def test_an_unknown_name_says_what_there_is(name: str) -> None:
    with pytest.raises(NoSuchExerciseError, match=r"no lesson with .*nothing|are .*entry\.pack"):
        check(name, None)


def test_a_package_that_a_lesson_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "labkit.course.exercises.streaming", raising=False)
    for loaded in [each for each in sys.modules if each.startswith("pyspark.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ModuleNotFoundError, match="pyspark"):
        check("streaming.watermark", None)


def test_what_must_pass_raises_with_the_card_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "entry.length"
    for answer in (None, sorted):
        with pytest.raises(NotPassedError, match=r"entry\.length: (open|not yet)\.") as raised:
            check(name, answer, must_pass=True)
        assert not raised.value.card.passed
    assert check(name, lengths_of, must_pass=True).passed
    monkeypatch.setenv("LABKIT_CHECKS", "must-pass")
    with pytest.raises(NotPassedError):
        check(name, None)
    assert not check(name, None, must_pass=False).passed


@pytest.mark.parametrize("execution", ["validate", "autograde"])
def test_in_nbgrader_what_is_not_passed_raises(
    execution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", execution)
    with pytest.raises(NotPassedError):
        check("entry.length", None)


class Picture:
    def _repr_html_(self) -> str:
        return "<svg/>"

    def __str__(self) -> str:
        return "a < b"


def cards() -> Iterator[Card]:
    for outcome in CardState:
        yield Card("a.b", outcome, "1 < 2")
        yield Card("a.b", outcome, "1 < 2", Picture())


@pytest.mark.parametrize("card", list(cards()), ids=repr)
def test_a_card_says_the_same_in_text_and_html(card: Card) -> None:
    text, html = repr(card), card._repr_html_()
    assert text.startswith(f"{card.outcome} a.b: ")
    assert f"{card.outcome} a.b: " in html
    assert "1 < 2" in text
    assert "1 &lt; 2" in html
    assert ("<svg/>" in html) == ("a < b" in text) == (card.counterexample is not None)


def test_hints_come_one_by_one_and_the_last_stays() -> None:
    titles = [hint("entry.pack").title for _ in range(4)]
    assert [title[:11] for title in titles] == [f"Hint {n} of 3" for n in (1, 2, 3, 3)]


def test_a_prediction_is_compared_with_what_came() -> None:
    assert compare("bytes", 3).title == "Not predicted: bytes"
    assert predict("bytes", None).title == "No prediction yet: bytes"
    predict("bytes", 4)
    assert compare("bytes", 3).title == "Not as predicted: bytes"
    predict("bytes", 3)
    assert compare("bytes", 3).title == "As predicted: bytes"
    predict("places", [3, 0, 1])
    assert compare("places", (3, 0, 1)).title == "As predicted: places"
    assert compare("places", (3, 1, 0)).title == "Not as predicted: places"
