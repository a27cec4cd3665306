"""Tests the exercises of lesson 14: correct answers pass, wrong ones are rejected with a reason."""

import re
from dataclasses import replace

import pytest

from labkit.course.exercises.break_protocol import BASE
from labkit.course.lessons import check
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.trace.events import Event
from labkit.worlds.sim.scenario.faults import Pause
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Recover, Write
from tests.course.lessons.refused import Wrong, refused
from tests.repeat import repeated_cases

pytestmark = pytest.mark.slow

SCHEDULE, ANSWER = "break_protocol.schedule", "break_protocol.answer"
INVARIANT = "break_protocol.invariant"


def with_decisions(**decisions: float) -> Scenario:
    """Return the base scenario with these decisions.

    In a name, `_` stands for a space and `__` for the arrow.
    """
    scenario = BASE
    for name, value in decisions.items():
        scenario = scenario.with_decision(name.replace("__", ">").replace("_", " "), value)
    return scenario


FOUND = with_decisions(delay_w__b0_1=10, delay_w__b1_1=5, lose_r__b1_1=1)


def test_a_right_schedule_passes() -> None:
    assert "has 3 decisions and faults" in check(SCHEDULE, FOUND).message


def test_a_schedule_with_a_part_too_many_learns_which() -> None:
    message = check(SCHEDULE, FOUND.with_decision("delay b2>r 2", 5)).message
    assert "The entry is lost even without 'delay b2>r 2'" in message
    assert "can you find a shorter schedule" not in check(SCHEDULE, FOUND).message


def test_a_schedule_with_faults_passes_too() -> None:
    late = On("recovery.covered", node="r")
    schedule = with_decisions(delay_w__b0_1=10, delay_w__b1_1=5, lose_r__b1_1=1)
    assert check(SCHEDULE, schedule.with_fault(Pause("b2", 3.0, late))).passed


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        (BASE, "w closed its ledger itself"),
        (with_decisions(delay_w__b0_1=10, delay_w__b1_1=10), "was never confirmed to w"),
        (with_decisions(delay_b0__w_1=10, delay_b1__w_1=10), "recovery found the entry"),
        (
            with_decisions(lose_w__b0_1=1, lose_w__b1_1=1, lose_r__b0_1=1, lose_r__b1_1=1),
            "recovery did not finish",
        ),
        (with_decisions(lose_w__b9_1=1), "The decision 'lose w>b9 1' has no effect"),
        (replace(FOUND, variant=""), "must be those of `base`"),
        (replace(FOUND, seed=4), "must be those of `base`"),
        (replace(BASE, workload=(Write(ack_quorum=1), Recover())), "must be those of `base`"),
        ({"delay w>b0 1": 10}, "must be a Scenario"),
    ],
    ids=[
        *("as it is", "no ack", "found", "stuck", "no such message"),
        *("fixed", "seed", "other work", "no scenario"),
    ],
)
def test_a_schedule_that_shows_nothing_is_refused(schedule: object, reason: str) -> None:
    card = check(SCHEDULE, schedule)
    assert not card.passed
    assert reason in card.message


def test_a_bookie_without_the_ledger_may_deny_with_either_answer() -> None:
    assert check(ANSWER, lambda met: "IO_ERROR" if "damaged" in met else "NO_ENTRY").passed


@pytest.mark.parametrize("name", ["dely_w__b0_1", "lose_w__b0"])
def test_a_schedule_with_a_misspelt_decision_is_refused_where_it_is_made(name: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match="not the name of a decision"):
        with_decisions(**{name: 1.0})


@pytest.mark.parametrize(
    ("wrong", "reason"),
    repeated_cases(
        [
            ("2908", "only if it does not have it"),
            ("no ledger for damage", "only if it does not have it"),
            ("denies nothing", "must deny it"),
            ("denies ledgers", "must deny it"),
            ("denies entries", "must deny it"),
            ("another code", "must be one of"),
            ("the two denials swapped", "the response is NO_ENTRY"),
        ],
        once=3,
    ),
)
def test_a_bookie_that_says_the_wrong_thing_is_refused(wrong: Wrong, reason: str) -> None:
    refused(ANSWER, wrong, reason)


def durable_on_two(events: list[Event]) -> bool:
    """Return whether every entry was on two disks when the writer confirmed it.

    This is a wrong answer, because the writer may not have received the acknowledgements.
    """
    synced: dict[int, set[str]] = {}
    for event in events:
        if event.kind == "journal.synced":
            synced.setdefault(event.entry, set()).add(event.node)
        if event.kind == "lac.advanced" and len(synced.get(event.entry, ())) < 2:
            return False
    return True


@pytest.mark.parametrize(
    ("wrong", "reason"),
    repeated_cases(
        [
            ("true", "must detect the bug"),
            (lambda events: False, "must hold in every run"),
            ("one", "must detect the bug"),
            ("three", "must hold in every run"),
            (durable_on_two, "must detect the bug"),
            (len, "must return bool"),
        ],
        once=3,
    ),
)
def test_an_invariant_that_does_not_tell_the_two_apart_is_refused(
    wrong: Wrong, reason: str
) -> None:
    refused(INVARIANT, wrong, reason)


def test_a_refused_invariant_learns_which_event_made_it_false() -> None:
    card = refused(INVARIANT, "three", "must hold in every run")
    assert re.search(
        r"returns True for the events before event \d+ and False with it:"
        r" entry \d of ledger 0 is confirmed",
        str(card.counterexample),
    )
    assert len(str(card).splitlines()) == 2, "the events of the whole run are not listed"
    card = check(INVARIANT, lambda events: False)
    assert "returns False even for an empty list of events" in str(card.counterexample)
