"""Tests the cluster view in JupyterLab, operating it as a user would."""

import pytest
from playwright.sync_api import expect

from tests.browser.lab import STEP_MS, JupyterLab, Notebook, write_notebook

pytestmark = pytest.mark.browser

LIVE = """\
from labkit.views.widgets import ClusterView
from tests.views.widgets.scripted import Script, ScriptedCluster
cluster = ScriptedCluster(Script(5, 4, 3, 2))
view = ClusterView(cluster)
view"""
FORK = """\
from labkit.views.widgets import ClusterView
from tests.views.widgets.films import crashed
view = ClusterView(crashed())
view"""


@pytest.fixture
def live(lab: JupyterLab) -> Notebook:
    """Open a notebook with a live view of a scripted cluster; later cells use the cluster."""
    write_notebook(lab.folder / "live.ipynb", LIVE, "cluster.add(3)", "print(cluster.script.down)")
    notebook = lab.open("live.ipynb")
    notebook.run(0)
    return notebook


@pytest.mark.core
def test_view_follows_a_live_cluster_and_its_buttons_act_on_it(live: Notebook) -> None:
    view = live.view()
    live.run(1)
    expect(view.cell(2, "b2")).to_contain_text("durable")
    view.kill("b1")
    assert "{'b1'}" in live.run(2).inner_text()
    view.screenshot("cluster-view-live")
    view.press("Restart b1")
    view.wait_for("b1", "up")
    view.press("Pause b0")
    view.wait_for("b0", "paused")
    view.press("Resume b0")
    view.wait_for("b0", "up")


def test_an_error_of_a_command_is_shown_in_words(live: Notebook) -> None:
    view = live.view()
    write = "cluster.script.down.add('b2')"
    live.cells.nth(1).locator(".cm-content").first.fill(write)
    live.run(1)
    view.press("Kill b2")
    expect(view.root.get_by_role("alert")).to_have_text(
        "Could not kill b2: b2 is not running; restart it first"
    )


def test_a_view_that_missed_a_message_asks_for_the_whole(live: Notebook) -> None:
    live.cells.nth(1).locator(".cm-content").first.fill(
        "send = view.send; view.send = lambda message: None; cluster.add(1); view.send_more();"
        " view.send = send; cluster.add(1)"
    )
    live.run(1)
    expect(live.view().cell(1, "b1")).to_contain_text("durable")
    expect(live.view().cell(0, "b0")).to_contain_text("durable")


def test_a_second_view_of_a_running_cluster_shows_what_the_first_does(live: Notebook) -> None:
    live.run(1)
    live.cells.nth(2).locator(".cm-content").first.fill("view")
    live.run(2)
    for index in (0, 1):
        expect(live.view(index).cell(2, "b2")).to_contain_text("durable")


def test_a_simulated_run_forks_at_a_click_and_goes_back(lab: JupyterLab) -> None:
    write_notebook(lab.folder / "fork.ipynb", FORK)
    notebook = lab.open("fork.ipynb", "dark")
    notebook.run(0)
    view = notebook.view()
    view.slider.focus()
    for _ in range(60):
        notebook.page.keyboard.press("ArrowRight")
    view.press("Kill b2")
    back = view.root.get_by_role("button", name="Undo the kill of b2")
    expect(back).to_be_visible()
    view.wait_for("b2", "down")
    view.screenshot("cluster-view-fork-dark")
    back.click()
    view.wait_for("b2", "up")
    expect(back).to_be_hidden()


def test_a_view_keeps_the_keyboard_when_the_pressed_button_is_gone(lab: JupyterLab) -> None:
    write_notebook(lab.folder / "keys.ipynb", FORK)
    notebook = lab.open("keys.ipynb")
    notebook.run(0)
    view, press = notebook.view(), notebook.page.keyboard.press
    view.slider.focus()
    for _ in range(60):
        press("ArrowRight")
    view.kill("b2")
    press("End")
    view.wait_for("b2", "down")
    back = view.root.get_by_role("button", name="Undo the kill of b2")
    back.click()
    expect(back).to_be_hidden()
    press("Home")
    view.wait_for("b2", "unknown")


def test_a_view_whose_kernel_has_ended_says_so_and_has_no_buttons(lab: JupyterLab) -> None:
    write_notebook(lab.folder / "ended.ipynb", FORK)
    notebook = lab.open("ended.ipynb")
    notebook.run(0)
    view = notebook.view()
    notebook.page.evaluate("jupyterapp.shell.currentWidget.sessionContext.restartKernel()")
    expect(view.root.get_by_role("alert")).to_have_text(
        "The kernel of this view is no longer running; run the cell again.", timeout=STEP_MS
    )
    expect(view.root.get_by_role("button", name="Kill b2")).to_be_hidden()


def test_keys_of_a_view_do_not_reach_jupyterlab(live: Notebook) -> None:
    live.run(1)
    count = live.cells.count()
    live.view().root.locator(".lk-picture svg").first.focus()
    live.page.keyboard.press("ArrowDown")
    live.page.keyboard.press("b")
    expect(live.view().root.locator(".lk-details")).not_to_contain_text("Point at something")
    assert live.cells.count() == count


def test_the_driver_says_which_cell_failed(live: Notebook) -> None:
    live.cells.nth(1).locator(".cm-content").first.fill("1 / 0")
    with pytest.raises(AssertionError, match=r"(?s)cell 1 failed:.*ZeroDivisionError"):
        live.run(1)
