"""A legend explains the symbols that the run has shown, and no others."""

from collections.abc import Callable

import pytest

from labkit.course.runs.timeline import timeline
from labkit.views.widgets import BookieInside, ClusterView, SpaceTime
from labkit.views.widgets.playing import PlayingView
from labkit.worlds.sim.run import run
from tests.views.widgets.films import TAKEN_OVER, crashed, marks_of, words_in

FENCE, DOWN = "fenced: rejects the writer", "bookie is down"
EXPLAINED: dict[str, tuple[Callable[[], PlayingView], set[str], set[str]]] = {
    "cluster": (
        lambda: ClusterView(crashed()),
        {DOWN, "from here on, other bookies"},
        {FENCE, "bookie is paused"},
    ),
    "cluster of a take-over": (
        lambda: ClusterView(run(TAKEN_OVER)),
        {FENCE},
        {"from here on, other bookies"},
    ),
    "timeline of a take-over": (lambda: timeline(TAKEN_OVER), {FENCE}, {"damaged on disk"}),
    "space-time": (lambda: SpaceTime(crashed()), {"down"}, {"fencing request", "paused"}),
    "space-time of a take-over": (
        lambda: SpaceTime(run(TAKEN_OVER)),
        {"fencing request", "refused", "paused"},
        {"down", "cut off"},
    ),
    "bookie inside": (lambda: BookieInside(crashed()), {"only in memory", "synced"}, {"replayed"}),
}
"""For each view, what its legend must explain, and what it must not mention."""


def legend_of(view: PlayingView) -> set[str]:
    legend = view.legend()
    return {mark.text for mark in marks_of(legend) if mark.key == "words"} if legend else set()


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_legend_explains_what_the_run_has_shown_and_nothing_else(name: str) -> None:
    make, shown, not_shown = EXPLAINED[name]
    found = legend_of(make())
    assert shown <= found
    assert not found & not_shown


def test_the_legend_of_a_still_picture_explains_only_that_picture() -> None:
    view = ClusterView(crashed())
    assert "add request in flight" in legend_of(view)
    words = words_in(view.svg()).splitlines()
    assert DOWN in words
    assert "add request in flight" not in words


def test_symbols_that_only_the_final_check_shows_are_in_the_legend_of_the_check() -> None:
    view = BookieInside(crashed())
    assert "replayed" not in legend_of(view)
    whole = view.current_picture.legend()
    assert whole
    assert "replayed" in {mark.text for mark in marks_of(whole)}
    assert view.film["legend"] != view.film["checkLegend"]
