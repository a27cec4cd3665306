"""Tests films as animated SVG files without scripts."""

import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from labkit.views.widgets import ClusterView
from labkit.views.widgets.animated import REST_MS
from labkit.views.widgets.drawing.scene import Mark
from tests.views.widgets.films import crashed

SVG = "{http://www.w3.org/2000/svg}"
SCRIPT = Path(__file__).parents[3] / "docs" / "make_moving_picture.py"
VIEW = ClusterView(crashed().events)


def frames(svg: str) -> dict[str, list[tuple[float, str]]]:
    """Return, for each animation class, its key frames: a percentage and the rule from then on."""
    found = {}
    for name, body in re.findall(r"@keyframes (\S+?)\{((?:[\d.%,]+\{[^}]*\})+)\}", svg):
        found[name] = [
            (float(percent), rule)
            for percents, rule in re.findall(r"([\d.%,]+)\{([^}]*)\}", body)
            for percent in percents.replace("%", "").split(",")
        ]
    return found


def texts_of(svg: str, is_seen: Callable[[ElementTree.Element], bool]) -> list[str]:
    """Return the texts of all elements that are seen."""

    def seen(element: ElementTree.Element) -> Iterator[str]:
        for child in element:
            if child.tag in (SVG + "g", SVG + "text") and is_seen(child):
                yield from [child.text] if child.text else []
                yield from seen(child)

    return sorted(seen(ElementTree.fromstring(svg)))


def words_of(mark: Mark) -> Iterator[str]:
    for child in mark.children:
        if child.tag != "title":
            yield from [child.text] if child.text else []
            yield from words_of(child)


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_at_every_moment_it_says_what_the_film_says(part: float) -> None:
    position = part * (VIEW.opening() + REST_MS)
    shown = [beat for beat in VIEW.reel.beats if beat.at <= min(position, VIEW.opening())]
    svg = VIEW.moving_svg()
    found = frames(svg)

    def is_seen(element: ElementTree.Element) -> bool:
        for name in element.get("class", "").split():
            if name.startswith("s") and name in found:
                past = [rule for percent, rule in found[name] if percent <= part * 100]
                return past[-1] == "visibility:visible"
        return True

    assert texts_of(svg, is_seen) == sorted(words_of(shown[-1].scene))


def test_it_needs_no_script_and_nothing_from_elsewhere() -> None:
    svg = VIEW.moving_svg()
    assert not re.search(r"<script|href|url\(|@import|\bid=", svg)
    assert "@media (prefers-reduced-motion:no-preference){@keyframes" in svg


def test_without_animation_the_last_moment_is_seen() -> None:
    shown = texts_of(VIEW.moving_svg(), lambda each: each.get("visibility") != "hidden")
    last = [beat for beat in VIEW.reel.beats if beat.at <= VIEW.opening()][-1]
    assert shown == sorted(words_of(last.scene))


def test_the_picture_of_the_readme_is_that_of_its_script() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["FILE"].read_text(encoding="utf-8") == script["moving_picture"]()


def test_every_mark_that_is_hidden_at_rest_has_an_animation_that_shows_it() -> None:
    svg = VIEW.moving_svg()
    shown = {
        name
        for name, rules in frames(svg).items()
        if any(rule == "visibility:visible" for _, rule in rules)
    }
    hidden = [
        element
        for element in ElementTree.fromstring(svg).iter()
        if element.get("visibility") == "hidden"
    ]
    assert hidden
    assert [each.attrib for each in hidden if not shown & {*each.get("class", "").split()}] == []


def test_the_picture_ends_with_its_last_box() -> None:
    width = float(ElementTree.fromstring(VIEW.moving_svg()).attrib["width"])
    boxes = [
        edge
        for beat in VIEW.reel.beats
        if beat.at <= VIEW.opening()
        for edge in right_edges(beat.scene)
    ]
    assert max(boxes) < width <= max(boxes) + 20


def right_edges(mark: Mark, shift: float = 0) -> Iterator[float]:
    found = re.match(r"translate\((\S+)", str(mark.attributes.get("transform", "")))
    shift += float(found[1]) if found else 0
    if mark.tag == "rect":
        yield shift + float(mark.attributes["x"]) + float(mark.attributes["width"])
    for child in mark.children:
        yield from right_edges(child, shift)
