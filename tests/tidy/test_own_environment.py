"""Tests that code passes extra environment variables only to the process that needs them.

A variable that is set in this process would affect everything that a notebook or a test starts
later.
"""

import ast

import pytest

from tests.tidy.test_style import ROOT, sources

_ALLOWED = {
    "labkit/views/spark/session.py": "PySpark gives the JVM this process's environment",
    "tests/plan.py": "the same, for all tests",
    "tools/search/__main__.py": "the same; the command starts nothing else",
    "benchmarks/scale_engines.py": "Polars reads its settings only here; the process runs one job",
}
_METHODS = "clear", "pop", "popitem", "setdefault", "update"
_CHANGES = {
    *(f"{environment}.{name}" for environment in ("os.environ", "environ") for name in _METHODS),
    *("os.putenv", "os.unsetenv", "os.chdir"),
}


def changes(code: str) -> list[int]:
    """Return the lines that change the environment or the working directory of this process."""
    found = []
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()) if is_environment(value):
                found.append(node.lineno)
            case ast.AugAssign(target=target) if is_environment(target):
                found.append(node.lineno)
            case ast.Call(func=func) if ast.unparse(func) in _CHANGES:
                found.append(node.lineno)
    return found


def is_environment(value: ast.expr) -> bool:
    """Return whether the expression is `os.environ` or `environ`."""
    return ast.unparse(value) in {"os.environ", "environ"}


@pytest.mark.slow
def test_only_these_modules_change_the_environment_of_their_process() -> None:
    found = {str(source) for source in sources() if changes((ROOT / source).read_text())}
    assert found == set(_ALLOWED)
