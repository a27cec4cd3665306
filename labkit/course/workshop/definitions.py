"""Copies the definitions in a notebook cell into the learner's file.

In lessons 02 to 04, a learner writes a part of the bookie in a cell. `save` copies the cell's
functions, classes, constants and imports into the file, replacing existing ones that have the same
names, so that the file grows from lesson to lesson. Nothing that the learner has written is lost,
because `save` does not copy definitions without code, and backs up the file before it replaces any
code that it did not write itself.
"""

import ast
import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import CodeType
from typing import Any

from labkit.course.workshop.files import NotLoadedError
from labkit.shipped_files import put_whole

_saved: set[tuple[Path, str]] = set()
"""The definitions that this kernel has written, each with its file."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A top-level statement that defines a name.

    text: its source
    lines: the indices of the statement's first line and of the line after its end
    is_written: whether the statement contains more than docstrings and `raise NotImplementedError`
    """

    name: str
    text: str
    lines: slice
    is_written: bool


def definitions_in(source: str) -> Iterator[Definition]:
    """Yield the functions, classes and constants that are defined at the top level of the source.

    Raises `SyntaxError`.
    """
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name, decorators = node.name, node.decorator_list
            is_written = not _is_empty(node)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).isupper():
            name, decorators, is_written = ast.unparse(node.targets[0]), [], True
        else:
            continue
        first = min([node.lineno, *(each.lineno for each in decorators)]) - 1
        span = slice(first, node.end_lineno)
        yield Definition(name, "\n".join(lines[span]), span, is_written)


def definition_in(source: str, name: str) -> str:
    """Return the source of the definition with this name, or "" if the name is not defined."""
    return next((each.text for each in definitions_in(source) if each.name == name), "")


def save(file: Path, parts: Sequence[Any]) -> str:
    """Copy all definitions in the cells that define these functions and classes into the file.

    Returns a sentence that says what was saved. Raises `NotLoadedError` if the file is not valid
    Python or if a part was not defined in a cell, and `OSError` if the file cannot be read or
    written.
    """
    cells = list(dict.fromkeys(_cell_of(part) for part in parts))
    new = [each for cell in cells for each in definitions_in(cell) if each.is_written]
    if not new:
        return ""
    before = file.read_text(encoding="utf-8")
    try:
        after, replaced = _with_definitions(before, new)
    except SyntaxError as error:
        raise NotLoadedError(f"{file.name}, line {error.lineno}: {error.msg}") from None
    after = _with_imports(after, [line for cell in cells for line in _imports_in(cell)])
    report = f"Saved in {file.name}: {', '.join(each.name for each in new)}."
    path = file.absolute()
    if any(each.is_written and (path, each.text) not in _saved for each in replaced):
        backup = next(
            name
            for number in count(1)
            if not (name := file.with_name(f"{file.stem}-{number}.py")).exists()
        )
        put_whole(backup, before.encode())
        report += f" The file contained other code for this; it is now in {backup.name}."
    if after != before:
        put_whole(file, after.encode())
    _saved.update((path, each.text) for each in new)
    return report


def _with_definitions(source: str, new: Sequence[Definition]) -> tuple[str, list[Definition]]:
    """Return the source with the new definitions, and the old definitions that were replaced."""
    replaced = []
    for definition in new:
        lines = source.splitlines()
        old = next((e for e in definitions_in(source) if e.name == definition.name), None)
        if old is None:
            lines += ["", "", definition.text]
        elif old.text != definition.text:
            replaced.append(old)
            lines[old.lines] = [definition.text]
        source = "\n".join(lines) + "\n"
    return source, replaced


def _with_imports(source: str, imports: Sequence[str]) -> str:
    """Return the source with the missing imports inserted before the first import."""
    missing = [each for each in imports if each not in source.splitlines()]
    nodes = [e for e in ast.parse(source).body if isinstance(e, ast.Import | ast.ImportFrom)]
    at = nodes[0].lineno - 1 if nodes else 0
    lines = source.splitlines()
    return "\n".join([*lines[:at], *dict.fromkeys(missing), *lines[at:]]) + "\n"


def _imports_in(source: str) -> Iterator[str]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield ast.unparse(node)


def _cell_of(part: Any) -> str:
    """Return the source of the cell that defines this function or class."""
    code = next(_code_of(part), None) if part.__module__ == "__main__" else None
    source = "".join(linecache.getlines(code.co_filename)) if code else ""
    name = getattr(part, "__name__", repr(part))
    if not definition_in(source, name):
        raise NotLoadedError(f"the source of {name} is not available: run the cell that defines it")
    return source


def _code_of(part: Any) -> Iterator[CodeType]:
    """Yield the code of a function, or of each method of a class."""
    members = vars(part).values() if isinstance(part, type) else (part,)
    for member in members:
        function = getattr(member, "__func__", member)  # A class method wraps its function.
        if (code := getattr(function, "__code__", None)) is not None:
            yield code


def _is_empty(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Return whether a definition contains nothing but docstrings and bodies that raise
    NotImplementedError.
    """
    return all(
        _is_empty(each)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        else isinstance(each, ast.Raise) and "NotImplementedError" in ast.unparse(each)
        for each in node.body
        if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
    )
