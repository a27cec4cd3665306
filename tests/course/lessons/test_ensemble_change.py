"""Tests the exercises of lesson 07: correct answers pass, wrong ones are rejected with a reason."""

import pytest

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
from tests.course.lessons.refused import Wrong, refused

FIRST, RESEND, REPLACEMENT = (
    "ensemble_change.first_entry",
    "ensemble_change.resend",
    "ensemble_change.replacement",
)


@pytest.mark.parametrize(
    "scenario", [both_bookies_fail(), a_later_add_fails(), a_bookie_fails_in_the_middle()]
)
def test_each_scenario_makes_the_real_writer_change_its_ensemble(scenario: Scenario) -> None:
    trace = run(scenario)
    assert any(event.kind == "ensemble.changing" for event in trace.events)
    assert lost_entries(trace) == []


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("wrong", "reason", "shown"),
    [
        ("failed entry", "every unconfirmed entry", "WriteSetIsRight"),
        ("next entry", "every unconfirmed entry", "none of b0, b1"),
        ("last pushed", "every unconfirmed entry", "none of b0, b1"),
        (
            "last confirmed",
            "must start after LastAddConfirmed",
            "first_entry(-1, 0, 2).\n  It said -1",
        ),
        ("always 0", "must start after LastAddConfirmed", "stored on 1 of b0, b3"),
    ],
)
def test_a_wrong_first_entry_is_refused(wrong: Wrong, reason: str, shown: str) -> None:
    refused(FIRST, wrong, reason, shown)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("not if acked", "counts only"),
        ("all without ack", "counts only"),
        ("all new places", "only on its write set"),
        ("nothing", "must be sent to the new bookie"),
        ("everybody", "do not resend"),
    ],
)
def test_a_wrong_resend_is_refused(wrong: Wrong, reason: str) -> None:
    refused(RESEND, wrong, reason)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("others move", "must keep its index"),
        ("one for all", "lost together"),
        ("nothing changes", "must replace the failed one"),
        ("shorter", "must have 3 bookies, like the old one"),
        ("made up", "must accept writes"),
    ],
)
def test_a_wrong_new_ensemble_is_refused(wrong: Wrong, reason: str) -> None:
    refused(REPLACEMENT, wrong, reason)


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
