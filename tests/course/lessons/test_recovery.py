"""Tests the exercises of lesson 08: correct answers pass, wrong ones are rejected with a reason."""

from collections.abc import Callable

import pytest

from labkit.course.exercises.recovery import (
    denies,
    refuses,
    start,
)
from labkit.course.lessons import check
from labkit.course.runs.recovery_runs import (
    damaged_bookie,
    fresh_ensemble,
    nothing_was_written,
    old_writer,
    silent_bookie,
    writer_dies,
)
from labkit.system.check import broken, check_all
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario

START, DENIES, REFUSES = "recovery.start", "recovery.denies", "recovery.refuses"


def test_right_answers_pass() -> None:
    assert check(START, start).passed
    assert check(DENIES, denies).passed
    assert check(REFUSES, refuses).passed


@pytest.mark.parametrize(
    "scenario",
    [
        damaged_bookie(),
        fresh_ensemble(),
        nothing_was_written(),
        old_writer(),
        silent_bookie(),
        writer_dies(),
    ],
)
def test_the_real_recovery_keeps_every_promise_in_each_scenario(scenario: Scenario) -> None:
    trace = run(scenario)
    assert any(e.kind == "recovery.started" and e.node == "r" for e in trace.events)
    assert broken(check_all(trace)) == []


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("answer", "reason", "shown"),
    [
        (
            lambda reported, first: max(reported, default=-1),
            "All entries before the last segment",
            "WriteSetIsRight",
        ),
        (
            lambda reported, first: max([*reported, first - 1]) + 1,
            "only entries that are certainly confirmed",
            "is stored on 0 of",
        ),
        (lambda reported, first: first - 1, "takes time", "said -1"),
        (
            lambda reported, first: max(min(reported, default=-1), first - 1),
            "takes time",
            "start([",
        ),
        (lambda reported, first: max([*reported[:1], first - 1]), "takes time", "start(["),
        (lambda reported, first: max(reported), "ValueError", "None"),
        (lambda reported, first: -1, "All entries before the last segment", "WriteSetIsRight"),
        (lambda reported, first: -5, "-1 for no entry", "said -5"),
        (
            lambda reported, first: 10**9,
            "only entries that are certainly confirmed",
            "said 1000000000",
        ),
    ],
    ids=[
        "told only",
        "one too far",
        "segment only",
        "the lowest",
        "the first",
        "nobody has any",
        "always -1",
        "below -1",
        "far away",
    ],
)
def test_a_wrong_start_is_refused(
    answer: Callable[[list[int], int], int], reason: str, shown: str
) -> None:
    card = check(START, answer)
    assert not card.passed
    assert reason in card.message
    assert shown in str(card.counterexample)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("answer", "reason", "shown"),
    [
        (lambda error: True, "proves anything", "r closed ledger 0 at entry 2"),
        (lambda error: "Read" in error or "NoSuch" in error, "proves anything", "at entry 2"),
        (lambda error: "Time" in error or "NoSuch" in error, "proves anything", "at entry 2"),
        (lambda error: False, "never finds the end", "LedgerIsClosed"),
        (lambda error: error == "BKNoSuchEntryException", "never finds the end", "NoSuchLedger"),
        (lambda error: "NoSuch" in error or "Digest" in error, "proves anything", "Digest"),
    ],
    ids=["all", "unreadable", "silent", "none", "one of two", "wrong digest"],
)
def test_a_wrong_proof_is_refused(answer: Callable[[str], bool], reason: str, shown: str) -> None:
    card = check(DENIES, answer)
    assert not card.passed
    assert reason in card.message
    assert shown in str(card.counterexample)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda fenced, recovery: False, "accepts an add of the old writer"),
        (lambda fenced, recovery: fenced, "Recovery writes entries back"),
        (lambda fenced, recovery: not recovery, "a ledger that is not fenced"),
        (lambda fenced, recovery: fenced != recovery, "a ledger that is not fenced"),
    ],
    ids=["nobody", "everybody", "all writers", "one or the other"],
)
def test_a_wrong_refusal_is_refused(answer: Callable[[bool, bool], bool], reason: str) -> None:
    card = check(REFUSES, answer)
    assert not card.passed
    assert reason in card.message
