"""Tests the page of all views."""

import json
import re
from pathlib import Path

import pytest

from labkit.views import widgets
from tools.site.gallery import gallery
from tools.site.lessons import lessons
from tools.site.views import Views

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return gallery(lessons(), Views(folder))


def test_the_page_shows_every_view_once_and_links_to_the_one_that_needs_python(page: str) -> None:
    shown = re.findall(r"^## (\w+)$", page, re.M)
    assert sorted([*shown, "PlayView"]) == sorted(widgets.__all__)
    assert page.count('<div class="lk-place"') == len(shown)
    assert "(play.md)" in page


def test_the_page_links_each_view_to_a_lesson_that_uses_it(page: str) -> None:
    shown = re.findall(r"^## (\w+)$.*?\(course/([\w.-]+)\)", page, re.M | re.S)
    paths = {lesson.path.name: lesson.path for lesson in lessons()}
    for view, lesson in shown:
        name = "timeline(" if view == "TimelineView" else f"{view}("
        assert name in paths[lesson].read_text(encoding="utf-8"), (view, lesson)


def test_no_view_on_the_page_has_a_button_that_only_python_answers(page: str, folder: Path) -> None:
    states = [
        json.loads((folder / name).read_text()) for name in re.findall(r'state="(.+?)"', page)
    ]
    for state in states:
        pairs = state["film"]["pairs"]
        used = {
            pairs[number][1]
            for row in state["film"]["attributes"]
            for number in row
            if pairs[number][0] == "data-act"
        }
        assert used <= {"seek", "show"}
        assert state["controls"] == []
