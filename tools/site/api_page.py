"""Generates the API page for `import labkit` from the docstrings."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import labkit

STUB = Path(labkit.__file__).with_suffix(".pyi")
SECTIONS = {
    "worlds.live": "A real cluster",
    "worlds.sim": "A simulated run",
    "system.check": "The promises",
    "course.runs": "Pictures",
    "views.widgets": "Pictures",
    "views.spark": "Tables",
}
"""Package -> section of the page."""

_INTRODUCTION = """\
# What `import labkit` provides

Import everything else from its module; see the [guide to the code](../architecture.md).
"""


def api_page() -> str:
    sections = dict.fromkeys(SECTIONS.values(), "")
    for module, name in _exports():
        sections[SECTIONS[".".join(module.split(".")[:2])]] += "\n" + _entry(module, name)
    return _INTRODUCTION + "".join(f"\n## {title}\n{text}" for title, text in sections.items())


def _exports() -> Iterator[tuple[str, str]]:
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def _entry(module: str, name: str) -> str:
    exported = getattr(labkit, name)
    tree = ast.parse(dedent(inspect.getsource(exported))).body[0]
    parts = [f"### `{name}`", f"```python\n{_signature(tree)}\n```", f"In `labkit.{module}`."]
    parts.append(_text(exported))
    if isinstance(tree, ast.ClassDef):
        methods = [m for m in map(_method, tree.body) if m]
        parts.append("\n".join(methods))
    return "\n\n".join(filter(None, parts)) + "\n"


def _signature(tree: ast.stmt) -> str:
    """Return the signature as written in the source. For a class, the arguments are the parameters
    of `__init__` or, if there is none, the fields of the dataclass.
    """
    if isinstance(tree, ast.ClassDef):
        starts = [s for s in tree.body if getattr(s, "name", "") == "__init__"]
        fields = [_field(s) for s in tree.body if isinstance(s, ast.AnnAssign)]
        return tree.name + _in_lines(_arguments(starts[0]) if starts else fields)
    assert isinstance(tree, ast.FunctionDef)
    returns = f" -> {ast.unparse(tree.returns)}" if tree.returns else ""
    return tree.name + _in_lines(_arguments(tree)) + returns


def _in_lines(parts: list[str]) -> str:
    return "(\n" + "".join(f"    {part},\n" for part in parts) + ")" if parts else "()"


def _field(node: ast.AnnAssign) -> str:
    return _with_default(f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}", node.value)


def _arguments(node: Any) -> list[str]:
    """Return each argument with its annotation and its default."""
    given = node.args
    defaults = [None] * (len(given.args) - len(given.defaults)) + given.defaults
    parts = [
        _with_default(ast.unparse(each), default)
        for each, default in zip(given.args, defaults, strict=True)
        if each.arg != "self"
    ]
    if given.vararg or given.kwonlyargs:
        parts.append(f"*{ast.unparse(given.vararg) if given.vararg else ''}")
    for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        parts.append(_with_default(ast.unparse(each), default))
    return [*parts, *([f"**{ast.unparse(given.kwarg)}"] if given.kwarg else [])]


def _with_default(argument: str, default: ast.expr | None) -> str:
    return f"{argument} = {ast.unparse(default)}" if default else argument


def _method(node: ast.stmt) -> str:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
        return ""
    is_property = any(ast.unparse(d) == "property" for d in node.decorator_list)
    call = "" if is_property else "(...)" if len(node.args.args) > 1 else "()"
    keyword = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    docstring = ast.get_docstring(node)
    if docstring is None:  # Omit methods that are internal to labkit, such as `strike` of a fault.
        return ""
    summary = " ".join(docstring.split("\n\n")[0].split())
    return f"- `{keyword}{node.name}{call}`: {summary}"


def _text(documented: object) -> str:
    """Return a docstring as Markdown, in which indented blocks become code."""
    paragraphs = (inspect.getdoc(documented) or "").split("\n\n")
    return "\n\n".join(f"```\n{dedent(p)}\n```" if p.startswith("    ") else p for p in paragraphs)
