"""Adds nbgrader's metadata to a lesson's cells.

A cell in which a student writes an answer becomes a solution cell, and a cell that checks an
exercise becomes a locked test cell that is worth one point. Under nbgrader, `check` raises if the
answer does not pass. In the teacher's version, each answer is enclosed in nbgrader's markers, and
`nbgrader generate_assignment` removes it.
"""

import re
from collections.abc import Iterator
from itertools import takewhile

from nbformat import NotebookNode
from nbformat.v4.nbbase import new_code_cell

from labkit.course.grading.slices import CHECKS

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
_OPEN = re.compile(r"raise NotImplementedError *")
_AT_MARGIN = re.compile(r"(?m)^check\(")


def with_nbgrader(
    learner: NotebookNode, solution: NotebookNode, has_answers: bool
) -> Iterator[NotebookNode]:
    """Yield the learner's cells with nbgrader's metadata.

    If `has_answers` is true, the cells contain the solution between markers. Both notebooks are
    built from the same source, so they have the same cells. The notebook is not changed if the
    lesson's answers are in a file rather than in its cells.
    """
    if not has_exercises(learner):
        yield from learner.cells
        return
    for cell, solved in zip(learner.cells, solution.cells, strict=True):
        if cell.cell_type != "code":
            yield cell
            continue
        for own, other in zip(_split(cell), _split(solved), strict=True):
            if "exercise" in own.metadata.tags and (found := CHECKS.search(own.source)):
                grade_id = found[1].replace(".", "-")
                own.metadata["nbgrader"] = _metadata(grade_id, is_test=True)
            elif own.source != other.source and "predict(" not in own.source:
                own.metadata["nbgrader"] = _metadata(own.id, is_test=False)
                if has_answers:
                    own.source = _marked(own.source, other.source)
            yield own


def has_exercises(notebook: NotebookNode) -> bool:
    return any(cell.cell_type == "code" and CHECKS.search(cell.source) for cell in notebook.cells)


def _split(cell: NotebookNode) -> tuple[NotebookNode, ...]:
    """Split a cell that contains both an answer and its check into two cells."""
    found = _AT_MARGIN.search(cell.source)
    if "exercise" not in cell.metadata.tags or found is None or not found.start():
        return (cell,)
    answer, check = cell.source[: found.start()].rstrip(), cell.source[found.start() :]
    first = new_code_cell(answer, id=cell.id, metadata={"tags": []})  # type: ignore[no-untyped-call]
    cell.id, cell.source = f"{cell.id}-check", check
    return first, cell


def _metadata(grade_id: str, *, is_test: bool) -> dict[str, object]:
    kind = {"schema_version": 3, "cell_type": "code", "task": False, "grade_id": grade_id}
    tested: dict[str, object] = {"points": 1} if is_test else {}
    return kind | tested | {"grade": is_test, "locked": is_test, "solution": not is_test}


def _marked(learner: str, solution: str) -> str:
    """Return the cell with the solution between markers, surrounded by the lines that both versions
    share.
    """
    own, solved = learner.splitlines(), solution.splitlines()
    before = _alike(own, solved)
    most = min(len(own), len(solved)) - before
    after = min(most, _alike(own[::-1], solved[::-1]))
    answer = solved[before : len(solved) - after]
    indent = re.match(" *", next(filter(None, answer)))
    margin = indent[0] if indent else ""
    remaining = _OPEN.sub("", "\n".join(own[before : len(own) - after])).rstrip().splitlines()
    return "\n".join(
        [
            *own[:before],
            *remaining,
            margin + BEGIN,
            *answer,
            margin + END,
            *own[len(own) - after :],
        ]
    )


def _alike(one: list[str], other: list[str]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))
