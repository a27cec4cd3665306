"""Views of one run on a page: one clock, and one thing that is pointed at."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from labkit.widgets import BookieInside, ClusterView, SpaceTime
from tests.widgets.films import crashed

pytestmark = pytest.mark.browser


def test_views_of_one_run_share_time_and_what_is_pointed_at(opened: Callable[..., Page]) -> None:
    page = opened(ClusterView(crashed()), ClusterView(crashed()), width=1400)
    first, second = page.locator(".lk-scene").all()
    first.get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    times = [each.locator("output").inner_text() for each in (first, second)]
    assert times[0] == times[1] != "0.00 ms"
    first.locator('[data-kin="e0-2"]').last.hover()
    expect(second.locator(".lk-details li")).to_contain_text(["entry 2 of ledger 0 on b0"])
    outline = second.locator('[data-kin="e0-2"]').first.evaluate(
        "e => getComputedStyle(e).outlineStyle"
    )
    assert outline == "solid"


def test_an_entry_is_followed_through_views_of_different_kinds(
    opened: Callable[..., Page],
) -> None:
    page = opened(ClusterView(crashed()), SpaceTime(crashed()), width=1400, reduced_motion="reduce")
    cluster, lanes = page.locator(".lk-scene").all()
    cluster.get_by_role("slider").press("End")
    cluster.locator('g[data-kin~="e0-3"]').last.hover()
    expect(lanes.locator(".lk-details li").first).to_contain_text("entry 3")
    arrow = lanes.locator('path[data-kin~="e0-3"]').first
    other = lanes.locator('path[data-kin~="e0-2"]').first
    width = "e => getComputedStyle(e).strokeWidth"
    assert (arrow.evaluate(width), other.evaluate(width)) == ("4px", "1.5px")
    lanes.locator('g[data-kin~="n-b2"]').first.hover()
    expect(cluster.locator(".lk-details li").first).to_contain_text("b2")
    assert [each.locator("output").inner_text() for each in (cluster, lanes)] == [
        lanes.locator("output").inner_text()
    ] * 2


def test_an_entry_of_the_cluster_is_found_inside_a_bookie_at_the_same_time(
    opened: Callable[..., Page],
) -> None:
    page = opened(
        ClusterView(crashed()), BookieInside(crashed(), "b0"), width=1400, reduced_motion="reduce"
    )
    cluster, inside = page.locator(".lk-scene").all()
    cluster.get_by_role("slider").press("End")
    assert cluster.locator("output").inner_text() == inside.locator("output").inner_text()
    cluster.locator('g[data-kin~="e0-5"]').last.hover()
    expect(inside.locator(".lk-details li")).to_contain_text(
        ["entry 5 of ledger 0: record in", "entry 5 of ledger 0: in "]
    )
    outline = "e => getComputedStyle(e).outlineStyle"
    marked, other = (inside.locator(f'g[data-kin~="e0-{i}"]').first for i in (5, 6))
    assert (marked.evaluate(outline), other.evaluate(outline)) == ("solid", "none")
