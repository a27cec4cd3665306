"""The version of the code that a search has tried: a count of seeds says nothing about later code.

The version changes when the code of the protocol or of its checks changes, and only then, not when
comments or docstrings do.
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
"""The packages that run in the simulated world as they run live."""
PACKAGES = (*PROTOCOL, "check")
"""These, and the one that judges it."""

_ROOT: Traversable = files(labkit.system)
"""A folder, or a part of the zip file from which labkit is imported."""
_GIT_LIMIT_S = 30


@dataclass(frozen=True, slots=True)
class CodeVersion:
    """digest: of the code of all `PACKAGES`; name: the origin of the code, for people; protocol:
    the digest without the checks, "" if it is not known.
    """

    digest: str
    name: str
    protocol: str = ""


@cache
def code_version() -> CodeVersion:
    """The version of the protocol's code that this process runs."""
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
    """The Python files in the folder: their names and those of their folders."""
    for each in folder.iterdir():
        if each.is_dir():
            yield from _modules(each, (*name, each.name))
        elif each.name.endswith(".py"):
            yield (*name, each.name)


def _code_in(module: Traversable) -> str:
    """The file without comments, docstrings and layout."""
    tree = ast.parse(module.read_bytes())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def _is_text(node: ast.AST) -> bool:
    """Whether it is a string that stands alone: a docstring."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _commit() -> str:
    """The last commit that changed the packages; "" if git does not know them."""
    last = _git("log", "-1", "--format=commit %h of %cs")
    return f"{last}, with later changes" if last and _git("status", "--porcelain") else last


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(_ROOT), *arguments, "--", *PACKAGES]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_GIT_LIMIT_S
        )
    except (OSError, subprocess.SubprocessError):
        return ""  # No git, or no checkout: the package has a version too.
    return done.stdout.strip()
