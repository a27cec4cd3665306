"""The version of the code that a search has tried: a count of seeds says nothing about later code.

The version changes when the code of the protocol or of its checks changes, and only then, not when
comments or docstrings do.
"""

import ast
import subprocess
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

import labkit

PROTOCOL = (
    *("autorecovery", "bookie", "client", "metadata", "model", "pulsar"),
    *("server", "storage", "topic"),
)
"""The packages that run in the simulated world as they run live."""
PACKAGES = (*PROTOCOL, "check")
"""These, and the one that judges it."""

_ROOT = Path(labkit.__file__).parent
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
    return b"".join(
        f"{path.relative_to(_ROOT).as_posix()}\0{_code_in(path)}\0".encode()
        for path in sorted((_ROOT / package).rglob("*.py"))
    )


def _code_in(path: Path) -> str:
    """The file without comments, docstrings and layout."""
    tree = ast.parse(path.read_bytes())
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
