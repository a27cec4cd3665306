"""Tests the exercises of lesson 14: correct answers pass, wrong ones are rejected with a reason."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from labkit.course.exercises.break_protocol import BASE, answer, keeps
from labkit.course.lessons import check
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.trace.events import Event
from labkit.worlds.sim.scenario.faults import Pause
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Recover, Write
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


def test_right_answers_pass() -> None:
    assert "has 3 decisions and faults" in check(SCHEDULE, FOUND).message
    assert check(ANSWER, answer).passed
    assert check(INVARIANT, keeps).passed


def test_a_schedule_with_a_part_too_many_learns_which() -> None:
    message = check(SCHEDULE, FOUND.with_decision("delay b2>r 2", 5)).message
    assert "The entry is lost even without 'delay b2>r 2'" in message
    assert "can you do with fewer" not in check(SCHEDULE, FOUND).message


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


def test_a_bookie_may_deny_with_either_answer() -> None:
    assert check(ANSWER, lambda met: "IO_ERROR" if "damaged" in met else "NO_ENTRY").passed


@pytest.mark.parametrize("name", ["dely_w__b0_1", "lose_w__b0"])
def test_a_schedule_with_a_misspelt_decision_is_refused_where_it_is_made(name: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match="not the name of a decision"):
        with_decisions(**{name: 1.0})


@pytest.mark.parametrize(
    ("ledger", "entry", "damaged", "reason"),
    repeated_cases(
        [
            ("NO_LEDGER", "NO_ENTRY", "NO_ENTRY", "only if it does not have it"),
            ("NO_LEDGER", "NO_ENTRY", "NO_LEDGER", "only if it does not have it"),
            ("IO_ERROR", "IO_ERROR", "IO_ERROR", "must deny it"),
            ("NO_LEDGER", "IO_ERROR", "IO_ERROR", "must deny it"),
            ("IO_ERROR", "NO_ENTRY", "IO_ERROR", "must deny it"),
            ("NO_LEDGER", "NO_ENTRY", "EIO", "must be one of"),
        ],
        once=3,
    ),
    ids=["2908", "denies all", "denies nothing", "entry", "ledger", "no answer"],
)
def test_a_bookie_that_says_the_wrong_thing_is_refused(
    ledger: str, entry: str, damaged: str, reason: str
) -> None:
    def wrong(met: str) -> str:
        if "damaged" in met:
            return damaged
        return ledger if met == "no such ledger" else entry

    assert reason in check(ANSWER, wrong).message


def at_least(count: int) -> Callable[[list[Event]], bool]:
    """Return an invariant: an entry is confirmed only after this many acknowledgements."""

    def keeps(events: list[Event]) -> bool:
        acks: dict[int, int] = {}
        for event in events:
            if event.kind == "add.acked":
                acks[event.entry] = acks.get(event.entry, 0) + 1
            if event.kind == "lac.advanced" and acks.get(event.entry, 0) < count:
                return False
        return True

    return keeps


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
    ("invariant", "reason"),
    repeated_cases(
        [
            (lambda events: True, "must detect the bug"),
            (lambda events: False, "must hold in every run"),
            (at_least(1), "must detect the bug"),
            (at_least(3), "must hold in every run"),
            (durable_on_two, "must detect the bug"),
            (len, "must return bool"),
        ],
        once=3,
    ),
    ids=["true", "false", "one", "three", "durable", "no bool"],
)
def test_an_invariant_that_does_not_tell_the_two_apart_is_refused(
    invariant: Callable[[list[Event]], bool], reason: str
) -> None:
    card = check(INVARIANT, invariant)
    assert not card.passed
    assert reason in card.message


def test_a_refused_invariant_learns_which_event_made_it_false() -> None:
    card = check(INVARIANT, at_least(3))
    assert re.search(
        r"returns True for the events before event \d+ and False with it:"
        r" entry \d of ledger 0 is confirmed",
        str(card.counterexample),
    )
    assert len(str(card).splitlines()) == 2, "the events of the whole run are not listed"
    card = check(INVARIANT, lambda events: False)
    assert "returns False even for an empty list of events" in str(card.counterexample)
