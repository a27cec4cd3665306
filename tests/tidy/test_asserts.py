"""Tests that no test contains an assertion that is always true."""

import ast

import pytest

from tests.tidy.test_style import ROOT, sources

_ALWAYS_TRUE = (ast.GeneratorExp, ast.Lambda)
_BROAD = {"Exception", "BaseException"}


def findings(code: str) -> list[tuple[int, str]]:
    """Return asserts that are always true, and calls of `raises` that accept any exception."""
    found = []
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Assert(test=test) if is_always_true(test):
                found.append((node.lineno, ast.unparse(test)))
            case ast.Call(func=ast.Attribute(attr="raises"), args=[ast.Name(id=name)], keywords=[]):
                if name in _BROAD:
                    found.append((node.lineno, ast.unparse(node)))
    return found


def is_always_true(test: ast.expr) -> bool:
    """Return whether the expression is always true, such as a function or a non-empty display."""
    match test:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(not isinstance(part, ast.Starred) for part in parts)
        case ast.Constant(value=value):
            return bool(value)
        case ast.Call(func=ast.Name(id="map" | "filter" | "zip" | "iter" | "enumerate")):
            return True
    return isinstance(test, _ALWAYS_TRUE)


@pytest.mark.parametrize(
    "code",
    [
        "assert (a == b for a in c)",
        "assert (a, 'why')",
        "assert [a]",
        "assert lambda: a",
        "assert map(f, a)",
        "assert 1",
        "with pytest.raises(Exception): f()",
    ],
)
def test_what_is_always_true_is_found(code: str) -> None:
    assert len(findings(code)) == 1


@pytest.mark.parametrize(
    "code",
    ["assert [a for a in b]", "assert [*a]", "assert False", "with raises(ValueError): f()"],
)
def test_what_can_fail_is_not_found(code: str) -> None:
    assert findings(code) == []


@pytest.mark.slow
def test_no_assert_is_always_true() -> None:
    found = [
        f"{source}:{line}: {text}"
        for source in sources()
        if source.parts[0] == "tests"
        for line, text in findings((ROOT / source).read_text())
    ]
    assert found == []
