"""Python and the page agree on the selected part of a crash map or a lineage."""

import re

import pytest
from playwright.sync_api import Locator, expect

from labkit.views.widgets import MessageIdLineage
from tests.browser.kernel import DISPLAY_AGAIN, Kernel, Opened
from tests.views.widgets.lineages import in_a_batch

pytestmark = pytest.mark.browser
REPORTED_MS = 250


@pytest.fixture
def lineage(opened: Opened) -> Kernel:
    view = MessageIdLineage(in_a_batch())
    return Kernel(opened(view, reduced_motion="reduce"), view)


def copy(kernel: Kernel, place: int, view: int = 0) -> Locator:
    """Return the button of the copy at this index of the write set."""
    root = kernel.page.locator(".lk-view").nth(view)
    return root.locator(".lk-picture [data-act=seek]").nth(place)


def click(kernel: Kernel, place: int) -> None:
    copy(kernel, place).click()
    kernel.page.wait_for_timeout(REPORTED_MS)
    kernel.answer()


def test_python_hears_of_a_choice_again_after_it_chose_itself(lineage: Kernel) -> None:
    view, bookies = lineage.view, [each.bookie for each in in_a_batch().copies]
    for _ in range(2):
        click(lineage, 1)
        assert view.bookie == bookies[1]
        view.bookie = bookies[0]
        lineage.hand_over()
        expect(copy(lineage, 0).locator("title")).to_have_text(re.compile("shown"))


def test_a_view_that_is_displayed_again_opens_at_what_was_chosen(lineage: Kernel) -> None:
    click(lineage, 2)
    lineage.page.evaluate(DISPLAY_AGAIN)
    for view in (0, 1):
        expect(copy(lineage, 2, view).locator("title")).to_have_text(re.compile("shown"))
    opening = lineage.page.evaluate("document.querySelector('.labkit').model.get('film').opening")
    assert opening == lineage.view.film["opening"] == lineage.view.reel.beats[2].at
