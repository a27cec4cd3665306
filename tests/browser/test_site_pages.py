"""The site's pages are accessible, load nothing from other hosts, and say where they can be run."""

import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from labkit.views.shell.verbs import VERBS
from labkit.views.widgets.verdict_words import FAILURES
from labkit.worlds.live.processes.broker_config import PULSAR_KEYS
from labkit.worlds.live.processes.server_config import BOOKKEEPER_KEYS
from labkit.worlds.sim.explore.counterexamples import kept
from tests.browser.site import BELOW, Site
from tools.site.address import Address
from tools.site.errors_page import Errors, sources
from tools.site.links import broken_links, pages

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.long]

PAGES = (
    *("index", "course/05-ensembles", "course/11-topics", "essays/system-storage"),
    *("reference/pulsar", "reference/configuration", "reference/errors", "run"),
)
LOOKS = (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_every_page_and_its_views_are_readable_by_everyone(
    site: Site, theme: str, width: int
) -> None:
    page = site.open("index.html", width, theme)
    page.emulate_media(reduced_motion="reduce")
    found = []
    for path in pages(site.folder / BELOW):
        name = path.relative_to(site.folder / BELOW).as_posix()
        page.goto(f"{site.host}{BELOW}/{name}")
        for view in page.locator(".lk-place:visible").all():
            view.scroll_into_view_if_needed()
            expect(view).to_have_attribute("data-plays", "true")
        violations = Axe().run(page).response["violations"]
        found += [(name, each["id"], each["nodes"][0]["html"][:200]) for each in violations]
    page.close()
    assert found == []
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


def test_a_lesson_opens_with_its_picture(site: Site) -> None:
    lessons = sorted((site.folder / BELOW / "course").glob("*.html"))
    assert len(lessons) == 18
    for path in lessons:
        page = site.open(f"course/{path.name}")
        page.set_viewport_size({"width": 1400, "height": 900})
        first = page.locator(".cell_output :is(img, .lk-place, table)").first
        assert first.evaluate("each => each.getBoundingClientRect().top") < 900, path.name
        page.close()


def test_the_page_of_runs_says_in_words_what_breaks_in_each_counterexample(site: Site) -> None:
    page = site.open("run.html")
    items = page.locator("li", has=page.locator('a[href^="#"]')).all_inner_texts()
    found = [item for item in items if item.startswith(tuple(f"{name}: " for name in kept()))]
    assert len(found) == len(kept())
    assert [item for item in found if not item.endswith(tuple(FAILURES.values()))] == []
    page.close()


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


def test_no_page_scrolls_sideways(site: Site) -> None:
    page = site.open("index.html")
    wide = []
    for path in pages(site.folder / BELOW):
        name = path.relative_to(site.folder / BELOW).as_posix()
        page.goto(f"{site.host}{BELOW}/{name}")
        for width in (1400, 900, 390):
            page.set_viewport_size({"width": width, "height": 900})
            if page.evaluate("document.documentElement.scrollWidth") > width:
                wide.append((name, width))
    page.close()
    assert wide == []


def test_no_link_is_broken(site: Site) -> None:
    assert len(pages(site.folder / BELOW)) > 60
    assert broken_links(site.folder / BELOW) == []


def test_every_key_error_and_verb_is_found_by_the_search(site: Site) -> None:
    search = pytest.importorskip("sphinx.search.en")
    text = (site.folder / BELOW / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])
    found = index["terms"].keys() | index["titleterms"].keys()
    keys = (*BOOKKEEPER_KEYS.obeyed, *BOOKKEEPER_KEYS.refused, *PULSAR_KEYS.obeyed)
    words = (
        *(*keys, *PULSAR_KEYS.refused),
        *(verb.name for verb in VERBS),
        *Errors(sources()).documented(),
    )
    stem = search.SearchEnglish({}).stem
    assert [word for word in words if stem(word.lower()) not in found] == []
