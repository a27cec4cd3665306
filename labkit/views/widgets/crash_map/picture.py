"""The crash map as a scene. On the left is a miniature of all cells, followed by a list of the rows
around the selected cell and a description of its crash. The files on disk are at the bottom.
"""

from collections.abc import Callable, Iterator
from math import ceil
from typing import NamedTuple

from labkit.views.widgets.crash_map.crashes import (
    INVENTED,
    LOST,
    REFUSED,
    SAFE,
    VERDICTS,
    Crashes,
    FileAtRestart,
)
from labkit.views.widgets.drawing.legend import NARROW_WIDTH, SAMPLE, TITLE, WORDS_X
from labkit.views.widgets.drawing.plurals import counted
from labkit.views.widgets.drawing.scene import (
    Mark,
    PartCache,
    Style,
    group,
    narrowed,
    path,
    picture,
    rect,
    text,
)
from labkit.views.widgets.drawing.text_metrics import fitted, lines_of, width_of

WIDTH, MARGIN = 860, 10
SMALL_X, SMALL_CELL = MARGIN, 6
OPERATION_X, OPERATION, MAX_OPERATION = 58, 232, 292
CELLS = 288
FILE = (WIDTH - 3 * MARGIN) / 2
TOP, ROW, SCROLL = 64, 24, 5
MIN_LINES = 15
"""The minimum number of lines in the list. There are more if the description of a crash needs the
space.
"""
LINE = 16
"""The height of a line of text."""

_FATE = "Unsynced data at the crash:"
_LOOKS: dict[str, Style] = {
    SAFE: {"fill": "safe"},
    LOST: {"fill": "lost"},
    INVENTED: {"fill": "confirmed"},
    REFUSED: {"fill": "page", "stroke": "lost", "thick": 1.5},
}
_GLYPHS = {LOST: "✕", INVENTED: "?", REFUSED: "!"}


class _Line(NamedTuple):
    step: str
    row: int = -1


class CrashMapPicture:
    """Draws the map with one selected cell; `at` returns the clock position of a cell."""

    def __init__(self, crashes: Crashes, at: Callable[[int, int], int]) -> None:
        self.crashes, self._at = crashes, at
        self._cache = PartCache()
        self._lines = list(self._listed())
        self._line_of = {line.row: place for place, line in enumerate(self._lines)}
        longest = max(width_of(crashes.operation(row)) for row in range(len(crashes.points)))
        # Derive the other widths from the width of the labels, so that rounding cannot make the
        # labels too narrow.
        self._label = min(max(longest, OPERATION - 14), MAX_OPERATION - 14)
        self._operation = self._label + 14
        self._cells_x = OPERATION_X + self._operation
        self._story_x = self._cells_x + CELLS + 14
        self._story_width = WIDTH - self._story_x - MARGIN
        self._pitch = min(48.0, CELLS / len(crashes.variants))
        story = max(sum(step for _, step, _ in self._paragraphs(*cell)) for cell in crashes.cells)
        self._count = max(MIN_LINES, ceil((story - 56) / ROW))
        self._bottom = TOP + ROW * self._count + 32
        self._small_row = min(8.0, ROW * self._count / len(crashes.points))
        self._small = self._overview()
        self._blocks: dict[tuple[tuple[FileAtRestart, ...], str], tuple[Mark, float]] = {}
        self._height = max(self._files(*cell)[1] for cell in crashes.cells) + 6

    def scene(self, row: int, column: int) -> Mark:
        cached = self._cache.part
        first = self._first_line(row)
        shown = range(first, min(first + self._count, len(self._lines)))
        lines = [
            cached(("line", at), self._line, at, column if self._lines[at].row == row else -1)
            for at in shown
        ]
        return picture(
            WIDTH,
            self._height,
            f"Crash map: {counted(len(self.crashes.points), 'crash point')}",
            self._small,
            self._position_marks(row, first),
            cached("heads", self._heads, column),
            self._step_heading(first),
            group("lines", *lines, y=TOP - ROW * first),
            self._buttons(row, column),
            cached("story", self._story, row, column),
            self._files(row, column)[0],
        )

    # The small map of all cells

    def _overview(self) -> Mark:
        crashes, high = self.crashes, self._small_row
        gap = 1 if high > 4 else 0
        parts = []
        for verdict in VERDICTS:
            d = "".join(
                f"M{SMALL_X + SMALL_CELL * c} {TOP + high * r:.1f}h{SMALL_CELL - 1}"
                f"v{high - gap:.1f}h{1 - SMALL_CELL}z"
                for r, c in crashes.cells
                if crashes.verdict(r, c) == verdict
            )
            if d:
                parts.append(path(verdict, d, **_LOOKS[verdict]))
        title = f"{len(crashes.cells)} crashes, {len(crashes.unsafe)} of them unsafe"
        return group("all", *parts, title=title)

    def _position_marks(self, row: int, first: int) -> Mark:
        rows = [line.row for line in self._lines[first : first + self._count] if line.row >= 0]
        high, width = self._small_row, SMALL_CELL * len(self.crashes.variants) + 3
        top = TOP + high * rows[0] - 2
        frame = rect("frame", SMALL_X - 2, top, width, high * len(rows) + 3, rx=2, stroke="ink")
        y = TOP + high * (row + 0.5)
        tip = path("tip", f"M{SMALL_X + width - 1} {y:.1f}l7 -4v8z", fill="ink")
        return group("where", frame, tip)

    # The list of rows

    def _listed(self) -> Iterator[_Line]:
        step = ""
        for row, point in enumerate(self.crashes.points):
            if point["step"] != step:
                step = point["step"]
                yield _Line(step)
            yield _Line(step, row)

    def _first_line(self, row: int) -> int:
        """Return the first visible line. The list scrolls by several lines at once, so that a click
        on a row rarely makes it scroll.
        """
        block = self._line_of[row] // SCROLL * SCROLL
        return max(0, min(block - SCROLL, len(self._lines) - self._count))

    def _heads(self, chosen: int) -> Mark:
        parts = [
            text("before", OPERATION_X, TOP - 26, "the machine stops before", fill="faint"),
            *self._meaning(*self.crashes.variants[chosen]),
        ]
        for column, (name, meaning) in enumerate(self.crashes.variants):
            words, bold = name.split(), column == chosen
            lines = [
                text(str(at), self._pitch / 2, -14 * (len(words) - 1 - at), word, bold=bold,
                     anchor="middle")
                for at, word in enumerate(words)
            ]  # fmt: skip
            x = self._cells_x + self._pitch * column
            title = f"{name}: {meaning}"
            parts.append(
                group(name, *lines, x=x, y=TOP - 8, title=title, kin=f"crash-column-{column}")
            )
        return group("heads", *parts)

    def _meaning(self, name: str, meaning: str) -> Iterator[Mark]:
        x = float(OPERATION_X)
        for key, words in (("fate", _FATE), ("name", name), ("meaning", f"({meaning})")):
            bold = key == "name"
            yield text(key, x, 14, words, fill="faint" if key == "fate" else "ink", bold=bold)
            x += width_of(words, bold=bold) + 5

    def _step_heading(self, first: int) -> Mark:
        words = self._lines[first].step if self._lines[first].row >= 0 else ""
        words = fitted(words, self._operation, bold=True)
        return text("step", OPERATION_X, TOP - 8, words, bold=True)

    def _line(self, place: int, chosen: int) -> Mark:
        line, y = self._lines[place], ROW * place
        if line.row < 0:
            rule = path("rule", f"M0 .5H{self._cells_x + CELLS - OPERATION_X}", stroke="line")
            words = fitted(line.step, self._operation + CELLS, bold=True)
            step = text("step", 0, 17, words, bold=True)
            return group(f"step {place}", rule, step, x=OPERATION_X, y=y)
        words = self.crashes.operation(line.row)
        label = text("label", 8, 16.5, fitted(words, self._label))
        tip = path("tip", "M-2 7.5v9l6 -4.5z", fill="ink")
        about = group(
            "about", label, *([tip] if chosen >= 0 else []), title=f"{words} (during {line.step})"
        )
        cells = (
            self._cell(line.row, column, chosen) for column in range(len(self.crashes.variants))
        )
        return group(f"row {line.row}", about, *cells, x=OPERATION_X, y=y)

    def _cell(self, row: int, column: int, chosen: int) -> Mark:
        verdict, width = self.crashes.verdict(row, column), self._pitch
        look = _sample(verdict, 2, width - 4)
        if column == chosen:
            look.append(rect("chosen", 1, 1, width - 2, ROW - 2, rx=4, stroke="ink", thick=2))
        target = rect("target", 0, 0, width, ROW, fill="none")
        return group(
            str(column),
            target,
            group("look", *look),
            x=self._cells_x - OPERATION_X + width * column,
            title=self.crashes.words(row, column),
            act="show",
            on=str(self._at(row, column)),
            tab=column == chosen,
        )

    def _buttons(self, row: int, column: int) -> Mark:
        rows, last = self._count, len(self.crashes.points) - 1
        wanted = [
            ("up", f"▲ {rows} rows up", max(0, row - rows), column, row > 0),
            ("down", f"▼ {rows} rows down", min(last, row + rows), column, row < last),
        ]
        if self.crashes.unsafe:
            words = f"✕ Next unsafe cell ({len(self.crashes.unsafe)})"
            wanted.append(("unsafe", words, *self.crashes.next_unsafe(row, column), True))
        parts, x = [], float(OPERATION_X)
        for key, words, to_row, to_column, is_there in wanted:
            width = 200.0 if key == "unsafe" else 118.0
            if is_there:
                box = rect("box", 0, 0, width, 24, rx=4, fill="page", stroke="line")
                label = text("label", width / 2, 16.5, words, anchor="middle")
                on = str(self._at(to_row, to_column))
                parts.append(
                    group(key, box, label, x=x, y=self._bottom - 26, title=words, act="seek", on=on)
                )
            x += width + 8
        return group("more", *parts)

    # The crash of the selected cell

    def _story(self, row: int, column: int) -> Mark:
        y, parts = float(TOP - 24), list[Mark]()
        for number, (words, step, ink) in enumerate(self._paragraphs(row, column)):
            y += step
            bold = ink not in ("faint", "")
            parts.append(text(str(number), self._story_x, y, words, fill=ink or "ink", bold=bold))
        rule = path("rule", f"M{self._story_x - 10} {TOP - 20}V{self._bottom + 4}", stroke="line")
        return group("story", rule, *parts)

    def _paragraphs(self, row: int, column: int) -> Iterator[tuple[str, float, str]]:
        """Yield the text of each line, its distance from the previous line, and its colour. The
        text is bold unless its colour is faint.
        """
        crashes, room = self.crashes, self._story_width
        for words in lines_of(f"Crash {crashes.place(row, column)}", room, bold=True):
            yield words, LINE, "ink"
        ink = "well" if crashes.verdict(row, column) == SAFE else "lost"
        end = crashes.end(row, column)["words"]
        for at, words in enumerate(lines_of(end, room, bold=True)):
            yield words, LINE if at else LINE + 4, ink
        unsynced = list(crashes.unsynced(row, column)) or ["nothing"]
        for title, lines in (
            ("Acknowledged before the crash", [crashes.promised(row)]),
            ("Not yet synced", unsynced),
            ("Replay", [crashes.replay(row, column)]),
        ):
            for at, words in enumerate(lines_of(title, room)):
                yield words, LINE if at else LINE + 8, "faint"
            for line in lines:
                for words in lines_of(line, room):
                    yield words, LINE, ""

    def _files(self, row: int, column: int) -> tuple[Mark, float]:
        files = tuple(self.crashes.files(row, column)), self.crashes.empty_files(row, column)
        if files not in self._blocks:
            self._blocks[files] = self._block(*files)
        return self._blocks[files]

    def _block(self, files: tuple[FileAtRestart, ...], empty: str) -> tuple[Mark, float]:
        ends = [self._bottom + 44.0] * 2
        parts = [
            text("title", MARGIN, self._bottom + 24, "On disk at the next start", fill="faint")
        ]
        for file in files:
            side = ends.index(min(ends))
            x = MARGIN + side * (FILE + MARGIN)
            parts.append(_file(file, x, ends[side]))
            ends[side] += LINE * len(parts[-1].children[1:]) + 4
        y = max(ends)
        summary = f"empty: {empty}" if empty else "" if files else "no files"
        for at, words in enumerate(lines_of(summary, 2 * FILE)):
            parts.append(text(f"empty {at}", MARGIN, y, words))
            y += LINE
        return group("files", *parts), y


def _file(file: FileAtRestart, x: float, y: float) -> Mark:
    lines = lines_of(f"{file.path}: {file.words}", FILE)
    parts = [text(str(at), 0, LINE * at, words) for at, words in enumerate(lines)]
    data = f"{file.offset}: {file.data[:47]}"
    parts.append(text("bytes", 0, LINE * len(lines), data, fill="faint", mono=True))
    title = f"{file.path}, {file.size:,} bytes: {file.words}"
    return group(file.path, *parts, x=x, y=y, title=title, kin=f"file-{file.path}")


def _sample(verdict: str, x: float, width: float) -> list[Mark]:
    ink = "lost" if verdict == REFUSED else "page"
    parts = [rect("box", x, 3, width, ROW - 6, rx=3, **_LOOKS[verdict])]
    if verdict in _GLYPHS:
        at = x + width / 2
        parts.append(
            text("glyph", at, 16.5, _GLYPHS[verdict], fill=ink, bold=True, anchor="middle")
        )
    return parts


def legend_of(crashes: Crashes) -> Mark:
    """Explain the cells and the columns, in rows or, if space is narrow, in a column."""
    cells = [
        (verdict, [*_sample(verdict, 0, SAMPLE), text("words", WORDS_X, 16.5, words)])
        for verdict, words in VERDICTS.items()
    ]
    columns = [
        (f"column {name}", _meaning_lines(name, meaning)) for name, meaning in crashes.variants
    ]
    column_height = LINE * max(len(lines) for _, lines in columns) + 4
    parts, y, narrow_y = list[Mark](), 0.0, 0.0
    for title, items, beside, height in (
        ("Each cell: the state after the restart", cells, 2, ROW),
        ("Each column: the fate of unsynced data", columns, 3, column_height),
    ):
        head = text("title", 0, 16, title, fill="faint")
        parts.append(_placed(title, [head], 0, y + 1, narrow_y + 1))  # `narrowed` needs a shift
        y, narrow_y = y + 24, narrow_y + 24
        for at, (key, marks) in enumerate(items):
            x = at % beside * WIDTH / beside
            parts.append(_placed(key, marks, x, y + at // beside * height, narrow_y + at * height))
        y, narrow_y = y + ceil(len(items) / beside) * height, narrow_y + len(items) * height
    return narrowed(picture(WIDTH, y, TITLE, *parts), picture(NARROW_WIDTH, narrow_y, TITLE))


def _meaning_lines(name: str, meaning: str) -> list[Mark]:
    return [
        text("name", 0, 14, name, bold=True),
        *(
            text(f"line {at}", 0, 14 + LINE * at, line)
            for at, line in enumerate(lines_of(meaning, NARROW_WIDTH), 1)
        ),
    ]


def _placed(key: str, marks: list[Mark], x: float, y: float, narrow_y: float) -> Mark:
    return narrowed(group(key, *marks, x=x, y=y), group("", y=narrow_y))
