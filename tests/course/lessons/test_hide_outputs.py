"""Tests that no output in the learner's notebook gives away the answer to a prediction."""

import nbformat
import pytest
from nbformat.v4.nbbase import new_code_cell, new_notebook, new_output

from labkit.course.lessons.build import NOTEBOOKS, VERSIONS
from labkit.course.lessons.hide_outputs import fold
from tests.notebooks.test_lessons import LESSONS

TEXT = [new_output("stream", text="1024")]
PICTURE = [new_output("display_data", data={"text/html": "<img alt=''>"})]


def folded(*cells: tuple[str, list[nbformat.NotebookNode]]) -> list[bool]:
    notebook = new_notebook(cells=[new_code_cell(code, outputs=shown) for code, shown in cells])
    fold(notebook)
    return [cell.metadata.get("jupyter") == {"outputs_hidden": True} for cell in notebook.cells]


def test_what_stands_between_a_prediction_and_its_comparison_is_folded() -> None:
    assert folded(
        ("print(1)", TEXT),
        ('predict("size", None)', TEXT),
        ("print(size)", TEXT),
        ("XRay(piece)", PICTURE),
        ('compare("size", size)', TEXT),
        ("print(size)", TEXT),
    ) == [False, False, True, False, True, False]


def test_a_comparison_is_folded_with_all_that_its_cell_shows() -> None:
    assert folded(('compare("size", size)', [*PICTURE, *TEXT])) == [True]


@pytest.mark.parametrize("name", LESSONS)
def test_a_committed_notebook_is_folded_for_the_learner_alone(name: str) -> None:
    learner, solution = (nbformat.read(path / name, 4) for path in VERSIONS.values())
    metadata = [dict(cell.metadata) for cell in learner.cells]
    fold(learner)
    assert [dict(cell.metadata) for cell in learner.cells] == metadata
    compares = [c for c in learner.cells if "compare(" in c.source and c.cell_type == "code"]
    assert any("outputs_hidden" in cell.metadata.get("jupyter", {}) for cell in compares)
    assert not any("outputs_hidden" in c.metadata.get("jupyter", {}) for c in solution.cells)
    assert VERSIONS["learner"] == NOTEBOOKS
