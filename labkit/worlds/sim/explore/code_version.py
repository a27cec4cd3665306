"""Identifies the version of the code that a search ran. The results of the search apply only to
this version.

The version changes if the code of the protocol or of the checks changes, but not if only comments
or docstrings change.
"""

import ast
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable

import labkit.system

PACKAGES = (
    *("autorecovery", "bookie", "broker", "check", "client"),
    *("metadata", "model", "node", "storage", "topic"),
)
"""The packages that run unchanged in both worlds, and the package that checks the promises."""

_ROOT: Traversable = files(labkit.system)
"""A directory, possibly inside the zip file from which labkit is imported."""


@cache
def code_version() -> str:
    """Return a digest of the code of all `PACKAGES`."""
    code = b"".join(_code_of(package) for package in PACKAGES)
    return blake2b(code, digest_size=6).hexdigest()


def _code_of(package: str) -> bytes:
    modules = sorted(_modules(_ROOT / package, (package,)))
    if not modules:
        raise FileNotFoundError(f"the source of labkit.system.{package} is not in {_ROOT}")
    return b"".join(
        f"{'/'.join(name)}\0{_code_in(_ROOT.joinpath(*name))}\0".encode() for name in modules
    )


def _modules(folder: Traversable, name: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the path of each Python file in the folder, as a tuple of names."""
    for each in folder.iterdir():
        if each.is_dir():
            yield from _modules(each, (*name, each.name))
        elif each.name.endswith(".py"):
            yield (*name, each.name)


def _code_in(module: Traversable) -> str:
    tree = ast.parse(module.read_bytes())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
