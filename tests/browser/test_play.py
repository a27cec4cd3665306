"""Tests for playing a run by hand, in JupyterLab with mouse and keyboard, and on the site."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from labkit.course.runs.game.game import Game
from labkit.course.runs.game.levels import LEVELS
from labkit.course.runs.open_run import open_run
from labkit.views.widgets.page import state_of
from labkit.views.widgets.scene_view import SceneView
from tests.browser.kernel import Kernel, Opened
from tests.browser.lab import ARTIFACTS, JupyterLab, Notebook
from tests.browser.site import BELOW, Site, add_python, write_page
from tools.site.play_page import play_page
from tools.site.views import Views

pytestmark = pytest.mark.browser

GAME = "from labkit import Game\nview = Game(1)\nview"
PRINT = "print(view.played.moves, view.has_won)"
WORKER = """onmessage = async ({ data }) => {
    const answer = await fetch("/python", { method: "POST", body: JSON.stringify(data) });
    postMessage(await answer.json());
};"""
"""Asks this process instead of starting Python in the tab."""
SMALLEST = """() => Math.min(...[...document.querySelectorAll(
    ".lk-place button, .lk-place select, .lk-place summary, .lk-place [data-act]")]
    .map((each) => each.getBoundingClientRect())
    .filter(({ width }) => width > 0)
    .map(({ width, height }) => Math.min(width, height)))"""

OUTERMOST = """() => Math.max(...[...document.querySelectorAll(
    ".lk-controls *, .lk-remarks p, .lk-bar *, .lk-legend summary, .lk-side *")]
    .map((each) => each.getBoundingClientRect().right))"""


CUT_OFF = """() => [...document.querySelectorAll(".lk-texts pre")]
    .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.textContent)"""


@pytest.fixture
def game(lab: JupyterLab) -> Notebook:
    return lab.show("game", GAME, PRINT)


def card(words: str, ends: str) -> str:
    return f"Deliver the message “{words}” from {ends}"


def press_by_keyboard(page: Page, move: str) -> None:
    """Move the focus to the button of a move with the Tab key, and press Enter."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.on") == move:
            return page.keyboard.press("Enter")
    raise AssertionError(f"the Tab key does not reach {move}")


@pytest.mark.core
def test_a_click_delivers_a_message_and_a_broken_promise_is_shown_at_once(game: Notebook) -> None:
    view = game.view()
    view.screenshot("play-start")
    view.press(card("add entry 0", "w to b1"))
    view.press(card("entry 0 is stored", "b1 to w"))
    expect(view.root.get_by_role("alert")).to_have_text(
        "✘ an entry was confirmed with too few acks"
    )
    view.screenshot("play-won")
    expect(view.root.get_by_role("button", name="Next level")).to_be_enabled()
    view.press("Undo")
    expect(view.root.get_by_role("button", name="Redo")).to_be_enabled()
    assert "('deliver w>b1 2',) False" in game.run(1).inner_text()


def test_a_level_is_won_with_the_keyboard_alone(game: Notebook) -> None:
    view = game.view()
    view.root.get_by_role("button", name="Solution").focus()
    press_by_keyboard(view.root.page, "deliver w>b0 2")
    expect(view.root.get_by_role("button", name="Undo")).to_be_enabled()
    press_by_keyboard(view.root.page, "deliver b0>w 2")
    expect(view.root.get_by_role("button", name="Next level")).to_be_enabled()


def test_every_level_can_be_won_by_clicks_in_the_dark_too(lab: JupyterLab) -> None:
    view = lab.show("last", GAME.replace("(1)", "(10)"), theme="dark").view()
    for number, move in enumerate(LEVELS[9].solution, 1):
        view.root.locator(f'[data-on="{move}"]').click()
        expect(view.root.locator(".lk-remarks")).to_contain_text(f"{number} move")
        if number == 10:
            view.screenshot("play-last-level-dark")
    expect(view.root.get_by_role("alert")).to_contain_text("✘ a confirmed entry is lost")
    view.screenshot("play-last-level-won-dark")


def test_after_each_move_a_reader_who_asked_for_less_motion_can_make_the_next(
    opened: Opened,
) -> None:
    view = Game(1)
    page = opened(view, reduced_motion="reduce")
    kernel, now = Kernel(page, view), page.get_by_role("button", name="Go to now")
    for move in view.level.solution:
        expect(now).to_be_hidden()
        page.locator(f'[data-on="{move}"]').click()
        kernel.answer()
    assert view.has_won


@pytest.fixture(scope="module")
def play_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a site that consists of the page with the game, without Python."""
    folder = tmp_path_factory.mktemp("play")
    text = play_page(Views(folder / BELOW / "_static" / "views"))
    write_page(folder, "play.html", text.partition("# You are the network\n")[2])
    return folder


def test_the_sites_page_shows_a_level_while_python_starts(
    browser: Browser, play_folder: Path
) -> None:
    with Site(browser, play_folder) as site:
        page = site.open("play.html")
        expect(page.get_by_role("status").first).to_have_text("Choose a level below.")
        page.get_by_role("link", name=LEVELS[4].title).click()
        expect(page.locator(".lk-remarks")).to_contain_text("Level 5 of 10: Too early to tell")
        card_of_b1 = page.locator(".lk-place").get_by_role(
            "button", name=card("add entry 0", "w to b1")
        )
        expect(card_of_b1).to_be_visible()
        # This site has no Python, so the page says what went wrong.
        expect(page.get_by_role("status").first).to_contain_text("Python did not start")
        page.close()


@pytest.fixture
def touched(browser: Browser, play_folder: Path) -> Iterator[Callable[[int, str], Page]]:
    """Return a function that opens the page with the game on a touch screen."""
    views: list[SceneView] = []

    def answer(route: Route) -> None:
        asked = json.loads(route.request.post_data or "")
        if "link" in asked:
            views.append(open_run(asked["link"]))
        else:
            views[-1].handle(asked["message"])
        route.fulfill(body=state_of(views[-1]), content_type="application/json")

    with Site(browser, play_folder) as site:
        pages: list[Page] = []

        def opened(width: int, theme: str) -> Page:
            context = browser.new_context(
                viewport={"width": width, "height": 844},
                has_touch=True,
                color_scheme="dark" if theme == "dark" else "light",
                permissions=["clipboard-read", "clipboard-write"],
            )
            page = context.new_page()
            page.on("pageerror", lambda error: site.errors.append(str(error)))
            script = {"body": WORKER, "content_type": "text/javascript"}
            page.route("**/run-worker.js", lambda route: route.fulfill(**script))
            page.route("**/python", answer)
            page.goto(f"{site.host}{BELOW}/play.html")
            pages.append(page)
            return page

        yield opened
        for page in pages:
            page.context.close()
        assert site.errors == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 900, 1400])
def test_a_level_is_played_compared_and_recorded_by_touch(
    width: int, theme: str, touched: Callable[[int, str], Page]
) -> None:
    page = touched(width, theme)

    def button(name: str) -> Locator:
        return page.locator(".lk-place").get_by_role("button", name=name)

    page.get_by_role("link", name=LEVELS[4].title).tap()
    button("Let r begin to recover ledger 0").tap()
    button(card("add entry 0", "w to b0")).tap()
    button(card("entry 0 is stored", "b0 to w")).tap()
    expect(page.locator(".lk-remarks")).to_contain_text("3 moves, par 7")
    page.screenshot(path=ARTIFACTS / f"play-touch-{width}-{theme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(SMALLEST) >= 24
    button("Undo").tap()
    button(card("add entry 0", "w to b1")).tap()
    button("Record this").tap()
    expect(button("Copied")).to_be_visible()
    exec(page.evaluate("navigator.clipboard.readText()"), {})  # The code asserts the digest.
    page.get_by_label("Compare with").select_option(
        label="1: 3 moves, ✘ an entry was confirmed with too few acks"
    )
    svg = page.locator(".lk-place .lk-picture svg")
    expect(svg).to_contain_text("This play: 3 moves")
    for title in ("This play: 3 moves", "Branch: 3 moves"):
        run = svg.locator("g", has_text=title).last
        box = run.bounding_box()
        assert box is not None
        assert 0 <= box["x"] < box["x"] + box["width"] <= width
    expect(svg).to_contain_text("After the last move: w confirmed entry 0")
    expect(svg).to_contain_text("Move 3 (“entry 0 is stored” from b0 to w): w confirmed entry 0")
    page.screenshot(path=ARTIFACTS / f"play-touch-compare-{width}-{theme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    button("Back to the play").tap()
    expect(page.get_by_label("Compare with")).to_be_visible()
    assert page.evaluate(OUTERMOST) <= width
    button("Solution").tap()
    expect(button("Next level")).to_be_enabled()
    button("When did it become inevitable?").tap()
    expect(page.get_by_role("img", name="The share of other futures")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("futures break this promise")
    expect(button("When did it become inevitable?")).to_be_enabled()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    page.get_by_text("What the symbols mean").tap()
    page.locator("summary", has_text="Why “").tap()
    assert page.evaluate(OUTERMOST) <= width
    assert page.evaluate(CUT_OFF) == []
    page.screenshot(path=ARTIFACTS / f"play-touch-won-{width}-{theme}.png", full_page=True)


def open_level(page: Page, number: int) -> Locator:
    """Open a level, wait for Python, and return its view."""
    page.get_by_role("link", name=LEVELS[number - 1].title).tap()
    view = page.locator(".lk-place")
    expect(view.get_by_role("button", name="Solution")).to_be_visible()
    return view


@pytest.mark.parametrize("width", [900, 1400])
@pytest.mark.parametrize("number", [4, 10])
def test_the_sentence_about_an_event_is_visible_without_scrolling(
    number: int, width: int, touched: Callable[[int, str], Page]
) -> None:
    page = touched(width, "light")
    view = open_level(page, number)
    for move in LEVELS[number - 1].solution[:-1]:
        # A tap could scroll the page.
        view.locator(f'[data-on="{move}"]').dispatch_event("click")
        expect(view.locator(f'[data-on="{move}"]')).to_have_count(0)
        expect(view.locator(".lk-sentence")).to_be_in_viewport(ratio=1)
    page.screenshot(path=ARTIFACTS / f"play-sentence-{number}-{width}.png")


def test_a_solved_level_is_ticked_in_this_browser(touched: Callable[[int, str], Page]) -> None:
    page = touched(900, "light")
    levels = page.locator("ol li")
    view = open_level(page, 1)
    view.get_by_role("button", name="Solution").tap()
    expect(view.get_by_role("button", name="Next level")).to_be_enabled()
    expect(levels.first).not_to_contain_text("solved")  # The player has not found this solution.
    view.get_by_role("button", name="Start over").tap()
    for move in LEVELS[0].solution:
        view.locator(f'[data-on="{move}"]').tap()
    expect(levels.first).to_contain_text("✔ solved: One is enough")
    page.goto(page.url.partition("#")[0])
    page.reload()
    expect(levels.first).to_contain_text("✔ solved: One is enough")
    expect(levels.nth(1)).not_to_contain_text("solved")
    page.screenshot(path=ARTIFACTS / "play-ticks.png")


BOXES = """() => [".lk-controls", ".lk-remarks", ".lk-picture"].map((each) =>
    document.querySelector(each).getBoundingClientRect().top + scrollY)"""


@pytest.mark.parametrize("width", [900, 1400])
def test_buttons_and_picture_stay_in_place_while_a_level_is_played(
    width: int, touched: Callable[[int, str], Page]
) -> None:
    page = touched(width, "light")
    view = open_level(page, 7)
    before = page.evaluate(BOXES)
    for move in LEVELS[6].solution:
        view.locator(f'[data-on="{move}"]').dispatch_event("click")
        expect(view.locator(f'[data-on="{move}"]')).to_have_count(0)
        assert page.evaluate(BOXES) == before
    expect(view.locator(".lk-outcome")).to_contain_text("a confirmed entry is lost")
    assert page.evaluate(BOXES) == before
    view.get_by_role("button", name="Start over").tap()
    view.locator('[data-on="deliver w>b0 2"]').dispatch_event("click")
    expect(view.get_by_label("Compare with")).to_be_enabled()
    assert page.evaluate(BOXES) == before
    page.screenshot(path=ARTIFACTS / f"play-won-in-place-{width}.png", full_page=True)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_move_can_be_made_in_the_past(theme: str, touched: Callable[[int, str], Page]) -> None:
    page = touched(900, theme)
    view = open_level(page, 8)
    slider, outcome = view.get_by_role("slider"), view.locator(".lk-outcome")
    assert slider.input_value() == slider.get_attribute("max")
    for move in LEVELS[7].solution[:8]:
        view.locator(f'[data-on="{move}"]').dispatch_event("click")
        expect(view.locator(f'[data-on="{move}"]')).to_have_count(0)
    expect(outcome).to_be_visible()
    now = view.get_by_role("button", name="Go to now")
    expect(now).to_be_hidden()
    slider.fill("2000")
    expect(now).to_be_visible()
    expect(outcome).to_be_hidden()
    expect(view.locator(".lk-notice")).to_be_empty()
    view.locator('[data-act="deliver"]').first.dispatch_event("click")
    expect(view.locator(".lk-remarks")).to_contain_text("8 moves")
    page.screenshot(path=ARTIFACTS / f"play-past-{theme}.png")
    now.tap()
    expect(now).to_be_hidden()
    expect(outcome).to_be_visible()


def test_the_picture_has_a_frame_only_for_the_keyboard(touched: Callable[[int, str], Page]) -> None:
    page = touched(900, "light")
    view = open_level(page, 1)
    view.locator('[data-on="deliver w>b1 2"]').click()
    expect(view.locator(".lk-remarks")).to_contain_text("1 move")
    picture = view.locator(".lk-picture > svg")
    assert picture.evaluate("(each) => getComputedStyle(each).outlineStyle") == "none"
    press_by_keyboard(page, "deliver b1>w 2")
    expect(view.locator(".lk-remarks")).to_contain_text("in 2 moves")
    expect(picture).to_be_focused()
    assert picture.evaluate("(each) => getComputedStyle(each).outlineStyle") == "solid"


def test_the_next_level_is_in_view(touched: Callable[[int, str], Page]) -> None:
    page = touched(900, "light")
    view = open_level(page, 1)
    view.get_by_role("button", name="Solution").tap()
    page.evaluate("scrollTo(0, 0)")
    view.get_by_role("button", name="Next level").tap()
    expect(view.locator(".lk-remarks")).to_contain_text("Level 2 of 10")
    expect(view.locator(".lk-picture")).to_be_in_viewport(ratio=1)
    slider = view.get_by_role("slider")
    assert slider.input_value() == slider.get_attribute("max")


@pytest.mark.parametrize("number", [3, 4])
def test_the_final_check_is_played_only_when_the_player_asks_for_it(
    number: int, touched: Callable[[int, str], Page]
) -> None:
    page = touched(900, "dark")
    view = open_level(page, number)
    while view.get_by_role("button", name="Deliver the rest").is_enabled():
        move = view.locator('[data-act="deliver"]').first
        name = move.get_attribute("data-on")
        move.tap()
        expect(view.locator(f'[data-on="{name}"]')).to_have_count(0)
    check = view.locator(".lk-check")
    expect(check).to_have_text("Check ✔")
    expect(view.get_by_role("button", name="Play", exact=True)).to_be_visible(timeout=30_000)
    expect(check).to_have_text("Check ✔")
    page.screenshot(path=ARTIFACTS / f"play-check-{number}.png")


@pytest.mark.slow
def test_a_level_is_won_on_the_site_with_python_in_the_tab(
    browser: Browser, play_folder: Path, kept: pytest.Cache
) -> None:
    add_python(play_folder, kept.mkdir("site"))
    with Site(browser, play_folder) as site:
        page = site.open("play.html")
        page.get_by_role("link", name=LEVELS[0].title).click()
        solution = page.get_by_role("button", name="Solution")
        expect(solution).to_be_visible(timeout=120_000)
        page.get_by_role("button", name=card("add entry 0", "w to b2")).click()
        page.get_by_role("button", name=card("entry 0 is stored", "b2 to w")).click()
        expect(page.get_by_role("button", name="Next level")).to_be_enabled()
        page.locator("body").screenshot(path=ARTIFACTS / "play-site.png")
        page.close()
        assert site.asked_elsewhere() == []
