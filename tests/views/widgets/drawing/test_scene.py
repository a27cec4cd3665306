"""Tests scenes, which are pictures represented as values."""

from xml.etree import ElementTree

import pytest

from labkit.course.runs.timeline import timeline
from labkit.views.widgets import ClusterView, SpaceTime
from labkit.views.widgets.drawing.scene import (
    Move,
    PartCache,
    group,
    hatch,
    picture,
    rect,
    rounded,
    still,
    text,
    to_svg,
)
from labkit.views.widgets.page import page
from tests.views.widgets.scripted import Script


@pytest.mark.parametrize(
    ("value", "tenths"), [(1.25, 1.3), (-1.25, -1.3), (0.04, 0), (-0.04, 0), (2.96, 3), (7, 7)]
)
def test_numbers_are_rounded_to_tenths_and_halves_away_from_zero(
    value: float, tenths: float
) -> None:
    assert rounded(value) == tenths


def test_a_move_ends_exactly_where_its_mark_is() -> None:
    move = Move(100, 200, -33.3, 7)
    assert move.at(50) == "translate(-33.3 7)"
    assert move.at(150) == "translate(-16.7 3.5)"
    assert move.at(200) == move.at(900) == "translate(0 0)"


def test_a_still_picture_is_a_document_that_follows_a_dark_page() -> None:
    scene = picture(100, 40, "a scene", rect("box", 1, 2, 3, 4, fill="stored"))
    document = still(scene, picture(80, 20, "a legend"), words="what <it> shows")
    root = ElementTree.fromstring(document)
    assert root.get("viewBox") == "0 0 100 60"
    assert root.findtext("{http://www.w3.org/2000/svg}title") == "what <it> shows"
    assert "prefers-color-scheme:dark" in document
    assert document.count('tabindex="0"') == 0


def test_words_are_escaped() -> None:
    svg = to_svg(picture(9, 9, 'a "b" <c>', text("t", 0, 0, "<d> & e")))
    assert 'aria-label="a &quot;b&quot; &lt;c&gt;"' in svg
    assert "&lt;d&gt; &amp; e" in svg


def test_a_mark_with_an_act_is_a_button_and_one_with_a_title_an_image() -> None:
    button = group("kill", title="Kill b1", act="kill", on="b1").attributes
    assert (button["role"], button["tabindex"], button["data-on"]) == ("button", 0, "b1")
    assert group("cell", title="entry 3").attributes["role"] == "img"
    assert group("plain").attributes == {}


def test_a_kept_part_is_the_same_object_until_what_it_shows_changes() -> None:
    kept = PartCache()
    first = kept.part("a", rect, "a", 1, 2, 3, 4)
    assert kept.part("a", rect, "a", 1, 2, 3, 4) is first
    assert kept.part("a", rect, "a", 1, 2, 3, 5) is not first


@pytest.mark.parametrize("falling", [False, True])
def test_a_hatch_stays_in_its_box(falling: bool) -> None:
    numbers = hatch(40, 20, falling=falling).replace("M", " ").replace("L", " ").split()
    assert all(0 <= float(x) <= 40 for x in numbers[::2])
    assert all(0 <= float(y) <= 20 for y in numbers[1::2])


@pytest.mark.parametrize(
    "text", ["esc \x1b[31m", "nul \x00", "half a letter \ud800", "<!--<script>"]
)
def test_any_text_has_a_place_in_a_picture_and_on_a_page(text: str) -> None:
    script = Script(3, 3, 2, 2)
    script.record("writer", "step.started", step=text)
    view = ClusterView(script.settled())
    lanes = SpaceTime(script.log)
    for each in (view, lanes, timeline(script.log)):
        data, _ = each._repr_mimebundle_()
        ElementTree.fromstring(data["image/svg+xml"].encode())
        assert "<!--" not in page([each])
    ElementTree.fromstring(view.moving_svg().encode())
