"""A picture as a value: an immutable tree of marks, and its still picture as SVG.

A view is a plain function from a state to such a tree.  `film` sends trees to the browser, where
`browser/stage.js` draws them; neither knows what a view shows.

Rules: a key is unique among siblings, and the tag of a key never changes; numbers are rounded here,
so that the browser and the still picture write the same text; a part that did not change is the
same object as before (`PartCache`, or `functools.lru_cache` on a drawing function), because a film
of ten thousand events is quick to make only if parts are compared by identity.

Besides its look a mark can have: `kin`, names of what it shows (`e7-3` is entry 3 of ledger 7), so
that all marks of the same thing light up together in every view of the page; `act` and `on`, a
command that a click sends to Python; `title`, a full description for readers who point at it or use
a screen reader; `move`, a way along which it moves.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from html import escape
from typing import Literal, NamedTuple, TypedDict, Unpack

from labkit.views.widgets.palette import still_style

Value = str | float
Attributes = dict[str, Value]
Anchor = Literal["start", "middle", "end"]


class Style(TypedDict, total=False):
    """Colours by their names in `palette`; thick: the width of the stroke."""

    fill: str
    stroke: str
    thick: float
    dash: str


class Move(NamedTuple):
    """A movement between two positions of the clock: the mark is shifted by the rest of (dx,
    dy).
    """

    start: float
    end: float
    dx: float
    dy: float

    def at(self, position: float) -> str:
        """The transform at the position; `moved` in `browser/stage.js` has the same formula."""
        part = (position - self.start) / max(self.end - self.start, 1)
        left = 1 - min(max(part, 0), 1)
        return f"translate({rounded(self.dx * left):g} {rounded(self.dy * left):g})"


_MOST_SCALED = 1000
"""Pixels: the width up to which a picture is as wide as its page has room for, as in view.css."""


class Mark(NamedTuple):
    """An SVG element."""

    key: str
    tag: str
    attributes: Attributes
    text: str = ""
    children: "tuple[Mark, ...]" = ()
    move: Move | None = None


def rounded(value: float) -> float:
    """Round to a tenth of a pixel, halves up: Python and JavaScript round halves differently."""
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
    """A rectangle; `look` is that of `styled`."""
    where = {"x": rounded(x), "y": rounded(y), "width": rounded(width), "height": rounded(height)}
    return Mark(key, "rect", {**where, **({"rx": rx} if rx else {}), **styled(**look)})


def circle(key: str, x: float, y: float, r: float, **look: Unpack[Style]) -> Mark:
    """A circle around (x, y)."""
    return Mark(
        key, "circle", {"cx": rounded(x), "cy": rounded(y), "r": rounded(r), **styled(**look)}
    )


def path(key: str, d: str, *, title: str = "", kin: str = "", **look: Unpack[Style]) -> Mark:
    """A path with SVG's `d`.  A line with a `kin` lights up by its stroke, without a frame."""
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
    """A line of text with its baseline at `y`.  halo: lines behind it do not cross it."""
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
) -> Mark:
    """Marks that belong together, shifted by (x, y) or, while the group moves, by `move`.

    came: the offset from which a new group slides to its place while the picture plays, such as `0
    -40`. block: the keys Left, Right, Home and End stay in it; Up and Down go to the same thing in
    the next block, or to the nearest one there. pin: the kin that a click lights up until the next
    click; without an `act` the default is the kin that pointing lights up.

    With a title the group is one item for screen readers, and arrow keys reach it; with an `act` it
    is a button, which the Tab key reaches unless `tab` is false.
    """
    attributes: Attributes = {}
    if x or y:
        attributes["transform"] = f"translate({rounded(x):g} {rounded(y):g})"
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
    """A look as attributes."""
    names = (("f-", look.get("fill")), ("s-", look.get("stroke")))
    classes = [prefix + name for prefix, name in names if name]
    found: Attributes = {"class": " ".join(classes)} if classes else {}
    if "stroke" in look and look.get("thick", 1) != 1:
        found["stroke-width"] = look["thick"]
    if look.get("dash"):
        found["stroke-dasharray"] = look["dash"]
    return found


def picture(width: float, height: float, words: str, *children: Mark) -> Mark:
    """The root of a scene; `words` describe the picture for screen readers."""
    return Mark("", "svg", _frame(width, height, words), "", children)


@lru_cache(256)
def _frame(width: float, height: float, words: str) -> Attributes:
    # A page fits a picture into its width; a wider one keeps its size and scrolls, to be readable.
    whole: Attributes = {"style": f"min-width: {width:g}px"} if width > _MOST_SCALED else {}
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


@lru_cache(512)
def hatch(width: float, height: float, *, step: float = 6, falling: bool = False) -> str:
    """The path of slanting lines that fill a box; an SVG pattern would need an id, unique on a
    page.
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


class PartCache:
    """Parts of a picture, drawn again only when their arguments have changed."""

    def __init__(self) -> None:
        self._last: dict[object, tuple[tuple[object, ...], Mark]] = {}

    def part(self, key: object, draw: Callable[..., Mark], *shown: object) -> Mark:
        """`draw(*shown)`, or the part with this key as it was drawn last."""
        last = self._last.get(key)
        if last is None or last[0] != shown:  # Tuples compare identical objects at once.
            last = self._last[key] = shown, draw(*shown)
        return last[1]


def size_of(scene: Mark) -> tuple[float, float]:
    """Width and height of a scene."""
    return float(scene.attributes["width"]), float(scene.attributes["height"])


def to_svg(scene: Mark, position: float = 0) -> str:
    """The scene as an SVG element, as the browser draws it at the position of the clock."""
    parts: list[str] = []
    _write(scene, position, parts)
    return "".join(parts)


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escaped(words: str, *, quote: bool = True) -> str:
    """The text for an XML or HTML document.  Some characters have no place in one at all, and a
    note of a trace may hold them.
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


def still(*scenes: Mark, words: str, position: float = 0) -> str:
    """A self-contained document: the scenes one below the other, on a background.

    It is dark where the viewer prefers that (`prefers-color-scheme`).
    """
    width = max(size_of(scene)[0] for scene in scenes)
    placed, y = list[Mark](), 0.0
    for at, scene in enumerate(scenes):
        frame = {name: scene.attributes[name] for name in ("width", "height", "viewBox")}
        placed.append(Mark(str(at), "svg", frame | {"y": rounded(y)}, "", scene.children))
        y += size_of(scene)[1]
    root = picture(width, y, words)
    classes = " ".join(each for mark in placed for each in _classes_of(mark))
    style = Mark("style", "style", {}, still_style(classes))
    page = rect("page", 0.5, 0.5, width - 1, y - 1, rx=8, fill="page", stroke="line")
    attributes = {name: v for name, v in root.attributes.items() if name != "tabindex"}
    attributes["role"] = "img"
    title = Mark("title", "title", {}, words)
    return to_svg(Mark("", "svg", attributes, "", (title, style, page, *placed)), position)
