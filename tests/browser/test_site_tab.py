"""The lab in a browser tab runs lessons unchanged, and no page sends requests to another host."""

import json

import pytest
from playwright.sync_api import expect

from labkit.shipped_files import shipped
from tests.browser.lab import Notebook
from tests.browser.site import Site, rewrite

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.long]


def code_cells(name: str) -> list[str]:
    cells = json.loads((shipped("notebooks") / name).read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def answer(notebook: Notebook, source: str) -> str:
    """Run the first exercise of lesson 05 with this source; return the result card's symbol."""
    cells = code_cells("05-ensembles.ipynb")
    function = next(i for i, cell in enumerate(cells) if cell.startswith("def my_write_set"))
    rewrite(notebook, function, source)
    notebook.run(function)
    card = next(i for i, c in enumerate(cells) if c.startswith('check("quorums.write_set"'))
    return notebook.run(card).locator(".jp-OutputArea-output").first.inner_text().strip()[:1]


@pytest.mark.parametrize(
    "name",
    [
        "00-tour",
        "04-last-log-mark",
        "05-ensembles",
        "06-lac",
        "07-ensemble-change",
        "08-fencing-recovery",
        "14-break-the-protocol",
        "15-build-on-it",
    ],
)
def test_a_lesson_runs_complete_in_the_tab(site: Site, name: str) -> None:
    notebook = site.open_lesson(f"{name}.ipynb")
    notebook.run_all()
    expect(notebook.page.locator(".jp-OutputArea svg:visible").first).to_be_visible()
    notebook.screenshot(f"tab-{name}")
    notebook.page.close()
    assert site.asked_elsewhere() == []


def test_what_a_cell_printed_is_shown_as_it_was_stored(site: Site) -> None:
    page = site.open("tab/lab/index.html?path=04-last-log-mark.ipynb")
    printed = page.locator(".jp-OutputArea pre", has_text="no adds during the checkpoint: safe")
    expect(printed).to_contain_text("\nadds during the checkpoint: ", timeout=60_000)
    page.close()


def test_an_exercise_in_the_tab_refuses_a_wrong_answer_and_takes_a_right_one(site: Site) -> None:
    solution = next(
        c for c in code_cells("solutions/05-ensembles.ipynb") if "def my_write_set" in c
    )
    notebook = site.open_lesson("05-ensembles.ipynb")
    notebook.run_all()
    assert answer(notebook, solution.replace("entry_id + i", "i")) == "✘"
    notebook.screenshot("tab-wrong-answer")
    assert answer(notebook, solution) == "✔"
    notebook.page.close()


@pytest.mark.parametrize("name", ["11-topics", "12-messageid-streams", "13-streaming"])
def test_a_lesson_that_needs_a_cluster_says_where_it_runs(site: Site, name: str) -> None:
    page = site.open(f"tab/lab/index.html?path={name}.ipynb")
    notice = page.locator(".jp-MarkdownOutput").first
    expect(notice).to_contain_text("real processes", timeout=60_000)
    expect(notice).to_contain_text("at home")
    page.close()


def test_a_lesson_that_was_opened_before_runs_without_its_host(site: Site) -> None:
    """The first visit registers the service worker, which handles every request of the second
    visit.
    """
    with Site(site.browser, site.folder) as own:
        notebook = own.reload(own.open_lesson("04-last-log-mark.ipynb"))
        own.stop()
        notebook = own.reload(notebook)
        notebook.run_all()
        expect(notebook.page.locator(".jp-OutputArea svg:visible").first).to_be_visible()
        notebook.page.close()
