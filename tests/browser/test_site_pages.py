"""The site's pages load nothing from other hosts, are accessible, and say where they run."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.site import BELOW, Site
from tools.site.address import Address

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.long]

PAGES = ("index", "course/05-ensembles", "course/11-topics", "essays/storage", "reference/pulsar")
LOOKS = (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390))


@pytest.mark.parametrize(("theme", "width"), LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_readable_by_everyone(site: Site, name: str, theme: str, width: int) -> None:
    page = site.open(f"{name}.html", width, theme)
    page.wait_for_timeout(500)
    found = Axe().run(page).response["violations"]
    page.screenshot(path=f"tests/artifacts/site-{name.replace('/', '-')}-{theme}-{width}.png")
    wide = page.evaluate("document.documentElement.scrollWidth")
    page.close()
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []
    assert wide <= width
    assert site.asked_elsewhere() == []
    assert site.errors == []


def test_every_view_of_a_lesson_plays_on_its_page(site: Site) -> None:
    page = site.open("course/05-ensembles.html")
    places = page.locator(".lk-place")
    assert places.count() > 3
    for index in range(places.count()):
        places.nth(index).scroll_into_view_if_needed()
        expect(places.nth(index)).to_have_attribute("data-plays", "true")
    page.close()
    assert site.errors == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_offers_a_tab_and_home_and_binder_if_published(site: Site, name: str) -> None:
    page = site.open(f"{name}.html")
    links = page.locator(".lk-doors a")
    targets = [links.nth(i).get_attribute("href") or "" for i in range(links.count())]
    needs_a_cluster = name == "course/11-topics"
    assert any("tab/lab/index.html" in each for each in targets) != needs_a_cluster
    on_binder = any("urlpath=lab%2Ftree%2Fnotebooks%2F" in each for each in targets)
    assert on_binder == (Address.of_project() is not None)
    links.last.click()
    expect(page).to_have_url(re.compile(f"{BELOW}/start.html#start$"))
    page.close()


def test_the_pages_are_searched_without_a_server(site: Site) -> None:
    page = site.open("search.html?q=LastLogMark")
    expect(page.locator("#search-results")).to_contain_text("After a crash", timeout=20_000)
    page.close()
    assert site.asked_elsewhere() == []
