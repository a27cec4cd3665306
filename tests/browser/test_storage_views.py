"""Tests the byte X-ray and the inside of a bookie in JupyterLab, operating them as a user would."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.lab import ARTIFACTS, JupyterLab, Notebook
from tests.repeat import repeated

pytestmark = pytest.mark.browser

INSIDE = """\
from labkit.views.widgets import BookieInside, XRay
from tests.views.xray.test_entry_locations import life_of_an_entry
from tests.views.widgets.lives import whole_life
BookieInside(whole_life().trace)"""


@pytest.fixture(scope="module", params=repeated(["light", "dark"]))
def views(request: pytest.FixtureRequest, lab: JupyterLab) -> Notebook:
    """Open a notebook with the inside of a bookie and the bytes of an entry, once per theme."""
    notebook = lab.show("storage", INSIDE, "XRay(life_of_an_entry())", theme=request.param)
    notebook.run(1)
    return notebook


def test_a_crash_is_seen_and_the_replay_fills_the_memtable(views: Notebook) -> None:
    view = views.page.locator(".lk-scene").first
    titles = view.locator(".lk-picture title")
    view.get_by_role("button", name="Go to: b0 was killed").click()
    expect(titles.filter(has_text="b0: down")).to_have_count(1)
    expect(titles.filter(has_text="was in the memtable when")).to_have_count(3)
    view.screenshot(path=ARTIFACTS / f"bookie-inside-{views.theme}-killed.png")
    view.get_by_role("button", name="Go to: b0 replayed its journal").click()
    expect(titles.filter(has_text="back in the memtable")).to_have_count(2)
    view.get_by_role("slider", name="Moment of the run").press("End")
    expect(titles.filter(has_text=re.compile("in the memtable$"))).to_have_count(1)
    view.screenshot(path=ARTIFACTS / f"bookie-inside-{views.theme}.png")


def test_what_is_below_a_view_stays_in_place_when_the_view_loses_the_focus(views: Notebook) -> None:
    above, below = views.page.locator(".lk-scene").first, views.page.locator(".lk-scene").nth(1)
    above.locator("[data-kin='e7-0']").first.hover()
    expect(above.locator(".lk-details li")).to_have_count(3)
    place = below.bounding_box()
    views.page.mouse.move(0, 0)
    expect(above.locator(".lk-details li")).to_have_count(1)
    assert below.bounding_box() == place


def test_the_x_ray_steps_through_the_moments(views: Notebook) -> None:
    view = views.page.locator(".lk-scene").nth(1)
    titles = view.locator(".lk-picture title")
    view.get_by_role("button", name="before the sync").click()
    expect(titles.filter(has_text="journal 1.txn not synced")).to_have_count(1)
    view.screenshot(path=ARTIFACTS / f"xray-{views.theme}-before.png")
    view.get_by_role("button", name="after the sync").press("Enter")
    expect(view.get_by_role("button", name="after the sync (shown)")).to_be_focused()
    expect(titles.filter(has_text="journal 1.txn synced")).to_have_count(1)
    view.get_by_role("button", name="after the flush").click()
    expect(titles.filter(has_text=re.compile("^[a-z ]+ [^ ]+ synced$"))).to_have_count(3)
    view.screenshot(path=ARTIFACTS / f"xray-{views.theme}.png")


def test_arrow_keys_move_among_fields_and_pieces(views: Notebook) -> None:
    view, keyboard = views.page.locator(".lk-scene").nth(1), views.page.keyboard
    view.get_by_role("button", name="after the flush").click()
    views.page.mouse.move(0, 0)
    view.locator("g[role=img]", has_text="entry id 2: ").first.focus()
    where = view.locator(".lk-details li").first
    for key, words in (
        ("ArrowDown", "ledger, starting at 0 (journal 1.txn"),
        ("ArrowDown", "ledger, starting at 0 (entry log"),
        ("ArrowUp", "ledger, starting at 0 (journal 1.txn"),
        ("ArrowRight", "last add confirmed 1"),
        ("ArrowRight", "length"),
        ("Home", "journal 1.txn synced"),
        ("End", "payload"),
    ):
        keyboard.press(key)
        expect(where).to_contain_text(words)
