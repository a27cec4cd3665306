"""Tests the position of the signs above the slider, and how a user can reach them."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from playwright.sync_api import expect

from labkit.course.runs.timeline import timeline
from labkit.views.widgets import ClusterView
from labkit.views.widgets.scene_view import SceneView
from tests.browser.kernel import Opened
from tests.browser.lab import ARTIFACTS
from tests.views.widgets.films import CRASHED, crashed

pytestmark = pytest.mark.browser
VIEWS: dict[str, Callable[[], SceneView]] = {
    "cluster": lambda: ClusterView(crashed()),
    "timeline of two": lambda: timeline(CRASHED, other=replace(CRASHED, faults=())),
}
SIGN_PX, APART_PX = 24, 28
_SIGNS = """() => [...document.querySelectorAll(".lk-signs button")].map((each) =>
    [each.title, parseFloat(each.style.left)])"""


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("width", [700, 1300])
def test_every_sign_stands_where_it_belongs(name: str, width: int, opened: Opened) -> None:
    view = VIEWS[name]()
    page = opened(view, width=width, reduced_motion="reduce")
    page.locator(".lk-signs button").first.wait_for()
    room = page.evaluate("document.querySelector('.lk-signs').clientWidth")
    shown = page.evaluate(_SIGNS)
    end = view.film["check"]  # The final check is hidden until the reader asks for it.
    for at, _, words, _ in view.film["signs"]:
        if at > end:
            continue
        wanted = at / end * (room - 16) + 8 - SIGN_PX / 2
        assert min(abs(wanted - x) for title, x in shown if words in title) < APART_PX
    places = [x for _, x in shown]
    assert all(b - a > SIGN_PX - 1 for a, b in pairwise(places))
    page.locator(".lk-bar").screenshot(path=ARTIFACTS / f"signs-{name}-{width}.png")


def test_the_legend_explains_every_sign(opened: Opened) -> None:
    page = opened(ClusterView(crashed()), reduced_motion="reduce")
    page.get_by_text("What the symbols mean").click()
    meanings = page.get_by_role("list", name="Signs above the slider")
    expect(meanings).to_contain_text("◆ b1 was killed")
    explained = {each[0] for each in meanings.get_by_role("listitem").all_inner_texts()}
    assert {*page.locator(".lk-signs button").all_inner_texts()} <= explained
    expect(meanings).not_to_contain_text("⚑")
    page.locator(".lk-check").click()
    expect(meanings).to_contain_text("⚑ all faults are repaired")


def test_signs_are_one_stop_of_the_tab_key_and_arrow_keys_go_from_one_to_the_next(
    opened: Opened,
) -> None:
    page = opened(ClusterView(crashed()), reduced_motion="reduce")
    signs, slider = page.locator(".lk-signs button"), page.get_by_role("slider")
    page.get_by_role("button", name="Next event").focus()
    page.keyboard.press("Tab")
    expect(signs.first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(signs.nth(1)).to_be_focused()
    before = slider.input_value()
    page.keyboard.press("Enter")
    assert slider.input_value() != before
    expect(signs.nth(1)).to_be_focused()
    page.keyboard.press("Tab")
    expect(slider).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(signs.nth(1)).to_be_focused()
    page.keyboard.press("End")
    expect(signs.last).to_be_focused()


def test_a_sign_that_stands_for_several_moments_leads_to_each_of_them(opened: Opened) -> None:
    view = ClusterView(crashed())
    page = opened(view, width=500, reduced_motion="reduce")
    page.locator(".lk-check").click()
    last = page.locator(".lk-signs button").last
    words = last.get_attribute("title") or ""
    moments = {at for at, _, each, _ in view.film["signs"] if each in words}
    assert len(moments) > 1
    seen = set()
    for _ in moments:
        last.click()
        seen.add(float(page.get_by_role("slider").input_value()))
    assert seen <= moments
    assert len(seen) > 1


def test_a_click_on_a_sign_leaves_no_listener_behind(opened: Opened) -> None:
    page = opened(ClusterView(crashed()), reduced_motion="reduce")
    devtools = page.context.new_cdp_session(page)

    def listeners() -> list[str]:
        window = devtools.send("Runtime.evaluate", {"expression": "window"})["result"]
        found = devtools.send("DOMDebugger.getEventListeners", {"objectId": window["objectId"]})
        return [each["type"] for each in found["listeners"] if each["type"].startswith("pointer")]

    before = listeners()
    for _ in range(3):
        page.locator(".lk-signs button").first.click()
    assert listeners() == before
