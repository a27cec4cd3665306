"""The space-time diagram in JupyterLab, as a user sees and handles it."""

import json

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import ARTIFACTS, STEP_MS, JupyterLab, Notebook, write_notebook
from tests.repeat import repeated

pytestmark = pytest.mark.browser

CELL = """\
from labkit.sim.faults import Crash
from labkit.sim.moments import On
from labkit.sim.run import run
from labkit.sim.cluster import Cluster
from labkit.sim.scenario import Scenario
from labkit.sim.workload import Recover, Write
from labkit.widgets import SpaceTime
scenario = Scenario(
    Cluster(5),
    (Write(entries=6, window=2, close=False), Recover(when=On("lac.advanced", 4))),
    (Crash("b1", when=On("add.sent", 8)),),
    ends_in_power_cut=False,
)
view = SpaceTime(run(scenario))
view"""

WIDE, NARROW = {"width": 1500, "height": 1400}, {"width": 900, "height": 1400}
LABELS = """\
import json, re
from html import unescape
print(json.dumps([unescape(t) for t in re.findall("paint-order='stroke'>([^<]*)<", view.svg())]))"""


@pytest.fixture(scope="module", params=repeated(["light", "dark"]))
def notebook(request: pytest.FixtureRequest, lab: JupyterLab) -> Notebook:
    cells = CELL, "view.entries, view.follow, repr(view)", LABELS
    write_notebook(lab.folder / "space.ipynb", *cells)
    notebook = lab.open("space.ipynb", request.param)
    notebook.page.set_viewport_size(WIDE)
    notebook.run(0)
    expect(root_of(notebook)).to_be_visible(timeout=STEP_MS)
    return notebook


def root_of(notebook: Notebook) -> Locator:
    return notebook.page.locator(".lk-space-time")


def dot(notebook: Notebook, label: str) -> Locator:
    text = notebook.page.locator("text", has_text=label)
    return root_of(notebook).locator(".lk-st-dot", has=text)


def shown(root: Locator) -> Locator:
    return root.locator(".lk-st-dot:not([hidden])")


def to_the_end(root: Locator) -> None:
    root.get_by_label("Moment of the run").press("End")


def keep(notebook: Notebook, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    root_of(notebook).screenshot(path=ARTIFACTS / f"space-time-{notebook.theme}-{name}.png")


def test_every_node_has_a_lane_and_what_went_wrong_is_there(notebook: Notebook) -> None:
    root = root_of(notebook)
    expect(root.locator(".lk-st-name")).to_have_text(["w", "b0", "b1", "b2", "b3", "r", "metadata"])
    for text in ("killed", "replaces b1", "from 2: b0 b3 b2", "IN_RECOVERY", "CLOSED at 5"):
        expect(root.locator(".lk-st-dot text", has_text=text)).to_have_count(1)
    assert root.locator(".lk-st-line[data-look='down']").count() == 2  # one in the legend
    keep(notebook, "opened")


def test_both_pictures_say_the_same(notebook: Notebook) -> None:
    told = root_of(notebook).locator(".lk-st-dot text").all_text_contents()
    still = json.loads(notebook.run(2).locator("pre").first.inner_text())
    assert told == still
    assert len(told) > 50


def test_in_a_narrow_window_lanes_move_together_and_words_keep_their_size(
    notebook: Notebook,
) -> None:
    names, word = root_of(notebook).locator(".lk-st-names"), dot(notebook, "killed").locator("text")
    box = word.bounding_box()
    assert box is not None
    notebook.page.set_viewport_size(NARROW)
    notebook.page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    expect(names).not_to_have_attribute("viewBox", "0 0 900 24")
    narrow = word.bounding_box()
    assert narrow is not None
    assert abs(narrow["height"] - box["height"]) < 1
    notebook.page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    notebook.page.set_viewport_size(WIDE)
    expect(names).to_have_attribute("viewBox", "0 0 900 24")


def test_a_click_tells_what_happened_and_what_led_there(notebook: Notebook) -> None:
    root = root_of(notebook)
    dot(notebook, "LAC 2–3").click()
    told = root.locator(".lk-where")
    told.get_by_role("button", name="entry 3 of ledger 0 is confirmed").click()
    expect(told.locator("ol li").first).to_contain_text("gave a payload the entry id 3")
    assert root.locator("[data-traced]").count() >= 4
    keep(notebook, "chosen")


def test_arrow_keys_move_among_the_dots_and_do_not_reach_jupyterlab(notebook: Notebook) -> None:
    root, keyboard = root_of(notebook), notebook.page.keyboard
    cell_count = notebook.cells.count()
    dot(notebook, "killed").click()
    keyboard.press("b")
    keyboard.press("ArrowUp")
    focused = root.locator(".lk-st-dot:focus")
    assert "b1 synced its journal" in (focused.get_attribute("aria-label") or "")
    keyboard.press("ArrowLeft")
    assert "b0 synced its journal" in (focused.get_attribute("aria-label") or "")
    assert notebook.cells.count() == cell_count


def test_the_scrubber_goes_back_in_time_and_python_knows_it(notebook: Notebook) -> None:
    root = root_of(notebook)
    all_dots = shown(root).count()
    root.get_by_label("Moment of the run").press("Home")
    expect(shown(root)).to_have_count(0)
    for _ in range(3):
        root.get_by_label("One event on").click()
    expect(root.locator(".lk-sentence")).to_contain_text("gave a payload the entry id 0")
    assert "at last w gave a payload the entry id 0" in notebook.run(1).inner_text()
    to_the_end(root)
    expect(shown(root)).to_have_count(all_dots)


def test_entries_can_be_chosen_and_one_followed(notebook: Notebook) -> None:
    root = root_of(notebook)
    root.get_by_label("First entry shown").fill("2")
    root.get_by_label("Last entry shown").fill("3")
    root.get_by_label("Last entry shown").press("Tab")
    expect(root.locator(".lk-st-dot text", has_text="memtable 4")).to_have_count(0)
    root.get_by_label("Entry to follow").select_option("3")
    expect(root.locator(".lk-st-dot text", has_text="LAC 3")).to_have_count(2)
    assert root.locator("[data-faded]").count() > 5
    keep(notebook, "followed")
    assert "([2, 3],\n 3," in notebook.run(1).inner_text()
    root.get_by_role("button", name="Real time").click()
    expect(root.get_by_role("button", name="Real time")).to_have_attribute("aria-pressed", "true")
    keep(notebook, "real-time")
