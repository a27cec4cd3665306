"""Tests docs/rules.md: each rule of the source documents has a cell that a learner can change."""

import re
from functools import cache
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"(?m)^\| (\w+) \| .+ \| \[(\d\d)\]\((\S+)\) \| `(.+)` \|$")
ROWS = ROW.findall((DOCS / "rules.md").read_text(encoding="utf-8"))
RULES = {"M": 8, "S": 15, "D": 6, "R": 8, "A": 10, "U": 2}
"""The number of rules of each kind in the source documents."""
TO_DO = ("predict(", "check(", "yours to change")


@cache
def code_cells(path: str) -> list[NotebookNode]:
    cells = nbformat.read(DOCS / path, as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code"]


def test_every_rule_of_the_source_documents_has_a_cell() -> None:
    expected = [f"{kind}{n}" for kind, count in RULES.items() for n in range(1, count + 1)]
    assert list(dict.fromkeys(rule for rule, *_ in ROWS)) == expected


@pytest.mark.parametrize(("rule", "lesson", "path", "code"), ROWS)
def test_a_rule_names_one_cell_in_which_there_is_something_to_do(
    rule: str, lesson: str, path: str, code: str
) -> None:
    named = [cell for cell in code_cells(path) if code in cell.source]
    assert Path(path).name.startswith(f"{lesson}-")
    assert len(named) == 1, f"{rule} is in {len(named)} cells of {path} with {code!r}"
    is_parameters = "parameters" in named[0].metadata.get("tags", [])
    assert is_parameters or any(word in named[0].source for word in TO_DO)
