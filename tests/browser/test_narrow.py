"""In a narrow or low window, keys scroll marks into view, and clicks do not scroll the page."""

from collections.abc import Callable

import pytest

from labkit.views.widgets import ClusterView, CrashMapView
from labkit.views.widgets.scene_view import SceneView
from tests.browser.kernel import Opened
from tests.browser.lab import ARTIFACTS
from tests.views.widgets.crashes import broken
from tests.views.widgets.films import crashed

pytestmark = pytest.mark.browser

_IN_SIGHT = """() => {
  const mark = document.activeElement.getBoundingClientRect();
  const frame = document.querySelector(".lk-picture").getBoundingClientRect();
  const x = (mark.left + mark.right) / 2, y = (mark.top + mark.bottom) / 2;
  return frame.left < x && x < frame.right && 0 < y && y < innerHeight;
}"""


_HIDDEN_PX = "each => each.scrollWidth - each.clientWidth"


@pytest.mark.parametrize("width", [320, 500])
def test_in_a_narrow_window_a_mark_that_a_key_leads_to_is_in_sight(
    width: int, opened: Opened
) -> None:
    page = opened(ClusterView(crashed()), width=width, reduced_motion="reduce")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(".lk-picture svg").first.focus()
    for key in ["ArrowDown"] + ["ArrowRight"] * 6 + ["ArrowDown"] * 4 + ["ArrowLeft"] * 6:
        page.keyboard.press(key)
        assert page.evaluate(_IN_SIGHT), key
    page.screenshot(path=ARTIFACTS / f"narrow-{width}.png")


@pytest.mark.parametrize("width", [680, 736, 900])
def test_a_picture_that_almost_fits_shrinks_instead_of_scrolling(
    width: int, opened: Opened
) -> None:
    page = opened(ClusterView(crashed()), width=width, reduced_motion="reduce")
    assert page.locator(".lk-picture").evaluate(_HIDDEN_PX) == 0


@pytest.mark.parametrize("width", [320, 680, 900])
@pytest.mark.parametrize("view", [lambda: ClusterView(crashed()), lambda: CrashMapView(broken())])
def test_the_legend_never_scrolls_sideways(
    width: int, view: Callable[[], SceneView], opened: Opened
) -> None:
    page = opened(view(), width=width, reduced_motion="reduce")
    page.get_by_text("What the symbols mean").click()
    assert page.locator(".lk-legend").first.evaluate(_HIDDEN_PX) == 0


def test_a_click_in_a_picture_does_not_move_the_page(opened: Opened) -> None:
    page = opened(ClusterView(crashed()), width=500, reduced_motion="reduce")
    page.set_viewport_size({"width": 500, "height": 300})
    before = page.evaluate("[scrollX, scrollY, document.querySelector('.lk-picture').scrollLeft]")
    page.mouse.click(480, 250)
    page.mouse.click(250, 290)
    after = page.evaluate("[scrollX, scrollY, document.querySelector('.lk-picture').scrollLeft]")
    assert after == before
