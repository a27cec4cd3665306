"""slices: of a notebook only what its answers need.

Most of a lesson's cells show something: a cluster is simulated, a picture drawn.  A grade needs
none of it.  So the cells that check an exercise run whole, and of the others the statements that
define a name which is used there, directly or through other definitions.
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
    """The code of a notebook's cells, except those that show a wrong answer on purpose."""
    for cell in notebook.get("cells", ()):
        source = cell.get("source", "")
        text = source if isinstance(source, str) else "".join(source)
        if cell.get("cell_type") == "code" and SHOWS_REFUSED not in cell["metadata"].get(
            "tags", ()
        ):
            yield _MAGIC.sub("pass", text)


def needed(cells: list[str]) -> list[ast.Module]:
    """What to run, in the notebook's order.  A cell that is not Python is left out."""
    parsed = [(bool(CHECKS.search(cell)), tree) for cell in cells if (tree := _parsed(cell))]
    wanted: set[str] = set()
    kept: list[ast.Module] = []
    for is_check, tree in reversed(parsed):
        statements: list[ast.stmt] = []
        for statement in reversed(tree.body):
            if is_check or _names(statement, ast.Store) & wanted:
                statements.insert(0, statement)
                wanted |= _names(statement, ast.Load)
        if statements:
            kept.insert(0, ast.Module(statements, type_ignores=[]))
    return kept


def _parsed(cell: str) -> ast.Module | None:
    try:
        return ast.parse(cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The last two: it is nested too deeply for Python.
        return None


def _names(statement: ast.stmt, context: type[ast.expr_context]) -> set[str]:
    """The names that a statement reads anywhere in it, or those that it binds."""
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
        return {each.asname or each.name.partition(".")[0] for each in node.names}
    return set()
