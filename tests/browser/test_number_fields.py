"""Number fields accept a number only when it is complete and reject invalid ones."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from labkit.course.runs.timeline import timeline
from labkit.views.widgets import SpaceTime, Stripes
from tests.browser.kernel import Kernel, Opened
from tests.browser.lab import ARTIFACTS
from tests.views.widgets.films import crashed

pytestmark = pytest.mark.browser


def type_slowly(field: Locator, digits: str, kernel: Kernel) -> None:
    """Replace the field's contents digit by digit, letting Python respond after each digit."""
    field.focus()
    kernel.page.keyboard.press("Control+A")
    for digit in digits:
        kernel.page.keyboard.type(digit)
        kernel.answer()


def test_a_number_of_two_digits_is_taken_as_a_whole(opened: Opened) -> None:
    view = SpaceTime(crashed(), entries=(5, 8))
    page = opened(view, reduced_motion="reduce")
    kernel, last = Kernel(page, view), page.get_by_label("to", exact=True)
    type_slowly(last, "10", kernel)
    assert view.entries == (5, 8)
    page.keyboard.press("Enter")
    kernel.answer()
    assert (view.entries, last.input_value()) == ((5, 10), "10")
    expect(last).to_be_focused()
    type_slowly(page.get_by_label("to ms"), "25", kernel)
    page.keyboard.press("Tab")
    kernel.answer()
    assert view.window_ms == (0.0, 25)


def test_the_other_end_of_a_range_follows_on_the_page(opened: Opened) -> None:
    view = SpaceTime(crashed(), entries=(5, 8))
    page = opened(view, reduced_motion="reduce")
    kernel = Kernel(page, view)
    type_slowly(page.get_by_label("to", exact=True), "3", kernel)
    page.keyboard.press("Enter")
    kernel.answer()
    expect(page.get_by_label("Entries")).to_have_value("3")
    assert view.entries == (3, 3)


@pytest.mark.parametrize(
    ("view", "label", "typed", "before", "words"),
    [
        (lambda: Stripes(5, 3, 2), "Write quorum Qw", "7", "3", "must be a whole number: 1 to 5."),
        (lambda: Stripes(5, 3, 2), "Entries", "", "8", "must be a whole number: 1 to 20."),
        (lambda: timeline(crashed()), "for ms", "-5", "0", "must be a number: 0 or more."),
    ],
)
def test_a_number_that_does_not_fit_is_refused_in_words(
    view: Callable[[], Stripes],
    label: str,
    typed: str,
    before: str,
    words: str,
    opened: Opened,
) -> None:
    page = opened(shown := view(), reduced_motion="reduce")
    kernel, field = Kernel(page, shown), page.get_by_role("spinbutton", name=label)
    field.fill(typed)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text(words)
    expect(field).to_have_value(before)
    page.locator(".lk-view").screenshot(path=ARTIFACTS / "number-refused.png")
    field.fill("4")
    page.keyboard.press("Enter")
    kernel.answer()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(field).to_have_value("4")


def test_a_field_that_was_left_as_it_was_follows_python_again(opened: Opened) -> None:
    view = SpaceTime(crashed())
    page = opened(view, reduced_motion="reduce")
    kernel, end = Kernel(page, view), page.get_by_label("to ms")
    before = end.input_value()
    end.focus()
    page.keyboard.press("End")
    page.keyboard.type("1")
    page.keyboard.press("Backspace")
    page.keyboard.press("Tab")
    assert end.input_value() == before
    view.window_ms = (0.0, 20.0)
    view.redraw()
    kernel.hand_over()
    expect(end).to_have_value("20")
