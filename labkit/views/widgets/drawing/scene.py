"""Pictures as values: immutable trees of marks, and their rendering as SVG.

A view is a pure function from a state to such a tree. `film` encodes the trees for the browser,
where `browser/stage.js` draws them. Neither of these modules depends on what a view shows.

Rules:

- A key is unique among siblings, and marks with the same key always have the same tag.
- This module rounds all numbers, so that the browser and the still picture contain the same text.
- A part that has not changed is the same object as before (use `PartCache`, or
  `functools.lru_cache` on a drawing function). Because parts are compared by identity, a film of
  ten thousand events is cheap to build.

Besides its appearance, a mark can have:

- `kin`: the names of the things that it shows (`e7-3` is entry 3 of ledger 7); all marks of the
  same thing are highlighted together, in every view on the page
- `act` and `on`: a command that is sent to Python on a click
- `title`: a full description for the tooltip and for screen readers
- `move`: a movement while the film plays
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from html import escape
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar, Unpack

from labkit.views.widgets.drawing.palette import still_style
from labkit.views.widgets.drawing.text_metrics import lines_of, width_of

Value = str | float
Attributes = dict[str, Value]
Anchor = Literal["start", "middle", "end"]


class Style(TypedDict, total=False):
    """The colours (by their names in `palette`), the stroke width (`thick`) and the dash
    pattern.
    """

    fill: str
    stroke: str
    thick: float
    dash: str


class Move(NamedTuple):
    """A movement between two positions of the clock: the mark starts shifted by (dx, dy), and the
    shift shrinks linearly to zero.
    """

    start: float
    end: float
    dx: float
    dy: float

    def at(self, position: float) -> str:
        """Return the transform at `position`, computed like `moved` in `browser/stage.js`."""
        part = (position - self.start) / max(self.end - self.start, 1)
        left = 1 - min(max(part, 0), 1)
        return f"translate({rounded(self.dx * left):g} {rounded(self.dy * left):g})"


_MAX_SCALED_WIDTH = 1000
"""Pictures up to this width, in pixels, are scaled to the width of the page, as in view.css."""


class Mark(NamedTuple):
    key: str
    tag: str
    attributes: Attributes
    text: str = ""
    children: "tuple[Mark, ...]" = ()
    move: Move | None = None


def rounded(value: float) -> float:
    """Round to a tenth of a pixel, with halves rounded away from zero, because Python's and
    JavaScript's own functions round halves differently.
    """
    tenths = int(value * 10 + 0.5) if value >= 0 else -int(-value * 10 + 0.5)
    return tenths / 10 if tenths % 10 else tenths // 10


def rect(
    key: str,
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    rx: float = 0,
    **look: Unpack[Style],
) -> Mark:
    where = {"x": rounded(x), "y": rounded(y), "width": rounded(width), "height": rounded(height)}
    return Mark(key, "rect", {**where, **({"rx": rx} if rx else {}), **styled(**look)})


def circle(key: str, x: float, y: float, r: float, **look: Unpack[Style]) -> Mark:
    return Mark(
        key, "circle", {"cx": rounded(x), "cy": rounded(y), "r": rounded(r), **styled(**look)}
    )


def path(key: str, d: str, *, title: str = "", kin: str = "", **look: Unpack[Style]) -> Mark:
    """Return a path with the SVG path data `d`. A path with a `kin` is highlighted by a thicker
    stroke instead of an outline.
    """
    words = (Mark("title", "title", {}, title),) if title else ()
    kin_of = {"data-kin": kin} if kin else {}
    return Mark(key, "path", {"d": d, **styled(**look), **kin_of}, "", words)


def text(
    key: str,
    x: float,
    y: float,
    words: str,
    *,
    fill: str = "ink",
    size: float = 12,
    bold: bool = False,
    anchor: Anchor = "start",
    mono: bool = False,
    halo: bool = False,
) -> Mark:
    """Return a line of text with its baseline at `y`. halo: draw a margin around it in the page's
    colour.
    """
    attributes: Attributes = {"x": rounded(x), "y": rounded(y)}
    if anchor != "start":
        attributes["text-anchor"] = anchor
    if size != 12:
        attributes["font-size"] = size
    if bold:
        attributes["font-weight"] = "bold"
    classes = [f"f-{fill}", *(["mono"] if mono else []), *(["halo"] if halo else [])]
    return Mark(key, "text", attributes | {"class": " ".join(classes)}, words)


def group(
    key: str,
    *children: Mark,
    x: float = 0,
    y: float = 0,
    title: str = "",
    kin: str = "",
    act: str = "",
    on: str = "",
    tab: bool = True,
    move: Move | None = None,
    came: str = "",
    block: bool = False,
    pin: str = "",
    latest: bool = False,
) -> Mark:
    """Return a group of marks, shifted by (x, y) and, while the group is moving, by `move`.

    came: the offset from which the group slides into position when it first appears while the
        picture plays, such as `0 -40`.
    block: whether the Left, Right, Home and End keys stay within the group. The Up and Down keys
        then move to the same item of the adjacent block, or to the nearest item if that block lacks
        it.
    pin: the related marks that stay highlighted after a click. For a group without an `act`, the
        default is the kin that is highlighted when the reader points at the group.
    latest: whether the group shows the latest moment, even when the picture shows an earlier one.
        In that case, the group is faint, and its buttons do nothing.

    A group with a title is one item for screen readers and can be reached with the arrow keys. A
    group with an `act` is a button, which the Tab key reaches unless `tab` is false.
    """
    attributes: Attributes = {}
    if x or y:
        attributes["transform"] = f"translate({rounded(x):g} {rounded(y):g})"
    if latest:
        attributes["data-latest"] = ""
    if kin:
        attributes["data-kin"] = kin
    if came:
        attributes["data-came"] = came
    if block:
        attributes["data-block"] = ""
    if pin:
        attributes["data-pin"] = pin
    if act:
        attributes |= {
            "role": "button",
            "tabindex": 0 if tab else -1,
            "data-act": act,
            "data-on": on,
        }
    elif title:
        attributes |= {"role": "img", "tabindex": -1}
    words = (Mark("title", "title", {}, title),) if title else ()
    return Mark(key, "g", attributes, "", words + children, move)


def styled(**look: Unpack[Style]) -> Attributes:
    names = (("f-", look.get("fill")), ("s-", look.get("stroke")))
    classes = [prefix + name for prefix, name in names if name]
    found: Attributes = {"class": " ".join(classes)} if classes else {}
    if "stroke" in look and look.get("thick", 1) != 1:
        found["stroke-width"] = look["thick"]
    if look.get("dash"):
        found["stroke-dasharray"] = look["dash"]
    return found


def picture(width: float, height: float, words: str, *children: Mark) -> Mark:
    """Return the root of a scene. `words` is the description of the picture for screen readers."""
    return Mark("", "svg", _frame(width, height, words), "", children)


@lru_cache(256)
def _frame(width: float, height: float, words: str) -> Attributes:
    # Pictures up to this width are scaled to the page's width. Wider pictures keep their size and
    # scroll.
    whole: Attributes = {"style": f"min-width: {width:g}px"} if width > _MAX_SCALED_WIDTH else {}
    return whole | {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": f"0 0 {rounded(width):g} {rounded(height):g}",
        "width": rounded(width),
        "height": rounded(height),
        "role": "group",
        "aria-label": words,
        "tabindex": 0,
        "font-family": "DejaVu Sans, Verdana, sans-serif",
        "font-size": 12,
        "fill": "none",
    }


def narrowed(wide: Mark, narrow: Mark) -> Mark:
    """Return `wide`, which takes on the attributes of `narrow` on narrow pages if the root of the
    picture is narrowed, too. Parts that are side by side can thus move below each other.
    """
    changed = {
        name: value for name, value in narrow.attributes.items() if wide.attributes[name] != value
    }
    return wide._replace(attributes=wide.attributes | {"data-narrow": json.dumps(changed)})


@lru_cache(512)
def hatch(width: float, height: float, *, step: float = 6, falling: bool = False) -> str:
    """Return path data for diagonal lines that fill a box. The lines are not an SVG pattern,
    because a pattern would need an id that is unique on the page.
    """
    parts, at = [], step
    while at < width + height:
        x1, y1 = (at, 0.0) if at <= width else (width, at - width)
        x2, y2 = (0.0, at) if at <= height else (at - height, height)
        if falling:
            x1, x2 = width - x1, width - x2
        parts.append(f"M{rounded(x1):g} {rounded(y1):g}L{rounded(x2):g} {rounded(y2):g}")
        at += step
    return "".join(parts)


Part = TypeVar("Part")


class PartCache:
    """A cache for the parts of a picture, which redraws a part only if its arguments have
    changed.
    """

    def __init__(self) -> None:
        self._last: dict[object, tuple[tuple[object, ...], Any]] = {}

    def part(self, key: object, draw: Callable[..., Part], *shown: object) -> Part:
        """Return `draw(*shown)`, or the cached part for this key if the arguments are the same."""
        last = self._last.get(key)
        if last is None or last[0] != shown:  # Comparing tuples of identical objects is fast.
            last = self._last[key] = shown, draw(*shown)
        found: Part = last[1]
        return found

    def group(self, key: str, *children: Mark, y: float = 0) -> Mark:
        """Return the group of these children, or the cached group if they are the same."""
        return self.part(key, lambda y, *marks: group(key, *marks, y=y), y, *children)


def size_of(scene: Mark) -> tuple[float, float]:
    return float(scene.attributes["width"]), float(scene.attributes["height"])


def to_svg(scene: Mark, position: float = 0) -> str:
    """Return the scene as the SVG element that the browser draws at this clock position."""
    parts: list[str] = []
    _write(scene, position, parts)
    return "".join(parts)


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escaped(words: str, *, quote: bool = True) -> str:
    """Escape text for an XML or HTML document. Characters that are not allowed in XML, which a
    note in a trace can contain, are replaced.
    """
    return escape(_NOT_IN_XML.sub("\ufffd", words), quote=quote)


def _write(mark: Mark, position: float, parts: list[str]) -> None:
    parts.append(f"<{mark.tag}")
    for name, value in mark.attributes.items():
        plain = escaped(value, quote=True) if isinstance(value, str) else f"{value:g}"
        parts.append(f' {name}="{plain}"')
    if mark.move:
        parts.append(f' transform="{mark.move.at(position)}"')
    parts.append(">" + escaped(mark.text, quote=False))
    for child in mark.children:
        _write(child, position, parts)
    parts.append(f"</{mark.tag}>")


def _classes_of(mark: Mark) -> Iterator[str]:
    yield str(mark.attributes.get("class", ""))
    for child in mark.children:
        yield from _classes_of(child)


ACTS_OF_THE_PICTURE = ("seek", "show", "fail", "deliver")
"""Acts of marks that are part of the picture. All other marks with an act are only buttons."""


def _without_buttons(mark: Mark) -> tuple[Mark, ...]:
    return tuple(
        child._replace(children=_without_buttons(child)) if child.children else child
        for child in mark.children
        if child.attributes.get("data-act", "seek") in ACTS_OF_THE_PICTURE
    )


def still(
    *parts: Mark | None, words: str, position: float = 0, title: str = "", note: str = ""
) -> str:
    """Return a self-contained SVG document with a title line and the scenes, one below another.
    None stands for a missing scene.

    The document uses dark colours if the reader prefers them, and does not contain the buttons that
    act on the run. note: a text at the end of the title line, which is omitted if there is no room.
    """
    scenes = [part for part in parts if part]
    width = max(size_of(scene)[0] for scene in scenes)
    lines = lines_of(title, width - 24, 13, bold=True)
    placed, y = list[Mark](), 18.0 * len(lines)
    placed += [
        text(f"title {at}", 12, 18 * at + 18, line, size=13, bold=True)
        for at, line in enumerate(lines)
    ]
    if lines and width_of(lines[0], 13, bold=True) + width_of(note) < width - 48:
        placed.append(text("note", width - 12, 18, note, fill="faint", anchor="end"))
    for at, scene in enumerate(scenes):
        frame = {name: scene.attributes[name] for name in ("width", "height", "viewBox")}
        placed.append(Mark(str(at), "svg", frame | {"y": rounded(y)}, "", _without_buttons(scene)))
        y += size_of(scene)[1]
    root = picture(width, y, words)
    classes = " ".join(each for mark in placed for each in _classes_of(mark))
    style = Mark("style", "style", {}, still_style(classes))
    page = rect("page", 0.5, 0.5, width - 1, y - 1, rx=8, fill="page", stroke="line")
    attributes = {name: v for name, v in root.attributes.items() if name != "tabindex"}
    attributes["role"] = "img"
    about = Mark("title", "title", {}, words)
    return to_svg(Mark("", "svg", attributes, "", (about, style, page, *placed)), position)
