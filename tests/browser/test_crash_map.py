"""Tests the crash map in JupyterLab, operating it as a user would."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import JupyterLab, Notebook
from tests.repeat import repeated

pytestmark = pytest.mark.browser

CELL = """\
from labkit.views.widgets import CrashMapView
from tests.views.widgets.crashes import broken
view = CrashMapView(broken())
view"""


@pytest.fixture(scope="module", params=repeated(["light", "dark"]))
def notebook(request: pytest.FixtureRequest, lab: JupyterLab) -> Iterator[Notebook]:
    lab.page.emulate_media(reduced_motion="reduce")
    yield lab.show("crash", CELL, "view.at", theme=request.param)
    # Later tests use the same window.
    lab.page.emulate_media(reduced_motion="no-preference")


def cell(root: Locator, place: str) -> Locator:
    return root.locator(".lk-picture").get_by_role("button", name=f"Crash {place}")


def test_the_map_opens_at_the_first_crash_that_loses_something(notebook: Notebook) -> None:
    root = notebook.view().root
    sentence = root.locator(".lk-sentence")
    expect(sentence).to_contain_text("acknowledged but lost: entry 1 of ledger 5")
    expect(root.locator(".lk-picture svg")).to_contain_text("replay starts in 1.txn at 1536")
    expect(root.locator(".lk-picture svg")).to_contain_text("only the process was killed")
    expect(root.get_by_role("slider", name="Crash")).to_be_visible()
    expect(root.locator(".lk-time")).to_have_text("218 of 228")
    expect(root.get_by_role("button", name="Go to: Crash")).to_have_count(1)
    notebook.view().screenshot(f"crash-map-{notebook.theme}-opened")


def test_a_click_shows_the_crash_of_that_cell_and_python_knows_it(notebook: Notebook) -> None:
    root = notebook.view().root
    cell(root, "before sync lastMark.new, during checkpoint, torn").click()
    expect(root.locator(".lk-sentence")).to_contain_text("torn: everything acknowledged survived")
    notebook.view().screenshot(f"crash-map-{notebook.theme}-safe")
    expect(root.locator(".lk-picture svg")).to_contain_text("the first half survives")
    assert ", 2)" in notebook.run(1).inner_text()


def test_arrow_keys_choose_the_cells_and_do_not_reach_jupyterlab(notebook: Notebook) -> None:
    root, keyboard = notebook.view().root, notebook.page.keyboard
    cell_count = notebook.cells.count()
    cell(root, "before sync lastMark.new, during checkpoint, torn").click()
    for key in ("ArrowDown", "ArrowLeft", "ArrowDown"):
        keyboard.press(key)
    sentence = root.locator(".lk-sentence")
    expect(sentence).to_contain_text("before sync folder current, during checkpoint, kept")
    keyboard.press("ArrowDown")
    expect(sentence).to_contain_text("after the last operation, kept")
    keyboard.press("ArrowDown")
    expect(root.get_by_role("button", name="Next unsafe cell (9)")).to_be_focused()
    expect(sentence).to_contain_text("after the last operation, kept")
    assert notebook.cells.count() == cell_count


def test_buttons_go_to_rows_that_are_not_in_the_list_and_to_the_next_unsafe_cell(
    notebook: Notebook,
) -> None:
    root = notebook.view().root
    for _ in range(3):
        root.get_by_role("button", name="15 rows up").click()
    expect(root.get_by_role("button", name="15 rows up")).to_have_count(0)
    seen = set()
    for _ in range(9):
        root.get_by_role("button", name="Next unsafe cell (9)").click()
        sentence = root.locator(".lk-sentence")
        expect(sentence).to_contain_text("acknowledged but lost")
        seen.add(sentence.inner_text())
    assert len(seen) == 9
