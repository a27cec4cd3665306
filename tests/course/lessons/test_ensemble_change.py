"""Tests the exercises of lesson 07: correct answers pass, wrong ones are rejected with a reason."""

from collections.abc import Callable

import pytest

from labkit.course.exercises.ensemble_change import (
    first_entry,
    must_send,
    new_ensemble,
)
from labkit.course.lessons import check
from labkit.course.runs.broken_runs import SpaceTimeCounterexample, lost_entries
from labkit.course.runs.ensemble_runs import (
    a_bookie_fails_in_the_middle,
    a_later_add_fails,
    both_bookies_fail,
)
from labkit.views.widgets.space_time import SpaceTime
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario

FIRST, RESEND, REPLACEMENT = (
    "ensemble_change.first_entry",
    "ensemble_change.resend",
    "ensemble_change.replacement",
)


def test_right_answers_pass() -> None:
    assert check(FIRST, first_entry).passed
    assert check(RESEND, must_send).passed
    assert check(REPLACEMENT, new_ensemble).passed


@pytest.mark.parametrize(
    "scenario", [both_bookies_fail(), a_later_add_fails(), a_bookie_fails_in_the_middle()]
)
def test_each_scenario_makes_the_real_writer_change_its_ensemble(scenario: Scenario) -> None:
    trace = run(scenario)
    assert any(event.kind == "ensemble.changing" for event in trace.events)
    assert lost_entries(trace) == []


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("answer", "reason", "shown"),
    [
        (lambda lac, failed, lap: failed, "every unconfirmed entry", "WriteSetIsRight"),
        (lambda lac, failed, lap: lap + 1, "every unconfirmed entry", "none of b0, b1"),
        (lambda lac, failed, lap: lap, "every unconfirmed entry", "none of b0, b1"),
        (
            lambda lac, failed, lap: lac,
            "must start after LastAddConfirmed",
            "first_entry(-1, 0, 2).\n  It said -1",
        ),
        (lambda lac, failed, lap: 0, "must start after LastAddConfirmed", "stored on 1 of b0, b3"),
    ],
    ids=["failed entry", "next entry", "last pushed", "last confirmed", "always 0"],
)
def test_a_wrong_first_entry_is_refused(
    answer: Callable[[int, int, int], int], reason: str, shown: str
) -> None:
    card = check(FIRST, answer)
    assert not card.passed
    assert reason in card.message
    assert shown in str(card.counterexample)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda p, new, places, acked: p in new and p in places and p not in acked, "counts only"),
        (lambda p, new, places, acked: p in places and p not in acked, "counts only"),
        (lambda p, new, places, acked: p in new, "only on its write set"),
        (lambda p, new, places, acked: False, "must be sent to the new bookie"),
        (lambda p, new, places, acked: p in places, "do not resend"),
    ],
    ids=["not if acked", "all without ack", "all new places", "nothing", "everybody"],
)
def test_a_wrong_resend_is_refused(answer: Callable[..., bool], reason: str) -> None:
    card = check(RESEND, answer)
    assert not card.passed
    assert reason in card.message


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            lambda old, failed, free: tuple(
                [name for at, name in enumerate(old) if at not in failed]
                + [name for name in free if name not in old][: len(failed)]
            ),
            "must keep its index",
        ),
        (
            lambda old, failed, free: tuple(
                free[0] if at in failed else name for at, name in enumerate(old)
            ),
            "lost together",
        ),
        (lambda old, failed, free: old, "must replace the failed one"),
        (
            lambda old, failed, free: tuple(n for at, n in enumerate(old) if at not in failed),
            "must have 3 bookies, like the old one",
        ),
        (
            lambda old, failed, free: tuple(
                f"b{9 + at}" if at in failed else name for at, name in enumerate(old)
            ),
            "must accept writes",
        ),
    ],
    ids=["others move", "somebody twice", "nothing changes", "shorter", "made up"],
)
def test_a_wrong_new_ensemble_is_refused(
    answer: Callable[..., tuple[str, ...]], reason: str
) -> None:
    card = check(REPLACEMENT, answer)
    assert not card.passed
    assert reason in card.message


def test_a_run_that_broke_a_promise_is_shown_in_lanes_with_the_place_marked() -> None:
    card = check(FIRST, lambda lac, failed, lap: lap + 1)
    assert isinstance(card.counterexample, SpaceTimeCounterexample)
    view = card.counterexample.view()
    assert isinstance(view, SpaceTime)
    assert repr(view).endswith("broken: AcknowledgedIsDurable")
    assert "from 3: b2 b3" in view.svg()
    assert view.acts().offered == ()  # The variant "yours" exists only during the check.


def test_what_the_learners_code_raises_in_the_world_is_said() -> None:
    card = check(FIRST, lambda lac, failed, lap: 1 // 0)
    assert "ZeroDivisionError" in card.message
