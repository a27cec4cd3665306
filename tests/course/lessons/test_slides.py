"""Tests which cells of a lesson become slides."""

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4.nbbase import new_code_cell, new_markdown_cell, new_output

from labkit.course.lessons.build import VERSIONS
from labkit.course.lessons.slides import SLIDE_LINES, assign_slide_types, kinds, lines_of
from tests.notebooks.test_lessons import LESSONS

PICTURE = [new_output("display_data", data={"text/html": "<img alt=''>"})]
WORDS = [new_output("stream", text="1024")]

text = new_markdown_cell


def code(source: str, *tags: str, shows: list[NotebookNode] | None = None) -> NotebookNode:
    return new_code_cell(source, metadata={"tags": list(tags)}, outputs=shows or [])


def test_a_picture_stays_with_the_text_before_it_and_the_comment_after_it() -> None:
    cells = [
        text("# Title"),
        code("import labkit"),
        text("## 1 · The picture\n\nRows are entries."),
        code("Stripes()", shows=PICTURE),
        text("The stripes move."),
        text("### More"),
    ]
    assert kinds(cells) == ["slide", "skip", "slide", "-", "-", "subslide"]


def test_a_prediction_is_a_question_whose_answer_appears_later() -> None:
    cells = [
        text("## 2"),
        code("run()", shows=WORDS),
        text("**Predict.** How large is it?"),
        code('predict("size", None)', shows=WORDS),
        code('compare("size", size)', shows=WORDS),
    ]
    assert kinds(cells) == ["slide", "-", "subslide", "skip", "fragment"]


def test_an_exercise_shows_the_function_to_write_and_hides_where_hints_are() -> None:
    cells = [
        text("### Your turn"),
        code("def mine(): ..."),
        code('check("a.b", mine)', "exercise", shows=WORDS),
        text('*Stuck? Run `hint("a.b")` in a new cell.*'),
        code("run()", shows=WORDS),
    ]
    assert kinds(cells) == ["subslide", "-", "-", "notes", "-"]
    del cells[3]
    assert kinds(cells)[-1] == "subslide"


def test_what_has_no_room_goes_to_the_next_slide_and_a_longer_text_to_the_speaker() -> None:
    long = text("One line.\n\n" * 40)
    pictures = [code(f"show({n})", shows=PICTURE) for n in range(2)]
    assert kinds([text("## 3"), *pictures, long]) == ["slide", "-", "subslide", "notes"]


@pytest.mark.parametrize("name", LESSONS)
def test_a_lessons_slides_have_room_for_their_cells(name: str) -> None:
    for path in VERSIONS.values():
        cells = nbformat.read(path / name, 4).cells
        slides: list[list[NotebookNode]] = []
        for cell, kind in zip(cells, kinds(cells), strict=True):
            if kind in ("slide", "subslide"):
                slides.append([])
            if kind not in ("notes", "skip"):
                slides[-1].append(cell)
            if cell.source.startswith(("# ", "## ")) and cell.cell_type == "markdown":
                assert kind == "slide"
        shared = [sum(map(lines_of, slide)) for slide in slides if len(slide) > 1]
        assert max(shared) <= SLIDE_LINES
        exercises = [sum("exercise" in c.metadata.get("tags", ()) for c in s) for s in slides]
        assert max(exercises) == 1


@pytest.mark.parametrize("name", LESSONS)
def test_the_builder_stages_both_versions(name: str) -> None:
    for path in VERSIONS.values():
        written = nbformat.read(path / name, 4)
        before = [dict(cell.metadata) for cell in written.cells]
        assign_slide_types(written)
        assert [dict(cell.metadata) for cell in written.cells] == before
