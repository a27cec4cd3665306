"""In a browser, the animated picture shows the texts of its film, and every mark is visible at some
time.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from labkit.views.widgets import ClusterView
from labkit.views.widgets.animated import REST_MS, SPEED
from tests.views.widgets.films import crashed
from tests.views.widgets.test_animated import words_of

pytestmark = pytest.mark.browser

VIEW = ClusterView(crashed().events)
BEATS = [beat for beat in VIEW.reel.beats if beat.at <= VIEW.opening()]
ENDS = [*(beat.at for beat in BEATS[1:]), VIEW.opening() + REST_MS]

_AT = """([milliseconds, what]) => {
  for (const animation of document.getAnimations()) {
    animation.pause();
    animation.currentTime = milliseconds;
  }
  const marks = [...document.querySelectorAll(what)];
  return marks.flatMap((mark, number) =>
    getComputedStyle(mark).visibility === "visible" ? [[number, mark.textContent]] : []);
}"""


@pytest.fixture
def visible(browser: Browser, tmp_path: Path) -> Iterator[Callable[[float, str], dict[int, str]]]:
    """Yield a function that maps a position of the film to the visible marks, given as their
    numbers and texts.
    """
    file = tmp_path / "moving.svg"
    file.write_text(VIEW.moving_svg(), encoding="utf-8")
    page: Page = browser.new_page()
    page.goto(file.as_uri())
    yield lambda position, what: dict(page.evaluate(_AT, [position / SPEED, what]))
    page.close()


def test_a_browser_shows_the_words_of_the_film(
    visible: Callable[[float, str], dict[int, str]],
) -> None:
    for number in range(0, len(BEATS), 7):
        middle = (BEATS[number].at + ENDS[number]) / 2
        texts = filter(None, visible(middle, "text").values())
        assert sorted(texts) == sorted(words_of(BEATS[number].scene))


def test_every_mark_is_visible_at_some_time_also_messages_in_flight(
    visible: Callable[[float, str], dict[int, str]],
) -> None:
    marks = "text, rect, path, circle, line"
    seen = set[int]()
    for beat, end in zip(BEATS, ENDS, strict=True):
        seen |= visible((beat.at + end) / 2, marks).keys()
    assert len(seen) > 100
    assert seen == {*range(max(seen) + 1)}
