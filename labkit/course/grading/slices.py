"""Reduces a notebook to the code that the answers in it need.

Most cells of a lesson only show something, such as a simulated cluster or a picture, which grading
does not need. Only two kinds of code are run: all cells that check an exercise, and those
statements in earlier cells that bind or change a name which such a cell uses, directly or
indirectly.
"""

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

CHECKS = re.compile(r"""\bcheck\((?:[^()]*\bname\s*=)?\s*["']([a-z_]+\.[a-z_]+)["']""")
SHOWS_REFUSED = "refused"
"""The tag of a cell that shows a wrong answer on purpose."""
_CELL_MAGIC = re.compile(r"\A\s*%%.*")


def code_cells(notebook: dict[str, Any]) -> Iterator[str]:
    """Yield the code of a notebook's cells, except those that show a wrong answer on purpose."""
    for cell in notebook.get("cells", ()):
        if cell.get("cell_type") == "code" and SHOWS_REFUSED not in cell["metadata"].get(
            "tags", ()
        ):
            yield source_of(cell)


def source_of(cell: dict[str, Any]) -> str:
    """Return a cell's text, which a notebook may store as a string or as a list of lines."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def syntax_errors(cells: list[str]) -> Iterator[str]:
    """Yield a description of the first syntax error in each cell that has one."""
    for cell in cells:
        try:
            _parse(cell)
        except SyntaxError as error:
            start = cell.strip().partition("\n")[0]
            yield f"{error.msg}, in line {error.lineno} of the cell that begins with `{start[:60]}`"
        except _UNREADABLE:
            continue


_UNREADABLE = (ValueError, RecursionError, MemoryError, RuntimeError)
"""The cell contains a null byte, is nested too deeply, or contains too many magic commands."""


def _parse(cell: str) -> ast.Module:
    """Parse a cell. Magic commands in the cell become calls of IPython's shell, as in a kernel; the
    body of a cell magic is parsed as Python.

    Raises `SyntaxError`, or one of the exceptions in `_UNREADABLE` if the cell cannot be parsed at
    all.
    """
    try:
        return ast.parse(cell)
    except SyntaxError as error:
        transformed = TransformerManager().transform_cell(  # type: ignore[no-untyped-call]
            _CELL_MAGIC.sub("", cell, count=1)
        )
        if transformed.strip() == cell.strip():
            raise
        try:
            return ast.parse(transformed)
        except SyntaxError:
            raise error from None


@dataclass(frozen=True, slots=True)
class _Statement:
    node: ast.stmt
    reads: set[str]
    changes: set[str]


def needed_code(cells: list[str]) -> list[ast.Module]:
    """Return the code to run, in the order of the notebook. Cells that are not valid Python are
    skipped.
    """
    parsed = []
    for cell in cells:
        with suppress(SyntaxError, *_UNREADABLE):
            parsed.append((bool(CHECKS.search(cell)), _parse(cell)))
    described = _described([tree for _, tree in parsed])
    names, kept = set[str](), set[ast.stmt]()
    for number, (is_check, tree) in enumerate(parsed):
        if is_check:
            above = [statement for cell in described[:number] for statement in cell]
            wanted = _wanted_by(described[number], above)
            names |= wanted
            kept |= {each.node for each in above if each.changes & wanted}
            kept.update(tree.body)
    modules = []
    for is_check, tree in parsed:
        statements = [each for each in tree.body if each in kept]
        if not is_check:
            statements = [_needed_part(each, names) for each in statements]
        if statements:
            modules.append(ast.Module(statements, type_ignores=[]))
    return modules


def _wanted_by(check: list[_Statement], above: list[_Statement]) -> set[str]:
    """Return the names that a cell needs, directly or indirectly, from the statements above it."""
    wanted = {_STAR}.union(*(each.reads for each in check))
    count = 0
    while len(wanted) > count:
        count = len(wanted)
        for each in reversed(above):
            if each.changes & wanted:
                wanted |= each.reads
    return wanted


_STAR = "*"
"""The name bound by `from module import *`."""


def _needed_part(statement: ast.stmt, wanted: set[str]) -> ast.stmt:
    """Return the statement without the imported names that are not needed. A lesson imports all of
    labkit's names in one statement, and some of the names take seconds to import.
    """
    if isinstance(statement, ast.Import | ast.ImportFrom):
        statement.names = [each for each in statement.names if _bound_by(each) in wanted]
    return statement


def _described(trees: list[ast.Module]) -> list[list[_Statement]]:
    """Return the statements of each cell, together with what is known about their names."""
    every = [statement for tree in trees for statement in tree.body]
    values, from_labkit = set[str](), set[str]()
    for each in every:
        bound = _bound(each)
        if not _binds_constant(each):
            values |= bound
        if _names_read(each) & from_labkit or _imports_labkit(each):
            from_labkit |= bound
    known = _Known(values, from_labkit)
    by_function = {
        each.name: _changed_in_place(_executed(each.body), known)
        for each in every
        if isinstance(each, ast.FunctionDef)
    }
    known = replace(known, by_function=by_function)
    return [
        [
            _Statement(
                each, _names_read(each), _bound(each) | _changed_in_place(_executed([each]), known)
            )
            for each in tree.body
        ]
        for tree in trees
    ]


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known about the names in a notebook.

    values: names of values that can be changed in place
    from_labkit: names of objects that labkit defines or returns
    by_function: for each function of the notebook, the names whose values it changes
    """

    values: set[str]
    from_labkit: set[str]
    by_function: Mapping[str, set[str]] = field(default_factory=dict)


def _executed(statements: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield all nodes of the statements except those in the bodies of functions, which run only
    when the functions are called.
    """
    waiting = list(statements)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _FUNCTIONS):
            waiting += ast.iter_child_nodes(node)


_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _binds_constant(statement: ast.stmt) -> bool:
    """Return whether the statement binds values that cannot be changed in place."""
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.ClassDef | _FUNCTIONS) or (
        isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant | ast.Lambda)
    )


def _imports_labkit(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("labkit")
    ) or (isinstance(statement, ast.Import) and statement.names[0].name.startswith("labkit"))


_CHANGING_METHODS = (
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem"),
    *("popleft", "remove", "reverse", "rotate", "setdefault", "sort", "update"),
)


def _changed_in_place(nodes: Iterable[ast.AST], known: _Known) -> set[str]:
    """Return the names whose values may be changed by assigning to their items or attributes, by
    calling their methods, or by passing them to a function.

    This assumes that functions of labkit and of Python itself do not change their arguments, and
    that an object from labkit is changed only by methods that have the same names as methods of
    Python's collections. Without this assumption, almost every cell of a lesson would be needed.
    """
    changed = set[str]()
    for node in nodes:
        if isinstance(node, ast.Global):
            changed.update(node.names)
        elif isinstance(node, ast.Attribute | ast.Subscript):
            if not isinstance(node.ctx, ast.Load):
                changed.add(_root(node))
        elif isinstance(node, ast.Call):
            function = _root(node.func)
            changed |= known.by_function.get(function, set())
            if isinstance(node.func, ast.Attribute) and (
                node.func.attr in _CHANGING_METHODS or function not in known.from_labkit
            ):
                changed |= {function} & known.values
            if function not in known.from_labkit and function not in dir(builtins):
                passed = (*node.args, *(each.value for each in node.keywords))
                changed |= {_root(each) for each in passed} & known.values
    return changed


def _root(node: ast.AST) -> str:
    """Return the name with which an expression such as `name.part[0]` begins, or "" if it does not
    begin with a name.
    """
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names_read(statement: ast.stmt) -> set[str]:
    names = set[str]()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.Global):
            names.update(node.names)
    return names


def _bound(statement: ast.stmt) -> set[str]:
    """Return all names that a statement binds."""
    names = set[str]()
    for node in _executed([statement]):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Import() | ast.ImportFrom():
                names.update(map(_bound_by, node.names))
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
    return names


def _bound_by(imported: ast.alias) -> str:
    return imported.asname or imported.name.partition(".")[0]
