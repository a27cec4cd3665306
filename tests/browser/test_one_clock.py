"""Several views of one run on a page share the clock and the highlighted item."""

import pytest
from playwright.sync_api import expect

from labkit.course.runs.bookie.one_bookie import OneBookie
from labkit.views.widgets import BookieInside, ClusterView, SpaceTime, XRay
from tests.browser.kernel import DISPLAY_AGAIN, Opened
from tests.views.widgets.films import crashed

pytestmark = pytest.mark.browser


def test_views_of_one_run_share_time_and_what_is_pointed_at(opened: Opened) -> None:
    page = opened(ClusterView(crashed()), ClusterView(crashed()), width=1400)
    first, second = page.locator(".lk-scene").all()
    first.get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    times = [each.locator(".lk-time").inner_text() for each in (first, second)]
    assert times[0] == times[1] != "0.00 ms"
    first.locator('[data-kin="e0-2"]').last.hover()
    expect(second.locator(".lk-details li")).to_contain_text(["entry 2 of ledger 0 on b0"])
    outline = second.locator('[data-kin="e0-2"]').first.evaluate(
        "e => getComputedStyle(e).outlineStyle"
    )
    assert outline == "solid"


def test_an_entry_is_followed_through_views_of_different_kinds(opened: Opened) -> None:
    page = opened(ClusterView(crashed()), SpaceTime(crashed()), width=1400, reduced_motion="reduce")
    cluster, lanes = page.locator(".lk-scene").all()
    cluster.get_by_role("slider").press("End")
    cluster.locator('g[data-kin~="e0-3"]').last.hover()
    expect(lanes.locator(".lk-details li").first).to_contain_text("entry 3")
    arrow = lanes.locator('path[data-kin~="e0-3"]').first
    other = lanes.locator('path[data-kin~="e0-2"]').first
    width = "e => getComputedStyle(e).strokeWidth"
    assert (arrow.evaluate(width), other.evaluate(width)) == ("3px", "1.5px")
    lanes.locator('g[data-kin~="n-b2"]').first.hover()
    expect(cluster.locator(".lk-details li").first).to_contain_text("b2")
    assert [each.locator(".lk-time").inner_text() for each in (cluster, lanes)] == [
        lanes.locator(".lk-time").inner_text()
    ] * 2


def test_an_entry_is_followed_down_to_its_bytes_at_the_same_time(opened: Opened) -> None:
    bookie, moments, upto = OneBookie(), {}, []
    bookie.add((7, 0), (7, 1))
    for label, act in (("added", None), ("synced", bookie.commit), ("flushed", bookie.flush)):
        if act:
            act()
        moments[label] = bookie.places(7, 1)
        upto.append(len(bookie.trace.events))
    bytes_ = XRay(moments, run=bookie.trace, upto=upto)
    page = opened(BookieInside(bookie.trace), bytes_, width=1400, reduced_motion="reduce")
    inside, xray = page.locator(".lk-scene").all()
    xray.get_by_role("button", name="synced", exact=True).click()
    expect(inside.locator(".lk-sentence")).to_contain_text("entry 1 of ledger 7 is now durable")
    expect(xray.get_by_role("button", name="synced (shown)")).to_be_visible()
    assert inside.locator(".lk-time").inner_text() == xray.locator(".lk-time").inner_text()
    inside.get_by_role("slider").press("End")
    expect(xray.get_by_role("button", name="flushed (shown)")).to_be_visible()
    inside.locator('[data-kin="e7-1"]').first.hover()
    expect(xray.locator(".lk-details")).to_contain_text("entry id 1: ")
    outline = "e => getComputedStyle(e).outlineStyle"
    digest = xray.locator('[data-kin~="e7-1"]', has_text="digest").last
    assert digest.evaluate(outline) == "solid"
    xray.get_by_text("entry log", exact=True).hover()
    marked = inside.locator('[data-kin="e7-1"]').first
    assert marked.evaluate(outline) == "solid"


_CLOSE = "() => { window.over.abort(); document.querySelector('main').lastChild.remove(); }"


def test_when_a_view_is_closed_under_the_pointer_the_others_highlight_nothing(
    opened: Opened,
) -> None:
    page = opened(ClusterView(crashed()), reduced_motion="reduce")
    page.evaluate(DISPLAY_AGAIN)
    first, second = page.locator(".lk-scene").all()
    second.locator('[data-kin="e0-2"]').last.hover()
    expect(first.locator(".lk-details")).to_contain_text("entry 2 of ledger 0")
    page.evaluate(_CLOSE)
    expect(page.locator(".lk-details")).to_contain_text("Point at something")
