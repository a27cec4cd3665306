"""A cell of the grid: one entry on one bookie. Colour is never the only difference between two
states: they also differ in shape, hatching, dashes, or text.
"""

from functools import lru_cache
from typing import Any

from labkit.system.trace.bookie_state import ON_DISK, Copy
from labkit.system.trace.sentence import COPIES, fill
from labkit.views.widgets.drawing.legend import SAMPLE, Symbol, legend
from labkit.views.widgets.drawing.scene import Mark, group, hatch, path, rect, text
from labkit.views.widgets.drawing.text_metrics import width_of

ACKED_ROOM = 30
"""The space for the check mark on the right of a cell's label, and as much on its left."""
ROW, CELL = 28, 20
"""The height of a row, and the height of a cell in it. The rest of the row is used for messages."""

LEGEND = (
    ("sent", "sent, not yet stored"),
    ("memtable", "only in the memtable"),
    ("durable", "in the synced journal"),
    ("flushed", "also in the entry log"),
    ("hatched", "bookie is down"),
    ("stopped", "bookie is paused"),
    ("failed", "no acknowledgement"),
    ("lost", "lost with the memory"),
    ("damaged", "damaged on disk"),
    ("unreadable", "stored after the ledger's end"),
    ("acked", "acknowledged"),
    ("read", "was read from here"),
    ("reading", "latest read"),
    ("adds", "add request in flight"),
    ("acks", "acknowledgement"),
    ("quorum", "completes a quorum"),
    ("refused", "add to a fenced bookie"),
    ("reads", "read request"),
    ("answers", "response to a read"),
    ("fenced", "fenced: rejects the writer"),
    ("replaced", "from here on, other bookies"),
)
"""The symbols in the order of the legend."""

_SHAPES: dict[str, dict[str, Any]] = {
    "sent": {"rx": 9, "fill": "page", "stroke": "stored", "thick": 2, "dash": "3 2"},
    "memtable": {"rx": 3, "fill": "page", "stroke": "stored", "thick": 2},
    "durable": {"rx": 3, "fill": "stored"},
    "flushed": {"rx": 3, "fill": "stored"},
    "hatched": {"rx": 3, "fill": "page", "stroke": "lost"},
    "stopped": {"rx": 3, "fill": "page", "stroke": "stored"},
    "failed": {"rx": 3, "stroke": "lost", "dash": "4 2"},
    "lost": {"rx": 3, "stroke": "lost", "dash": "1 3"},
    "damaged": {"rx": 3, "fill": "page", "stroke": "lost", "thick": 2},
    "unreadable": {"rx": 3, "fill": "page", "stroke": "lost", "thick": 2, "dash": "2 2"},
}
_INKS = {
    "durable": "page",
    "flushed": "page",
    "sent": "ink",
    "memtable": "stored",
    "stopped": "stored",
}
_WORDS = {
    "failed": "no ack",
    "lost": "lost",
    "memtable": "memory",
    "damaged": "damaged",
    "unreadable": "unreadable",
}
_GLYPHS = {"acked": "✓", "read": "◂"}


def _look_of(copy: Copy, bookie_state: str, *, is_past_end: bool) -> str:
    """Return how to draw a copy. A stored copy is hatched if its bookie is down or paused."""
    if copy.damaged:
        return "damaged"
    if is_past_end and copy.state in ON_DISK:
        return "unreadable"
    if copy.state in ("memtable", "durable", "flushed"):
        return {"down": "hatched", "paused": "stopped"}.get(bookie_state, copy.state)
    return copy.state


def symbols_of(copy: Copy, bookie_state: str, *, is_past_end: bool) -> tuple[str, ...]:
    """Return the symbols with which a cell shows a copy.

    is_past_end: whether the ledger is closed, and ends before this entry.
    """
    look = _look_of(copy, bookie_state, is_past_end=is_past_end)
    found = [look]
    if copy.acked and look not in ("hatched", "stopped", "failed", "lost", "damaged"):
        found.append("acked")
    if copy.reads and look != "damaged":
        found.append("read")
    return tuple(found)


def copy_title(copy: Copy, entry: int, ledger: int, bookie: str, bookie_state: str) -> str:
    """Describe a cell, for example `entry 3 of ledger 7 on b0: durable, journal 1a.txn`."""
    words = fill(COPIES[copy.state], copy._asdict())
    words += ", damaged: its digest does not match" if copy.damaged else ""
    words += f", read from here {copy.reads} times" if copy.reads > 1 else ""
    words += ", read from here" if copy.reads == 1 else ""
    away = f" ({bookie} is {bookie_state})" if bookie_state in ("down", "paused") else ""
    return f"entry {entry} of ledger {ledger} on {bookie}: {words}{away}"


@lru_cache(8192)
def cell(
    entry: int, kin: str, title: str, symbols: tuple[str, ...], width: float, *, is_latest: bool
) -> Mark:
    look, *glyphs = symbols
    label = str(entry)
    if "acked" in glyphs and width_of(label, bold=True) + ACKED_ROOM > width:
        label = ""  # The id is also at the left end of the row.
    parts = [*shape(look, width, label)]
    ink = "page" if look in ("durable", "flushed") else "ink"
    if "acked" in glyphs:
        parts.append(text("acked", width - 10, 14.5, _GLYPHS["acked"], fill=ink, anchor="middle"))
    if "read" in glyphs:
        parts.append(text("read", 15, 14.5, _GLYPHS["read"], fill=ink, anchor="middle"))
    if is_latest:
        parts.append(rect("ring", -2, -2, width + 4, CELL + 4, rx=5, stroke="confirmed", thick=2))
    return group(str(entry), *parts, y=ROW * entry, title=title, kin=kin)


def shape(look: str, width: float, label: str, height: float = CELL) -> tuple[Mark, ...]:
    """Return a cell's box and its label or, if there is no label, a sample for the legend."""
    if look == "sent":
        width = min(width, 34)
    box = rect("box", 0, 0, width, height, **_SHAPES[look])
    parts = [box]
    if look in ("hatched", "stopped"):
        stroke = "lost" if look == "hatched" else "stored"
        parts.append(path("hatch", hatch(width, height, falling=look == "stopped"), stroke=stroke))
    if look == "flushed":
        parts += [rect(f"bar {x}", x, 0, 1.5, height, fill="page") for x in (3, 6)]
    if look == "damaged":
        left = f"M{width * 0.3:g} 0l-5 7l7 4l-6 {height - 11:g}"
        right = f"M{width * 0.7:g} 0l5 8l-7 3l5 {height - 11:g}"
        parts.append(path("crack", left + right, stroke="lost", thick=1.5))
    words = f"{label} {_WORDS[look]}" if label and look in _WORDS else label
    words = words if width_of(words, bold=True) < width - 26 else label
    if label and look in ("hatched", "stopped", "damaged"):
        plate = width_of(words, bold=True) + 8
        parts.append(rect("plate", (width - plate) / 2, 2, plate, height - 4, rx=3, fill="page"))
    ink = _INKS.get(look, "lost")
    if words:
        parts.append(text("label", width / 2, 14.5, words, fill=ink, bold=True, anchor="middle"))
    return tuple(parts)


@lru_cache(64)
def legend_of(shown: frozenset[str]) -> Mark | None:
    return legend([Symbol(look, _sample(look), words) for look, words in LEGEND if look in shown])


def _sample(look: str) -> tuple[Mark, ...]:
    if look in _GLYPHS:
        return (text("glyph", 14, 13, _GLYPHS[look], anchor="middle", bold=True),)
    if look == "reading":
        return (rect("ring", 2, 2, 24, 13, rx=4, stroke="confirmed", thick=2),)
    if look == "fenced":
        return (rect("bar", 12, 0, 4, 16, rx=2, fill="confirmed"),)
    if look == "replaced":
        return (path("line", "M0 8H28", stroke="faint", dash="2 3"),)
    if look in ("adds", "acks", "quorum", "refused", "reads", "answers"):
        return (sign(look, 14, 8),)
    return shape(look, SAMPLE, "", 16)


@lru_cache(16)
def sign(what: str, x: float, y: float) -> Mark:
    if what == "adds":
        return rect("sign", x - 9, y - 4, 18, 8, rx=4, fill="stored", stroke="page")
    if what == "acks":
        return path("sign", f"M{x - 7:g} {y:g}l10 -5v10z", fill="well", stroke="page")
    if what == "quorum":
        return path("sign", f"M{x - 10:g} {y:g}l15 -8v16z", fill="confirmed", stroke="page")
    if what == "refused":
        return rect("sign", x - 9, y - 4, 18, 8, rx=4, fill="lost", stroke="page")
    if what == "reads":
        return path(
            "sign", f"M{x + 7:g} {y:g}l-10 -5v10z", fill="page", stroke="confirmed", thick=1.5
        )
    return rect("sign", x - 9, y - 4, 18, 8, rx=1, fill="confirmed", stroke="page")
