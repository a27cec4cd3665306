"""The timeline in JupyterLab, as a user sees and handles it; and its folds, which are Python's."""

import json
from dataclasses import asdict

import pytest
from playwright.sync_api import Browser, Locator, expect

from labkit.sim.cluster import Cluster
from labkit.sim.explore.storm import storm
from labkit.sim.faults import Crash, Partition
from labkit.sim.moments import At, On
from labkit.sim.run import run
from labkit.sim.scenario import Scenario
from labkit.sim.workload import Recover, Write
from labkit.trace.export import to_columns
from labkit.widgets.timeline import TimelineView
from labkit.widgets.timeline_fold import surroundings
from labkit.widgets.timeline_steps import steps_of
from tests.browser.lab import ARTIFACTS, STEP_MS, JupyterLab, Notebook, write_notebook
from tests.repeat import repeated

pytestmark = pytest.mark.browser

BASE = Scenario(Cluster(4), (Write(entries=6), Recover(when=On("lac.advanced", nth=3))))
CELLS = (
    """\
from labkit.lessons.timeline import timeline
from labkit.sim.faults import Crash
from labkit.sim.moments import At, On
from labkit.sim.cluster import Cluster
from labkit.sim.scenario import Scenario
from labkit.sim.workload import Recover, Write
early = Recover(when=On("lac.advanced"))
scenario = Scenario(Cluster(4), (Write(entries=9, every_ms=1.0), early),
                    variant="recovery without fencing")
view = timeline(scenario)
view""",
    "len(view.shown), view.shown[-1].title",
    "view._handle_custom_msg({'do': 'keep'}, [])",
    """\
from labkit.lessons import check
check("break_protocol.answer", lambda met: "NO_ENTRY")""",
)
_FOLDED = """async ([source, columns, indexes, other]) => {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const { surroundingsAt, stepsOf } = await import(url);
    return JSON.stringify([indexes.map((index) => surroundingsAt(columns, index)),
                           stepsOf(columns, other)]);
}"""


@pytest.mark.parametrize("seed", repeated(range(4)))
def test_folds_and_steps_in_javascript_are_those_in_python(browser: Browser, seed: int) -> None:
    first = run(storm(BASE, seed, 6)).events
    other = run(storm(BASE, seed, 6).with_fault(Crash("b1", when=At(9)), Partition(("w",)))).events
    indexes = list(range(0, len(first) + 1, 5))
    page = browser.new_page()
    sent = [TimelineView._esm, to_columns(first), indexes, to_columns(other)]
    states, steps = json.loads(page.evaluate(_FOLDED, sent))
    page.close()
    for index, state in zip(indexes, states, strict=True):
        assert state == json.loads(json.dumps(asdict(surroundings(first, index))))
    assert list(zip(*steps.values(), strict=True)) == [
        (step.which, step.of_first, step.of_other) for step in steps_of(first, other)
    ]


@pytest.fixture(scope="module", params=repeated(["light", "dark"]))
def notebook(request: pytest.FixtureRequest, lab: JupyterLab) -> Notebook:
    write_notebook(lab.folder / "timeline.ipynb", *CELLS)
    notebook = lab.open("timeline.ipynb", request.param)
    notebook.run(0)
    expect(root_of(notebook)).to_be_visible(timeout=STEP_MS)
    return notebook


def root_of(notebook: Notebook) -> Locator:
    return notebook.page.locator(".lk-timeline").first


def selected(notebook: Notebook) -> Locator:
    return root_of(notebook).locator("[role=option][aria-selected=true]")


def keep(notebook: Notebook, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    root_of(notebook).screenshot(path=ARTIFACTS / f"timeline-{notebook.theme}-{name}.png")


def test_it_opens_at_the_event_where_the_promise_broke(notebook: Notebook) -> None:
    root = root_of(notebook)
    expect(root.locator(".lk-tl-broken")).to_contain_text("AcknowledgedIsDurable")
    expect(selected(notebook)).to_have_attribute("data-broken", "")
    expect(selected(notebook)).to_be_in_viewport()
    expect(root.locator(".lk-tl-lineage li").last).to_contain_text("is closed")
    keep(notebook, "opened")


def test_keys_step_and_go_to_the_ends(notebook: Notebook) -> None:
    root, keyboard = root_of(notebook), notebook.page.keyboard
    cell_count = notebook.cells.count()
    broken = selected(notebook).get_attribute("data-step")
    root.focus()
    keyboard.press("ArrowRight")
    keyboard.press("b")
    expect(selected(notebook)).to_have_attribute("data-step", str(int(broken or 0) + 1))
    keyboard.press("Home")
    expect(root.locator(".lk-sentence")).to_have_text("Nothing has happened yet.")
    keyboard.press("End")
    expect(root.locator("[data-later]")).to_have_count(0)
    keyboard.press("ArrowLeft")
    root.get_by_role("button", name="Go to where AcknowledgedIsDurable broke").click()
    expect(selected(notebook)).to_have_attribute("data-step", broken or "")
    assert notebook.cells.count() == cell_count


def test_it_plays_pauses_and_rewinds(notebook: Notebook) -> None:
    root = root_of(notebook)
    root.get_by_role("button", name="Back to the first event").click()
    root.get_by_label("Speed of the replay").select_option("16")
    root.focus()
    notebook.page.keyboard.press("Space")
    expect(root.get_by_role("button", name="Pause the replay")).to_be_visible()
    expect(root.locator("[data-later]")).to_have_count(0, timeout=STEP_MS)
    expect(root.get_by_role("button", name="Play")).to_be_visible()


def test_the_list_is_filtered_and_arrow_keys_keep_to_it(notebook: Notebook) -> None:
    root = root_of(notebook)
    root.get_by_label("Events of this node").select_option("r")
    root.get_by_label("Events of this kind").select_option("recovery.")
    rows = root.locator("[role=option]")
    expect(rows.first).to_contain_text("r began to recover ledger 0")
    root.get_by_role("listbox").focus()
    rows.first.click()
    expect(root.locator(".lk-tl-ledger")).to_contain_text("in recovery")
    notebook.page.keyboard.press("ArrowDown")
    expect(selected(notebook)).to_contain_text("r")
    root.get_by_label("Events of this node").select_option("")
    root.get_by_label("Events of this kind").select_option("")


def test_a_click_on_a_cause_goes_there(notebook: Notebook) -> None:
    root = root_of(notebook)
    root.get_by_label("Events of this kind").select_option("lac.advanced")
    root.locator("[role=option]").first.click()
    expect(root.locator(".lk-tl-lineage li")).not_to_have_count(1)
    root.locator(".lk-tl-lineage button").first.click()
    expect(root.locator(".lk-sentence")).to_contain_text("gave a payload the entry id")
    root.get_by_label("Events of this kind").select_option("")


def test_a_fork_shows_the_other_future_beside(notebook: Notebook) -> None:
    root = root_of(notebook)
    root.get_by_label("Events of this kind").select_option("add.acked")
    root.locator("[role=option]").first.click()
    root.get_by_label("Fault", exact=True).select_option("crash")
    root.get_by_label("node", exact=True).select_option("w")
    root.get_by_role("button", name="Fork").click()
    expect(root.locator(".lk-tl-run")).to_have_count(2, timeout=STEP_MS)
    expect(root.locator(".lk-tl-run h3").last).to_contain_text("With Crash(node='w'")
    expect(root.locator(".lk-sentence")).to_contain_text("Only in the other: w was killed")
    expect(root.locator("[data-parting]")).to_have_attribute("data-which", "2")
    expect(root.locator(".lk-tl-run").last.locator(".lk-tl-kept")).to_be_visible()
    keep(notebook, "fork")
    assert "With Crash" in notebook.run(1).inner_text()
    notebook.run(2)
    expect(root.locator(".lk-tl-run")).to_have_count(1, timeout=STEP_MS)


def test_no_fault_can_be_put_before_the_cluster_is_up(notebook: Notebook) -> None:
    root = root_of(notebook)
    root.focus()
    notebook.page.keyboard.press("Home")
    notebook.page.keyboard.press("ArrowRight")
    expect(root.get_by_role("button", name="Fork")).to_have_attribute("aria-disabled", "true")
    expect(root.locator(".lk-tl-palette")).to_contain_text("when the cluster is up")


def test_a_refused_card_has_its_run_under_it(notebook: Notebook) -> None:
    cell = notebook.run(3)
    expect(cell).to_contain_text("break_protocol.answer: not yet")
    expect(cell.locator(".lk-tl-broke")).to_contain_text("AcknowledgedIsDurable broke here")
    expect(cell.get_by_role("button", name="Fork")).to_have_count(0)
    cell.screenshot(path=ARTIFACTS / f"timeline-{notebook.theme}-card.png")
