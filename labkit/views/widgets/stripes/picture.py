"""The stripes as a scene."""

from functools import lru_cache

from labkit.views.widgets.drawing.legend import SAMPLE, Symbol, legend
from labkit.views.widgets.drawing.plurals import counted
from labkit.views.widgets.drawing.scene import Mark, group, hatch, path, picture, rect, text
from labkit.views.widgets.drawing.text_metrics import lines_of, width_of
from labkit.views.widgets.stripes.rules import COPY, ENOUGH, FAILED, SAFE, Striping

WIDTH = 860
GUTTER = 70  # space for the entry ids to the left of the columns
TOP = 46
ROW, CELL = 26, 20
MAX_PITCH = 76
STORY_X, STORY_WIDTH = 570, 276
FATE_ROOM = 110

LEGEND = (
    (ENOUGH, "counts towards the ack quorum"),
    (COPY, "a copy beyond the ack quorum"),
    (FAILED, "bookie has failed"),
)
_FATES = {"safe": "✓ safe", "perhaps": "? may be lost", "lost": "✕ lost"}


def summary(striping: Striping, entries: int) -> str:
    e, qw, qa = striping.ensemble_size, striping.write_quorum, striping.ack_quorum
    failed = ", ".join(f"b{index}" for index in sorted(striping.failed)) or "none"
    answers = "; ".join(
        f"{title} {'yes' if is_yes else 'no'}" for title, is_yes, _ in striping.answers(entries)
    )
    stored = counted(entries, "entry", "entries")
    return f"Stripes: E={e} Qw={qw} Qa={qa}, {stored}; failed: {failed}; {answers}"


def stripes_scene(striping: Striping, entries: int) -> Mark:
    """Return a grid of entries and bookies next to three questions and their answers."""
    size = striping.ensemble_size
    pitch = min(MAX_PITCH, (STORY_X - FATE_ROOM - GUTTER) // size)
    bottom = TOP + ROW * entries + 6
    story, story_height = _story(striping, entries)
    return picture(
        WIDTH,
        max(bottom, story_height) + 10,
        summary(striping, entries),
        group("heads", *(_head(striping, index, pitch, bottom) for index in range(size))),
        group("rows", *(_row(striping, entry, pitch) for entry in range(entries))),
        story,
    )


@lru_cache(1)
def legend_of() -> Mark | None:
    return legend([Symbol(look, _cell(look, SAMPLE), words, CELL) for look, words in LEGEND])


def _head(striping: Striping, index: int, pitch: float, bottom: float) -> Mark:
    is_down = index in striping.failed
    fill, stroke = ("page", "lost") if is_down else ("box", "line")
    dash = "6 3" if is_down else ""
    column = rect("column", 0, 0, pitch - 6, bottom - 6, rx=6, fill=fill, stroke=stroke, dash=dash)
    box = rect("box", 0, 0, pitch - 14, 26, rx=5, fill="page", stroke=stroke)
    words, ink = (f"b{index} ✕", "lost") if is_down else (f"b{index}", "ink")
    label = text("label", (pitch - 14) / 2, 17.5, words, fill=ink, bold=True, anchor="middle")
    title = (
        f"b{index} has failed: click to revive it"
        if is_down
        else f"b{index}: click to make it fail"
    )
    button = group("button", box, label, x=4, y=6, title=title, act="fail", on=str(index))
    return group(f"b{index}", column, button, x=GUTTER + pitch * index + 3, y=4)


def _row(striping: Striping, entry: int, pitch: float) -> Mark:
    words = dict(LEGEND)
    cells = [
        group(
            f"b{index}",
            *_cell(look, pitch - 18, str(entry)),
            x=GUTTER + index * pitch + 9,
            title=f"entry {entry} on b{index}: {words[look]}",
        )
        for index, look in striping.cells(entry).items()
    ]
    fate = striping.fate(entry)
    ink = "well" if fate == SAFE else "lost"
    right = GUTTER + pitch * striping.ensemble_size + 8
    return group(
        f"entry {entry}",
        text("id", GUTTER - 10, 14.5, f"entry {entry}", fill="faint", anchor="end"),
        *sorted(cells, key=lambda cell: cell.key),
        text("fate", right, 14.5, _FATES[fate], fill=ink, bold=fate != SAFE),
        y=TOP + ROW * entry,
        kin=f"entry-{entry}",
    )


def _cell(look: str, width: float, label: str = "") -> list[Mark]:
    fill = {ENOUGH: "stored", COPY: "tint"}.get(look, "page")
    stroke = "lost" if look == FAILED else "stored"
    parts = [rect("box", 0, 0, width, CELL, rx=3, fill=fill, stroke=stroke)]
    if look == FAILED:
        parts.append(path("hatch", hatch(width, CELL), stroke="lost"))
    words = f"{label} ✓" if look == ENOUGH and label and width > 40 else label
    if words and look == FAILED:
        plate = width_of(words, bold=True) + 8
        parts.append(rect("plate", (width - plate) / 2, 2, plate, CELL - 4, rx=3, fill="page"))
    ink = {ENOUGH: "page", FAILED: "lost"}.get(look, "ink")
    if words:
        at = width / 2
        parts.append(text("label", at, 14.5, words, fill=ink, bold=True, anchor="middle"))
    return parts


def _story(striping: Striping, entries: int) -> tuple[Mark, float]:
    """Return a mark that shows the three questions, their answers and the tolerated failures, and
    the mark's height.
    """
    parts, y = list[Mark](), 16.0
    for title, is_yes, words in striping.answers(entries):
        title_lines = lines_of(title, STORY_WIDTH, bold=True)
        parts += [
            text(f"{title} ?{n}", 0, y + 17 * n, s, bold=True) for n, s in enumerate(title_lines)
        ]
        y += 17 * (len(title_lines) - 1)
        lines = lines_of(words, STORY_WIDTH)
        for at, line in enumerate(lines, start=1):
            ink = "well" if is_yes else "lost"
            parts.append(text(f"{title} {at}", 0, y + 17 * at, line, fill=ink))
        y += 17 * max(len(lines), 2) + 26
    parts.append(text("whichever", 0, y, "No matter which bookies fail", bold=True))
    for count, words in striping.tolerances():
        y += 20
        parts.append(text(f"any {words}", 0, y, f"any {count}", bold=True))
        for at, line in enumerate(lines_of(words, STORY_WIDTH - 50)):
            parts.append(text(f"{words} {at}", 50, y + 16 * at, line, fill="faint"))
        y += 16 * (len(lines_of(words, STORY_WIDTH - 50)) - 1)
    return group("story", *parts, x=STORY_X), y
