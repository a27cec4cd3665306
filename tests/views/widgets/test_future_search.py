"""Tests the search, in every view of a run, for the moment at which a broken promise became
inevitable.
"""

from collections.abc import Callable
from unittest.mock import ANY

import pytest

from labkit.course.runs.cluster_trial import LEARNERS_VARIANT, run_with
from labkit.course.runs.game.game import Game
from labkit.course.runs.open_run import FixedRun
from labkit.course.runs.timeline import timeline
from labkit.system.check import broken, check_all
from labkit.views.widgets.bookie_inside import BookieInside
from labkit.views.widgets.cluster import ClusterView
from labkit.views.widgets.future_search import QUESTION, FutureSearch
from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.recovery_progress import RecoveryProgress
from labkit.views.widgets.space_time import SpaceTime
from labkit.worlds.sim.explore.counterexamples import counterexample
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.variants.variants import VARIANTS
from labkit.worlds.sim.workload.steps import Write

TOO_EARLY = Scenario(Cluster(3), (Write(entries=2),), variant="ack after one bookie")


@pytest.fixture(scope="module")
def quiet() -> Trace:
    return run(Scenario(workload=(Write(entries=3),)))


def label_of(view: PlayingView, name: str) -> str:
    """Return the label of a control, or "" if there is none or if it cannot be used."""
    usable = (each for each in view.controls if not each.get("disabled"))
    return next((each["label"] for each in usable if each["name"] == name), "")


def try_moment(view: PlayingView) -> None:
    """Ask for another moment, as the page does while the search is running."""
    view.handle({"do": "try", "on": str(len(view.film["curve"]["points"])), "seq": -1})


def test_a_curve_shows_when_a_failure_became_inevitable() -> None:
    view = timeline(counterexample("cookie not checked"))
    assert label_of(view, "futures") == QUESTION
    view.choose("futures", True, -1)
    assert label_of(view, "futures") == "Stop trying futures"
    while view.film["curve"]["searches"]:
        assert view.film["curve"]["remaining"] > 0
        try_moment(view)
    assert label_of(view, "futures") == QUESTION
    assert [share for _, share in view.film["curve"]["points"]] == [0, 0, 0, 0, 1, 1]
    (flag,) = (sign for sign in view.film["signs"] if sign[1] == "✘")
    assert view.notice == f"{flag[2]}."
    assert "just before, 0 did. In between: ReplacedDisks(node='b1'" in view.notice


def test_stop_ends_the_trial_of_futures_and_keeps_the_curve() -> None:
    view = timeline(counterexample("cookie not checked"))
    view.choose("futures", True, -1)
    try_moment(view)
    known = view.film["curve"]["points"]
    view.choose("futures", True, -1)
    assert view.film["curve"] == {"points": known, "searches": False, "remaining": ANY}
    try_moment(view)
    assert view.film["curve"]["points"] == known
    assert not view.notice


def test_pages_that_ask_for_the_same_moment_get_it_once() -> None:
    view = timeline(counterexample("cookie not checked"))
    view.choose("futures", True, -1)
    for _ in range(2):
        view.handle({"do": "try", "on": "0", "seq": -1})
    assert len(view.film["curve"]["points"]) == 2


@pytest.mark.parametrize(
    "view_of", [ClusterView, SpaceTime, RecoveryProgress, BookieInside, timeline]
)
def test_only_views_of_a_run_that_breaks_a_promise_offer_the_curve(
    view_of: Callable[[Trace], PlayingView], quiet: Trace
) -> None:
    view = view_of(run(counterexample("cookie not checked")))
    assert label_of(view, "futures") == QUESTION
    view.handle({"set": "futures", "value": True})
    try_moment(view)
    assert len(view.film["curve"]["points"]) == 2
    assert not label_of(view_of(quiet), "futures")


def test_a_play_offers_the_curve_once_a_promise_is_broken() -> None:
    game = Game(3)
    assert not label_of(game, "futures")
    game.handle({"set": "solution", "value": True})
    game.handle({"set": "futures", "value": True})
    try_moment(game)
    while game.film["curve"]["searches"]:
        try_moment(game)
    assert game.notice.startswith(
        "Move 2 (b0 loses power): after it, 16 of 16 futures break this promise; before it, 0 did."
    )
    (flag,) = (sign for sign in game.film["signs"] if sign[1] == "✘")
    assert f"{flag[2]}." == game.notice
    game.handle({"set": "undo", "value": True})
    assert "curve" not in game.film


def test_futures_run_with_the_learners_parts() -> None:
    trace = run_with(TOO_EARLY, client=VARIANTS["ack after one bookie"].client)
    (verdict, *_) = broken(check_all(trace))
    assert LEARNERS_VARIANT not in VARIANTS
    search = FutureSearch(trace, verdict.name)
    search.finish()
    assert search.curve is not None
    assert search.curve.points[-1][1] == 1


def test_a_run_that_cannot_be_repeated_offers_no_curve() -> None:
    trace = run(counterexample("cookie not checked"))
    assert not label_of(ClusterView(FixedRun(trace)), "futures")
    assert not label_of(timeline(trace, again=None), "futures")
