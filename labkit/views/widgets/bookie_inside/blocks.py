"""One item in a band: an entry, a record that is not an entry, padding, or LastLogMark. A ledger
is identified by its hue and its number. Every state is marked by something besides its colour: an
outline, dashes, or a glyph.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from labkit.views.widgets.bookie_inside.bands import Item
from labkit.views.widgets.drawing.legend import SAMPLE, Symbol, legend
from labkit.views.widgets.drawing.scene import Mark, group, hatch, path, rect, rounded, text
from labkit.views.widgets.drawing.text_metrics import width_of

WIDTH = 860
BLOCK, HIGH, GAP = 40, 22, 5
NOTE = 14
"""The height of the text below a block."""

LEGEND = (
    ("named", "7/3: entry 3 of ledger 7"),
    ("offset", "offset in the file, in bytes"),
    ("location", "entry log 0, offset 64"),
    ("put", "only in memory"),
    ("synced", "synced"),
    ("done", "no longer needed"),
    ("replayed", "replayed"),
    ("written", "written, not synced"),
    ("unsure", "unknown whether synced"),
    ("lost", "lost"),
    ("empty", "empty index slot"),
    ("special", "key, fence or LAC record"),
    ("pad", "padding"),
    ("mark", "LastLogMark"),
    ("found", "just read from here"),
)
SIGNS = {"unsure": "?", "lost": "✕", "replayed": "↺"}
_SAME = {"stored": "synced", "slot": "synced"}
_OUTLINES = {"replayed": "put", **_SAME}
_HUES = 6
_WIDTHS = {"pad": 12, "mark": 14, "page": 54, "head": 54, "tail": 96, "gap": 40}
_FROM = {"replayed": "0 70"}
"""The offset from which a new block slides in, by its look. Replayed entries slide in from the
journal, which is below the memtable.
"""


def width_of_item(item: Item) -> float:
    note = width_of(item.note) + 4
    if item.kind == "mark":
        return max(_WIDTHS["mark"], note - 12)
    label = width_of(item.label + SIGNS.get(item.look, ""), bold=True)
    if item.kind == "special":
        return rounded(max(label + 18, note))
    return rounded(max(_WIDTHS.get(item.kind, BLOCK), label + 6, note))


@lru_cache(16384)
def block(item: Item, key: str, kin: str, x: float, y: float, came: str = "") -> Mark:
    """Return the block. came: the offset from which the block slides in, or "" to use the default
    offset of blocks with this look.
    """
    width = width_of_item(item)
    if item.kind in ("entry", "special"):
        came = came or _FROM.get(item.look, "0 -40")
        title, parts = _title(item), _entry(item, width)
        return group(key, *parts, x=x, y=y, title=title, kin=kin, came=came)
    if item.kind == "mark":
        return group(key, *_mark(item, width), x=x, y=y, title=item.words, came="-60 0")
    return group(key, *_filler(item, width), x=x, y=y)


def _title(item: Item) -> str:
    return (
        f"entry {item.entry} of ledger {item.ledger}: {item.words}"
        if item.kind == "entry"
        else item.words
    )


def _entry(item: Item, width: float) -> list[Mark]:
    place = item.hue % _HUES
    looks: dict[str, dict[str, Any]] = {
        "put": {"fill": "page", "stroke": f"hue{place}", "thick": 2},
        "written": {"fill": "page", "stroke": f"hue{place}", "thick": 2, "dash": "5 3"},
        "synced": {"fill": f"tint{place}", "stroke": f"hue{place}"},
        "done": {"fill": "page", "stroke": "line"},
        "empty": {"fill": "none", "stroke": "line", "dash": "2 2"},
        "unsure": {"fill": "page", "stroke": "lost", "dash": "4 2"},
        "lost": {"fill": "none", "stroke": "lost", "dash": "1 3"},
    }
    rx = 3 if item.kind == "entry" else HIGH / 2
    parts = [rect("box", 0, 0, width, HIGH, rx=rx, **looks[_OUTLINES.get(item.look, item.look)])]
    inks = {"done": "faint", "empty": "faint", "unsure": "lost", "lost": "lost"}
    words, middle = item.label + SIGNS.get(item.look, ""), width / 2
    if words:
        ink, y = inks.get(item.look, "ink"), HIGH / 2 + 4.5
        parts.append(text("label", middle, y, words, fill=ink, bold=True, anchor="middle"))
    if item.note:
        y = HIGH + NOTE - 1
        parts.append(text("note", middle, y, item.note, fill="faint", anchor="middle"))
    if item.found:
        ring = rect("ring", -2.5, -2.5, width + 5, HIGH + 5, rx=5, stroke="confirmed", thick=2)
        parts.append(ring)
    return parts


def _mark(item: Item, width: float) -> list[Mark]:
    x = width / 2
    parts = [
        rect("line", x - 1.5, -3, 3, HIGH + 6, fill="confirmed"),
        path("tip", f"M{rounded(x - 6.5):g} -5h13l-6.5 8z", fill="confirmed"),
    ]
    if item.note:
        note = text(
            "note", x, HIGH + NOTE - 1, item.note, fill="confirmed", bold=True, anchor="middle"
        )
        parts.append(note)
    return parts


def _filler(item: Item, width: float) -> list[Mark]:
    if item.kind == "pad":
        title = "padding, so that the next write starts on a new block"
        reach = path("reach", f"M0 0h{width:g}v{HIGH}h-{width:g}z", fill="none", title=title)
        return [path("hatch", hatch(width, HIGH, step=5), stroke="faint"), reach]
    dash = "3 3" if item.kind in ("tail", "page") else ""
    frame = (
        []
        if item.kind == "gap"
        else [rect("box", 0, 0, width, HIGH, rx=3, stroke="line", dash=dash)]
    )
    label = text("label", width / 2, 15.5, item.label, fill="faint", anchor="middle")
    return [*frame, label]


def symbols_of(item: Item) -> set[str]:
    """Return the names that the legend uses for the symbols that draw this item."""
    if item.kind not in ("entry", "special"):
        return {item.kind}
    look = _SAME.get(item.look, item.look)
    what = "special" if item.kind == "special" else "named"
    below = {"slot": ["location"], "empty": []}.get(item.look, ["offset"] if item.note else [])
    return {look, what, *below, *(["found"] * item.found)}


@lru_cache(64)
def legend_of(shown: frozenset[str]) -> Mark | None:
    return legend(
        [Symbol(look, _sample(look), words, HIGH) for look, words in LEGEND if look in shown]
    )


def _sample(look: str) -> Sequence[Mark]:
    if look in ("offset", "location"):
        words = "64" if look == "offset" else "0:64"
        return [text("note", SAMPLE / 2, 15.5, words, fill="faint", anchor="middle")]
    kind = look if look in ("special", "pad", "mark") else "entry"
    sample_look = {"found": "put", "special": "synced", "named": "synced"}.get(look, look)
    label = "7/3" if look == "named" else ""
    item = Item(kind, sample_look, hue=0, label=label, found=look == "found")
    if kind == "mark":
        return _mark(item, SAMPLE)
    return _filler(item, SAMPLE) if kind == "pad" else _entry(item, SAMPLE)
