"""Tests that the lesson code that a learner has to read is short and imported from one place."""

import ast
from collections.abc import Iterator
from itertools import compress
from pathlib import Path

import pytest
from nbformat import NotebookNode

from labkit.course import lessons
from labkit.course.lessons.build import SOURCES, parse

MOST_LINES = 60
CHANGED = "yours to change"
"""A comment at the end of a line that the learner changes."""
FRONT_DOORS = {"labkit.course.lessons", "labkit.course.workshop"}
"""Lessons in which learners write a bookie or a client check steps instead of exercises."""
LONGER = {"12": 75, "13": 75}
"""Lessons whose cells are Spark jobs and queries that a learner is meant to read."""
SOURCE_FILES = sorted(SOURCES.glob("[0-9][0-9]_*.py"))


def code_cells(source: Path, version: str = "learner") -> list[NotebookNode]:
    notebook = parse(source.read_text(encoding="utf-8"), "lesson", version)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def labs_cells(source: Path) -> list[NotebookNode]:
    """Return the cells that contain labkit's code, which a learner reads but does not write."""
    own = code_cells(source)
    return [
        cell
        for cell, solved in zip(own, code_cells(source, "solution"), strict=True)
        if cell.source == solved.source
        and not {"exercise", "parameters"} & set(cell.metadata.get("tags", ()))
    ]


def statements(cells: list[NotebookNode]) -> Iterator[tuple[ast.stmt, list[str]]]:
    """Yield each statement with its lines, except blank lines, comments and the learner's lines."""
    for cell in cells:
        lines = cell.source.splitlines()
        for each in ast.parse(cell.source).body:
            own = [line.strip() for line in lines[each.lineno - 1 : each.end_lineno]]
            is_labs = (line and not line.startswith("#") and CHANGED not in line for line in own)
            yield each, list(compress(own, is_labs))


def imports(cells: list[NotebookNode]) -> list[ast.ImportFrom]:
    return [each for each, _ in statements(cells) if isinstance(each, ast.ImportFrom)]


@pytest.mark.parametrize("source", SOURCE_FILES, ids=lambda source: source.stem)
def test_a_lesson_imports_labkit_from_one_place(source: Path) -> None:
    modules = [each.module or "" for each in imports(code_cells(source))]
    ours = [module for module in modules if module.startswith("labkit")]
    assert set(ours) <= FRONT_DOORS
    assert len(ours) == len(set(ours))


@pytest.mark.parametrize("source", SOURCE_FILES, ids=lambda source: source.stem)
def test_a_lesson_shows_at_most_sixty_lines_that_are_not_the_learners(source: Path) -> None:
    """An import counts as one line, however many names it lists."""
    shown = (
        1 if isinstance(each, ast.Import | ast.ImportFrom) else len(lines)
        for each, lines in statements(labs_cells(source))
    )
    assert sum(shown) <= LONGER.get(source.stem[:2], MOST_LINES)


def test_lessons_use_every_name_that_is_offered_to_them() -> None:
    found = (each for source in SOURCE_FILES for each in imports(code_cells(source)))
    used = {a.name for each in found if each.module == lessons.__name__ for a in each.names}
    assert used == set(lessons.__all__)
