"""A forked run on a page continues from the moment of the fork."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from labkit.views.widgets import (
    ClusterView,
    EnsembleHistory,
    SpaceTime,
)
from labkit.views.widgets.playing import PlayingView
from tests.browser.kernel import Kernel, Opened
from tests.views.widgets.films import crashed

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_a_fork_goes_on_at_its_fault_and_plays_only_where_motion_is_wanted(
    motion: str, opened: Opened
) -> None:
    view = ClusterView(crashed())
    page = opened(view, reduced_motion=motion)
    slider, sentence = page.get_by_role("slider"), page.locator(".lk-sentence")
    slider.press("Home")
    for _ in range(3):
        page.keyboard.press("PageDown")
    page.get_by_role("button", name="Kill b2").click()
    Kernel(page, view).answer()
    at = float(slider.input_value())
    assert view.film["moment"] <= at < view.film["moment"] + 1500
    expect(sentence).to_contain_text("b2 was killed")
    if motion == "reduce":
        page.wait_for_timeout(200)
        assert float(slider.input_value()) == at
    else:
        page.wait_for_function(
            "at => document.querySelector('input[type=range]').value > at", arg=at
        )


@pytest.mark.parametrize("what", [ClusterView, EnsembleHistory, SpaceTime])
def test_a_fork_keeps_the_old_future_below_the_slider_until_the_fault_is_undone(
    what: Callable[..., PlayingView], opened: Opened
) -> None:
    view = what(crashed())
    page = opened(view, reduced_motion="reduce")
    kernel, ghost = Kernel(page, view), page.locator(".lk-ghost")
    expect(ghost).to_be_hidden()
    before = view.run.name
    page.get_by_role("slider").press("Home")
    for _ in range(3):
        page.keyboard.press("PageDown")
    page.get_by_role("button", name="Kill b0").click()
    kernel.answer()
    expect(ghost.get_by_title("Without the fault: b1 was killed")).to_be_visible()
    page.get_by_role("button", name="Undo the kill of b0").click()
    kernel.answer()
    assert view.run.name == before
    expect(ghost).to_be_hidden()
