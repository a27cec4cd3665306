"""Write `docs/api.md`: what `import labkit` offers, from the docstrings.

Run: `.venv/bin/python docs/make_api.py`
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import labkit

PAGE = Path(__file__).with_name("api.md")
FRONT_DOOR = Path(labkit.__file__).with_suffix(".pyi")
ROOMS = {
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

`python docs/make_api.py` writes this page from the docstrings. Everything else is imported from its
module; [ARCHITECTURE.md](../ARCHITECTURE.md) says where what is.
"""


def page() -> str:
    """The whole page as Markdown."""
    sections = dict.fromkeys(ROOMS.values(), "")
    for module, name in offered():
        sections[ROOMS[".".join(module.split(".")[:2])]] += "\n" + entry(module, name)
    return _INTRODUCTION + "".join(f"\n## {title}\n{text}" for title, text in sections.items())


def offered() -> Iterator[tuple[str, str]]:
    """Module below `labkit` and name, in the order of the front door."""
    for node in ast.parse(FRONT_DOOR.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def entry(module: str, name: str) -> str:
    """One name: how it is called, where it lives, its docstrings."""
    thing = getattr(labkit, name)
    tree = ast.parse(dedent(inspect.getsource(thing))).body[0]
    parts = [f"### `{name}`", f"```python\n{_signature(tree)}\n```", f"In `labkit.{module}`."]
    parts.append(_text(thing))
    if isinstance(tree, ast.ClassDef):
        methods = [m for m in map(_method, tree.body) if m]
        parts.append("\n".join(methods))
    return "\n\n".join(filter(None, parts)) + "\n"


def _signature(tree: ast.stmt) -> str:
    """As it stands in the source: a dataclass by its fields, a class by its `__init__`."""
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
    """A docstring as Markdown: its indented blocks become code."""
    paragraphs = (inspect.getdoc(thing) or "").split("\n\n")
    return "\n\n".join(f"```\n{dedent(p)}\n```" if p.startswith("    ") else p for p in paragraphs)


if __name__ == "__main__":
    PAGE.write_text(page())
