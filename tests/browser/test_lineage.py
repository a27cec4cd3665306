"""The lineage of a message in JupyterLab, as a user sees and handles it."""

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import ARTIFACTS, STEP_MS, JupyterLab, Notebook, write_notebook
from tests.repeat import repeated

pytestmark = pytest.mark.browser

BATCHED = """\
from labkit.widgets import MessageIdLineage
from tests.widgets.lineages import alone, in_a_batch
view = MessageIdLineage(in_a_batch())
view"""


@pytest.fixture(scope="module", params=repeated(["light", "dark"]))
def notebook(request: pytest.FixtureRequest, lab: JupyterLab) -> Notebook:
    write_notebook(
        lab.folder / "lineage.ipynb", BATCHED, "print(view.bookie)", "MessageIdLineage(alone())"
    )
    notebook = lab.open("lineage.ipynb", request.param)
    notebook.run(0)
    notebook.run(2)
    expect(root_of(notebook, 1)).to_be_visible(timeout=STEP_MS)
    return notebook


def root_of(notebook: Notebook, index: int = 0) -> Locator:
    return notebook.page.locator(".lk-lineage").nth(index)


def keep(notebook: Notebook, name: str, index: int = 0) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    root_of(notebook, index).screenshot(path=ARTIFACTS / f"lineage-{notebook.theme}-{name}.png")


def lit_part(root: Locator) -> Locator:
    return root.locator(".lk-li-number[data-lit]")


def test_a_byte_says_what_it_is_and_which_part_of_the_id_it_tells(notebook: Notebook) -> None:
    root = root_of(notebook)
    root.get_by_role("img", name="ledger id: 9").hover()
    expect(lit_part(root)).to_have_attribute("data-part", "ledger")
    expect(root.locator(".lk-where")).to_contain_text("ledger id 9: the ledger")
    root.get_by_role("img", name="payload: 'order 2'").hover()
    expect(lit_part(root)).to_have_attribute("data-part", "batch")
    expect(root.locator(".lk-where")).to_contain_text("what the application gave")
    keep(notebook, "pointed")
    root.get_by_role("img", name="messages 0 to 1").hover()
    expect(lit_part(root)).to_have_count(0)
    keep(notebook, "alone", 1)


def test_another_bookie_shows_the_same_bytes_in_its_own_file(notebook: Notebook) -> None:
    root = root_of(notebook)
    piece = root.locator(".lk-xr-piece")
    expect(piece).to_contain_text("0.log")
    bytes_before = piece.locator(".lk-xr-byte:not([data-lead])").all_inner_texts()
    root.get_by_role("radio", name="b2, place 2").click()
    expect(piece).to_contain_text("18bcfe56801.txn")
    assert piece.locator(".lk-xr-byte:not([data-lead])").all_inner_texts() == bytes_before
    assert "b2" in notebook.run(1).inner_text()
    root.get_by_role("radio", name="b3, place 3").click()
    expect(piece).to_contain_text("not in its files")
    root.get_by_role("radio", name="b1, place 1").click()
    expect(piece).to_contain_text("0.log")


def test_the_keys_go_from_row_to_row_and_stay_in_the_view(notebook: Notebook) -> None:
    root, keyboard = root_of(notebook), notebook.page.keyboard
    cell_count = notebook.cells.count()
    root.locator(".lk-li-number").first.click()
    where = root.locator(".lk-where")
    for key, words in (
        ("ArrowDown", "orders-partition-1"),
        ("ArrowDown", "ledger 9, number 2 of 3 in the chain"),
        ("ArrowRight", "ledger 11, number 3 of 3"),
        ("b", "ledger 11"),
        ("ArrowDown", "entry 13 of ledger 9"),
        ("ArrowDown", "9:13:1:2"),
        ("ArrowDown", "b1, place 1"),
        ("ArrowRight", "b2, place 2"),
    ):
        keyboard.press(key)
        expect(where).to_contain_text(words)
    keyboard.press("Enter")
    expect(root.locator(".lk-xr-piece")).to_contain_text("18bcfe56801.txn")
    keyboard.press("ArrowDown")
    expect(where).to_contain_text("length 138")
    keyboard.press("End")
    expect(where).to_contain_text("other messages of the batch")
    keep(notebook, "keys")
    assert notebook.cells.count() == cell_count
