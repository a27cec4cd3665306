"""Tests the lineage of a message in JupyterLab, operating it as a user would."""

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import JupyterLab, Notebook
from tests.repeat import repeated

pytestmark = pytest.mark.browser

BATCHED = """\
from labkit.views.widgets import MessageIdLineage
from tests.views.widgets.lineages import alone, in_a_batch
view = MessageIdLineage(in_a_batch())
view"""


@pytest.fixture(scope="module", params=repeated(["light", "dark"]))
def notebook(request: pytest.FixtureRequest, lab: JupyterLab) -> Notebook:
    cells = BATCHED, "print(view.bookie)", "MessageIdLineage(alone())"
    notebook = lab.show("lineage", *cells, theme=request.param)
    notebook.run(2)
    return notebook


def is_lit(mark: Locator) -> bool:
    return bool(mark.evaluate("each => getComputedStyle(each).outlineStyle === 'solid'"))


def test_a_byte_says_what_it_is_and_which_part_of_the_id_it_tells(notebook: Notebook) -> None:
    root = notebook.view().root
    id_of = {name: root.get_by_role("img", name=name).first for name in ("ledger id", "batch")}
    root.get_by_role("img", name="ledger id 9: the ledger").hover()
    expect(root.locator(".lk-details li").first).to_contain_text("ledger id 9: the ledger")
    assert [is_lit(each) for each in id_of.values()] == [True, False]
    root.get_by_role("img", name="payload 'order 2'").hover()
    expect(root.locator(".lk-details li").first).to_contain_text("the application's data")
    assert [is_lit(each) for each in id_of.values()] == [False, True]
    assert not is_lit(notebook.view(1).root.get_by_role("img", name="batch index").first)
    notebook.view().screenshot(f"lineage-{notebook.theme}-pointed")
    root.get_by_role("img", name="messages 0 to 1").hover()
    expect(root.locator(".lk-details li").first).to_contain_text("other messages of the batch")
    assert not any(is_lit(each) for each in id_of.values())
    notebook.view(1).screenshot(f"lineage-{notebook.theme}-alone")


def test_another_bookie_shows_the_same_bytes_in_its_own_file(notebook: Notebook) -> None:
    root = notebook.view().root
    picture, texts = root.locator(".lk-picture svg"), root.locator(".lk-picture text.mono")
    expect(picture).to_contain_text("b1, entry log0.log")
    of_bytes = [words for words in texts.all_text_contents() if re.fullmatch("[0-9a-f]{2}", words)]
    root.get_by_role("button", name="b2, index 2").click()
    expect(picture).to_contain_text("b2, journal18bcfe56801.txn")
    again = [words for words in texts.all_text_contents() if re.fullmatch("[0-9a-f]{2}", words)]
    assert again == of_bytes != []
    assert "b2" in notebook.run(1).inner_text()
    root.get_by_role("button", name="b3, index 3").click()
    expect(picture).to_contain_text("b3not in its files")
    root.get_by_role("button", name="b1, index 1").click()
    expect(picture).to_contain_text("b1, entry log0.log")


def test_the_keys_go_from_row_to_row_and_stay_in_the_view(notebook: Notebook) -> None:
    root, keyboard = notebook.view().root, notebook.page.keyboard
    cell_count = notebook.cells.count()
    notebook.page.mouse.move(0, 0)
    root.get_by_role("img", name="ledger id 9: from").focus()
    where = root.locator(".lk-details li").first
    for key, words in (
        ("ArrowDown", "orders-partition-0"),
        ("ArrowRight", "orders-partition-1"),
        ("ArrowDown", "ledger 9, number 2 of 3 in the chain"),
        ("ArrowRight", "ledger 11, number 3 of 3"),
        ("b", "ledger 11"),
        ("ArrowDown", "entry 13 of ledger 9"),
        ("ArrowDown", "9:13:1:2"),
        ("ArrowDown", "b2, index 2"),
    ):
        keyboard.press(key)
        expect(where).to_contain_text(words)
    keyboard.press("Enter")
    expect(root.locator(".lk-picture svg")).to_contain_text("b2, journal18bcfe56801.txn")
    for key, words in (
        ("ArrowDown", "b2, journal"),
        ("ArrowRight", "length 138"),
        ("End", "other messages of the batch"),
    ):
        keyboard.press(key)
        expect(where).to_contain_text(words)
    notebook.view().screenshot(f"lineage-{notebook.theme}-keys")
    assert notebook.cells.count() == cell_count
