"""The crash map as a still picture, with the crash of one cell told beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

from labkit.widgets.drawing import CONFIRMED, FAINT, INK, LINE, LOST, Drawing

WIDTH = 900
MARGIN = 14
TOP = 84
ROW = 15
CELL = 40
STEP_WIDTH = 122
LABEL_WIDTH = 156
MOST_ROWS = 40  # with more, safe rows of one step are drawn as one
STORY_CHAR = 5.9  # of the story, on average
EMPTY = "empty"  # what a file says that says nothing
MONO = "DejaVu Sans Mono, Consolas, monospace"
WELL, WELL_TINT = "#007a5a", "#bfe3d5"

SHAPES = {
    "safe": f"fill='{WELL_TINT}'",
    "lost": f"fill='{LOST}'",
    "invented": f"fill='{CONFIRMED}'",
    "refused": f"fill='#fff' stroke='{LOST}' stroke-width='1.5'",
}
GLYPHS = {"safe": "", "lost": "✕", "invented": "?", "refused": "!"}
LEGEND = {
    "safe": "everything acknowledged is there",
    "lost": "something acknowledged is gone",
    "refused": "the bookie does not start",
    "invented": "there is what nobody asked for",
}

Crashes = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the picture: one row of the map, or several safe ones of one step."""

    row: int
    count: int


def lines_of(crashes: Crashes, chosen: int) -> list[Line]:
    """The lines to draw; the chosen row always has its own."""
    points, lines = crashes["points"], list[Line]()
    if len(points) <= MOST_ROWS:
        return [Line(row, 1) for row in range(len(points))]
    for row, point in enumerate(points):
        last = lines[-1] if lines else None
        joins = (
            last is not None
            and points[last.row]["step"] == point["step"]
            and chosen not in (row, last.row)
            and all(v == "safe" for r in (row, last.row) for v in verdicts(crashes, r))
        )
        if joins and last is not None:
            lines[-1] = Line(last.row, last.count + 1)
        else:
            lines.append(Line(row, 1))
    return lines


def verdicts(crashes: Crashes, row: int) -> list[str]:
    """The verdicts of a row, from left to right."""
    return [crashes["ends"][end]["verdict"] for end, _ in crashes["cells"][row]]


def summary(crashes: Crashes, row: int, column: int) -> str:
    """The picture in one line of words."""
    found = [verdict for r in range(len(crashes["cells"])) for verdict in verdicts(crashes, r)]
    counts = [f"{found.count(v)} {v}" for v in LEGEND if v in found]
    where = place_of(crashes, row, column)
    end = crashes["ends"][crashes["cells"][row][column][0]]
    return (
        f"Crash map: {len(crashes['points'])} crash points, {len(found)} cells,"
        f" {', '.join(counts)}; {where}: {end['words']}"
    )


def place_of(crashes: Crashes, row: int, column: int) -> str:
    """Where a cell lies, in words."""
    point, (name, _) = crashes["points"][row], crashes["variants"][column]
    if not point["operation"]:
        return f"after the last operation, {name}"
    return f"before {short(point['operation'])}, during {point['step']}, {name}"


def short(operation: str) -> str:
    """An operation without the folder that all files share."""
    return operation.replace("current/", "").replace(" bytes at ", " B at ")


def fate(share: float) -> str:
    """What became of an unsynced operation."""
    return "lost" if share == 0 else "kept" if share == 1 else "torn"


def story_of(crashes: Crashes, row: int, column: int) -> Iterator[tuple[str, list[str]]]:
    """The crash of one cell: titles, and the lines below them."""
    point, (_, meaning) = crashes["points"][row], crashes["variants"][column]
    end_id, fates = crashes["cells"][row][column]
    end, texts = crashes["ends"][end_id], crashes["texts"]
    yield "Acknowledged before", [", ".join(texts[i] for i in point["promised"]) or "nothing"]
    survived = [f"{fate(share)}: {short(texts[i])}" for i, share in fates]
    yield f"Not synced: {meaning}", survived or ["there was nothing"]
    yield "On disk at the next start", []
    files = [crashes["files"][i] for i in end["files"]]
    for path, _, words, offset, data in files:
        if words != EMPTY:
            yield "", [f"{path}: {words}", f"\t{offset}: {data[:47]}"]
    empty = [path for path, _, words, _, _ in files if words == EMPTY]
    if empty:
        yield "", [f"empty: {', '.join(empty)}"]
    yield "Replay", [replay_words(end["replayed"])]


def replay_words(replayed: list[int]) -> str:
    """How many records the two starts applied."""
    if not replayed:
        return "none: the bookie does not start"
    records = f"{replayed[0]} record{'' if replayed[0] == 1 else 's'}"
    if len(replayed) < 2:
        return records
    return f"{records}; after one more power cut {replayed[1]}"


def crash_map_svg(crashes: Crashes, row: int, column: int) -> str:
    """The map with one cell chosen, as a self-contained SVG document."""
    return _Picture(crashes, row, column).draw()


class _Picture(Drawing):
    def __init__(self, crashes: Crashes, row: int, column: int) -> None:
        super().__init__()
        self.crashes = crashes
        self.chosen = row, column
        self.lines = lines_of(crashes, row)
        self.grid = MARGIN + STEP_WIDTH + LABEL_WIDTH
        self.story = self.grid + CELL * len(crashes["variants"]) + 22

    def draw(self) -> str:
        told = list(self._story_lines())
        height = max(TOP + ROW * len(self.lines), 58 + sum(step for _, step, _ in told)) + 16
        self.begin(WIDTH, height, summary(self.crashes, *self.chosen))
        self._legend()
        self._heads()
        for place, line in enumerate(self.lines):
            self._line(TOP + ROW * place, line, place)
        y = 58.0
        self.add(f"<path d='M{self.story - 10} 46V{height - 14:g}' stroke='{LINE}'/>")
        for text, step, style in told:
            y += step
            self.text(self.story, y, text, **style)
        return self.end()

    def _legend(self) -> None:
        x: float = MARGIN
        for verdict, words in LEGEND.items():
            self._cell(x, 12, 24, verdict)
            self.text(x + 30, 22, words, fill=FAINT, size=11)
            x += 42 + 6 * len(words)

    def _heads(self) -> None:
        self.text(MARGIN, TOP - 8, "step", fill=FAINT, size=11)
        self.text(MARGIN + STEP_WIDTH, TOP - 8, "the machine stops before", fill=FAINT, size=11)
        for column, (name, _) in enumerate(self.crashes["variants"]):
            words = name.split()
            for i, word in enumerate(words):
                x, y = self.grid + CELL * (column + 0.5), TOP - 8 - 12 * (len(words) - 1 - i)
                self.text(x, y, word, size=10.5, middle=True, bold=column == self.chosen[1])

    def _line(self, y: float, line: Line, place: int) -> None:
        point = self.crashes["points"][line.row]
        before = self.crashes["points"][self.lines[place - 1].row]["step"] if place else ""
        if point["step"] != before:
            self.add(f"<path d='M{MARGIN} {y:g}H{self.story - 22}' stroke='{LINE}'/>")
            self.text(MARGIN, y + 11.5, clipped(point["step"], 18), size=10.5, bold=True)
        label = short(point["operation"]) or "(the script has ended)"
        if line.count > 1:
            label = f"⋮ {line.count} operations"
        self.text(
            MARGIN + STEP_WIDTH, y + 11.5, clipped(label, 27), size=10.5,
            fill=FAINT if line.count > 1 else INK, bold=line.row == self.chosen[0],
        )  # fmt: skip
        for column, verdict in enumerate(verdicts(self.crashes, line.row)):
            x = self.grid + CELL * column + 2
            self.add(f"<g><title>{escape(self._title(line.row, column))}</title>")
            self._cell(x, y + 1, CELL - 4, verdict)
            self.add("</g>")
            if (line.row, column) == self.chosen:
                style = f"rx='4' fill='none' stroke='{INK}' stroke-width='2'"
                self.rect(x - 2, y - 1, CELL, ROW + 2, style)

    def _title(self, row: int, column: int) -> str:
        end = self.crashes["ends"][self.crashes["cells"][row][column][0]]
        return f"{place_of(self.crashes, row, column)}: {end['words']}"

    def _cell(self, x: float, y: float, width: float, verdict: str) -> None:
        self.rect(x, y, width, ROW - 2, f"rx='2' {SHAPES[verdict]}")
        ink = LOST if verdict == "refused" else "#fff"
        if GLYPHS[verdict]:
            self.text(
                x + width / 2, y + 10.5, GLYPHS[verdict], fill=ink, size=11, bold=True, middle=True
            )

    def _story_lines(self) -> Iterator[tuple[str, float, dict[str, Any]]]:
        """Text, distance from the line before, style."""
        width = int((WIDTH - MARGIN - self.story) / STORY_CHAR)
        place = place_of(self.crashes, *self.chosen)
        end = self.crashes["ends"][self.crashes["cells"][self.chosen[0]][self.chosen[1]][0]]
        for text in wrap(f"Crash {place}", width - 6):
            yield text, 15, {"bold": True, "size": 12}
        ink = WELL if end["verdict"] == "safe" else LOST
        for text in wrap(end["words"], width - 7):
            yield text, 16, {"bold": True, "size": 11.5, "fill": ink}
        for title, lines in story_of(self.crashes, *self.chosen):
            for i, text in enumerate(wrap(title, width)):
                yield text, 13 if i else 21, {"size": 11, "fill": FAINT}
            for line in lines:
                if line.startswith("\t"):
                    yield line.strip(), 13, {"size": 9.2, "fill": FAINT, "family": MONO}
                else:
                    for text in wrap(line, width):
                        yield text, 14, {"size": 11}


def clipped(text: str, most: int) -> str:
    """The text, or its beginning."""
    return text if len(text) <= most else text[: most - 1] + "…"
