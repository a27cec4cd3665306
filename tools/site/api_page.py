"""The page on what `import labkit` offers, made from the docstrings."""

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
"""The page's sections, by the package of a name."""

_INTRODUCTION = """\
# What `import labkit` offers

Import everything else from its module: see the [guide to the code](../architecture.md).
"""


def api_page() -> str:
    """Return the page as Markdown, without links to the repository."""
    sections = dict.fromkeys(SECTIONS.values(), "")
    for module, name in _offered():
        sections[SECTIONS[".".join(module.split(".")[:2])]] += "\n" + _entry(module, name)
    return _INTRODUCTION + "".join(f"\n## {title}\n{text}" for title, text in sections.items())


def _offered() -> Iterator[tuple[str, str]]:
    """Yield module below `labkit` and name, in the order of the stub."""
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def _entry(module: str, name: str) -> str:
    thing = getattr(labkit, name)
    tree = ast.parse(dedent(inspect.getsource(thing))).body[0]
    parts = [f"### `{name}`", f"```python\n{_signature(tree)}\n```", f"In `labkit.{module}`."]
    parts.append(_text(thing))
    if isinstance(tree, ast.ClassDef):
        methods = [m for m in map(_method, tree.body) if m]
        parts.append("\n".join(methods))
    return "\n\n".join(filter(None, parts)) + "\n"


def _signature(tree: ast.stmt) -> str:
    """Return the call as in the source: a dataclass's fields, or a class's `__init__`."""
    if isinstance(tree, ast.ClassDef):
        fields = [_field(s) for s in tree.body if isinstance(s, ast.AnnAssign)]
        starts = [s for s in tree.body if getattr(s, "name", "") == "__init__"]
        call = _arguments(starts[0]) if starts else ",\n    ".join(fields)
        return f"{tree.name}(\n    {call}\n)" if call else f"{tree.name}()"
    assert isinstance(tree, ast.FunctionDef)
    returns = f" -> {ast.unparse(tree.returns)}" if tree.returns else ""
    return f"{tree.name}(\n    {_arguments(tree)}\n){returns}"


def _field(node: ast.AnnAssign) -> str:
    default = f" = {ast.unparse(node.value)}" if node.value else ""
    return f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}{default}"


def _arguments(node: Any) -> str:
    words = node.args
    words.args = [a for a in words.args if a.arg != "self"]
    return ast.unparse(words).replace(", *", ",\n    *")


def _method(node: ast.stmt) -> str:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
        return ""
    is_property = any(ast.unparse(d) == "property" for d in node.decorator_list)
    call = "" if is_property else "(...)" if len(node.args.args) > 1 else "()"
    word = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    docstring = ast.get_docstring(node)
    if docstring is None:  # Part of a protocol inside labkit, such as a fault's `strike`.
        return ""
    summary = " ".join(docstring.split("\n\n")[0].split())
    return f"- `{word}{node.name}{call}`: {summary}"


def _text(thing: object) -> str:
    """Return a docstring as Markdown: indented blocks become code."""
    paragraphs = (inspect.getdoc(thing) or "").split("\n\n")
    return "\n\n".join(f"```\n{dedent(p)}\n```" if p.startswith("    ") else p for p in paragraphs)
