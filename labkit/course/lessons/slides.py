"""Assigns slide types to the cells of a lesson, so that the lesson can be shown as a talk.

`jupyter nbconvert --to slides` reads the slide type from each cell's metadata:

    slide      a heading of the first or second level
    subslide   a heading of the third level; a text that introduces a picture, a run or an exercise;
               a cell that does not fit below the previous ones
    -          continues a slide, for example with code and its picture, or with text that comments
               on them
    fragment   the result of a prediction, which appears at the next key press, so that the class
               can make a prediction first
    notes      text for the speaker, which is longer than a slide, or a note about hints
    skip       code without output (imports, parameters, helper functions), and the cell for a
               learner's prediction

An exercise has a single slide, with the text, the function to write and its check. A slide is 1600
by 1000 pixels and has `SLIDE_LINES` lines of 25 pixels. The template in `docs/talk` limits every
output to `OUTPUT_LINES`.
"""

import re
from collections.abc import Sequence
from math import ceil

from nbformat import NotebookNode

SLIDE_LINES = 39.0
OUTPUT_LINES = 22.5

_TEXT_COLUMNS, _CODE_COLUMNS = 150, 130
_GAP_LINES = 0.6
"""The gap between paragraphs, and between a cell's code and its output."""
_HEADING = re.compile(r"(#{1,3}) ")
_HINT = "*Stuck?"


def assign_slide_types(notebook: NotebookNode) -> None:
    """Set the slide type of every cell. The notebook must have been executed."""
    for cell, kind in zip(notebook.cells, kinds(notebook.cells), strict=True):
        cell.metadata["slideshow"] = {"slide_type": kind}


def kinds(cells: Sequence[NotebookNode]) -> list[str]:
    found: list[str] = []
    used = 0.0
    for index, cell in enumerate(cells):
        wanted = _text(cells, index) if cell.cell_type == "markdown" else _code(cells, index)
        lines = lines_of(cell)
        if wanted in ("-", "fragment") and used + lines > SLIDE_LINES:
            wanted = "subslide"
        if wanted in ("slide", "subslide"):
            used = 0.0
        if wanted not in ("notes", "skip"):
            used += lines
        found.append(wanted)
    return found


def _text(cells: Sequence[NotebookNode], index: int) -> str:
    source = cells[index].source
    if heading := _HEADING.match(source):
        return "subslide" if heading[1] == "###" else "slide"
    if source.startswith(_HINT) or lines_of(cells[index]) > SLIDE_LINES:
        return "notes"
    around = [*cells[index - 1 : index], *cells[index + 1 : index + 2]]
    introduces = len(around) == 2 and all(each.cell_type == "code" for each in around)
    return "subslide" if introduces else "-"


def _code(cells: Sequence[NotebookNode], index: int) -> str:
    cell, after = cells[index], cells[index + 1 : index + 2]
    if "compare(" in cell.source:
        return "fragment"
    is_answer = bool(after) and "exercise" in _tags(after[0])
    is_silent = not cell.outputs and not is_answer
    if is_silent or "parameters" in _tags(cell) or "predict(" in cell.source:
        return "skip"
    follows_exercise = index > 0 and "exercise" in _tags(cells[index - 1])
    return "subslide" if follows_exercise else "-"


def _tags(cell: NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", ()))


def lines_of(cell: NotebookNode) -> float:
    """Estimate the height of a cell on a slide, in lines."""
    if cell.cell_type == "markdown":
        return _lines_of_text(cell.source)
    shown = sum(_GAP_LINES + min(_lines_of_output(each), OUTPUT_LINES) for each in cell.outputs)
    blank = sum(not line for line in cell.source.splitlines())
    return _wrapped(cell.source, _CODE_COLUMNS) + blank + _GAP_LINES + shown


def _lines_of_text(source: str) -> float:
    """Estimate the number of lines of a text; a folded answer counts as one line."""
    folded = re.sub(r"(?s)</summary>.*?</details>", "", source)
    headings = len(re.findall(r"(?m)^#+ ", folded))
    rows = len(re.findall(r"(?m)^\|", folded))
    gaps = len(re.findall(r"\n\s*\n", folded)) + 1
    return _wrapped(folded, _TEXT_COLUMNS) + headings + 0.4 * rows + _GAP_LINES * gaps


def _lines_of_output(output: NotebookNode) -> float:
    data = output.get("data", {})
    html = "".join(data.get("text/html", ""))
    if "image/svg+xml" in data or "<img" in html or "<svg" in html:
        return OUTPUT_LINES
    if html:
        words = re.sub(r"<[^>]+>", "\n", re.sub(r"</?t[dh]\b[^>]*>", " ", html))
        between = 0.4 * html.count("<tr") + _GAP_LINES * html.count("<p")
        return _wrapped(words, _TEXT_COLUMNS) + between
    return _wrapped("".join(output.get("text", data.get("text/plain", ""))), _CODE_COLUMNS)


def _wrapped(text: str, columns: int) -> float:
    return float(sum(ceil(len(line) / columns) for line in text.splitlines() if line.strip()))
