"""Playing a run by hand in JupyterLab: mouse, keyboard, and the game."""

import pytest
from playwright.sync_api import expect

from tests.browser.lab import JupyterLab, Notebook, View, write_notebook

pytestmark = pytest.mark.browser

GAME = "from labkit import Game\nview = Game(1)\nview"
PRINT = "print(view.played.moves, view.has_won)"


@pytest.fixture
def game(lab: JupyterLab) -> Notebook:
    write_notebook(lab.folder / "game.ipynb", GAME, PRINT)
    notebook = lab.open("game.ipynb")
    notebook.run(0)
    return notebook


def card(view: View, words: str, ends: str) -> str:
    return f"Deliver the message “{words}” from {ends}"


@pytest.mark.core
def test_a_click_delivers_a_message_and_a_broken_promise_is_shown_at_once(game: Notebook) -> None:
    view = game.view()
    view.screenshot("play-start")
    view.press(card(view, "add entry 0", "w to b1"))
    view.press(card(view, "entry 0 is stored", "b1 to w"))
    expect(view.root.get_by_role("alert")).to_have_text(
        "✘ an entry was confirmed with too few acks"
    )
    view.screenshot("play-won")
    expect(view.root.get_by_role("button", name="Next level")).to_be_visible()
    view.press("Undo")
    expect(view.root.get_by_role("button", name="Redo")).to_be_visible()
    assert "('deliver w>b1 2',) False" in game.run(1).inner_text()
