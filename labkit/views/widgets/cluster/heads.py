"""The top of the cluster view: the ledger's parameters, and a heading with buttons for each
bookie.
"""

from functools import lru_cache
from typing import NamedTuple

from labkit.system.trace.cluster_state import Ledger
from labkit.views.widgets.acts import Acts
from labkit.views.widgets.drawing.kin import node_kin
from labkit.views.widgets.drawing.plurals import quorum_words
from labkit.views.widgets.drawing.scene import Mark, group, rect, rounded, text
from labkit.views.widgets.drawing.text_metrics import fitted, name_lines, width_of

HEAD, ACTS = 46, 30
"""The height of a heading, and the height of a line of buttons below it."""
MAX_NARROW_WIDTH = 110
"""In columns up to this width, remarks are not indented."""
SLIM_NAME_X = 15
"""The horizontal position of the name in a column that is too narrow for the usual indentation."""
GLYPHS = {"up": "●", "down": "✕", "paused": "‖", "unknown": "?"}
GLYPH_INKS = {"up": "well", "down": "lost"}
_BADGES = {
    "E": "ensemble size (E): the ledger is striped across this many bookies",
    "Qw": "write quorum (Qw): each entry is sent to this many bookies",
    "Qa": "ack quorum (Qa): an entry is confirmed after this many acknowledgements",
    "LAP": "LastAddPushed: the last entry that the writer has sent",
    "LAC": "LastAddConfirmed: every entry up to here is confirmed, and readers may read it",
}
_LABELS = {
    "kill": ("✕", "Kill"),
    "restart": ("▲", "Restart"),
    "pause": ("‖", "Pause"),
    "resume": ("▶", "Resume"),
    "cut": ("✂", "Cut off"),
}
_UNDO = {"kill": "Undo the kill", "pause": "Undo the pause", "cut": "Undo the cut"}
MIN_WORDED_WIDTH = 128
"""In columns narrower than this, buttons have only an icon."""
_LEFT, _ICON_WIDTH = 4, 24


class Button(NamedTuple):
    act: str
    sign: str
    word: str


def id_words(entry: int) -> str:
    return "none" if entry < 0 else str(entry)


@lru_cache(512)
def header(ledger_id: int, ledger: Ledger) -> Mark:
    if ledger_id < 0:
        return group("header", text("name", 10, 23, "No ledger yet", size=14, bold=True))
    name = f"Ledger {ledger_id}"
    sizes = quorum_words(ledger.ensemble_size, ledger.write_quorum, ledger.ack_quorum)
    values = {
        "E": f"on {sizes.bookies}",
        "Qw": sizes.copies,
        "Qa": sizes.acks,
        "LAP": f"last sent (LAP): {id_words(ledger.last_add_pushed)}",
        "LAC": f"last confirmed (LAC): {id_words(ledger.last_add_confirmed)}",
    }
    badges = [(key, words, _BADGES[key]) for key, words in values.items()]
    end = "its writer may add entries"
    if ledger.closed or ledger.in_recovery:
        end = "its last entry is fixed" if ledger.closed else "its last entry is being determined"
    state = "closed" if ledger.closed else "in recovery" if ledger.in_recovery else "open"
    badges.append(("end", state, end))
    parts, x = [text("name", 10, 23, name, size=14, bold=True)], 26 + width_of(name, 14, bold=True)
    for key, words, title in badges:
        width = width_of(words) + 20
        box = rect("box", 0, 0, width, 22, rx=11, stroke="line")
        label = text("words", width / 2, 15.5, words, anchor="middle")
        parts.append(group(key, box, label, x=x, y=7, title=title, kin=f"about-{key}"))
        x += width + 8
    return group("header", *parts)


def head(
    name: str, state: str, place: int, remark: str, width: float, acts: Acts, run: str
) -> Mark:
    """Return the heading of a bookie, relative to the left edge of its column. run: the prefix of
    the bookie's name in the message that a click sends.
    """
    words = [state] if state in ("down", "paused") else []
    words += [remark] if remark else []
    words += [f"index {place}"] if place >= 0 else []
    title = f"{name}: {', '.join(words) or state}"
    if place >= 0:
        title += (
            " (the ensemble's bookies take turns: the copies of each entry start at the next index)"
        )
    about = group(
        "about",
        rect("place", 4, 4, width - 8, HEAD - 8, fill="none"),
        *_lines(name, state, words, width),
        title=title,
        kin=node_kin(name),
    )
    return group("head", about, *buttons(name, state, acts, width, run))


def _lines(name: str, state: str, words: list[str], width: float) -> list[Mark]:
    """Return the glyph of the state, the name and the remarks. The name is always shown, but
    remarks that do not fit appear only in the tooltip.
    """
    ink = "lost" if state == "down" else "ink"
    wide = width_of(name, bold=True)
    if wide > width - SLIM_NAME_X - 2:
        first, rest = name_lines(name, width - 4)
        return [
            text("name", 2, 19, first, fill=ink, bold=True),
            text("rest", 2, 36, rest, fill=ink, bold=True),
        ]
    glyph, left = (9, 26) if wide <= width - 32 else (3, SLIM_NAME_X)
    indent = left if width > MAX_NARROW_WIDTH else glyph
    shown = ", ".join(words)
    for count in range(len(words), 0, -1):
        shown = ", ".join(words[:count])
        if width_of(shown) <= width - indent - 4:
            break
    sign = GLYPH_INKS.get(state, "faint")
    return [
        text("glyph", glyph, 19, GLYPHS[state], fill=sign, bold=True),
        text("name", left, 19, name, fill=ink, bold=True),
        text(
            "words",
            indent,
            36,
            fitted(shown, width - indent - 4),
            fill="faint" if state == "up" else ink,
        ),
    ]


def act_lines(acts: Acts, width: float) -> int:
    """Return the maximum number of lines of buttons in a column, for any state of the bookie."""
    layouts = (_laid_out(_offered(state, acts), width) for state in GLYPHS)
    return max((line + 1 for layout in layouts for *_, line in layout), default=0)


def acts_width(acts: Acts) -> float:
    """Return the maximum width of a single line of buttons, for any state of the bookie."""
    lines = (_offered(state, acts) for state in GLYPHS)
    return max(sum(_width_of(button) + 4 for button in line) for line in lines) + _LEFT


def _offered(state: str, acts: Acts) -> tuple[Button, ...]:
    possible = {"down": ("restart",), "paused": ("kill", "resume")}
    names = possible.get(state, ("kill", "pause", "cut"))
    return tuple(Button(act, *_LABELS[act]) for act in names if act in acts.offered)


def _width_of(button: Button) -> float:
    return rounded(width_of(button.word) + 32)


def _laid_out(buttons: tuple[Button, ...], width: float) -> list[tuple[Button, float, float, int]]:
    has_words = width >= MIN_WORDED_WIDTH
    found, x, line = list[tuple[Button, float, float, int]](), float(_LEFT), 0
    for button in buttons:
        wide = _width_of(button) if has_words else _ICON_WIDTH
        if x > _LEFT and x + wide > width:
            x, line = float(_LEFT), line + 1
        found.append((button, wide, min(x, max(width - wide, 0) / 2) if x == _LEFT else x, line))
        x += wide + (4 if has_words else 2)
    return found


def buttons(name: str, state: str, acts: Acts, width: float, run: str = "") -> list[Mark]:
    """Return the buttons of a bookie. run: the prefix of its name in the message that a click
    sends.
    """
    undo = (Button("undo", "↶", _UNDO[acts.undo]),) if acts.undo and acts.node == name else ()
    parts, on = [], run + name
    for (act, sign, word), wide, x, line in _laid_out(undo or _offered(state, acts), width):
        center = 12 if wide == _ICON_WIDTH else 14
        box = rect("box", 0, 0, wide, 24, rx=4, fill="page", stroke="line")
        label = [text("icon", center, 17, sign, size=14, bold=True, anchor="middle")]
        if wide > _ICON_WIDTH:
            label.append(text("word", 24, 16.5, word))
        title, y = f"{word} of {name}" if undo else f"{word} {name}", HEAD + ACTS * line
        kin = f"act-{act}-{on.replace(' ', '-')}"
        parts.append(group(act, box, *label, x=x, y=y, title=title, act=act, on=on, kin=kin))
    return parts


def column(state: str, is_member: bool, width: float, height: float) -> Mark:
    away = state in ("down", "paused")
    stroke = "lost" if state == "down" else "faint" if away else "ink" if is_member else "line"
    thick = 2 if is_member and not away else 1.5 if away else 1
    fill, dash = "page" if away else "box", "6 3" if away else ""
    return rect("box", 0, 0, width, height, rx=6, fill=fill, stroke=stroke, thick=thick, dash=dash)
