"""The landing page shows a running animation that visitors can break before Python is loaded."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from labkit.worlds.sim.run import run
from tests.browser.lab import ARTIFACTS, ROOT
from tests.browser.site import BELOW, Site
from tools.site.landing import SCENARIO, breakable_run
from tools.site.views import Views

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Build a site that consists only of the animation on the landing page."""
    folder = tmp_path_factory.mktemp("landing")
    static = folder / BELOW / "_static"
    place = breakable_run(run(SCENARIO), Views(static / "views"))
    theme = ROOT / "tools" / "site" / "theme"
    scripts = ""
    for name in ("landing.js", "play.js"):
        shutil.copy(theme / name, static)
        scripts += f'<script type="module" src="_static/{name}"></script>'
    Path(folder / BELOW / "index.html").write_text(f"<html><body>{place}{scripts}</body></html>")
    with Site(browser, folder) as site:
        yield site


@pytest.fixture
def page(site: Site) -> Iterator[Page]:
    page = site.open("index.html")
    expect(page.locator(".lk-place")).to_have_attribute("data-plays", "true")
    yield page
    page.close()
    assert site.errors == []
    assert site.asked_elsewhere() == []


def run_shown(page: Page) -> str:
    shown: str = page.evaluate("document.querySelector('.lk-place').model.get('film').run")
    return shown


def kill(page: Page, bookie: str) -> None:
    page.get_by_role("button", name=f"Kill {bookie}").dispatch_event("click")


def test_the_run_moves_by_itself(page: Page) -> None:
    bar = page.locator("input[type=range]")
    first = bar.input_value()
    expect(bar).not_to_have_value(first)


def test_a_killed_bookie_is_dead_in_the_rest_of_the_run_and_alive_again_on_the_way_back(
    page: Page,
) -> None:
    whole = run_shown(page)
    page.wait_for_function("document.querySelector('input[type=range]').value > 2000")
    kill(page, "b1")
    page.wait_for_function(
        f"document.querySelector('.lk-place').model.get('film').run !== '{whole}'"
    )
    expect(page.locator(".lk-sentence")).to_contain_text("b1", timeout=20_000)
    page.locator("input[type=range]").press("End")
    page.screenshot(path=ARTIFACTS / "landing-b1-killed.png")
    page.get_by_role("button", name="Undo the kill of b1").click()
    assert run_shown(page) == whole


def test_a_second_fault_is_for_the_tab(page: Page) -> None:
    whole = run_shown(page)
    kill(page, "b1")
    page.wait_for_function(
        f"document.querySelector('.lk-place').model.get('film').run !== '{whole}'"
    )
    kill(page, "b2")
    expect(page.get_by_role("alert")).to_contain_text("Only one fault at a time")


def test_at_the_runs_end_it_says_to_play_again(page: Page) -> None:
    page.locator("input[type=range]").press("End")
    kill(page, "b1")
    expect(page.get_by_role("alert")).to_contain_text("nearly over")
