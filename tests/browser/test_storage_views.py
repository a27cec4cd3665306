"""The byte X-ray and bookie inside in JupyterLab, as a user sees and handles them."""

import json
from dataclasses import asdict

import pytest
from playwright.sync_api import Browser, Page, expect

from labkit.trace.bookie_fold import fold_bookie
from labkit.trace.export import to_columns
from labkit.trace.sentence import SENTENCES
from labkit.widgets.bookie_bands import PLACES, bands_of
from labkit.widgets.bookie_inside import BookieInside
from tests.browser.lab import ARTIFACTS, JupyterLab, Notebook, write_notebook
from tests.repeat import repeated
from tests.widgets.test_bookie_inside import PAGE_SIZE, whole_life

pytestmark = pytest.mark.browser

INSIDE = """\
from labkit.widgets import BookieInside, XRay
from tests.storage.test_places import life_of_an_entry
from tests.widgets.test_bookie_inside import whole_life
BookieInside(whole_life().trace)"""
XRAY = "XRay(life_of_an_entry())"
_DRAWN = """async ([source, columns, indexes, sentences, places, pageSize]) => {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const { advanceBookie, bookieStateOf, emptyBookie, bandsOf } = await import(url);
    return indexes.map((index) => {
        const moment = advanceBookie(emptyBookie(), columns, index);
        const state = bookieStateOf(moment, columns, sentences);
        return JSON.stringify([state, bandsOf(state, pageSize, places)]);
    });
}"""


@pytest.fixture(scope="module", params=repeated(["light", "dark"]))
def views(request: pytest.FixtureRequest, lab: JupyterLab) -> Notebook:
    """A bookie's inside and an entry's bytes, in both themes."""
    write_notebook(lab.folder / "storage.ipynb", INSIDE, XRAY)
    notebook = lab.open("storage.ipynb", request.param)
    notebook.run_all()
    return notebook


def test_bookie_inside_is_folded_and_laid_out_in_javascript_as_in_python(browser: Browser) -> None:
    page: Page = browser.new_page()
    events = whole_life().trace.events
    indexes = list(range(len(events) + 1))
    sent = [BookieInside._esm, to_columns(events), indexes, SENTENCES, PLACES, PAGE_SIZE]
    for index, drawn in zip(indexes, page.evaluate(_DRAWN, sent), strict=True):
        state = fold_bookie(events, index)
        bands = [asdict(band) for band in bands_of(state, PAGE_SIZE)]
        assert json.loads(drawn) == json.loads(json.dumps([asdict(state), bands]))
    page.close()


def test_a_crash_is_seen_and_the_replay_fills_the_memtable(views: Notebook) -> None:
    view = views.page.locator(".lk-bookie")
    memory = view.locator("[data-part=memory]")
    view.get_by_role("button", name="Go to: bookie-1 was killed").click()
    expect(view).to_have_attribute("data-state", "down")
    expect(memory.locator("[data-look=lost]")).to_have_count(3)
    view.screenshot(path=ARTIFACTS / f"bookie-inside-{views.theme}-killed.png")
    view.get_by_role("button", name="Go to: bookie-1 read its journal again").click()
    expect(memory.locator("[data-look=replayed]")).to_have_count(2)
    view.locator("input[type=range]").fill("10000")
    expect(memory.locator("[data-look=put]")).to_have_count(1)
    view.screenshot(path=ARTIFACTS / f"bookie-inside-{views.theme}.png")


def test_an_entry_is_lit_in_all_its_places_and_told_in_words(views: Notebook) -> None:
    view = views.page.locator(".lk-bookie")
    view.locator("[data-subject='7/0']").first.hover()
    expect(view.locator("[data-lit]")).to_have_count(3)
    expect(view.locator(".lk-where")).to_contain_text("Entry 0 of ledger 7")
    expect(view.locator(".lk-where li").last).to_contain_text("slot at 1024 of the index")


def test_arrow_keys_move_in_the_bookie_and_do_not_reach_jupyterlab(views: Notebook) -> None:
    view, keyboard = views.page.locator(".lk-bookie"), views.page.keyboard
    cell_count = views.cells.count()
    views.page.mouse.move(0, 0)
    view.locator(".lk-bi-bands").focus()
    keyboard.press("ArrowDown")
    focused, where = view.locator(".lk-bi-item:focus"), view.locator(".lk-where")
    expect(focused).to_have_attribute("data-subject", "7 at 512")
    expect(where).to_contain_text("Ledger 7")
    expect(where).to_contain_text("master key of ledger 7")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "b"):
        keyboard.press(key)
    expect(focused).to_have_attribute("data-subject", "8/0")
    expect(where).to_contain_text("Entry 0 of ledger 8")
    assert views.cells.count() == cell_count


def test_the_x_ray_steps_through_the_moments(views: Notebook) -> None:
    view = views.page.locator(".lk-xray")
    journal = view.locator(".lk-xr-piece").nth(1)
    view.get_by_role("radio", name="before the sync").click()
    expect(journal).to_have_attribute("data-state", "not synced")
    assert journal.locator("[data-unsafe]").count() == journal.locator("[data-span]").count() == 60
    view.screenshot(path=ARTIFACTS / f"xray-{views.theme}-before.png")
    views.page.keyboard.press("ArrowRight")
    expect(view.get_by_role("radio", name="after the sync")).to_be_focused()
    expect(journal).to_have_attribute("data-state", "synced")
    expect(journal.locator("[data-unsafe]")).to_have_count(0)
    view.get_by_role("radio", name="after the flush").click()
    expect(view.locator(".lk-xr-piece[data-state=synced]")).to_have_count(4)
    view.screenshot(path=ARTIFACTS / f"xray-{views.theme}.png")


def test_a_field_under_the_pointer_is_told_with_all_its_places(views: Notebook) -> None:
    view = views.page.locator(".lk-xray")
    view.locator(".lk-xr-piece").nth(1).get_by_label("entry id: 2").hover()
    where = view.locator(".lk-where")
    expect(where).to_contain_text("entry id 2: ")
    expect(where.locator("li")).to_have_count(3)
    expect(where.locator("li").nth(1)).to_contain_text("journal 1.txn offset 568, 8 bytes")
    expect(view.locator("[data-lit]")).to_have_count(8)
    expect(view.locator("[data-twin]")).to_have_count(16)


def test_arrow_keys_move_among_fields_and_pieces(views: Notebook) -> None:
    view, keyboard = views.page.locator(".lk-xray"), views.page.keyboard
    views.page.mouse.move(0, 0)
    view.locator(".lk-xr-pieces").focus()
    keyboard.press("Home")
    keyboard.press("ArrowRight")
    expect(view.locator(".lk-where")).to_contain_text("entry id 2")
    keyboard.press("ArrowDown")
    expect(view.locator(".lk-where b").first).to_have_text("entry id")
    expect(view.locator(".lk-xr-piece").nth(1).locator(":focus")).to_have_attribute(
        "aria-label", "entry id: 2"
    )
