"""The ensemble history in JupyterLab, as a user sees and handles it."""

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import ARTIFACTS, STEP_MS, JupyterLab, Notebook, write_notebook
from tests.repeat import repeated

pytestmark = pytest.mark.browser

CELL = """\
from labkit.widgets import EnsembleHistory
from tests.widgets.histories import repaired
view = EnsembleHistory(repaired())
view"""


@pytest.fixture(scope="module", params=repeated(["light", "dark"]))
def notebook(request: pytest.FixtureRequest, lab: JupyterLab) -> Notebook:
    write_notebook(lab.folder / "history.ipynb", CELL, "view.chosen")
    notebook = lab.open("history.ipynb", request.param)
    notebook.run(0)
    expect(root_of(notebook)).to_be_visible(timeout=STEP_MS)
    return notebook


def root_of(notebook: Notebook) -> Locator:
    return notebook.page.locator(".lk-history")


def line(root: Locator, words: str) -> Locator:
    return root.locator(".lk-eh-line", has_text=words)


def keep(notebook: Notebook, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    root_of(notebook).screenshot(path=ARTIFACTS / f"ensemble-history-{notebook.theme}-{name}.png")


def test_each_moment_shows_where_the_ledger_is_stored(notebook: Notebook) -> None:
    root = root_of(notebook)
    expect(root.locator(".lk-eh-told")).to_have_count(10)
    change = line(root, "from entry 4 on b3 for b1")
    expect(change.locator(".lk-eh-stretch")).to_have_count(2)
    expect(change.locator(".lk-eh-box[data-new]")).to_have_text("b30/1")
    expect(change.locator(".lk-eh-box[data-away]")).to_have_text("b1 ✕")
    expect(root.locator(".lk-eh-line[data-lit]")).to_contain_text("all copies are there")
    keep(notebook, "opened")


def test_a_click_tells_a_moment_in_words_and_python_knows_it(notebook: Notebook) -> None:
    root = root_of(notebook)
    line(root, "b0 is down").click()
    where = root.locator(".lk-where")
    expect(where).to_contain_text("open, LastAddConfirmed 8")
    expect(where).to_contain_text("entries 0 to 3 b0: 4 of 4 copies, down")
    keep(notebook, "chosen")
    assert "3" in notebook.run(1).inner_text()


def test_arrow_keys_move_among_the_moments_and_do_not_reach_jupyterlab(notebook: Notebook) -> None:
    root, keyboard = root_of(notebook), notebook.page.keyboard
    cell_count = notebook.cells.count()
    line(root, "created by w").click()
    for key in ("ArrowDown", "b", "ArrowDown", "End", "ArrowUp"):
        keyboard.press(key)
    expect(root.locator(".lk-eh-line[data-lit]")).to_contain_text("from entry 4 on b4 for b0")
    expect(root.locator(".lk-eh-line[data-lit] button")).to_be_focused()
    assert notebook.cells.count() == cell_count


def test_a_bookie_that_is_pointed_at_is_shown_everywhere(notebook: Notebook) -> None:
    root = root_of(notebook)
    root.locator(".lk-eh-box[data-bookie='b3']").first.hover()
    everywhere = root.locator(".lk-eh-line .lk-eh-box[data-bookie='b3']").count()
    expect(root.locator(".lk-eh-box[data-followed]")).to_have_count(everywhere)
