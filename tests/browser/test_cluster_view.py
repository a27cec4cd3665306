"""The cluster view in JupyterLab, as a user sees and handles it."""

import pytest
from playwright.sync_api import expect

from tests.browser.lab import JupyterLab, Notebook, View, write_notebook
from tests.repeat import repeated

pytestmark = pytest.mark.browser

REPLAY = """\
from labkit.widgets.cluster_view import ClusterView
from tests.widgets.scripted import everything_at_once, killed_and_restarted
ClusterView(killed_and_restarted())"""
LIVE = """\
from labkit.widgets.cluster_view import ClusterView
from tests.widgets.scripted import Script, ScriptedCluster
cluster = ScriptedCluster(Script(5, 4, 3, 2))
view = ClusterView(cluster)
view"""


@pytest.fixture(scope="module", params=repeated(["light", "dark"]))
def replays(request: pytest.FixtureRequest, lab: JupyterLab) -> Notebook:
    """A replay of ten entries, and one of forty, in both themes."""
    write_notebook(lab.folder / "replays.ipynb", REPLAY, "ClusterView(everything_at_once())")
    notebook = lab.open("replays.ipynb", request.param)
    notebook.run_all()
    return notebook


@pytest.fixture
def live(lab: JupyterLab) -> Notebook:
    """A live view on a scripted cluster of five bookies; the later cells add to it."""
    write_notebook(lab.folder / "live.ipynb", LIVE, "cluster.add(3)", "print(cluster.script.down)")
    notebook = lab.open("live.ipynb")
    notebook.run(0)
    return notebook


def seek(view: View, index: int) -> None:
    view.root.locator("input[type=range]").fill(str(index))


def looks(view: View, bookie: str) -> list[str]:
    """What the bookie's cells in sight look like, from the top."""
    column = [name.strip() for name in view.root.locator(".lk-name").all_inner_texts()]
    place = next(i for i, name in enumerate(column) if name.endswith(bookie))
    cells = view.root.locator(".lk-column").nth(place).locator(".lk-cell")
    return sorted(
        f"{int(cell.get_attribute('data-entry')):02} {cell.get_attribute('data-look')}"
        for cell in cells.all()
    )


def test_view_draws_each_entry_on_the_bookies_that_hold_it(replays: Notebook) -> None:
    view = replays.view(0)
    view.screenshot(f"cluster-view-{replays.theme}")
    assert looks(view, "bookie-2") == [
        *("00 durable", "01 durable", "03 durable", "04 durable", "05 durable"),
        *("07 failed", "08 failed", "09 durable"),
    ]
    expect(view.root.locator(".lk-lac")).to_have_text("LAC 9")
    expect(view.root.locator(".lk-sentence")).to_have_text(
        "ledger 7 is closed; its last entry is 9"
    )


def test_view_draws_a_dead_bookie_s_entries_as_out_of_reach(replays: Notebook) -> None:
    view = replays.view(0)
    view.root.get_by_role("button", name="Go to: bookie-2 was killed").click()
    view.wait_for("bookie-2", "down")
    assert looks(view, "bookie-2") == [f"{entry:02} hatched" for entry in (0, 1, 3, 4, 5)]
    view.screenshot(f"cluster-view-{replays.theme}-killed")
    seek(view, 10_000)
    view.wait_for("bookie-2", "up")


def test_view_draws_forty_entries_with_few_elements_and_in_every_state(replays: Notebook) -> None:
    view = replays.view(1)
    view.root.locator(".lk-grid").evaluate("grid => { grid.scrollTop = grid.scrollHeight }")
    expect(view.cell(40, "bookie-1")).to_have_attribute("data-look", "memtable")
    expect(view.cell(30, "bookie-2")).to_have_attribute("data-look", "lost")
    expect(view.cell(38, "bookie-3")).to_have_attribute("data-look", "sent")
    expect(view.cell(35, "bookie-3")).to_have_attribute("data-look", "stopped")
    view.screenshot(f"cluster-view-{replays.theme}-forty")
    assert view.root.locator(".lk-cell").count() < 5 * 32


def test_an_entry_under_the_pointer_is_lit_on_all_its_bookies_and_told_in_words(
    replays: Notebook,
) -> None:
    view = replays.view(0)
    view.cell(3, "bookie-4").hover()
    expect(view.root.locator(".lk-cell[data-lit]")).to_have_count(3)
    expect(view.root.locator(".lk-where")).to_contain_text("Entry 3 of ledger 7, confirmed")
    expect(view.root.locator(".lk-where li").first).to_have_text(
        "bookie-1 durable, journal 1a1fd4e0551.txn offset 704"
    )
    view.screenshot(f"cluster-view-{replays.theme}-pointed")


def test_arrow_keys_move_among_entries_and_do_not_reach_jupyterlab(replays: Notebook) -> None:
    view, keyboard = replays.view(0), replays.page.keyboard
    cell_count = replays.cells.count()
    replays.page.mouse.move(0, 0)
    view.root.locator(".lk-grid").focus()
    keyboard.press("Home")
    keyboard.press("ArrowDown")
    keyboard.press("ArrowRight")
    keyboard.press("b")
    expect(view.root.locator(".lk-where")).to_contain_text("Entry 1 of ledger 7")
    expect(view.cell(1, "bookie-3")).to_be_focused()
    assert replays.cells.count() == cell_count


def test_playing_ends_at_the_last_event(replays: Notebook) -> None:
    view = replays.view(0)
    end = view.root.locator("input[type=range]").get_attribute("max")
    seek(view, int(end) - 3)
    view.press("Play")
    expect(view.root.locator("input[type=range]")).to_have_value(end)
    expect(view.root.get_by_role("button", name="Play", exact=True)).to_be_visible()


def test_view_follows_a_live_cluster_and_its_buttons_act_on_it(live: Notebook) -> None:
    view = live.view()
    live.run(1)
    expect(view.cell(2, "bookie-3")).to_have_attribute("data-look", "durable")
    view.kill("bookie-2")
    assert "{'bookie-2'}" in live.run(2).inner_text()
    expect(view.cell(0, "bookie-2")).to_have_attribute("data-look", "hatched")
    view.screenshot("cluster-view-live")
    view.press("Restart bookie-2")
    view.wait_for("bookie-2", "up")
    view.press("Pause bookie-1")
    view.wait_for("bookie-1", "paused")
    view.press("Resume bookie-1")
    view.wait_for("bookie-1", "up")


def test_an_error_of_a_command_is_shown_in_words(live: Notebook) -> None:
    view = live.view()
    write = "cluster.script.down.add('bookie-3')"
    live.cells.nth(1).locator(".cm-content").first.fill(write)
    live.run(1)
    view.press("Kill bookie-3")
    expect(view.root.get_by_role("alert")).to_have_text(
        "Could not kill bookie-3: bookie-3 is not running; restart it first"
    )


def test_a_view_that_missed_a_message_asks_for_the_whole(live: Notebook) -> None:
    live.cells.nth(1).locator(".cm-content").first.fill(
        "cluster.add(1); view._feed.next_message(); cluster.add(1)"
    )
    live.run(1)
    expect(live.view().cell(1, "bookie-2")).to_have_attribute("data-look", "durable")
    expect(live.view().cell(0, "bookie-1")).to_have_attribute("data-look", "durable")


def test_a_second_view_of_a_running_cluster_shows_what_the_first_does(live: Notebook) -> None:
    live.run(1)
    live.cells.nth(2).locator(".cm-content").first.fill("view")
    live.run(2)
    for index in (0, 1):
        expect(live.view(index).cell(2, "bookie-3")).to_have_attribute("data-look", "durable")


def test_the_driver_says_which_cell_failed(live: Notebook) -> None:
    live.cells.nth(1).locator(".cm-content").first.fill("1 / 0")
    with pytest.raises(AssertionError, match=r"(?s)cell 1 failed:.*ZeroDivisionError"):
        live.run(1)
