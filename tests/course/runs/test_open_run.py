"""Tests that a link opens the same run in the same view, selection and moment."""

import inspect
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from labkit.course.checking.card import Card, CardState
from labkit.course.checking.refused import Refused
from labkit.course.runs import open_run as opening
from labkit.course.runs.broken_runs import RepairCounterexample, SpaceTimeCounterexample
from labkit.course.runs.game.game import Game
from labkit.course.runs.game.levels import LEVELS
from labkit.course.runs.open_run import VIEWS, open_run, page_of
from labkit.course.runs.play import Play, two_plays
from labkit.course.runs.timeline import RunCounterexample, timeline
from labkit.course.runs.trial import CrashCounterexample, must_survive
from labkit.system.check import Outcome, Verdict
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.views.widgets import (
    BookieInside,
    ClusterView,
    CrashMapView,
    EnsembleHistory,
    SpaceTime,
)
from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.recovery_progress import RecoveryProgress
from labkit.views.widgets.timeline import TimelineView
from labkit.worlds.sim.explore.counterexamples import counterexample
from labkit.worlds.sim.machine.loop import BudgetError
from labkit.worlds.sim.play.played import play
from labkit.worlds.sim.run import run
from labkit.worlds.sim.run_link import CrashMapLink, RunLink, parse_link
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.variants.storage_variants import DEFECTS
from labkit.worlds.sim.variants.variants import VARIANTS, Variant
from labkit.worlds.sim.workload.steps import Write
from tests.views.widgets.crashes import broken
from tests.worlds.sim.scripts import ADD_INSIDE_FLUSH

TRACE = run(Scenario(Cluster(), (Write(entries=3), Write(1, entries=3, client="v")), seed=3))
MAKERS: dict[str, Any] = {
    "ClusterView": lambda: ClusterView(TRACE, ledger=0),
    "EnsembleHistory": lambda: EnsembleHistory(TRACE, ledger=1),
    "BookieInside": lambda: BookieInside(TRACE, "b2"),
    "RecoveryProgress": lambda: RecoveryProgress(TRACE),
    "SpaceTime": lambda: SpaceTime(TRACE, ledger=1, entries=(1, 2), window_ms=(2, 20), follow=2),
    "TimelineView": lambda: timeline(TRACE),
    "Play": lambda: to_the_end(Play(replace(TRACE.scenario, seed=None))),
    "Game": lambda: to_the_end(Game(4)),
    "TwoPlays": lambda: two_plays(*(play(Game(4).level.faulty, moves) for moves in TWO)),
}
TWO: tuple[tuple[str, ...], ...] = ((), ("crash b0 0",))


def to_the_end(view: Play) -> Play:
    """Play to the end, by delivering the oldest message each time."""
    view.choose("rest", True, -1)
    return view


def learners(scenario: Scenario) -> Scenario:
    """Return the scenario as it runs with a learner's code."""
    with patch.dict(VARIANTS, {"yours": Variant("yours", "with the learner's code")}):
        return replace(scenario, variant="yours")


def shown_at(view: PlayingView, position: float) -> object:
    beats = [beat for beat in view.reel.beats if beat.at <= position]
    return beats[-1].scene


def at_moment(link: str, seq: int) -> str:
    """Return the link for another moment, as pages do."""
    return f"{link.rpartition('.')[0]}.{seq}"


def test_every_view_that_has_links_can_be_opened() -> None:
    assert set(MAKERS) == set(VIEWS)


@pytest.mark.parametrize("name", MAKERS)
def test_a_link_opens_the_same_picture_with_the_same_selection(name: str) -> None:
    view = MAKERS[name]()
    opened = open_run(at_moment(view.film["link"], 70))
    assert opened.linked_as == view.linked_as == name
    assert opened.notice == ""
    assert opened.selection() == view.selection()
    assert opened.film["run"] == view.film["run"]
    assert opened.film["stays"]
    shown = shown_at(opened, opened.film["opening"])
    assert shown == shown_at(view, view.run.at(70))
    assert opened.film["link"] == view.film["link"]


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("seq", [-1, 10**6])
def test_a_moment_outside_of_the_run_opens_at_its_first_or_last_event(name: str, seq: int) -> None:
    opened = open_run(at_moment(MAKERS[name]().film["link"], seq))
    end = opened.run.clock.end if seq > 0 else opened.run.at(0)
    assert 0 <= opened.film["opening"] <= end


def test_the_filters_of_a_timeline_and_its_fork_are_part_of_the_link() -> None:
    view = timeline(TRACE, other=TRACE.fork(60, "kill", "b1"))
    for name, value in (("of node", "b1"), ("of kind", "journal."), ("ledger", "0")):
        view.choose(name, value, -1)
    opened = open_run(at_moment(view.film["link"], 80))
    assert isinstance(opened, TimelineView)
    assert [len(each.events) for each in opened.shown] == [len(each.events) for each in view.shown]
    assert opened.selection() == view.selection()
    assert shown_at(opened, opened.film["opening"]) == shown_at(view, view.run.at(80))


def test_a_counterexample_is_opened_with_its_broken_promise_marked() -> None:
    trace = run(counterexample("ack after one bookie"))
    view = open_run(trace.link("SpaceTime", {"promise": "AckQuorumIsReached"}))
    assert "broken: AckQuorumIsReached" in repr(view)


@pytest.mark.parametrize(
    "selection",
    [
        {"ledger": 999, "bookie": "b9", "first_entry": -5, "last_entry": 10**9, "follow": 10**9},
        {"begin_ms": 1e9, "end_ms": -1.0, "event_node": "<b>", "event_kind": "x", "promise": "x"},
    ],
)
@pytest.mark.parametrize("view", ["ClusterView", "BookieInside", "SpaceTime", "TimelineView"])
def test_a_selection_that_the_run_does_not_have_is_ignored(view: str, selection: Any) -> None:
    opened, usual = (open_run(TRACE.link(view, chosen)) for chosen in (selection, None))
    assert opened.selection() == usual.selection()


def test_an_unknown_view_is_answered_with_the_known_ones() -> None:
    with pytest.raises(BKIncorrectParameterException, match="valid views: ClusterView, "):
        open_run(TRACE.link("Popen"))


def test_a_run_that_labkit_now_runs_differently_says_so() -> None:
    with patch.object(type(TRACE), "digest", "0" * 32):
        link = TRACE.link("ClusterView", at=5)
    opened = open_run(link)
    assert "runs the scenario differently" in opened.notice
    assert opened.run.events


def test_a_run_with_a_learners_code_says_that_it_is_missing() -> None:
    link = replace(RunLink.parse(TRACE.link("ClusterView")), code="")
    assert "used a learner's code, which is missing" in open_run(str(link)).notice


def test_a_run_that_would_take_too_long_is_given_up() -> None:
    with patch.object(opening, "STEP_BUDGET", 50), pytest.raises(BudgetError):
        open_run(TRACE.link())


def test_a_page_has_no_buttons_that_nothing_answers() -> None:
    page = page_of(RunLink.parse(TRACE.link("ClusterView")))
    assert '"controls":[]' in page
    assert "Kill" not in page


@pytest.mark.parametrize("is_faulty", [True, False])
@pytest.mark.parametrize("number", [4, 7])
def test_a_link_to_a_game_opens_its_level_after_the_same_moves(
    number: int, is_faulty: bool
) -> None:
    game = Game(number)
    game.choose("protocol", "faulty" if is_faulty else "correct", -1)
    for move in LEVELS[number - 1].solution[:3]:
        game.pressed("deliver", move, -1)
    opened = open_run(game.film["link"])
    assert isinstance(opened, Game)
    assert (opened.number, opened.is_faulty) == (number, is_faulty)
    assert opened.played == game.played
    assert opened.remarks() == game.remarks()


def test_a_link_to_a_game_of_no_level_is_rejected() -> None:
    trace = to_the_end(Play(TRACE.explicit())).played.trace
    with pytest.raises(BKIncorrectParameterException, match="no level of the game"):
        open_run(trace.link("Game"))


def test_a_page_without_python_shows_what_was_played() -> None:
    text = page_of(RunLink.parse(Game().film["link"]))
    assert "Which bookies have which entries" in text
    assert "Deliver" not in text


def test_a_link_to_a_crash_map_opens_the_same_cell() -> None:
    view = CrashMapView(broken())
    view.received(None, {"do": "shown", "seq": 7}, [])
    opened = open_run(at_moment(view.film["link"], 7))
    assert isinstance(opened, CrashMapView)
    assert (opened.at, opened.notice) == ((1, 1), "")
    assert opened.scene() == view.scene()
    assert opened.link() == view.link()


@pytest.mark.parametrize("number", [-1, 10**6])
def test_a_cell_outside_of_the_crash_map_opens_its_first_or_last_cell(number: int) -> None:
    opened = open_run(at_moment(broken().link(), number))
    assert isinstance(opened, CrashMapView)
    assert opened.at in ((0, 0), (len(opened.crashes.points) - 1, 5))


def test_a_crash_map_that_labkit_now_runs_differently_says_so() -> None:
    link = replace(CrashMapLink.parse(broken().link()), digest="0" * 32)
    assert "runs the script differently" in open_run(str(link)).notice


def test_a_page_with_a_crash_map_needs_no_python() -> None:
    page = page_of(parse_link(broken().link()))
    assert "A crash map of labkit" in page
    assert "acknowledged but lost: entry 1 of ledger 5" in page


def test_a_refused_answers_crash_map_has_a_link_that_says_what_it_shows() -> None:
    with pytest.raises(Refused) as refused:
        must_survive(
            "the rule",
            ADD_INSIDE_FLUSH,
            DEFECTS["mark taken after the flush"].store_factory,
        )
    found = refused.value.counterexample
    assert isinstance(found, CrashCounterexample)
    card = Card("x", CardState.REFUSED, "", found)
    opened = open_run(card.link())
    assert "used a learner's code, which is missing" in opened.notice
    assert "the same script with labkit's own code" in opened.notice
    assert isinstance(opened, CrashMapView)
    assert opened.at == (found.smallest.row, found.smallest.column)
    assert opened.crashes.unsafe == []
    assert CrashMapLink.parse(card.link(mine)).code == inspect.getsource(mine)
    assert CrashMapLink.parse(found.view().film["link"]).code == ""


VERDICT = Verdict("What happened", "", Outcome.INVALID, 1, "entry 1 is lost", 60)


def mine(entry: int) -> int:
    return entry


@pytest.mark.parametrize(
    ("counterexample", "view"),
    [
        (RunCounterexample(TRACE, VERDICT), "TimelineView"),
        (SpaceTimeCounterexample(TRACE, VERDICT), "SpaceTime"),
        (RepairCounterexample(TRACE, VERDICT), "RecoveryProgress"),
    ],
)
def test_a_refused_answer_links_to_its_run_and_only_on_request_with_the_learners_code(
    counterexample: Any, view: str
) -> None:
    trace = replace(TRACE, scenario=learners(TRACE.scenario))
    card = Card("x", CardState.REFUSED, "", replace(counterexample, trace=trace))
    link, with_code = RunLink.parse(card.link()), RunLink.parse(card.link(mine))
    assert (link.view, link.at, link.code) == (view, 60, "")
    assert with_code.code == "def mine(entry: int) -> int:\n    return entry\n"
    assert RunLink.parse(counterexample.view().film["link"]).view == view
    assert "Kill" not in str(counterexample.view().film) or view == "TimelineView"


def test_a_refused_answer_that_no_run_refutes_has_no_link() -> None:
    assert Card("x", CardState.REFUSED, "", "f(3) returned 4").link() == ""
