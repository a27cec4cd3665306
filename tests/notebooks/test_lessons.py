"""Tests that the committed notebooks match their sources and show the expected check results."""

import nbformat
import pytest

from labkit.course.lessons.build import SOURCES, VERSIONS, notebook_name, parse
from labkit.course.lessons.opening import open_with_picture
from tests.notebooks.cards import check_cards

LESSONS = [notebook_name(source) for source in sorted(SOURCES.glob("[0-9][0-9]_*.py"))]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", LESSONS)
def test_the_committed_notebook_is_the_source_and_stands_as_announced(
    name: str, version: str
) -> None:
    source = next(s for s in SOURCES.glob("*.py") if notebook_name(s) == name)
    written = nbformat.read(VERSIONS[version] / name, as_version=4)
    parsed = parse(source.read_text(), f"lesson-{name[:2]}", version)
    outputs = {cell.id: cell.get("outputs", []) for cell in written.cells}
    for cell in parsed.cells:
        if cell.cell_type == "code":
            cell.outputs = outputs[cell.id]
    open_with_picture(parsed, f"lesson-{name[:2]}")
    assert [(c.id, c.source) for c in written.cells] == [(c.id, c.source) for c in parsed.cells]
    check_cards(VERSIONS[version] / name, version)


NOT_COMPARED = {"00-tour.ipynb": 6, "11-topics.ipynb": 1, "12-messageid-streams.ipynb": 9}
"""The number of cells whose output differs in each run, such as real times, names and offsets of
real journals, and Spark's plans.
"""


@pytest.mark.parametrize("name", ["00-tour.ipynb", *LESSONS])
def test_nbval_compares_every_cell_that_shows_something_except_a_few(name: str) -> None:
    cells = nbformat.read(VERSIONS["learner"] / name, as_version=4).cells
    shows = [set(cell.metadata.get("tags", ())) for cell in cells if cell.get("outputs")]
    compared = sum("nbval-check-output" in tags for tags in shows)
    ignored = sum("nbval-ignore-output" in tags for tags in shows)
    assert (ignored, compared + ignored) == (NOT_COMPARED.get(name, 0), len(shows))
