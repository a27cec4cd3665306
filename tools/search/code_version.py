"""Identifies the version of the code that a search ran; the results apply only to this version.

The version changes if the code of the protocol or of its checks changes, but not if only comments
or docstrings change.
"""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable

import labkit
import labkit.system

PROTOCOL = (
    *("autorecovery", "bookie", "client", "metadata", "model", "broker"),
    *("node", "storage", "topic"),
)
"""The packages that run unchanged in both worlds."""
PACKAGES = (*PROTOCOL, "check")
"""`PROTOCOL`, and the package that checks the promises."""

_ROOT: Traversable = files(labkit.system)
"""A directory, or a directory inside the zip file from which labkit is imported."""
_GIT_LIMIT_S = 30


@dataclass(frozen=True, slots=True)
class CodeVersion:
    """A version of the code.

    `digest` covers the code of all `PACKAGES`, whereas `protocol` covers only that of `PROTOCOL`
    ("" if unknown). `name` is human-readable.
    """

    digest: str
    name: str
    protocol: str = ""


@cache
def code_version() -> CodeVersion:
    code = {package: _code_of(package) for package in sorted(PACKAGES)}
    protocol = b"".join(code[package] for package in PROTOCOL)
    name = _commit() or f"labkit {labkit.__version__}"
    return CodeVersion(_digest(b"".join(code.values())), name, _digest(protocol))


def _digest(code: bytes) -> str:
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


def _commit() -> str:
    """Return the last commit that changed the packages, or "" if they are not in a git checkout."""
    last = _git("log", "-1", "--format=commit %h of %cs")
    return f"{last}, with later changes" if last and _git("status", "--porcelain") else last


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(_ROOT), *arguments, "--", *PACKAGES]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_GIT_LIMIT_S
        )
    except (OSError, subprocess.SubprocessError):
        return ""  # This is not a checkout, or git is not installed.
    return done.stdout.strip()
