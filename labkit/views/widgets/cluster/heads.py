"""The top of the cluster view: the ledger's numbers, and a heading for each bookie with its
buttons.
"""

from functools import lru_cache

from labkit.system.trace.fold import Ledger
from labkit.views.widgets.scene import Mark, group, rect, text
from labkit.views.widgets.text_metrics import fitted, width_of

HEAD, ACTS = 46, 30
"""The heights of a heading, and of the buttons in it."""
NARROW = 110
"""The width up to which a column has no indent."""
SLIM = 15
"""The place of the name where it has no room farther right."""
GLYPHS = {"up": "●", "down": "✕", "paused": "‖", "unknown": "?"}
_GLYPH_INKS = {"up": "well", "down": "lost"}
_SPACING = {True: (24, 29), False: (4, 26)}
"""The place of the first button in a wide and in a narrow column, and the distance to the next."""
_BADGES = {
    "E": "ensemble size: bookies that the ledger is spread over",
    "Qw": "write quorum: bookies that each entry is sent to",
    "Qa": "ack quorum: acknowledgements after which an entry is confirmed",
    "LAP": "LastAddPushed: the last entry that the writer has sent",
    "LAC": "LastAddConfirmed: up to here Qa bookies have every entry, and readers may read",
}
_ICONS = {"kill": "✕", "restart": "▲", "pause": "‖", "resume": "▶", "cut": "✂"}


@lru_cache(512)
def header(ledger_id: int, ledger: Ledger) -> Mark:
    """The ledger and its numbers."""
    if ledger_id < 0:
        return group("header", text("name", 10, 23, "No ledger yet", size=14, bold=True))
    name = f"Ledger {ledger_id}"
    values = {
        "E": ledger.ensemble_size,
        "Qw": ledger.write_quorum,
        "Qa": ledger.ack_quorum,
        "LAP": ledger.last_add_pushed,
        "LAC": ledger.last_add_confirmed,
    }
    badges = [(key, f"{key} {'none' if v < 0 else v}", _BADGES[key]) for key, v in values.items()]
    end = "its last entry is fixed" if ledger.closed else "its writer may add"
    badges.append(("end", "closed" if ledger.closed else "open", end))
    parts, x = [text("name", 10, 23, name, size=14, bold=True)], 26 + width_of(name, 14, bold=True)
    for key, words, title in badges:
        width = width_of(words) + 20
        box = rect("box", 0, 0, width, 22, rx=11, stroke="line")
        label = text("words", width / 2, 15.5, words, anchor="middle")
        parts.append(group(key, box, label, x=x, y=7, title=title, kin=f"about-{key}"))
        x += width + 8
    return group("header", *parts)


@lru_cache(2048)
def head(
    name: str, state: str, place: int, remark: str, width: float, acts: tuple[str, ...], run: str
) -> Mark:
    """A bookie's heading, at its column's left edge.  run: the prefix for a click's message."""
    words = [state] if state in ("down", "paused") else []
    words += [remark] if remark else []
    words += [f"place {place}"] if place >= 0 else []
    title = f"{name}: {', '.join(words) or state}"
    if place >= 0:
        title += " (entry i goes to the Qw places of the ensemble from i mod E on)"
    about = group(
        "about",
        rect("place", 4, 4, width - 8, HEAD - 8, fill="none"),
        *_lines(name, state, words, width),
        title=title,
        kin=f"n-{name}",
    )
    return group("head", about, *buttons(name, state, acts, run + name, width))


def _lines(name: str, state: str, words: list[str], width: float) -> list[Mark]:
    """The state's sign, the name and the words; what has no room is only in the title, and first of
    all the words: a name is always there.
    """
    ink = "lost" if state == "down" else "ink"
    wide = width_of(name, bold=True)
    if wide > width - SLIM - 2:
        first, rest = _broken(name, width - 4)
        return [
            text(key, 2, y, part, fill=ink, bold=True)
            for key, y, part in (("name", 19, first), ("rest", 36, fitted(rest, width - 4)))
        ]
    glyph, left = (9, 26) if wide <= width - 32 else (3, SLIM)
    indent = left if width > NARROW else glyph
    shown = ", ".join(words)
    for count in range(len(words), 0, -1):
        shown = ", ".join(words[:count])
        if width_of(shown) <= width - indent - 4:
            break
    sign = _GLYPH_INKS.get(state, "faint")
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


def _broken(name: str, room: float) -> tuple[str, str]:
    """The name in two lines, broken after a hyphen if both parts have room then."""
    before, hyphen, after = name.rpartition("-")
    if hyphen and max(width_of(each, bold=True) for each in (before + hyphen, after)) <= room:
        return before + hyphen, after
    count = next(
        n for n in range(len(name), 0, -1) if n == 1 or width_of(name[:n], bold=True) <= room
    )
    return name[:count], name[count:]


def act_lines(acts: tuple[str, ...], width: float) -> int:
    """The number of lines that the buttons of a column need."""
    most = 3 if "cut" in acts else min(len(acts), 2)
    return -(-most // _per_line(width))


def _per_line(width: float) -> int:
    left, pitch = _SPACING[width > NARROW]
    return max(int((width - left - 24) // pitch) + 1, 1)


def buttons(name: str, state: str, acts: tuple[str, ...], on: str, width: float) -> list[Mark]:
    """The buttons for a bookie in this state, in as many lines as the column needs."""
    wanted = {
        "down": ("restart",),
        "paused": ("kill", "resume"),
    }.get(state, ("kill", "pause", "cut"))
    left, pitch = _SPACING[width > NARROW]
    per_line = _per_line(width)
    parts = []
    for place, act in enumerate(act for act in wanted if act in acts):
        icon = text("icon", 12, 17, _ICONS[act], size=14, bold=True, anchor="middle")
        box = rect("box", 0, 0, 24, 24, rx=4, fill="page", stroke="line")
        x = min(left, (width - 24) / 2) + pitch * (place % per_line)
        y = HEAD + ACTS * (place // per_line)
        title = f"{act.title()} {name}"
        parts.append(group(act, box, icon, x=x, y=y, title=title, act=act, on=on))
    return parts


@lru_cache(2048)
def column(state: str, is_member: bool, width: float, height: float) -> Mark:
    """The box around a bookie's heading and its cells."""
    away = state in ("down", "paused")
    stroke = "lost" if state == "down" else "faint" if away else "ink" if is_member else "line"
    thick = 2 if is_member and not away else 1.5 if away else 1
    fill, dash = "page" if away else "box", "6 3" if away else ""
    return rect("box", 0, 0, width, height, rx=6, fill=fill, stroke=stroke, thick=thick, dash=dash)
