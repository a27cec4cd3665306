"""Stripes in JupyterLab, as a user sees and handles them."""

import json
from itertools import combinations

import pytest
from playwright.sync_api import Browser, Locator, expect

from labkit.widgets.stripes import Stripes
from labkit.widgets.stripes_rules import Striping
from tests.browser.lab import ARTIFACTS, STEP_MS, JupyterLab, Notebook, write_notebook
from tests.repeat import repeated

pytestmark = pytest.mark.browser

CELL = """\
from labkit.widgets import Stripes
view = Stripes(5, 3, 2, entries=8)
view"""

_RULES = """async ([source, cases]) => {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const { Striping } = await import(url);
    return cases.map(([e, qw, qa, failed]) => {
        const striping = new Striping(e, qw, qa, failed);
        const entries = [...Array(8).keys()];
        return JSON.stringify([striping.answers(8), striping.tolerances(),
            entries.map((entry) => [[...striping.cells(entry)], striping.fate(entry)])]);
    });
}"""


@pytest.fixture(scope="module", params=repeated(["light", "dark"]))
def notebook(request: pytest.FixtureRequest, lab: JupyterLab) -> Notebook:
    write_notebook(lab.folder / "stripes.ipynb", CELL, "print(view)")
    notebook = lab.open("stripes.ipynb", request.param)
    notebook.run(0)
    expect(root_of(notebook)).to_be_visible(timeout=STEP_MS)
    return notebook


def root_of(notebook: Notebook) -> Locator:
    return notebook.page.locator(".lk-stripes")


def keep(notebook: Notebook, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    root_of(notebook).screenshot(path=ARTIFACTS / f"stripes-{notebook.theme}-{name}.png")


def test_the_rules_in_javascript_are_those_in_python(browser: Browser) -> None:
    cases = [
        (e, qw, qa, failed)
        for e in range(1, 6)
        for qw in range(1, e + 1)
        for qa in range(1, qw + 1)
        for count in range(e + 1)
        for failed in combinations(range(e), count)
    ]
    page = browser.new_page()
    found = page.evaluate(_RULES, [Stripes._esm, cases])
    page.close()
    for case, text in zip(cases, found, strict=True):
        striping = Striping(*case)
        rows = [(list(striping.cells(e).items()), striping.fate(e)) for e in range(8)]
        expected = [striping.answers(8), striping.tolerances(), rows]
        assert json.loads(text) == json.loads(json.dumps(expected))


def test_a_bookie_fails_by_a_click_and_python_knows_it(notebook: Notebook) -> None:
    root = root_of(notebook)
    for place in (1, 2):
        root.get_by_role("button", name=f"b{place} answers").click()
    expect(root.locator("tr[data-entry='0'] .lk-st-fate")).to_have_text("? perhaps lost")
    expect(root.locator("tr[data-entry='2'] .lk-st-fate")).to_have_text("✓ there")
    expect(root.locator(".lk-st-story")).to_contain_text("Of 8 entries perhaps lost: 4.")
    keep(notebook, "failed")
    assert "failed: b1, b2" in notebook.run(1).inner_text()
    root.get_by_role("button", name="All answer").click()
    expect(root.locator(".lk-st-fate[data-fate='safe']")).to_have_count(8)


def test_numbers_that_no_longer_fit_follow_the_slider(notebook: Notebook) -> None:
    root, keyboard = root_of(notebook), notebook.page.keyboard
    root.get_by_role("button", name="b4 answers").click()
    cell_count = notebook.cells.count()
    root.get_by_label("Ensemble size").focus()
    for key in ("ArrowLeft", "ArrowLeft", "b", "ArrowLeft"):
        keyboard.press(key)
    expect(root.locator("thead button")).to_have_count(2)
    expect(root.get_by_label("Write quorum")).to_have_value("2")
    expect(root.locator("thead button[aria-pressed='true']")).to_have_count(0)
    assert notebook.cells.count() == cell_count
    for _ in range(7):
        root.get_by_label("Ensemble size").press("ArrowRight")
    expect(root.locator("thead button")).to_have_count(9)
    keep(notebook, "wide")
    for _ in range(4):
        root.get_by_label("Ensemble size").press("ArrowLeft")
    root.get_by_label("Write quorum").press("ArrowRight")
