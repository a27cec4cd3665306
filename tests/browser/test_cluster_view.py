"""Tests the cluster view in JupyterLab, operating it as a user would."""

import pytest
from playwright.sync_api import expect

from tests.browser.lab import STEP_MS, JupyterLab, Notebook

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
    return lab.show("live", LIVE, "cluster.add(3)", "print(cluster.script.down)")


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


def test_a_second_view_of_a_running_cluster_shows_what_the_first_does(live: Notebook) -> None:
    live.run(1)
    live.cells.nth(2).locator(".cm-content").first.fill("view")
    live.run(2)
    for index in (0, 1):
        expect(live.view(index).cell(2, "b2")).to_contain_text("durable")


def test_a_fork_goes_back_and_the_view_keeps_the_keyboard_when_the_pressed_button_is_gone(
    lab: JupyterLab,
) -> None:
    notebook = lab.show("keys", FORK, theme="dark")
    view, press = notebook.view(), notebook.page.keyboard.press
    view.slider.focus()
    for _ in range(60):
        press("ArrowRight")
    view.kill("b2")
    press("End")
    view.wait_for("b2", "down")
    view.screenshot("cluster-view-fork-dark")
    back = view.root.get_by_role("button", name="Undo the kill of b2")
    back.click()
    view.wait_for("b2", "up")
    expect(back).to_be_hidden()
    press("Home")
    view.wait_for("b2", "unknown")


def test_a_view_whose_kernel_has_ended_says_so_and_has_no_buttons(lab: JupyterLab) -> None:
    notebook = lab.show("ended", FORK)
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
