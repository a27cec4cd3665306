"""Tests that code only shows the explanation of an event, and never makes decisions with it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_SHOWS = {
    "labkit/system/check/promises/health.py": "a verdict says how a node failed",
    "labkit/views/widgets/recovery_progress/fold.py": "the picture says why a repair waits",
}
"""The modules that read `Event.explanation`, and how they use it. `sentence` reads it by name when
it fills in a template.
"""


def reads(source: str) -> bool:
    """Return whether the source reads an attribute named `explanation`."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "explanation"
        for node in ast.walk(ast.parse(source))
    )


@pytest.mark.slow
def test_only_what_shows_an_explanation_reads_it() -> None:
    assert reads("if event.explanation.startswith('it is open'): pass")
    found = {
        str(path.relative_to(ROOT).as_posix())
        for folder in ("labkit", "tools", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        if reads(path.read_text(encoding="utf-8"))
    }
    assert found == set(_SHOWS)


@pytest.mark.slow
def test_a_sentence_is_not_taken_apart() -> None:
    for path in (ROOT / "labkit").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
                name = node.value.func
                is_told = isinstance(name, ast.Name) and name.id in ("describe", "how_it_ended")
                assert not is_told, f"{path}:{node.lineno}"
