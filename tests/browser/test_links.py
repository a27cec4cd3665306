"""Links to runs: a view copies one, and another browser shows the same run at the same moment."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from labkit.views.widgets import ClusterView, CrashMapView
from labkit.worlds.sim.explore.counterexamples import counterexample
from labkit.worlds.sim.run import run
from labkit.worlds.sim.run_link import CrashMapLink, RunLink
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.steps import Write
from tests.browser.kernel import Opened
from tests.browser.lab import ARTIFACTS
from tests.browser.site import BELOW, Site, add_python, write_page
from tests.views.widgets.crashes import broken
from tests.views.widgets.films import crashed
from tools.site import run_page
from tools.site.views import Views

pytestmark = pytest.mark.browser

VARIANT = "fence not persisted"
LOADED = """names => names.every((name) =>
    performance.getEntriesByType("resource").some((each) => each.name.endsWith(name)))"""
FILM = "document.querySelector('{}').model.get('film')"


def film_of(page: Page, place: str = ".labkit") -> Any:
    return page.evaluate(FILM.format(place))


def copied(page: Page) -> str:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_a_copied_link_opens_the_same_run_at_the_same_moment_elsewhere(
    opened: Opened, browser: Browser, tmp_path: Path
) -> None:
    page = opened(ClusterView(crashed()), reduced_motion="reduce")
    for _ in range(4):
        page.get_by_role("button", name="Previous event").click()
    seen = page.locator(".lk-sentence").inner_text()
    link = copied(page)
    command = (sys.executable, "-m", "labkit", "open", "--no-browser", link)
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    [file] = tmp_path.glob(f"run-{crashed().digest[:8]}.html")
    context = browser.new_context(offline=True)
    other = context.new_page()
    other.goto(file.as_uri())
    expect(other.locator(".lk-sentence")).to_have_text(seen)
    assert film_of(other)["run"] == film_of(page)["run"]
    assert RunLink.parse(film_of(other)["link"]).digest == crashed().digest
    expect(other.get_by_role("button", name="Kill b0")).to_have_count(0)
    context.close()


def test_a_page_that_may_not_use_the_clipboard_shows_the_link(opened: Opened) -> None:
    page = opened(ClusterView(crashed()), reduced_motion="reduce")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_role("button", name="Copy link").click()
    field = page.get_by_role("textbox", name="Link")
    assert RunLink.parse(field.input_value()).digest == crashed().digest


def test_a_view_of_something_other_than_a_simulated_run_copies_no_link(opened: Opened) -> None:
    page = opened(ClusterView(crashed().events), reduced_motion="reduce")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    expect(page.get_by_role("button", name="Copy link")).to_have_count(0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a site that consists of the page for links, with the films of one counterexample."""
    folder = tmp_path_factory.mktemp("links")
    views = Views(folder / BELOW / "_static" / "views")
    views.show(CrashMapView(broken()))  # as a lesson does
    with patch.object(run_page, "kept", return_value=[VARIANT]):
        text = run_page.run_page(views, tmp_path_factory.mktemp("cache"))
    # Sphinx adds this script to every page.
    script = '<script type="module" src="_static/play.js?v=1"></script>'
    write_page(folder, "run.html", text.partition("# A run of labkit\n")[2] + script)
    return folder


@pytest.fixture(scope="module")
def links_site(browser: Browser, folder: Path) -> Iterator[Site]:
    with Site(browser, folder) as site:
        yield site
        assert site.errors == []
        assert site.asked_elsewhere() == []


def test_a_link_to_a_counterexample_opens_without_python(links_site: Site) -> None:
    trace = run(counterexample(VARIANT))
    page = links_site.open(f"run.html#{trace.link(at=50)}")
    expect(page.locator(".lk-place")).to_have_attribute("data-plays", "true")
    assert page.locator("#lk-run").get_attribute("data-digest") == trace.digest
    film = film_of(page, ".lk-place")
    assert next(seq for at, _, _, seq in film["beats"] if at == film["opening"]) == 50
    expect(page.get_by_role("img", name="The share of other futures")).to_be_visible()
    link = copied(page)
    assert link.startswith(f"{links_site.host}{BELOW}/run.html#run.1.")
    assert RunLink.parse(link).at == 50
    assert not any("pyodide" in url for url in links_site.asked)
    page.close()


def test_a_page_loads_the_files_of_a_prepared_view_before_its_script_has_arrived(
    links_site: Site,
) -> None:
    page = links_site.browser.new_page()
    asked: list[str] = []
    held: list[Route] = []
    page.on("request", lambda request: asked.append(request.url))
    # Playwright cannot call a method of a list.
    page.route("**/run.js", lambda route: held.append(route))  # noqa: PLW0108
    link = run(counterexample(VARIANT)).link()
    page.goto(f"{links_site.host}{BELOW}/run.html#{link}", wait_until="commit")
    root = page.locator("#lk-run")
    names = [root.get_attribute(f"data-{name}") for name in ("index", "module", "style")]
    page.wait_for_function(LOADED, arg=names)
    held[0].continue_()
    expect(page.locator(".lk-place")).to_have_attribute("data-plays", "true")
    of_views = [url for url in asked if "/views/" in url]
    assert len(of_views) == len({*of_views}) == len(names) + 1
    page.close()


def test_a_copied_link_to_a_crash_map_opens_the_same_cell_without_python(
    opened: Opened, links_site: Site
) -> None:
    page = opened(CrashMapView(broken()), reduced_motion="reduce")
    for _ in range(4):
        page.get_by_role("button", name="Next event").click()
    seen = page.locator(".lk-sentence").inner_text()
    link = CrashMapLink.parse(copied(page))
    other = links_site.open(f"run.html#{link.fragment()}")
    expect(other.locator(".lk-sentence")).to_have_text(seen)
    assert other.locator("#lk-run").get_attribute("data-digest") == broken().digest
    expect(other.get_by_role("button", name="Change this run")).to_have_count(0)
    other.screenshot(path=ARTIFACTS / "link-crash-map.png", full_page=True)
    other.close()


def test_the_script_of_any_other_crash_map_is_shown_while_python_starts(links_site: Site) -> None:
    link = CrashMapLink.parse(broken("mark persisted before the flush").link())
    page = links_site.open(f"run.html#{link.fragment()}")
    expect(page.locator(".lk-still pre")).to_contain_text('Add {"ledger_id":5,"entry_id":0}')
    expect(page.locator(".lk-still pre")).to_contain_text("this bug: mark persisted before the")
    expect(page.get_by_role("status").first).to_contain_text("labkit open crash.1.")
    page.close()


def test_the_page_without_a_link_lists_counterexamples_that_open(links_site: Site) -> None:
    page = links_site.open("run.html")
    page.get_by_role("link", name=VARIANT).click()
    expect(page.locator(".lk-place")).to_have_attribute("data-plays", "true")
    page.close()


@pytest.mark.parametrize(
    ("fragment", "why"),
    [
        ("run.1.abc.1", "incomplete or damaged"),
        ("<img src=x onerror=alert(1)>", "incomplete or damaged"),
        ("run.7.abc.1", "has format 7; this site opens format 1"),
    ],
)
def test_a_link_that_cannot_be_read_says_why(links_site: Site, fragment: str, why: str) -> None:
    page = links_site.open(f"run.html#{fragment}")
    expect(page.get_by_role("status").first).to_contain_text(why)
    page.close()


def test_what_a_strangers_link_contains_is_shown_as_text(links_site: Site) -> None:
    """This site has no Python, so its page shows only what the link itself contains."""
    hostile = "<img src=x onerror='document.title=1'>"
    scenario = Scenario(workload=(Write(client=hostile),))
    page = links_site.open(f"run.html#{RunLink.parse(run(scenario).link()).fragment()}")
    expect(page.locator(".lk-still pre")).to_contain_text("<img src=x")
    expect(page.locator(".lk-still img")).to_have_count(0)
    expect(page.get_by_role("status").first).to_contain_text("labkit open run.1.")
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_any_other_link_runs_in_the_tab_where_the_reader_can_change_the_run(
    browser: Browser, folder: Path, kept: pytest.Cache, theme: str
) -> None:
    add_python(folder, kept.mkdir("site"))
    trace = crashed()
    with Site(browser, folder) as site:
        view = ClusterView(trace)
        position, _, _, seq = view.film["beats"][30]
        page = site.open(f"run.html#{view.film['link'].rpartition('.')[0]}.{seq}", 900, theme)
        expect(page.locator(".lk-still [role=img]")).to_be_visible()
        expect(page.locator(".lk-place")).to_have_attribute("data-plays", "true", timeout=60_000)
        film = film_of(page, ".lk-place")
        assert (film["run"], film["opening"]) == (view.film["run"], position)
        page.screenshot(path=ARTIFACTS / f"link-{theme}.png", full_page=True)
        page.get_by_role("button", name="Kill b2").first.dispatch_event("click")
        page.wait_for_function(f"{FILM.format('.lk-place')}.run !== '{film['run']}'")
        fork = RunLink.parse(film_of(page, ".lk-place")["link"])
        assert len(fork.scenario.faults) == 2
        assert run(fork.scenario).digest == fork.digest
        page.close()
        assert json.dumps(site.errors) == "[]"
        assert site.asked_elsewhere() == []


@pytest.mark.slow
@pytest.mark.long
def test_the_whole_site_opens_links_of_lessons_at_once_and_others_in_the_tabs_python(
    site: Site,
) -> None:
    lesson = site.open("course/07-ensemble-change.html")
    lesson.locator(".lk-place").first.scroll_into_view_if_needed()
    expect(lesson.locator(".lk-place").first).to_have_attribute("data-plays", "true")
    seen = len(site.asked)
    page = site.open(copied(lesson).removeprefix(f"{site.host}{BELOW}/"))
    expect(page.locator(".lk-place")).to_have_attribute("data-plays", "true")
    assert not any("pyodide" in url for url in site.asked[seen:])
    page.close()
    lesson.close()
    page = site.open(f"run.html#{ClusterView(crashed()).film['link']}")
    expect(page.locator(".lk-place")).to_have_attribute("data-plays", "true", timeout=60_000)
    assert page.locator("#lk-run").get_attribute("data-digest") == crashed().digest
    page.close()
    assert site.errors == []
    assert site.asked_elsewhere() == []
