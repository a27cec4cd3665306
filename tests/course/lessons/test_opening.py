"""Tests that a lesson opens with its first picture."""

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4.nbbase import new_code_cell, new_markdown_cell, new_notebook, new_output

from labkit.course.lessons.build import VERSIONS
from labkit.course.lessons.hide_outputs import has_picture
from labkit.course.lessons.opening import MOST_LINES, open_with_picture
from tests.notebooks.test_lessons import LESSONS

TITLE = "# 01 · Why?\n\nA question.\n\n**At the end you can** answer it.\n\n> **The rule.** Always."


def code(source: str, *tags: str, shows: str = "") -> NotebookNode:
    outputs = [new_output("display_data", data={"text/html": shows})] if shows else []
    return new_code_cell(source, metadata={"tags": list(tags)}, outputs=outputs)


def opened(*cells: NotebookNode) -> list[NotebookNode]:
    notebook = new_notebook(cells=[new_markdown_cell(TITLE), *cells])
    open_with_picture(notebook, "lesson-01")
    return list(notebook.cells)


def is_folded(cell: NotebookNode) -> bool:
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))


PICTURE = code("draw()", shows="<img alt=''>")


def test_the_aims_and_the_rule_follow_the_picture() -> None:
    cells = opened(code("import a"), new_markdown_cell("## 1 · The picture"), PICTURE, code("a()"))
    assert [cell.source.splitlines()[0] for cell in cells] == [
        *("# 01 · Why?", "import a", "## 1 · The picture", "draw()"),
        *("**At the end you can** answer it.", "a()"),
    ]
    assert cells[0].source.endswith("A question.")
    assert cells[4].source.endswith("> **The rule.** Always.")


def test_code_that_shows_nothing_is_folded_but_parameters_are_not() -> None:
    long = code("x = 1\n" * (MOST_LINES + 1))
    cells = opened(
        *(code("size = 1", "parameters"), code("import a"), code("print()", shows="1")),
        *(new_markdown_cell("## The picture"), long, code("run()"), PICTURE, code("import b")),
    )
    folded = [cell.source for cell in cells if is_folded(cell)]
    assert folded == ["import a", long.source]


def test_a_lesson_with_a_section_before_its_picture_keeps_its_order() -> None:
    sections = new_markdown_cell("## 1"), new_markdown_cell("## 2")
    assert opened(*sections, PICTURE)[0].source == TITLE
    assert opened(*sections)[0].source == TITLE


@pytest.mark.parametrize("name", LESSONS)
def test_a_committed_lesson_opens_with_its_picture(name: str) -> None:
    for path in VERSIONS.values():
        cells = nbformat.read(path / name, 4).cells
        picture = next(at for at, cell in enumerate(cells) if has_picture(cell))
        imports = [cell for cell in cells[:picture] if cell.source.startswith(("import", "from"))]
        assert imports
        assert all(map(is_folded, imports))
        if name != "12-messageid-streams.ipynb":  # Its pictures need the tables of two sections.
            assert "**At the end you can**" in cells[picture + 1].source
