"""Tests the tour in JupyterLab with real bookies, working through it as a student would."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import JupyterLab, Notebook

pytestmark = pytest.mark.browser

TOUR = Path(__file__).parents[2] / "notebooks" / "00-tour.ipynb"


def cell_with(notebook: Notebook, text: str) -> int:
    """Return the index of the code cell that contains this text."""
    cells = notebook.cells
    return next(i for i in range(cells.count()) if text in cells.nth(i).inner_text())


def run_between(notebook: Notebook, first: int, last: int) -> Locator:
    for index in range(first, last):
        notebook.run(index)
    return notebook.run(last)


def test_killing_a_bookie_by_its_button_kills_the_process(lab: JupyterLab) -> None:
    shutil.copy(TOUR, lab.folder)
    notebook = lab.open(TOUR.name)
    killing = cell_with(notebook, "while b1 is dead")
    restarting = cell_with(notebook, "cluster.restart")
    run_between(notebook, 0, killing - 1)
    view = notebook.view()
    view.wait_for("b1", "up")
    notebook.screenshot("tour-before-the-kill")

    view.kill("b1")
    view.screenshot("tour-b1-killed")

    # The cell kills only bookies that are still running, and the adds need only two bookies.
    confirmed = notebook.run(killing)
    expect(confirmed).to_contain_text("confirmed without b1: [4, 5, 6, 7]")
    run_between(notebook, killing + 1, restarting)
    view.wait_for("b1", "up")
    run_between(notebook, restarting + 1, notebook.cells.count() - 1)
    notebook.screenshot("tour-at-its-end")
