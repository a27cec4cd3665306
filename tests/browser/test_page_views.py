"""A view on a page without a kernel plays, and says which controls need Python."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from labkit.course.runs.timeline import timeline
from labkit.views.widgets import ClusterView, CrashMapView, XRay
from labkit.views.widgets.scene_view import SceneView
from tests.browser.kernel import Opened
from tests.browser.lab import ROOT
from tests.browser.site import BELOW, Site
from tests.views.widgets.crashes import broken
from tests.views.widgets.films import UNFENCED, crashed
from tests.views.xray.test_entry_locations import life_of_an_entry
from tools.site.views import Views

pytestmark = pytest.mark.browser

MODULE = """export default { render({ model, el }) {
    const button = document.createElement("button");
    button.textContent = model.get("label");
    button.onclick = () => { model.set("label", "heard"); model.send({ do: "kill" }); };
    model.on("change:label", () => { button.textContent = model.get("label"); });
    el.append(button);
} };"""


def test_a_view_on_a_page_gets_its_state_and_says_what_needs_python(
    browser: Browser, tmp_path: Path
) -> None:
    static = tmp_path / BELOW / "_static"
    views = Views(static / "views")
    shutil.copy(ROOT / "tools" / "site" / "theme" / "play.js", static)
    state = {"_esm": MODULE, "_css": "button { color: rgb(1, 2, 3) }", "label": "Kill"}
    place = views.place(state, "<p>a still picture</p>")
    script = '<script type="module" src="_static/play.js"></script>'
    (tmp_path / BELOW / "page.html").write_text(f"<html><body>{place}{script}</body></html>")
    with Site(browser, tmp_path) as site:
        page = site.open("page.html", theme="dark")
        button = page.get_by_role("button", name="Kill")
        expect(button).to_have_css("color", "rgb(1, 2, 3)")
        expect(page.get_by_text("a still picture")).to_have_count(0)
        expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "false")
        button.click()
        expect(page.get_by_role("button", name="heard")).to_be_visible()
        expect(page.get_by_role("status")).to_contain_text("Open the lesson in a tab")
        page.close()
        assert site.errors == []
        assert site.asked_elsewhere() == []


def test_the_text_around_a_picture_has_the_font_of_the_picture(opened: Opened) -> None:
    page = opened(ClusterView(crashed()), reduced_motion="reduce")
    font = "e => getComputedStyle(e).fontFamily.replaceAll('\"', '')"
    inside = page.locator(".lk-picture text").first.evaluate(font)
    for outside in (".lk-title", ".lk-sentence", ".lk-time", ".lk-bar button", ".lk-bar select"):
        assert page.locator(outside).first.evaluate(font) == inside


@pytest.mark.parametrize(
    ("view", "plays"),
    [(lambda: ClusterView(crashed()), True), (lambda: XRay(life_of_an_entry()), False)],
)
def test_only_a_view_with_a_play_button_mentions_the_space_bar(
    opened: Opened, view: Callable[[], SceneView], plays: bool
) -> None:
    page = opened(view(), reduced_motion="reduce")
    expect(page.get_by_role("button", name="Play")).to_have_count(int(plays))
    expect(page.locator(".lk-hint")).to_contain_text("Point at something")
    assert ("Press Space" in page.locator(".lk-hint").inner_text()) == plays


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (lambda: ClusterView(crashed()), "in the synced journal"),
        (lambda: CrashMapView(broken()), "an acknowledged entry is lost"),
    ],
)
def test_on_a_wide_page_the_legend_is_open_beside_the_picture(
    opened: Opened, view: Callable[[], SceneView], words: str
) -> None:
    page = opened(view(), width=1400, reduced_motion="reduce")
    meaning = page.get_by_text(words, exact=True)
    expect(meaning).to_be_visible()
    picture = page.locator(".lk-picture svg").bounding_box()
    beside = meaning.bounding_box()
    assert picture is not None
    assert beside is not None
    assert beside["x"] > picture["x"] + picture["width"]
    page.set_viewport_size({"width": 900, "height": 900})
    expect(meaning).to_be_hidden()
    page.get_by_text("What the symbols mean").click()
    expect(meaning).to_be_visible()
    below = meaning.bounding_box()
    assert below is not None
    assert below["y"] > picture["y"] + picture["height"]


def test_several_views_on_a_page_are_readable_for_everyone(opened: Opened) -> None:
    views = (ClusterView(crashed()), timeline(UNFENCED), timeline(UNFENCED))
    page = opened(*views, reduced_motion="reduce")
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []
