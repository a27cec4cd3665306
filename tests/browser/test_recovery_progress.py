"""The recovery progress in JupyterLab, and its fold in the browser."""

import json
from collections.abc import Iterator
from dataclasses import asdict

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from labkit.trace.sentence import SENTENCES
from labkit.widgets.recovery_progress import RecoveryProgress
from labkit.widgets.recovery_progress_fold import columns_of, first_bookies, state_after, steps_of
from tests.browser.lab import ARTIFACTS, STEP_MS, JupyterLab, Notebook, write_notebook
from tests.repeat import repeated
from tests.widgets.recoveries import FAULTS, recovery

pytestmark = pytest.mark.browser

CELL = """\
from labkit.widgets.recovery_progress import RecoveryProgress
from tests.widgets.recoveries import recovery
RecoveryProgress(recovery("auditor dies in mid-round"))"""

_STATES = """async ([source, columns, bookies, sentences]) => {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const { recoveryAfter } = await import(url);
    return Array.from({ length: columns.seq.length + 1 },
        (_, count) => JSON.stringify(recoveryAfter(columns, bookies, count, sentences)));
}"""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


@pytest.mark.parametrize("name", FAULTS)
def test_fold_in_javascript_equals_fold_in_python(page: Page, name: str) -> None:
    events = recovery(name).events
    steps, bookies = steps_of(events), first_bookies(events)
    options = [RecoveryProgress._esm, columns_of(steps), bookies, SENTENCES]
    found = [json.loads(state) for state in page.evaluate(_STATES, options)]
    assert len(found) == len(steps) + 1
    for count, state in enumerate(found):
        expected = json.loads(json.dumps(asdict(state_after(steps, bookies, count))))
        assert state == expected


@pytest.fixture(scope="module", params=repeated(["light", "dark"]))
def notebook(request: pytest.FixtureRequest, lab: JupyterLab) -> Notebook:
    write_notebook(lab.folder / "recovery.ipynb", CELL)
    notebook = lab.open("recovery.ipynb", request.param)
    notebook.run(0)
    expect(root_of(notebook)).to_be_visible(timeout=STEP_MS)
    return notebook


def root_of(notebook: Notebook) -> Locator:
    return notebook.page.locator(".lk-recovery")


def keep(notebook: Notebook, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    root_of(notebook).screenshot(path=ARTIFACTS / f"recovery-{notebook.theme}-{name}.png")


def test_the_view_opens_at_the_end_with_all_copies_there(notebook: Notebook) -> None:
    root = root_of(notebook)
    expect(root.locator(".lk-sentence")).to_contain_text("repaired ledger 2")
    expect(root.locator(".lk-rp-least")).to_have_text(["2 of 2 copies"] + ["3 of 3 copies"] * 3)
    expect(root.locator(".lk-badges")).to_contain_text("Auditor: b2")
    keep(notebook, "end")


def test_a_mark_of_the_player_goes_to_its_step_and_keys_step_from_there(notebook: Notebook) -> None:
    root, keyboard = root_of(notebook), notebook.page.keyboard
    cell_count = notebook.cells.count()
    root.get_by_role("button", name="Go to: b0 was killed").click()
    expect(root.locator(".lk-badges")).to_contain_text("Auditor: b0 (dead, its session is not)")
    expect(root.locator(".lk-rp-least[data-short]").first).to_be_visible()
    keep(notebook, "auditor-dead")
    before = root.locator(".lk-sentence").inner_text()
    root.get_by_role("button", name="Play", exact=True).focus()
    for key in ("ArrowRight", "b"):
        keyboard.press(key)
    expect(root.locator(".lk-sentence")).not_to_have_text(before)
    assert notebook.cells.count() == cell_count


def test_pointing_into_the_chart_shows_that_step(notebook: Notebook) -> None:
    root = root_of(notebook)
    root.locator(".lk-rp-span[data-look='waiting']").first.click()
    expect(root.locator(".lk-rp-stage[data-stage='waiting']").first).to_contain_text("put off by")
    keep(notebook, "put-off")


def test_a_copy_on_a_bookie_that_is_not_named_yet_stands_behind_an_arrow(
    notebook: Notebook,
) -> None:
    root = root_of(notebook)
    root.get_by_role("button", name="Go to: b2 repaired ledger 1").click()
    for _ in range(3):
        root.get_by_role("button", name="One event back").click()
    ledger = root.get_by_role("group", name="ledger 1")
    expect(ledger.locator(".lk-rp-place[data-state='target']")).to_have_text("b36")
    keep(notebook, "copying")
