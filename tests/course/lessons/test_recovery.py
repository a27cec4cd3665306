"""Tests the exercises of lesson 08: correct answers pass, wrong ones are rejected with a reason."""

import pytest

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
from tests.course.lessons.refused import Wrong, refused

START, DENIES, REFUSES = "recovery.start", "recovery.denies", "recovery.refuses"


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
    ("wrong", "reason", "shown"),
    [
        ("told only", "All entries before the last segment", "WriteSetIsRight"),
        ("one too far", "only entries that are certainly confirmed", "is stored on 0 of"),
        ("segment only", "takes time", "said -1"),
        ("the lowest", "takes time", "start(["),
        ("the first", "takes time", "start(["),
        (lambda reported, first: max(reported), "ValueError", "None"),
        (lambda reported, first: -1, "All entries before the last segment", "WriteSetIsRight"),
        (lambda reported, first: -5, "-1 for no entry", "said -5"),
        (
            lambda reported, first: 10**9,
            "only entries that are certainly confirmed",
            "said 1000000000",
        ),
    ],
)
def test_a_wrong_start_is_refused(wrong: Wrong, reason: str, shown: str) -> None:
    refused(START, wrong, reason, shown)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("wrong", "reason", "shown"),
    [
        ("all", "proves anything", "r closed ledger 0 at entry 2"),
        ("unreadable", "proves anything", "at entry 2"),
        ("silence", "proves anything", "at entry 2"),
        ("none", "never finds the end", "LedgerIsClosed"),
        ("entry alone", "never finds the end", "NoSuchLedger"),
        ("wrong digest", "proves anything", "Digest"),
    ],
)
def test_a_wrong_proof_is_refused(wrong: Wrong, reason: str, shown: str) -> None:
    refused(DENIES, wrong, reason, shown)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("nobody", "accepts an add of the old writer"),
        ("fenced", "Recovery writes entries back"),
        ("all writers", "a ledger that is not fenced"),
        ("one or the other", "a ledger that is not fenced"),
    ],
)
def test_a_wrong_refusal_is_refused(wrong: Wrong, reason: str) -> None:
    refused(REFUSES, wrong, reason)
