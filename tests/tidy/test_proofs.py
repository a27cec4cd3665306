"""The pages of proofs in `docs/` name tests: all of them exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*-proofs.md"))
PROOFS = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", "".join(page.read_text() for page in PAGES))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_promise_has_a_proof(page: Path) -> None:
    rows = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith(("| promise |", "| --- |"))]
    assert len(promises) > 20
    assert [row for row in promises if "::" not in row] == []


@pytest.mark.parametrize("file", sorted({file for file, _ in PROOFS}))
def test_every_proof_exists(file: str) -> None:
    defined = {
        node.name
        for node in ast.parse((ROOT / file).read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    assert {name for found, name in PROOFS if found == file} <= defined
