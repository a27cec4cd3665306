"""The epilogue of a simulated run is hidden on a page until the reader asks for it."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from labkit.course.runs.timeline import timeline
from labkit.views.widgets import ClusterView, EnsembleHistory, RecoveryProgress, SpaceTime
from labkit.views.widgets.playing import PlayingView
from labkit.worlds.sim.run import run
from tests.browser.kernel import Opened
from tests.views.widgets.films import UNFENCED, crashed

pytestmark = pytest.mark.browser

CHECK = "Check: cut the power everywhere, read everything back."
VIEWS: tuple[Callable[[], PlayingView], ...] = (
    lambda: ClusterView(crashed()),
    lambda: EnsembleHistory(crashed()),
    lambda: RecoveryProgress(crashed()),
    lambda: SpaceTime(crashed()),
    lambda: timeline(crashed()),
)


@pytest.mark.parametrize("make", VIEWS)
def test_a_film_ends_where_the_final_check_starts(
    opened: Opened, make: Callable[[], PlayingView]
) -> None:
    view = make()
    page = opened(view, reduced_motion="reduce")
    slider = page.get_by_role("slider")
    slider.press("End")
    page.keyboard.press(".")
    assert float(slider.get_attribute("max") or 0) == view.run.check_at
    assert float(slider.input_value()) == view.run.check_at
    killed = page.locator(".lk-signs [title*='b0 was killed']")
    expect(killed).to_have_count(0)
    check = page.get_by_role("button", name=f"Check ✔. {CHECK} ✔ no promise was broken")
    check.click()
    expect(page.locator(".lk-sentence")).to_have_text("✔ no promise was broken")
    expect(killed).to_have_count(1)
    expect(page.locator(".lk-band")).to_be_visible()
    page.get_by_role("button", name="Hide the check").click()
    expect(killed).to_have_count(0)
    expect(page.locator(".lk-band")).to_be_hidden()
    assert float(slider.input_value()) == view.run.check_at


def test_the_final_check_says_which_promise_was_broken(opened: Opened) -> None:
    page = opened(ClusterView(run(UNFENCED)), reduced_motion="reduce")
    check = page.get_by_role("button", name=f"{CHECK} ✘")
    check.click()
    expect(page.locator(".lk-sentence")).to_have_text(
        (check.get_attribute("title") or "").removeprefix(f"{CHECK} ")
    )


def test_a_view_that_opens_in_the_final_check_shows_it(opened: Opened) -> None:
    last = crashed().events[-1].seq
    page = opened(timeline(crashed(), at=last), reduced_motion="reduce")
    expect(page.get_by_role("button", name="Hide the check")).to_be_visible()
    expect(page.locator(".lk-sentence")).to_contain_text("epilogue received entry 11")


def test_playing_stops_before_the_final_check(opened: Opened) -> None:
    view = ClusterView(crashed())
    page = opened(view)
    page.get_by_label("Speed").select_option("16")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("slider").press("PageUp")
    page.get_by_role("button", name="Play", exact=True).click()
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible(timeout=20_000)
    assert float(page.get_by_role("slider").input_value()) == view.run.check_at
