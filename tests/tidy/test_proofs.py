"""`docs/storage-proofs.md` names tests: all of them exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "storage-proofs.md"
PROOFS = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text())


def test_every_promise_has_a_proof() -> None:
    promises = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:]
    assert len(promises) > 20
    assert [line for line in promises if "::" not in line] == []


@pytest.mark.parametrize("file", sorted({file for file, _ in PROOFS}))
def test_every_proof_exists(file: str) -> None:
    defined = {
        node.name
        for node in ast.parse((ROOT / file).read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    assert {name for found, name in PROOFS if found == file} <= defined
