"""Tests every view on a page of its own, in both themes and at two widths.

At every moment, the view must look like the corresponding still picture. The clock, the pointer and
the keys must work.
"""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Route, expect

from labkit.course.runs.play import Play
from labkit.course.runs.timeline import timeline
from labkit.views.widgets import (
    BookieInside,
    ClusterView,
    CrashMapView,
    EnsembleHistory,
    MessageIdLineage,
    RecoveryProgress,
    SpaceTime,
    Stripes,
    XRay,
)
from labkit.views.widgets.drawing.scene import to_svg
from labkit.views.widgets.page import page as page_of
from labkit.views.widgets.scene_view import SceneView
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Pause
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Recover, Write
from tests.browser.kernel import Kernel, Opened
from tests.browser.lab import ARTIFACTS
from tests.repeat import repeated
from tests.views.widgets.crashes import broken
from tests.views.widgets.films import UNFENCED, crashed
from tests.views.widgets.histories import repaired
from tests.views.widgets.lineages import in_a_batch
from tests.views.widgets.lives import PAGE_SIZE, whole_life
from tests.views.widgets.recoveries import recovery
from tests.views.widgets.scripted import everything_at_once, two_ledgers
from tests.views.xray.test_entry_locations import life_of_an_entry

pytestmark = pytest.mark.browser

RECOVERED = Scenario(
    Cluster(5),
    (Write(entries=6, window=2, close=False), Recover(when=On("lac.advanced", 4))),
    (Crash("b1", when=On("add.sent", 8)), Pause("b2", 4000.0, On("ledger.closed"))),
    ends_in_power_cut=False,
)
PLAYING: dict[str, Callable[[], SceneView]] = {
    "bookie-inside": lambda: BookieInside(whole_life().trace, page_size=PAGE_SIZE),
    "bookie-inside-of-a-run": lambda: BookieInside(crashed(), "b1"),
    "cluster": lambda: ClusterView(crashed()),
    "cluster-of-a-log": lambda: ClusterView(everything_at_once()),
    "cluster-of-two-ledgers": lambda: ClusterView(two_ledgers()),
    "crash-map": lambda: CrashMapView(broken()),
    "ensemble-history": lambda: EnsembleHistory(repaired()),
    "lineage": lambda: MessageIdLineage(in_a_batch()),
    "play": lambda: Play(replace(RECOVERED, faults=())),
    "recovery": lambda: RecoveryProgress(recovery("lost for good")),
    "space-time": lambda: SpaceTime(run(RECOVERED)),
    "space-time-of-an-entry": lambda: SpaceTime(crashed(), follow=3),
    "timeline": lambda: timeline(UNFENCED),
    "x-ray": lambda: XRay(life_of_an_entry()),
    "timeline-of-two": lambda: timeline(UNFENCED, other=replace(UNFENCED, variant="")),
}
STANDING: dict[str, Callable[[], SceneView]] = {
    "stripes": lambda: Stripes(5, 3, 2, failed=(1, 2)),
    "wide-stripes": lambda: Stripes(9, 4, 2, entries=20),
}
VIEWS = PLAYING | STANDING
LEAST_TEXT_PX, LEAST_TARGET_PX = 11.9, 23.9

_EQUAL = """([position, still]) => {
    const slider = document.querySelector("input[type=range]");
    slider.value = position;
    if (position !== null) slider.dispatchEvent(new Event("input"));
    const wanted = new DOMParser().parseFromString(still, "image/svg+xml").documentElement;
    const found = document.querySelector(".lk-picture svg");
    return found.isEqualNode(wanted) ? "" : found.outerHTML + "\\n" + still;
}"""
_SMALL_TEXT = """least => [...document.querySelectorAll(".lk-scene *")].filter((each) =>
    [...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())
    && !["TITLE", "STYLE", "OPTION", "title"].includes(each.tagName)
    && each.getClientRects().length)
  .filter((each) => {
    const svg = each.ownerSVGElement;
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    return parseFloat(getComputedStyle(each).fontSize) * scale < least;
  }).map((each) => each.outerHTML)"""
_SMALL_TARGETS = """least => [...document.querySelectorAll(
    ".lk-scene :is(button, select, input, summary, [data-act])")]
  .filter((each) => each.getClientRects().length)
  .filter((each) => { const { width, height } = each.getBoundingClientRect();
    return Math.min(width, height) < least; }).map((each) => each.outerHTML)"""

_OUTSIDE = """() => {
  const svg = document.querySelector(".lk-picture svg"), frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text, [data-act] > rect")].filter((each) => {
    const box = each.getBoundingClientRect();
    return box.width && (box.left < frame.left - 1 || box.right > frame.right + 1
      || box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
  }).map((each) => each.outerHTML);
}"""
_OVERLAPPING = """() => {
  const seen = [...document.querySelectorAll(".lk-picture [data-act] > rect")]
    .map((each) => [each, each.getBoundingClientRect()]);
  return seen.flatMap(([a, p], at) => seen.slice(at + 1)
    .filter(([b, q]) => a.parentNode !== b.parentNode
      && Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1
      && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 1)
    .map(([b]) => [a.parentNode.dataset.on, b.parentNode.dataset.on]));
}"""


@cache
def view_of(name: str) -> Any:
    return VIEWS[name]()


@pytest.mark.parametrize("name", PLAYING)
@pytest.mark.parametrize("times", repeated([1, 4]))
def test_the_picture_in_the_browser_is_the_still_picture_at_every_moment(
    name: str, times: int, opened: Opened
) -> None:
    view = view_of(name)
    page = opened(view, reduced_motion="reduce")
    for check in page.get_by_role("button", name=re.compile("^Check [✔✘]")).all():
        check.click()  # so that the slider reaches the last beat
    beats = view.reel.beats
    count = len(beats)
    order = [
        *range(0, count, 20 // times),
        *range(count - 1, 0, -44 // times),
        *((i * 389) % count for i in range(15 * times)),
    ]
    for place in order:
        beat, end = beats[place], beats[min(place + 1, count - 1)].at
        for position in {round(beat.at, 1), round((beat.at + end) / 2, 1)}:
            shown = next(b for b in reversed(beats) if round(b.at, 1) <= position)
            still = to_svg(shown.scene, position)
            assert page.evaluate(_EQUAL, [position, still]) == "", (place, position)


@pytest.mark.parametrize("name", STANDING)
def test_a_view_that_stands_is_its_still_picture_after_every_answer(
    name: str, opened: Opened
) -> None:
    view = VIEWS[name]()
    page = opened(view)
    kernel = Kernel(page, view)
    assert page.evaluate(_EQUAL, [None, to_svg(view.scene())]) == ""
    for button in range(3):
        page.locator("[data-act]").nth(button).click()
        kernel.answer()
        assert page.evaluate(_EQUAL, [None, to_svg(view.scene())]) == ""
    page.get_by_label("E", exact=False).first.fill("4")
    kernel.answer()
    assert page.evaluate(_EQUAL, [None, to_svg(view.scene())]) == ""


LOOKS = [(900, "light"), (1400, "dark"), (900, "dark"), (1400, "light")]
# `make test` shows each view in only one of these looks, cycling through the looks.
LOOKED_AT = [
    pytest.param(name, *look, marks=pytest.mark.long if (turn - at) % len(LOOKS) else ())
    for at, name in enumerate(VIEWS)
    for turn, look in enumerate(LOOKS)
]


@pytest.mark.parametrize(("name", "width", "theme"), LOOKED_AT)
def test_a_view_is_readable_for_everyone(name: str, width: int, theme: str, opened: Opened) -> None:
    page = opened(view_of(name), width=width, theme=theme, reduced_motion="reduce")
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    page.locator("input[type=range]" if name in PLAYING else ".lk-picture svg").focus()
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    page.screenshot(path=ARTIFACTS / f"scene-{name}-{width}-{theme}-middle.png")
    for key in ("End", "Home"):
        assert page.evaluate(_SMALL_TEXT, LEAST_TEXT_PX) == []
        assert page.evaluate(_SMALL_TARGETS, LEAST_TARGET_PX) == []
        assert page.evaluate(_OUTSIDE) == []
        assert page.evaluate(_OVERLAPPING) == []
        found = Axe().run(page).response["violations"]
        assert found == [], json.dumps(found, indent=1)[:4000]
        page.keyboard.press(key)
    page.keyboard.press("End")
    page.screenshot(path=ARTIFACTS / f"scene-{name}-{width}-{theme}.png")


def test_a_view_plays_by_itself_when_it_is_first_seen(opened: Opened) -> None:
    page = opened(view_of("cluster-of-two-ledgers"))
    page.locator("select[aria-label=Speed]").select_option("16")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.get_by_role("button", name="Play")).to_be_visible(timeout=30_000)
    value = float(page.locator("input[type=range]").input_value())
    assert value == view_of("cluster-of-two-ledgers").film["end"]


def test_nothing_moves_by_itself_for_a_reader_who_asked_for_less_motion(opened: Opened) -> None:
    page = opened(view_of("cluster"), reduced_motion="reduce")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    value = page.locator("input[type=range]").input_value()
    assert float(value) == view_of("cluster").film["opening"]


def test_what_a_diagram_shows_is_chosen_by_keys(opened: Opened) -> None:
    view = SpaceTime(run(RECOVERED))
    page = opened(view, reduced_motion="reduce")
    kernel = Kernel(page, view)
    page.get_by_label("Entries").focus()
    page.keyboard.press("ArrowUp")
    kernel.answer()
    assert view.entries[0] == 1
    page.get_by_label("Follow").select_option("4")
    kernel.answer()
    expect(page.locator(".lk-picture svg")).not_to_contain_text("memtable 3")
    page.screenshot(path=ARTIFACTS / "space-time-followed.png")
    shown = float(page.get_by_role("slider", name="Moment of the run").input_value())
    still = to_svg(view.scene(), shown)
    assert page.evaluate(_EQUAL, [shown, still]) == ""


def test_a_click_on_a_dot_lists_what_led_to_it_and_a_click_there_goes_on(opened: Opened) -> None:
    view = view_of("space-time-of-an-entry")
    page = opened(view, reduced_motion="reduce")
    slider = page.get_by_role("slider")
    page.locator(".lk-picture [data-pin]", has_text="memtable 3").first.click()
    at = float(slider.input_value())
    page.mouse.move(0, 0)
    causes = page.locator(".lk-details button")
    expect(causes.filter(has_text="in its memtable")).to_have_count(1)
    page.screenshot(path=ARTIFACTS / "space-time-causes.png")
    causes.filter(has_text="w sent entry").first.click()
    assert float(slider.input_value()) < at
    page.get_by_label("Rows").select_option("time")
    assert page.evaluate("document.querySelector('.labkit').sent.pop().set") == "real_time"


def test_a_view_is_worked_by_keys_alone(opened: Opened) -> None:
    page = opened(view_of("cluster"), reduced_motion="reduce")
    page.keyboard.press("Tab")
    focused = """(document.activeElement.tagName === "svg" ? null
        : document.activeElement.querySelector("title")?.textContent)
        ?? document.activeElement.tagName"""
    assert page.evaluate(focused) == "svg"
    page.keyboard.press("ArrowDown")
    seen = set()
    for key in ["ArrowDown"] * 8 + ["ArrowRight"] * 3 + ["ArrowUp"] * 9:
        page.keyboard.press(key)
        seen.add(page.evaluate(focused))
    assert any(str(each).startswith("entry ") for each in seen)
    assert any(str(each).startswith("Kill ") for each in seen)
    slider = page.locator("input[type=range]")
    before = float(slider.input_value())
    page.keyboard.press(",")
    assert float(slider.input_value()) < before
    page.keyboard.press("Home")
    expect(page.locator(".lk-sentence")).to_have_text("Nothing has happened yet.")


def test_a_click_on_a_button_of_the_picture_is_reported_with_its_moment(opened: Opened) -> None:
    page = opened(view_of("cluster"), reduced_motion="reduce")
    page.get_by_role("button", name="Pause b2").click()
    (message,) = page.evaluate("document.querySelector('.labkit').sent")
    epilogue = next(e.seq for e in crashed().events if e.kind == "epilogue.started")
    assert message == {"do": "pause", "on": "b2", "seq": epilogue - 1}


def test_nothing_jumps_when_something_is_pointed_at(opened: Opened) -> None:
    page = opened(view_of("cluster"), reduced_motion="reduce")
    box = page.locator(".lk-bar").bounding_box()
    for kin in ("e0-1", "n-b2", "e0-4"):
        page.locator(f'[data-kin="{kin}"]').last.hover()
        assert page.locator(".lk-bar").bounding_box() == box
        assert page.evaluate("document.documentElement.scrollHeight") <= 900


def test_a_click_on_an_event_or_a_cause_goes_there(opened: Opened) -> None:
    view = view_of("timeline")
    page = opened(view, reduced_motion="reduce")
    expect(page.locator(".lk-sentence")).to_contain_text("✘ Broken here: ")
    for place in (0, -1):
        event = page.locator(".lk-picture [data-act=seek]", has_text=" ms").nth(place)
        title = event.locator("title").text_content()
        assert title is not None
        words = title.rpartition("ms")[2].strip(": ")
        event.click()
        expect(page.locator(".lk-sentence")).to_contain_text(words)
        page.keyboard.press("End")
    page.get_by_role("button", name="Go to where AcknowledgedIsDurable was broken").click()
    expect(page.locator(".lk-sentence")).to_contain_text("✘ Broken here: ")


def test_a_fork_is_shown_beside_the_run(opened: Opened) -> None:
    view = timeline(replace(UNFENCED, variant=""))
    page = opened(view, reduced_motion="reduce")
    kernel = Kernel(page, view)
    page.get_by_role("slider", name="Moment of the run").focus()
    page.keyboard.press("Home")
    for _ in range(4):
        page.keyboard.press("PageDown")
    page.get_by_label("node", exact=True).select_option("b1")
    kernel.answer()
    page.get_by_role("button", name="Fork").click()
    kernel.answer()
    expect(page.locator(".lk-sentence")).to_contain_text("Only in the fork: b1 was killed")
    expect(page.locator(".lk-picture svg")).to_contain_text("What if b1 crashes here?")
    page.screenshot(path=ARTIFACTS / "timeline-fork.png", full_page=True)
    expect(page.get_by_role("button", name="Undo the kill of b1")).to_have_count(1)
    page.get_by_role("button", name="Continue with the fork").click()
    kernel.answer()
    assert len(view.shown) == 1


def test_a_run_says_what_makes_it_happen_again(opened: Opened) -> None:
    page = opened(view_of("timeline-of-two"), reduced_motion="reduce")
    page.get_by_text("Code that reproduces this run").click()
    code = page.get_by_role("group", name="Code that reproduces this run")
    expect(code).to_contain_text("recovery without fencing")
    assert code.inner_text().count("Scenario(") == 2


def test_modules_run_as_they_are_in_a_browser(browser: Browser) -> None:
    folder = Path(page_of.__code__.co_filename).parent / "browser"
    page = browser.new_page()

    def serve(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        body = (folder / name).read_text() if name.endswith(".js") else "<!doctype html>"
        kind = "text/javascript" if name.endswith(".js") else "text/html"
        route.fulfill(body=body, content_type=kind)

    page.route("**/*", serve)
    page.goto("http://labkit.test/")
    kind = page.evaluate(
        "import('http://labkit.test/view.js').then((it) => typeof it.default.render)"
    )
    assert kind == "function"
    page.close()
