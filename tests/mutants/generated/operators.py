"""Generate mutants, which are all the small changes to a module that would make its code wrong.

A mutant is named after its change rather than its line number, so its name remains valid when other
parts of the file change. Annotations, docstrings, error messages and event texts are not mutated.
"""

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Change = tuple[str, ast.AST | None]
"""An operator's name and the replacement for a node, or None to replace the node with `pass`."""

_COMPARISONS: dict[type[ast.cmpop], tuple[tuple[str, type[ast.cmpop]], ...]] = {
    ast.Lt: (("boundary", ast.LtE), ("comparison", ast.Gt)),
    ast.LtE: (("boundary", ast.Lt), ("comparison", ast.Gt)),
    ast.Gt: (("boundary", ast.GtE), ("comparison", ast.Lt)),
    ast.GtE: (("boundary", ast.Gt), ("comparison", ast.Lt)),
    ast.Eq: (("comparison", ast.NotEq),),
    ast.NotEq: (("comparison", ast.Eq),),
    ast.Is: (("comparison", ast.IsNot),),
    ast.IsNot: (("comparison", ast.Is),),
    ast.In: (("comparison", ast.NotIn),),
    ast.NotIn: (("comparison", ast.In),),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_COMPOUND = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.If, ast.While, ast.Try),
    *(ast.For, ast.AsyncFor, ast.With, ast.AsyncWith),
)


Path = tuple[tuple[str, int], ...]
"""The path from the module to a node: field names with an index into the field's list, or -1."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change to one file.

    function: the function that is changed ("" if the change is at module level).
    operator: the name of the mutation operator.
    before, after: the code before and after the change.
    number: the index among identical changes in the same function.
    lines: the lines that a test must run in order to reach the change.
    """

    file: str
    function: str
    operator: str
    before: str
    after: str
    number: int
    lines: range
    path: Path
    node: ast.AST

    @property
    def name(self) -> str:
        """The name used in state files and reports."""
        where = f"{self.file} {self.function or '(module)'}"
        again = f" #{self.number}" if self.number else ""
        return f"{where}: {self.operator}: {self.before} -> {self.after}{again}"

    def planted(self, source: str) -> ast.Module:
        """Return the module with the change applied and all line numbers preserved."""
        tree = ast.parse(source)
        node = copy.deepcopy(self.node)
        ast.copy_location(node, _at(tree, self.path))
        ast.fix_missing_locations(node)
        parent, (field, place) = _at(tree, self.path[:-1]), self.path[-1]
        if place < 0:
            setattr(parent, field, node)
        else:
            getattr(parent, field)[place] = node
        return tree


def mutants_of(file: str, source: str) -> Iterator[Mutant]:
    """Yield all mutants of the file in line order."""
    tree = ast.parse(source)
    seen: Counter[str] = Counter()
    for function, reached, path in _places(tree):
        node = _at(tree, path)
        for operator, changed in _changes(node):
            before, after = _text(node), _text(changed) if changed else "(dropped)"
            named = f"{function} {operator} {before} {after}"
            lines = range(reached.lineno, (reached.end_lineno or reached.lineno) + 1)
            number = seen[named]
            seen[named] += 1
            yield Mutant(
                file, function, operator, before, after, number, lines, path, changed or ast.Pass()
            )


def _places(tree: ast.Module) -> Iterator[tuple[str, ast.stmt | ast.expr, Path]]:
    """Yield each node's function, the statement or expression that reaches it, and its path."""

    def walk(
        node: ast.AST, function: str, lines: ast.stmt | ast.expr, path: Path
    ) -> Iterator[tuple[str, ast.stmt | ast.expr, Path]]:
        for field, place, child in _children(node):
            inside, reached = function, lines
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inside = f"{function}.{child.name}".lstrip(".")
            if isinstance(child, ast.stmt):
                reached = _head(child)
            here = (*path, (field, place))
            yield inside if not isinstance(child, ast.ClassDef) else function, reached, here
            yield from walk(child, inside, reached, here)

    yield from walk(tree, "", tree.body[0], ())


def _head(statement: ast.stmt) -> ast.stmt | ast.expr:
    """Return the part of a statement that always runs. For a compound statement, this is only its
    head.
    """
    for field in ("test", "iter", "subject"):
        if isinstance(part := getattr(statement, field, None), ast.expr):
            return part
    return statement


def _children(node: ast.AST) -> Iterator[tuple[str, int, ast.AST]]:
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "type_params", "decorator_list"):
            continue
        for place, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST) and not _is_text(child):
                yield field, place if isinstance(value, list) else -1, child


def _is_text(node: ast.AST) -> bool:
    """Return whether a node exists only for readers or type checkers."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)):
        return True
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _changes(node: ast.AST) -> Iterator[Change]:
    for kind, change in _OPERATORS.items():
        if isinstance(node, kind):
            yield from change(node)


def _compare(node: ast.Compare) -> Iterator[Change]:
    for place, op in enumerate(node.ops):
        for operator, other in _COMPARISONS[type(op)]:
            ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
            yield operator, ast.Compare(node.left, ops, node.comparators)


def _condition(node: ast.If | ast.While | ast.IfExp) -> Iterator[Change]:
    if not isinstance(node.test, (ast.Compare, ast.Constant)):
        test = node.test
        negated = (
            test.operand
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
            else ast.UnaryOp(ast.Not(), test)
        )
        changed = copy.copy(node)
        changed.test = negated
        yield "condition", changed


def _logic(node: ast.BoolOp) -> Iterator[Change]:
    yield "and/or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


def _arithmetic(node: ast.BinOp) -> Iterator[Change]:
    is_text = any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )
    other = _ARITHMETIC.get(type(node.op))
    if other and not is_text:
        yield "arithmetic", ast.BinOp(node.left, other(), node.right)


def _constant(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node.value, (int, float)):
        yield "constant", ast.Constant(node.value + 1)


def _statement(node: ast.Expr | ast.Assign | ast.AugAssign | ast.Delete) -> Iterator[Change]:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Name, ast.Tuple)):
        # Removing the assignment would only cause a NameError, which says nothing about the tests.
        return
    yield "statement", None


def _leave(node: ast.Break | ast.Continue) -> Iterator[Change]:
    yield "loop", ast.Continue() if isinstance(node, ast.Break) else ast.Break()


def _return(node: ast.Return) -> Iterator[Change]:
    value = node.value
    if value is None or (isinstance(value, ast.Constant) and value.value is None):
        return
    if isinstance(value, ast.Constant) and isinstance(value.value, (bool, int, float)):
        return  # The `constant` operator covers these.
    yield "return", ast.Return(ast.Constant(None))


def _raise(node: ast.Raise) -> Iterator[Change]:
    yield "statement", None
    if isinstance(node.exc, ast.Call):
        changed = copy.copy(node)
        changed.exc = ast.Call(ast.Name("RuntimeError", ast.Load()), node.exc.args, [])
        yield "exception", changed


def _handler(node: ast.ExceptHandler) -> Iterator[Change]:
    """Replace the handler with one that catches nothing."""
    yield "exception", ast.ExceptHandler(ast.Tuple([], ast.Load()), node.name, node.body)


def _body(node: ast.AST) -> Iterator[Change]:
    """Swap two consecutive statements that both contain an `await`."""
    for field in ("body", "orelse", "finalbody"):
        statements = getattr(node, field, None)
        if not isinstance(statements, list):
            continue
        for place in range(len(statements) - 1):
            first, second = statements[place : place + 2]
            if _awaits(first) and _awaits(second):
                changed = copy.copy(node)
                swapped = [*statements[:place], second, first, *statements[place + 2 :]]
                setattr(changed, field, swapped)
                yield "await order", changed


def _awaits(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Await)


_OPERATORS: dict[type[ast.AST] | tuple[type[ast.AST], ...], Callable[..., Iterator[Change]]] = {
    ast.Compare: _compare,
    (ast.If, ast.While, ast.IfExp): _condition,
    ast.BoolOp: _logic,
    ast.BinOp: _arithmetic,
    ast.Constant: _constant,
    (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete): _statement,
    (ast.Break, ast.Continue): _leave,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.ExceptHandler: _handler,
    _COMPOUND: _body,
}


def _at(tree: ast.AST, path: Path) -> ast.AST:
    for field, place in path:
        value = getattr(tree, field)
        tree = value if place < 0 else value[place]
    return tree


def _text(node: ast.AST) -> str:
    """Return the node's code on one line; for a compound statement, only its head."""
    if isinstance(node, ast.ExceptHandler):
        caught = ast.unparse(node.type) if node.type else ""
        return f"except {caught}"
    lines = ast.unparse(node).splitlines()
    if isinstance(node, _COMPOUND):
        return next(line for line in lines if not line.startswith("@"))
    shown = " ".join(line.strip() for line in lines)
    return shown if len(shown) <= 160 else shown[:157] + "..."
