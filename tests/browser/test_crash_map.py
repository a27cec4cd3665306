"""The crash map in JupyterLab, as a user sees and handles it."""

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import ARTIFACTS, STEP_MS, JupyterLab, Notebook, write_notebook
from tests.repeat import repeated

pytestmark = pytest.mark.browser

CELL = """\
from labkit.sim.crash import crash_map
from labkit.sim.defects import DEFECTS
from labkit.widgets.crash_map import CrashMapView
from tests.sim.scripts import ADD_INSIDE_FLUSH
store = DEFECTS["mark taken after the flush"].store_factory
view = CrashMapView(crash_map(ADD_INSIDE_FLUSH, store_factory=store))
view"""


@pytest.fixture(scope="module", params=repeated(["light", "dark"]))
def notebook(request: pytest.FixtureRequest, lab: JupyterLab) -> Notebook:
    write_notebook(lab.folder / "crash.ipynb", CELL, "view.chosen")
    notebook = lab.open("crash.ipynb", request.param)
    notebook.run(0)
    expect(root_of(notebook)).to_be_visible(timeout=STEP_MS)
    return notebook


def root_of(notebook: Notebook) -> Locator:
    return notebook.page.locator(".lk-crash-map")


def torn_commit(root: Locator) -> Locator:
    """The cell in which the first entry's commit stops before its sync, its write torn."""
    return root.locator("button[aria-label^='before sync 1.txn, during commit 5/0, torn']")


def keep(notebook: Notebook, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    root_of(notebook).screenshot(path=ARTIFACTS / f"crash-map-{notebook.theme}-{name}.png")


def test_the_map_opens_at_the_first_crash_that_loses_something(notebook: Notebook) -> None:
    root = root_of(notebook)
    chosen = root.locator("button[data-lit]")
    expect(chosen).to_have_attribute("data-verdict", "lost")
    expect(chosen).to_be_in_viewport()
    expect(root.locator(".lk-cm-end")).to_have_text("acknowledged and gone: entry 1 of ledger 5")
    expect(root.locator(".lk-cm-story")).to_contain_text("lastMark replay starts in 1.txn at 1536")
    expect(root.locator("button[data-verdict='lost'][data-row]")).to_have_count(9)
    keep(notebook, "opened")


def test_a_click_tells_the_crash_of_that_cell_and_python_knows_it(notebook: Notebook) -> None:
    root = root_of(notebook)
    torn_commit(root).click()
    expect(root.locator("h3")).to_contain_text("before sync 1.txn, during commit 5/0, torn")
    expect(root.locator(".lk-cm-end")).to_have_text("everything acknowledged is there")
    keep(notebook, "safe")
    row = torn_commit(root).get_attribute("data-row")
    assert f"[{row}, 2]" in notebook.run(1).inner_text()


def test_arrow_keys_move_among_the_cells_and_do_not_reach_jupyterlab(notebook: Notebook) -> None:
    root, keyboard = root_of(notebook), notebook.page.keyboard
    cell_count = notebook.cells.count()
    torn_commit(root).click()
    for key in ("ArrowDown", "ArrowLeft", "b", "ArrowDown", "End"):
        keyboard.press(key)
    expect(root.locator("tbody tr").last.locator("button").nth(1)).to_be_focused()
    expect(root.locator("h3")).to_have_text("Crash after the last operation, kept")
    assert notebook.cells.count() == cell_count


def test_the_button_goes_from_one_unsafe_cell_to_the_next(notebook: Notebook) -> None:
    root = root_of(notebook)
    root.locator("button[data-row='0'][data-column='0']").click()
    seen = set()
    for _ in range(9):
        root.get_by_role("button", name="Next unsafe cell (9)").click()
        chosen = root.locator("button[data-lit]")
        expect(chosen).to_have_attribute("data-verdict", "lost")
        seen.add((chosen.get_attribute("data-row"), chosen.get_attribute("data-column")))
    assert len(seen) == 9
