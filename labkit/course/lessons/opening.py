"""Rearranges the opening of a lesson so that readers see the first picture early.

The first text cell keeps the title and the question. The rest of its text, from "At the end you
can" on, is moved below the picture. If the code above the picture shows nothing (such as imports
and helper functions) or is long, it is folded in JupyterLab and on the site. If a lesson has a
second section before its first picture, nothing is moved.
"""

import re

from nbformat import NotebookNode
from nbformat.v4.nbbase import new_markdown_cell

from labkit.course.lessons.hide_outputs import has_picture

MOST_LINES = 4
"""The maximum length of the code that is shown above the first picture."""

_AIMS = re.compile(r"(?m)^\*\*At the end you can\*\*")
_SECTION = re.compile(r"(?m)^## ")


def open_with_picture(notebook: NotebookNode, prefix: str) -> None:
    """Move and fold the first cells. The notebook must have been executed."""
    cells = notebook.cells
    picture = next((at for at, cell in enumerate(cells) if has_picture(cell)), 0)
    sections = sum(bool(_SECTION.match(cell.source)) for cell in cells[:picture])
    _fold_code(cells[: picture + 1])
    aims = _AIMS.search(cells[0].source)
    if picture and sections <= 1 and aims:
        text = cells[0].source
        cells[0].source = text[: aims.start()].strip()
        moved = new_markdown_cell(text[aims.start() :], id=f"{prefix}-aims")
        cells.insert(picture + 1, moved)


def _fold_code(cells: list[NotebookNode]) -> None:
    last_text = max(
        (at for at, cell in enumerate(cells) if cell.cell_type == "markdown"), default=0
    )
    for at, cell in enumerate(cells):
        if cell.cell_type != "code" or "parameters" in cell.metadata.get("tags", ()):
            continue
        is_silent = at < last_text and not cell.outputs
        if is_silent or len(cell.source.splitlines()) > MOST_LINES:
            cell.metadata.setdefault("jupyter", {})["source_hidden"] = True
