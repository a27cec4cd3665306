"""Reduces a notebook to the code that its answers need.

Most cells of a lesson only show something, such as a simulated cluster or a picture, which grading
does not need. Only two kinds of code are run: all of the cells that check an exercise and, from the
other cells, the statements that define the names used there, directly or indirectly.
"""

import ast
import re
from collections.abc import Iterator
from typing import Any

CHECKS = re.compile(r"""\bcheck\(\s*["']([a-z_]+\.[a-z_]+)["']""")
SHOWS_REFUSED = "refused"
"""The tag of a cell that shows a wrong answer on purpose."""
_MAGIC = re.compile(r"(?m)^[ \t]*[%!].*$")


def code_cells(notebook: dict[str, Any]) -> Iterator[str]:
    """Yield the code of a notebook's cells, except those that show a wrong answer on purpose."""
    for cell in notebook.get("cells", ()):
        source = cell.get("source", "")
        text = source if isinstance(source, str) else "".join(source)
        if cell.get("cell_type") == "code" and SHOWS_REFUSED not in cell["metadata"].get(
            "tags", ()
        ):
            yield _MAGIC.sub("pass", text)


def syntax_errors(cells: list[str]) -> Iterator[str]:
    """Yield a description of the first syntax error in each cell that has one."""
    for cell in cells:
        try:
            ast.parse(cell)
        except SyntaxError as error:
            start = cell.strip().partition("\n")[0]
            yield f"{error.msg}, in line {error.lineno} of the cell that begins with `{start[:60]}`"
        except (ValueError, RecursionError, MemoryError):
            continue  # The cell contains a null byte, or is nested too deeply.


def needed_code(cells: list[str]) -> list[ast.Module]:
    """Return the code to run, in the notebook's order. Cells that are not valid Python are
    skipped.
    """
    parsed = [(bool(CHECKS.search(cell)), tree) for cell in cells if (tree := _parse(cell))]
    wanted: set[str] = set()
    kept: list[ast.Module] = []
    for is_check, tree in reversed(parsed):
        statements: list[ast.stmt] = []
        for statement in reversed(tree.body):
            if is_check or _names(statement, ast.Store) & wanted:
                statements.insert(0, statement if is_check else _needed_part(statement, wanted))
                wanted |= _names(statement, ast.Load)
        if statements:
            kept.insert(0, ast.Module(statements, type_ignores=[]))
    return kept


def _parse(cell: str) -> ast.Module | None:
    try:
        return ast.parse(cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Python raises the last two for code that is nested too deeply.
        return None


def _needed_part(statement: ast.stmt, wanted: set[str]) -> ast.stmt:
    """Return the statement; if it is an import, drop the names that are not needed. A lesson
    imports all of labkit's names at once, and some of them take seconds to import.
    """
    if isinstance(statement, ast.Import | ast.ImportFrom):
        statement.names = [each for each in statement.names if _bound_by(each) in wanted]
    return statement


def _names(statement: ast.stmt, context: type[ast.expr_context]) -> set[str]:
    """Return all names that a statement reads or, if `context` is `ast.Store`, all names that it
    binds.
    """
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, context):
            names.add(node.id)
        elif context is ast.Store:
            names |= _bound(node)
    return names


def _bound(node: ast.AST) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return set(map(_bound_by, node.names))
    return set()


def _bound_by(imported: ast.alias) -> str:
    return imported.asname or imported.name.partition(".")[0]
