"""Live views on a page keep the user's selection while the cluster is running."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from labkit.views.widgets import BookieInside, ClusterView
from labkit.views.widgets.follower import STOPPED
from labkit.views.widgets.playing import PlayingView
from tests.browser.kernel import DISPLAY_AGAIN, Kernel, Opened
from tests.views.widgets.scripted import Script, ScriptedCluster

pytestmark = pytest.mark.browser
TURN_MS = 120
"""Longer than a view needs to send a message about an event."""


class Watched:
    """A scripted cluster of three bookies with a live view on a page."""

    def __init__(self, opened: Opened, kind: type[PlayingView]) -> None:
        self.cluster = ScriptedCluster(Script(3, 3, 2, 2))
        self.view = kind(self.cluster)
        self.page = opened(self.view)
        self.kernel = Kernel(self.page, self.view)
        self.picture = self.page.locator(".lk-picture svg")

    def turn(self) -> None:
        """Let the view send its updates, and let the page display them."""
        self.page.wait_for_timeout(TURN_MS)
        self.kernel.answer()
        self.page.wait_for_timeout(TURN_MS)
        self.kernel.hand_over()


Watch = Callable[..., Watched]


@pytest.fixture
def watch(opened: Opened) -> Iterator[Watch]:
    views = []

    def watch(kind: type[PlayingView], entry_count: int = 0) -> Watched:
        """Display a view of a cluster to which this number of entries has been added."""
        watched = Watched(opened, kind)
        views.append(watched.view)
        if entry_count:
            watched.cluster.add(entry_count)
            watched.turn()
        return watched

    yield watch
    for view in views:
        view.close()


def test_a_live_view_shows_the_ledger_that_is_chosen_and_goes_on_with_it(watch: Watch) -> None:
    watched = watch(ClusterView)
    script = watched.cluster.script
    watched.cluster.add(2)
    script.create(8)
    script.add(0, ledger=8)
    script.log.settle()
    watched.turn()
    expect(watched.picture).to_contain_text("Ledger 8")
    watched.page.get_by_label("Shows").select_option("7")
    watched.turn()
    expect(watched.picture).to_contain_text("Ledger 7")
    script.add(2)
    script.log.settle()
    watched.turn()
    expect(watched.picture).to_contain_text("(LAP): 2")


def test_a_live_view_shows_the_bookie_that_is_chosen_and_goes_on_with_it(watch: Watch) -> None:
    watched = watch(BookieInside, 2)
    watched.page.get_by_label("Shows").select_option("b2")
    watched.turn()
    expect(watched.picture).to_have_attribute("aria-label", re.compile("b2"))
    watched.cluster.add(2)
    watched.turn()
    expect(watched.page.locator(".lk-sentence")).to_contain_text("b2")


def test_a_click_on_a_sign_counts_while_messages_arrive(watch: Watch) -> None:
    watched = watch(ClusterView)
    watched.cluster.add(3)
    watched.cluster.script.kill("b1")
    watched.cluster.script.log.settle()
    watched.turn()
    watched.page.get_by_role("button", name="Go to: b1 was killed").hover()
    watched.page.mouse.down()
    watched.cluster.add(1)
    watched.turn()
    watched.page.mouse.up()
    live = watched.page.get_by_role("button", name="Live")
    expect(live).to_have_attribute("aria-pressed", "false")
    expect(watched.page.locator(".lk-sentence")).to_contain_text("b1 was killed")


def test_a_stopped_view_stays_stopped_when_it_is_displayed_again(watch: Watch) -> None:
    watched = watch(ClusterView, 3)
    sliders = watched.page.get_by_role("slider", name="Moment of the run")
    sliders.first.press("Home")
    watched.page.evaluate(DISPLAY_AGAIN)
    watched.cluster.add(1)
    watched.turn()
    assert [each.input_value() for each in sliders.all()] == ["0", "0"]


def test_a_page_says_when_it_displays_a_live_view_and_when_it_ends(watch: Watch) -> None:
    watched = watch(ClusterView)
    watched.page.evaluate(DISPLAY_AGAIN)
    watched.page.evaluate("window.over.abort()")
    sent = watched.page.evaluate("document.querySelector('.labkit').sent")
    first, second, last = (each["on"] for each in sent)
    assert [each["do"] for each in sent] == ["display", "display", "end"]
    assert first != second == last


def test_a_page_that_is_left_and_comes_back_says_so(watch: Watch) -> None:
    watched = watch(ClusterView)
    for event in ("pagehide", "pageshow"):
        watched.page.evaluate(
            "event => dispatchEvent(new PageTransitionEvent(event, { persisted: true }))", event
        )
    sent = watched.page.evaluate("document.querySelector('.labkit').sent")
    assert [each["do"] for each in sent] == ["display", "end", "display"]
    assert len({each["on"] for each in sent}) == 1


def test_a_page_that_missed_a_message_asks_once(watch: Watch) -> None:
    watched = watch(ClusterView)
    watched.turn()
    watched.cluster.add(1)
    watched.page.wait_for_timeout(TURN_MS)
    watched.kernel.messages.clear()
    for _ in range(3):
        watched.cluster.add(1)
        watched.page.wait_for_timeout(TURN_MS)
    watched.kernel.hand_over()
    sent = watched.page.evaluate("document.querySelector('.labkit').sent")
    assert [each["do"] for each in sent] == ["resync"]
    watched.turn()
    watched.turn()
    expect(watched.picture).to_contain_text("(LAP): 3")


def test_a_view_of_a_stopped_cluster_is_grey_and_has_no_buttons(watch: Watch) -> None:
    watched = watch(ClusterView, 3)
    kill = watched.page.get_by_role("button", name="Kill b0")
    expect(kill).to_be_visible()
    watched.cluster.is_stopped = True
    watched.turn()
    expect(watched.page.get_by_role("alert")).to_have_text(STOPPED)
    expect(kill).to_be_hidden()
    expect(watched.page.get_by_role("button", name="Live")).to_be_hidden()
    expect(watched.page.locator(".lk-picture")).to_have_css("filter", "grayscale(1)")
    watched.cluster.is_stopped = False
    watched.turn()
    expect(kill).to_be_visible()


def test_a_view_whose_kernel_has_ended_is_grey_and_says_so(watch: Watch) -> None:
    watched = watch(ClusterView)
    watched.page.evaluate(
        """() => {
            document.querySelector(".labkit").model.send = () => { throw new Error("closed"); };
        }"""
    )
    watched.page.get_by_role("button", name="Kill b0").click()
    expect(watched.page.get_by_role("alert")).to_contain_text("no longer running")
    expect(watched.page.get_by_role("button", name="Kill b0")).to_be_hidden()
    expect(watched.page.locator(".lk-picture")).to_have_css("filter", "grayscale(1)")


def test_no_old_mark_stays_when_the_pressed_button_disappears(watch: Watch) -> None:
    watched = watch(ClusterView, 3)
    for label in ("Kill b1", "Pause b0"):
        button = watched.page.get_by_role("button", name=label)
        button.click()
        watched.turn()
        watched.turn()
        expect(button).to_have_count(0)
    expect(watched.picture.get_by_text("does not respond")).to_have_count(1)
    expect(watched.picture.get_by_text("memory is lost")).to_have_count(0)


def test_the_clock_of_a_long_run_shows_tenths_of_a_second(watch: Watch) -> None:
    watched = watch(ClusterView)
    watched.cluster.script.now_us = 12_380_000
    watched.cluster.add(3)
    watched.turn()
    expect(watched.page.locator(".lk-time")).to_have_text("12.4 s")
